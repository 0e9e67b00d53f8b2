"""`hwperf merge`: one report and one exit code of the shards of a build, and of the kinds of machine that it ran on."""

import argparse

from pytest_hwperf.cli.arguments import add_shared, check_files
from pytest_hwperf.cli.output import say, width
from pytest_hwperf.cli.report import show_report
from pytest_hwperf.cli.report_file import read_report
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.kinds import merge_kinds, why_open
from pytest_hwperf.core.merging import is_failed
from pytest_hwperf.core.shards import parse_kinds
from pytest_hwperf.reports.headline import headline_of
from pytest_hwperf.reports.html.assets import check_installed
from pytest_hwperf.reports.wrapping import wrapped

OK, FAILED, OPEN = 0, 1, 3


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "merge",
        help="make one report of the shards of a build, or of its kinds of machine",
        description="Read the reports of pytest --hwperf-shard=K/N --hwperf-json=FILE, one of each shard, or of "
        "pytest --hwperf-machine-kind=NAME --hwperf-json=FILE, one of each kind of machine or of each shard on it, and "
        "show them as one, with verdicts for each kind. Exit code 0: all of them are there and no test failed; 1: a "
        "test failed; 3: a shard or a kind is missing or did not end, or nothing was decided; 4: usage, or reports "
        "that are not of one build.",
    )
    parser.add_argument("reports", nargs="+", metavar="REPORT.json", help="one of each shard and kind of machine")
    parser.add_argument(
        "--kinds", default="", metavar="NAME,…|N", help="kinds of machine that the build is for: a missing one is named"
    )
    parser.add_argument("--annotations", action="store_true", help="print annotations for GitHub's runner instead")
    parser.add_argument("--html", metavar="FILE", help="write one HTML file with charts; needs the extra report")
    parser.add_argument("--markdown", metavar="FILE", help="write a summary for pull requests as Markdown")
    add_shared(parser, "--json")
    parser.add_argument("--indent", action="store_true", help="indent what --json writes")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the parts of a build as one report, and return the exit code."""
    if options.indent and not options.json:
        raise UsageProblem("--indent says how --json writes: add --json=FILE")
    for place, file in enumerate(options.reports):
        if file in options.reports[:place]:
            raise UsageProblem(f"{file} is given twice: give one report of each shard")
    names, number = parse_kinds(options.kinds) if options.kinds else ((), 0)
    check_files(html=options.html, json=options.json, markdown=options.markdown)
    if options.html:
        check_installed()
    merged = merge_kinds({file: read_report(file) for file in options.reports}, names, number)
    show_report(merged, options, "normal")
    if not options.annotations:
        for line in wrapped(visible(headline_of(merged).sentence), width()):
            say(line)
    if is_failed(merged):
        return FAILED
    return OPEN if why_open(merged) else OK
