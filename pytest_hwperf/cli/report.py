"""`hwperf report`: what another program has measured, shown as a report of this one."""

import argparse
import shutil
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from pytest_hwperf.cli.output import say
from pytest_hwperf.core.early_stopping import CONFIDENCE
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.metrics import MEDIAN_LATENCY, METRICS
from pytest_hwperf.core.ranks import quantile
from pytest_hwperf.core.records import Estimate, Figure, Judgement, Run
from pytest_hwperf.core.report import Report
from pytest_hwperf.host.files import replace_file
from pytest_hwperf.host.machine import describe_machine
from pytest_hwperf.loads.loadgen_log import LoadGenResult, read_folder
from pytest_hwperf.reports import json_file, terminal

OK, INVALID = 0, 1
_SOURCE = "mlperf_loadgen"


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    report = commands.add_parser(
        "report",
        help="show what another program has measured",
        description="Read the result of another program and show it as a table. Exit code 0: that program calls it "
        "valid; 1: it does not; 4: usage.",
    )
    report.add_argument(
        "--from", required=True, dest="origin", metavar="loadgen:DIR", help="folder of MLPerf LoadGen's logs"
    )
    report.add_argument("--json", metavar="FILE", help="write the report as JSON")
    report.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show a result, and return the exit code."""
    program, colon, folder = options.origin.partition(":")
    if not (colon and folder) or program != "loadgen":
        raise UsageProblem(f"--from={options.origin}: write loadgen:DIR, the folder of mlperf_log_summary.txt")
    result, queries = read_folder(Path(folder))
    report = _report(result, queries, folder)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 100
    for text, _ in terminal.render(report, width=width, color=False, detail="verbose"):
        say(text)
    say(f"LoadGen: {'VALID' if result.valid else 'INVALID'}")
    if options.json:
        try:
            replace_file(Path(options.json), json_file.render(report))
        except OSError as error:
            raise UsageProblem(f"--json={options.json} cannot be written: {error.strerror}") from error
    return OK if result.valid else INVALID


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
