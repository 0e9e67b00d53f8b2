"""What `hwperf load` shows of a load: its table, its JSON and its exit code."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from pytest_hwperf.cli.arguments import write_file
from pytest_hwperf.cli.output import say, width
from pytest_hwperf.core.estimates import figures
from pytest_hwperf.core.records import Budget, Judgement, Policy, Run, Sample, replace
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.verdicts import judge
from pytest_hwperf.host.machine import describe_machine
from pytest_hwperf.reports import json_file, terminal
from pytest_hwperf.reports.table import Detail

OK, NOT_SERVED, INCONCLUSIVE, INTERRUPTED = 0, 1, 3, 130


def load_run(target: str, samples: Iterable[Sample], conditions: Mapping[str, str]) -> Run:
    """Return the samples of a load as a run."""
    return Run(
        test=target,
        label="",
        scenario="",
        machine=describe_machine(),
        revision="",
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        samples=tuple(samples),
        conditions=conditions,
        context={},
    )


def show_run(run: Run, budgets: Sequence[Budget], json: str | None, *, interrupted: bool = False) -> Judgement:
    """Judge a run, show its table, and write its report where a file is named."""
    found = figures(run)
    judgement = Judgement(run=run, figures=found, verdicts=judge(run, found, (), budgets, Policy()))
    report = Report(
        machine=run.machine,
        revision="",
        started_at=run.started_at,
        baseline="",
        judgements=(judgement,),
        partial=interrupted,
    )
    show_table(replace(report, partial=False))
    if interrupted:
        say("interrupted: these are the calls that were over")
    if json:
        write_file(json, json_file.render(report))
    return judgement


def show_table(report: Report, detail: Detail = "normal") -> None:
    """Show a report as pytest does, without colours."""
    for text, _ in terminal.render(report, width=width(), color=False, detail=detail):
        say(text)


def exit_code(judgement: Judgement, failed: int, doubts: Sequence[str]) -> int:
    """Return 1 where a budget is not kept or calls failed, 3 where that is not known, else 0."""
    outcomes = {verdict.outcome for verdict in judgement.verdicts}
    if failed or "failed" in outcomes:
        return NOT_SERVED
    inconclusive = outcomes - {"passed"} or set(doubts) - {"degrades"}
    return INCONCLUSIVE if inconclusive else OK
