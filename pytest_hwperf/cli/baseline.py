"""`hwperf baseline`: the stored runs of a baseline."""

import argparse
from pathlib import Path

from pytest_hwperf import registry
from pytest_hwperf.cli.output import complain, say
from pytest_hwperf.core.errors import UsageProblem
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


def accept_runs(options: argparse.Namespace) -> int:
    """Make held runs the baseline of their tests; their earlier stored runs, of other code, are removed."""
    try:
        scheme, location = locate(options.store, Path.cwd())
    except ValueError as problem:
        raise UsageProblem(f"--store={problem}") from problem
    store = registry.find("stores", scheme)(location)
    store.check(options.baseline, writing=True)
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
