"""`hwperf report`: written reports shown, merged, verified or exported, and the results of other programs."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from pytest_hwperf.cli import arguments as arg
from pytest_hwperf.cli.foreign import FORMS, read_foreign
from pytest_hwperf.cli.inputs import read_report
from pytest_hwperf.cli.load import show_table
from pytest_hwperf.cli.output import FAILED, INCONCLUSIVE, OK, say, show_document, write_export, write_file
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.report import Report, parse_kinds
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted
from pytest_hwperf.reports import exports, json_file, markdown
from pytest_hwperf.reports.document import Paragraph
from pytest_hwperf.reports.exports import Exported
from pytest_hwperf.reports.headline import headline_of
from pytest_hwperf.reports.html import page
from pytest_hwperf.reports.html.page import Reader, check_installed
from pytest_hwperf.stats.merging import is_failed, merge_kinds, why_open
from pytest_hwperf.stats.replay import recompute
from pytest_hwperf.stats.stored.history import Annotation, Series
from pytest_hwperf.stores.store import Store

_WRITTEN: Mapping[str, Callable[[Report], bytes]] = {
    ".json": json_file.render,
    ".md": markdown.render,
    ".html": page.render,
}
_EXPORTED: Mapping[str, Callable[[Report], Exported]] = {
    "pytest-benchmark": exports.render_pytest_benchmark,
    "bencher": exports.render_bencher,
    "github-action-benchmark": exports.render_action_benchmark,
    exports.BIGGER: partial(exports.render_action_benchmark, better="higher"),
    "otava": exports.render_otava,
}


def check_output(files: list[str]) -> None:
    """Check that a report can be written in these forms, before the time is spent."""
    for file in files:
        if Path(file).suffix not in _WRITTEN:
            raise UsageProblem(f"--output={file}: the name has to end in {', '.join(_WRITTEN)}")
    if any(Path(file).suffix == ".html" for file in files):
        check_installed()


def run(options: argparse.Namespace) -> int:
    """Show, verify or export what the files hold, and return the exit code."""
    _check(options)
    report = read_foreign(options.origin) if options.origin else _read(options)
    if options.verify:
        return _verify(report)
    if options.form:
        return _export(report, options)
    history = partial(_history, arg.open_store(options.store)[0], report.baseline or "main") if options.store else None
    return show_report(report, options, history, of_others=bool(options.origin))


def _check(options: argparse.Namespace) -> None:
    if bool(options.files) == bool(options.origin):
        raise UsageProblem("give either FILE …, written by pytest --hwperf-report=FILE.json, or --from=FORMAT:FILE")
    for place, file in enumerate(options.files):
        if file in options.files[:place]:
            raise UsageProblem(f"{file} is given twice: give one report of each shard")
    if options.output and options.verify:
        raise UsageProblem("--verify writes no file: leave out --output")
    if len(options.output) > 1 and options.form:
        raise UsageProblem(f"--as={options.form} writes one file: give --output once")
    if options.store and not (options.files and any(file.endswith(".html") for file in options.output)):
        raise UsageProblem("--store is for the page of a FILE: add --output=FILE.html")
    if not options.form:
        check_output(options.output)


def _read(options: argparse.Namespace) -> Report:
    """Return the only report, or all of them merged; one shard alone says what is missing and what failed."""
    names, number = options.kinds or ((), 0)
    reports = {file: read_report(file) for file in options.files}
    if len(reports) > 1 or number:
        return merge_kinds(reports, names, number)
    [report] = reports.values()
    if len(report.shards) != 1:  # whole, or merged: then all is said in it
        return report
    more = [line for line in why_open(report) if not any(line in warning for warning in report.warnings)]
    return replace(report, warnings=(*report.warnings, *more))


def _history(
    store: Store, baseline: str, measured: Sequence[tuple[str, str]], newest: int
) -> tuple[Sequence[Series], Sequence[Annotation]]:
    return store.history_of(baseline, measured, newest=newest), store.annotations()


def _verify(report: Report) -> int:
    """Compute every verdict again, and print each difference."""
    found = recompute(report)
    for line in found.disagreements:
        say(f"differs (in the file, computed again): {line}")
    say(f"{counted(found.agreeing, 'verdict')} computed again, {counted(len(found.disagreements), 'difference')}")
    if found.unjudged:
        say(f"{counted(found.unjudged, 'answer')} of the pairs without a verdict: their tests failed or did not run")
    if found.beyond:
        rest = "on stored runs or further processes, which are not in the file"
        say(f"{counted(found.beyond, 'verdict')} not computed again: {rest}")
    return FAILED if found.disagreements else OK


def _export(report: Report, options: argparse.Namespace) -> int:
    """Write the figures in the format of another program."""
    exported = _EXPORTED[options.form](report)
    if not exported.benchmarks:
        why = visible(exported.left_out[0]) if exported.left_out else "it has no measurements"
        raise UsageProblem(f"nothing in this report can be written as {options.form}: {why}")
    write_export(exported.content, exported.left_out, options.output)
    return OK


def show_report(
    report: Report, options: argparse.Namespace, history: Reader | None = None, *, of_others: bool = False
) -> int:
    """Print a report, write the files that were asked for, and return the exit code."""
    if options.annotations:
        for line in markdown.annotations(report):
            say(line)
    else:
        if report.revision:
            say(" against ".join(filter(None, (report.present_code, ", ".join(report.compared_with)))))
        show_table(report, "verbose" if of_others else "normal")
        show_document([Paragraph(headline_of(report).sentence)] if report.shards or not report.judgements else [])
    for file in options.output:
        suffix = Path(file).suffix
        write_file(file, page.render(report, history=history) if suffix == ".html" else _WRITTEN[suffix](report))
    if report.shards and is_failed(report):
        return FAILED
    return INCONCLUSIVE if report.shards and why_open(report) else OK


_ANNOTATIONS = arg.flag("--annotations", "print annotations for GitHub's runner instead")
_OUTPUT = arg.several("--output", "FILE", "write FILE.json, FILE.md for pull requests or FILE.html with charts")
OUTPUT = (_ANNOTATIONS, _OUTPUT)  # of every command that shows a report
_ARGUMENTS = (
    arg.option("files", "FILE", "read reports of pytest --hwperf-report=FILE.json", nargs="*"),
    arg.option("--from", "FORMAT:FILE", f"read the result of another program: {', '.join(FORMS)}", dest="origin"),
    (
        arg.flag("--verify", "recompute verdicts from the values in the report, and show differences"),
        arg.option("--as", None, "export the figures into the --output", dest="form", choices=[*_EXPORTED]),
        _ANNOTATIONS,
    ),
    _OUTPUT,
    arg.option("--store", "URL", "show each test's history from this store in .html"),
    arg.option("--kinds", "NAME,…|N", "expect these kinds of machine, e.g. x86-64,arm64", type=parse_kinds),
)
COMMAND = arg.Subcommand(
    "report",
    run,
    "show, merge, verify or export reports of pytest --hwperf-report=FILE.json",
    _ARGUMENTS,
    "Show a report of pytest --hwperf-report=FILE.json. Several reports of one build, shards or kinds of machine, "
    "become one.",
    answers={
        0: "shown, verified or exported",
        1: "--verify found a difference, or a test of a shard or kind failed",
        3: "a shard or kind is missing or was cut short, or every answer is inconclusive",
        4: "usage, or reports of different builds",
    },
)
