"""`hwperf report`: a written report shown again in other forms, or what another program has measured."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

from pytest_hwperf.cli.arguments import add_shared, check_files, write_file
from pytest_hwperf.cli.load_report import show_table
from pytest_hwperf.cli.output import say
from pytest_hwperf.cli.report_file import read_report
from pytest_hwperf.cli.stores import open_history
from pytest_hwperf.core.early_stopping import CONFIDENCE
from pytest_hwperf.core.errors import HwperfError, UsageProblem
from pytest_hwperf.core.history import Annotation, HistoryStore, Series
from pytest_hwperf.core.metrics import MEDIAN_LATENCY, METRICS
from pytest_hwperf.core.ranks import quantile
from pytest_hwperf.core.records import Estimate, Figure, Judgement, Run
from pytest_hwperf.core.report import Report
from pytest_hwperf.host.machine import describe_machine
from pytest_hwperf.loads.loadgen_log import LoadGenResult, read_folder
from pytest_hwperf.reports import annotations, json_file, markdown
from pytest_hwperf.reports.html import page
from pytest_hwperf.reports.html.assets import check_installed
from pytest_hwperf.reports.html.histories import Reader
from pytest_hwperf.reports.table import Detail

OK, INVALID = 0, 1
_SOURCE = "mlperf_loadgen"
_ORIGINS = ("loadgen", "pytest-benchmark", "bencher", "github-action-benchmark", "otava", "onnxruntime")
_HOW = f"loadgen:DIR, the folder of mlperf_log_summary.txt, or FORMAT:FILE with {', '.join(_ORIGINS[1:])}"


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    report = commands.add_parser(
        "report",
        help="show a written report again, or what another program has measured",
        description="Read a report of pytest --hwperf-json, or the result of another program, and show it as a table. "
        "Exit code 0: it was shown; 1: the other program calls its result invalid; 4: usage.",
    )
    report.add_argument("file", nargs="?", metavar="REPORT.json", help="written by pytest --hwperf-json=REPORT.json")
    report.add_argument(
        "--from", dest="origin", metavar="FORMAT:FILE", help=f"what another program has written: {_HOW}"
    )
    report.add_argument(
        "--annotations", action="store_true", help="print annotations for GitHub's runner instead of the table"
    )
    report.add_argument("--html", metavar="FILE", help="write one HTML file with charts; needs the extra report")
    report.add_argument("--store", metavar="URL", help="whose history of each test --html shows; as for hwperf history")
    report.add_argument("--markdown", metavar="FILE", help="write a summary for pull requests as Markdown")
    add_shared(report, "--json")
    report.add_argument("--indent", action="store_true", help="indent what --json writes")
    report.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show a report, and return the exit code."""
    if bool(options.file) == bool(options.origin):
        raise UsageProblem("give either REPORT.json, a file of pytest --hwperf-json, or --from=FORMAT:FILE")
    if options.indent and not options.json:
        raise UsageProblem("--indent says how --json writes: add --json=FILE")
    if options.store and not (options.html and options.file):
        raise UsageProblem("--store says whose history --html shows of a REPORT.json: give both too")
    check_files(html=options.html, json=options.json, markdown=options.markdown)
    if options.html:
        check_installed()
    return _show_file(options) if options.file else _show_foreign(options)


def _show_file(options: argparse.Namespace) -> int:
    report = read_report(options.file)
    history = partial(_history, open_history(options.store), report.baseline or "main") if options.store else None
    show_report(report, options, "normal", history)
    return OK


def _history(
    store: HistoryStore, baseline: str, measured: Sequence[tuple[str, str]], newest: int
) -> tuple[Sequence[Series], Sequence[Annotation]]:
    return store.history_of(baseline, measured, newest=newest), store.annotations()


def _show_foreign(options: argparse.Namespace) -> int:
    """Show what another program has measured."""
    program, colon, path = options.origin.partition(":")
    if not (colon and path) or program not in _ORIGINS:
        raise UsageProblem(f"--from={options.origin}: write {_HOW}")
    if program == "loadgen":
        return _show_loadgen(options, path)
    show_report(_foreign_report(program, path), options, "verbose")
    return OK


def _foreign_report(program: str, path: str) -> Report:
    from pytest_hwperf.cli.origins import bencher, github_action_benchmark, onnxruntime, otava, pytest_benchmark
    from pytest_hwperf.cli.origins.foreign import read_text

    readers: Mapping[str, Callable[[bytes], Report]] = {
        "pytest-benchmark": pytest_benchmark.read,
        "bencher": bencher.read,
        "github-action-benchmark": github_action_benchmark.read,
        "otava": otava.read,
        "onnxruntime": partial(onnxruntime.read, name=Path(path).name),
    }
    text = read_text(path, program)
    try:
        return readers[program](text)
    except HwperfError as error:
        raise UsageProblem(f"{path}: {error}") from error


def _show_loadgen(options: argparse.Namespace, folder: str) -> int:
    result, queries = read_folder(Path(folder))
    show_report(_report(result, queries, folder), options, "verbose")
    if not options.annotations:
        say(f"LoadGen: {'VALID' if result.valid else 'INVALID'}")
    return OK if result.valid else INVALID


def show_report(report: Report, options: argparse.Namespace, detail: Detail, history: Reader | None = None) -> None:
    """Print a report, and write the files that were asked for; `history` is that of the HTML file."""
    if options.annotations:
        for line in annotations.lines_of(report):
            say(line)
    else:
        if report.revision:
            say(" against ".join(filter(None, (report.present_code, ", ".join(report.compared_with)))))
        show_table(report, detail)
    if options.json:
        content = json_file.render(report)
        write_file(options.json, json_file.indented(content) if options.indent else content)
    if options.html:
        write_file(options.html, page.render(report, history=history))
    if options.markdown:
        write_file(options.markdown, markdown.render(report))


def _report(result: LoadGenResult, queries: int, folder: str) -> Report:
    run = Run(
        test=folder,
        label="",
        scenario="",
        machine=describe_machine(),
        revision="",
        started_at="1970-01-01T00:00:00+00:00",
        samples=(),
        conditions={"load": result.kind},
        context={"loadgen": "VALID" if result.valid else "INVALID"},
    )
    judgement = Judgement(run=run, figures=tuple(_figures(result, queries)), verdicts=())
    warnings = () if result.valid else ("LoadGen calls this run INVALID, by rules of its own",)
    return Report(
        machine=run.machine,
        revision="",
        started_at=run.started_at,
        baseline="",
        judgements=(judgement,),
        warnings=(*warnings, "the machine of this report is the one that reads it, not the one that measured"),
    )


def _figures(result: LoadGenResult, queries: int) -> Iterator[Figure]:
    """Yield its percentiles, each with the bound of early stopping where it gives one, and its rates."""
    latency = METRICS[MEDIAN_LATENCY[0]]
    values = {Fraction(name) / 100: seconds for name, seconds in result.percentiles.items()}
    bounds = {Fraction(name) / 100: seconds for name, seconds in result.bounds.items()}
    for statistic in latency.statistics:
        q = quantile(statistic)
        if q in values:
            yield _figure(latency.name, statistic, values[q], bounds.get(q), queries)
    if result.completed_qps is not None:
        yield _figure("throughput", "mean", result.completed_qps, None, queries)


def _figure(metric: str, statistic: str, value: float, bound: float | None, queries: int) -> Figure:
    high = None if bound is None else max(bound, value)
    estimate = Estimate(
        value=value, low=None, high=high, confidence=2 * CONFIDENCE - 1, n=queries, method="as LoadGen reports it"
    )
    return Figure(metric=metric, statistic=statistic, estimate=estimate, source=_SOURCE, per="call")
