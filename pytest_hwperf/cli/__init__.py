"""The command `hwperf`, for what is done outside a pytest run."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_hwperf import __version__
from pytest_hwperf.core.errors import HwperfError, UsageProblem

OK, FAILED, USAGE = 0, 1, 4  # pytest's own exit codes
INTERRUPTED = 130  # Ctrl-C, as shells tell it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code, the same numbers as pytest's, or 130 after Ctrl-C."""
    try:
        options = _parser().parse_args(arguments)
        return int(options.run(options))
    except HwperfError as error:
        print(f"hwperf: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        over = "\r\033[K" if sys.stderr.isatty() else ""  # what told of progress may stand there
        print(f"{over}hwperf: interrupted", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    from pytest_hwperf.cli.calibrate import add_calibrate
    from pytest_hwperf.cli.compare import add_compare
    from pytest_hwperf.cli.doctor.command import add_doctor
    from pytest_hwperf.cli.selfcheck import add_selfcheck

    parser = argparse.ArgumentParser(prog="hwperf", description="What pytest-hwperf does outside a pytest run.")
    parser.add_argument("--version", action="version", version=f"pytest-hwperf {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_baseline(commands)
    _add_recompute(commands)
    add_compare(commands)
    add_selfcheck(commands)
    add_doctor(commands)
    add_calibrate(commands)
    return parser


def _add_baseline(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
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
    accept.set_defaults(run=_accept)


def _add_recompute(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    again = commands.add_parser(
        "recompute",
        help="judge a written report once more from the values in it",
        description="Compute every figure, comparison and verdict of a report again from the values in it, and say "
        "what does not agree. Exit code 0: all agree; 1: something was changed.",
    )
    again.add_argument("report", metavar="REPORT.json", help="written by pytest --hwperf-json=REPORT.json")
    again.set_defaults(run=_recompute)


def _accept(options: argparse.Namespace) -> int:
    """Make held runs the baseline of their tests; the old sessions of these tests speak of other code and go."""
    from pytest_hwperf import registry
    from pytest_hwperf.stores.location import locate

    try:
        scheme, location = locate(options.store, Path.cwd())
    except ValueError as problem:
        raise UsageProblem(f"--store={problem}") from problem
    store = registry.find("stores", scheme)(location)
    store.check(options.baseline, writing=True)
    accepted = store.accept(options.baseline, options.test)
    if not accepted:
        print(
            f"hwperf: no held run matches {options.test!r} in baseline {options.baseline} of {location}; "
            "a failed run is held by pytest --hwperf-save",
            file=sys.stderr,
        )
        return FAILED
    for test in accepted:
        print(f"accepted as baseline {options.baseline}: {test}")
    return OK


def _recompute(options: argparse.Namespace) -> int:
    from pytest_hwperf.cli.report_file import read_report
    from pytest_hwperf.core.replay import recompute
    from pytest_hwperf.core.units import counted

    found = recompute(read_report(options.report))
    for line in found.disagreements:
        print(f"differs (in the file, computed again): {line}")
    print(f"{counted(found.agreeing, 'verdict')} computed again, {len(found.disagreements)} differences")
    if found.unjudged:
        print(f"{counted(found.unjudged, 'answer')} of the pairs without a verdict: their tests failed or did not run")
    if found.beyond:
        print(
            f"{counted(found.beyond, 'comparison')} with stored sessions not computed again: the file has none of them"
        )
    return FAILED if found.disagreements else OK
