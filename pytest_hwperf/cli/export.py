"""`hwperf export`: a written report in the format of another program."""

import argparse
from collections.abc import Callable, Mapping
from functools import partial

from pytest_hwperf.cli import export_history
from pytest_hwperf.cli.arguments import check_files, write_file
from pytest_hwperf.cli.output import complain, say_lines
from pytest_hwperf.cli.report_file import read_report
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.metrics import Better
from pytest_hwperf.core.report import Report
from pytest_hwperf.reports import bencher, github_action_benchmark, otava, pytest_benchmark
from pytest_hwperf.reports.measures import Exported

OK = 0
_MOST = 10  # lines about what was left out
_ACTION = "github-action-benchmark"


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "export",
        help="write a report, or the history of a store, for another program",
        description="Read a report of pytest --hwperf-json, or with --store the history of a store, and write its "
        "figures in the format of another program. "
        "What that format cannot hold is left out and said. Exit code 0: it was written; 4: usage.",
    )
    parser.add_argument("report", nargs="?", metavar="REPORT.json", help="written by pytest --hwperf-json=REPORT.json")
    forms = dict.fromkeys([*_formats("lower"), *export_history.FORMATS])
    parser.add_argument("--as", dest="form", required=True, choices=[*forms], help="the format")
    parser.add_argument("--output", metavar="FILE", help="file to write; default: the standard output")
    parser.add_argument("--better", choices=["lower", "higher"], help=f"which figures {_ACTION} gets; default: lower")
    export_history.add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write a report in another format, and return the exit code."""
    if options.better and options.form != _ACTION:
        raise UsageProblem(f"--better={options.better} is for --as={_ACTION}: {options.form} takes both directions")
    if bool(options.report) == bool(options.store):
        raise UsageProblem("give a report of pytest --hwperf-json, or --store=URL for the history of a store")
    check_files(output=options.output)
    if options.store:
        return export_history.run(options)
    if options.form not in _formats("lower"):
        raise UsageProblem(f"--as={options.form} is for the history of a store: give --store=URL")
    exported = _formats(options.better or "lower")[options.form](read_report(options.report))
    if not exported.benchmarks:
        why = visible(exported.left_out[0]) if exported.left_out else "it has no measurements"
        raise UsageProblem(f"{options.report}: nothing in it can be written as {options.form}: {why}")
    if options.output:
        write_file(options.output, exported.content)
    else:
        say_lines(exported.content.decode().removesuffix("\n"))
    for line in exported.left_out[:_MOST]:
        complain(f"left out: {visible(line)}")
    if (more := len(exported.left_out) - _MOST) > 0:
        complain(f"left out: {more} more")
    return OK


def _formats(better: Better) -> Mapping[str, Callable[[Report], Exported]]:
    return {
        "pytest-benchmark": pytest_benchmark.render,
        "bencher": bencher.render,
        _ACTION: partial(github_action_benchmark.render, better=better),
        "otava": otava.render,
    }
