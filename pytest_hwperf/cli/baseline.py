"""`hwperf baseline`: the stored runs of a baseline."""

import argparse
from pathlib import Path
from typing import Any

from pytest_hwperf import registry
from pytest_hwperf.cli.output import complain, say
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.host.machine import describe_machine
from pytest_hwperf.stores.location import locate

OK, NONE_HELD = 0, 1


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its actions."""
    baseline = commands.add_parser("baseline", help="what is stored to compare with")
    actions = baseline.add_subparsers(required=True, metavar="ACTION")
    accept = actions.add_parser(
        "accept",
        help="make runs that failed the new baseline of their tests",
        description="Make runs that failed, and that pytest --hwperf-save held apart, the new baseline of their tests.",
    )
    accept.add_argument("test", help="test id or glob pattern, such as 'tests/test_models.py::*'")
    accept.add_argument("--baseline", default="main", metavar="NAME", help="default: main")
    accept.add_argument(
        "--store",
        default="json:.hwperf",
        metavar="URL",
        help="as --hwperf-store, a folder being relative to the current one; default: json:.hwperf",
    )
    accept.set_defaults(run=accept_runs)
    _add_prune(actions)


def _add_prune(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    prune = actions.add_parser(
        "prune",
        help="remove what this machine saved with earlier versions and has saved anew",
        description="Remove stored runs of this machine that were saved with other versions of Python or of libraries, "
        "or with other settings of threads, of tests that have newer ones. Runs of other machines stay.",
    )
    prune.add_argument("--baseline", default="main", metavar="NAME", help="default: main")
    prune.add_argument("--store", default="json:.hwperf", metavar="URL", help="as of accept")
    prune.set_defaults(run=prune_runs)


def accept_runs(options: argparse.Namespace) -> int:
    """Make held runs the baseline of their tests; their earlier stored runs, of other code, are removed."""
    store, location = _opened(options)
    accepted = store.accept(options.baseline, options.test)
    if not accepted:
        complain(
            f"no held run matches {options.test!r} in baseline {options.baseline} of {location}; "
            "a failed run is held by pytest --hwperf-save"
        )
        return NONE_HELD
    for test in accepted:
        say(f"accepted as baseline {options.baseline}: {test}")
    return OK


def prune_runs(options: argparse.Namespace) -> int:
    """Remove runs that nothing on this machine is compared with any more; say which."""
    store, location = _opened(options)
    removed = store.prune(options.baseline, describe_machine())
    for test in removed:
        say(f"removed runs of earlier versions from baseline {options.baseline}: {test}")
    if not removed:
        say(
            f"nothing to remove from baseline {options.baseline} of {location}: it holds no run of this machine with "
            "other versions that was saved anew"
        )
    return OK


def _opened(options: argparse.Namespace) -> tuple[Any, str]:
    """Return the store of a command, checked, and where it lies."""
    try:
        scheme, location = locate(options.store, Path.cwd())
    except ValueError as problem:
        raise UsageProblem(f"--store={problem}") from problem
    store = registry.find("stores", scheme)(location)
    store.check(options.baseline, writing=True)
    return store, location
