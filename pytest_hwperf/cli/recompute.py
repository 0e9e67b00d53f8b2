"""`hwperf recompute`: the verdicts of a written report, computed again from its values."""

import argparse

from pytest_hwperf.cli.output import say
from pytest_hwperf.cli.report_file import read_report
from pytest_hwperf.core.replay import recompute
from pytest_hwperf.core.units import counted

OK, DIFFERENT = 0, 1


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "recompute",
        help="recompute the verdicts of a report",
        description="Compute every figure, comparison and verdict of a report again from the values in it, and say "
        "what does not agree. Exit code 0: all agree; 1: something was changed.",
    )
    parser.add_argument("report", metavar="REPORT.json", help="written by pytest --hwperf-json=REPORT.json")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compute again, print every difference, and return the exit code."""
    found = recompute(read_report(options.report))
    for line in found.disagreements:
        say(f"differs (in the file, computed again): {line}")
    say(f"{counted(found.agreeing, 'verdict')} computed again, {counted(len(found.disagreements), 'difference')}")
    if found.unjudged:
        say(f"{counted(found.unjudged, 'answer')} of the pairs without a verdict: their tests failed or did not run")
    if found.beyond:
        say(f"{counted(found.beyond, 'comparison')} with stored runs not computed again: the file has none of them")
    return DIFFERENT if found.disagreements else OK
