"""The verdicts of a report as rows, which dashboards read: one for each budget and each comparison of a run."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.evidence import Gate, Measurement
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Estimate, Figure, figure_of
from pytest_hwperf.records.verdict import Budget, Comparison, Judgement, Verdict
from pytest_hwperf.stats.baselines import stored_run_of
from pytest_hwperf.stats.history import is_anchor
from pytest_hwperf.stores.sql.rows import KEPT, Columns, StoredRow, add_runs, add_values, chunks, entry_of
from pytest_hwperf.stores.sql.tables import select, table

if TYPE_CHECKING:
    from sqlalchemy import Connection

_NOTHING = Estimate(value=0.0, low=None, high=None, confidence=0.0, n=0, method="")
_NO_COMPARISON = {"scale": "", "baseline": None, "p_value": None, "against": "", "revision": "", "anchored": False}

Kept = tuple[StoredRow, Sequence[tuple[Figure, Columns]]]  # a run, and of each verdict what it is about and its columns


def kept_of(report: Report) -> Iterator[Kept]:
    """Yield what is kept of a report."""
    asked = {one.key: gate for gate in report.gates for one in gate.evidence.hypotheses}
    for judgement in report.judgements:
        test = Measurement(test=judgement.run.test, label=judgement.run.label)
        gates = [asked.get((test, *verdict.subject.key)) for verdict in judgement.verdicts]
        answers = [_judged(judgement, *one, report.baseline) for one in zip(judgement.verdicts, gates, strict=True)]
        entry = entry_of(stored_run_of(judgement))
        if isinstance(entry, StoredRow):  # else saving says why not
            yield entry, answers


def add_verdicts(connection: "Connection", baseline: str, kept: Sequence[Kept]) -> None:
    """Add what is not there yet."""
    verdict, known = table("verdict"), set[int]()
    numbers = add_runs(connection, baseline, [entry for entry, _ in kept], KEPT)
    for chunk in chunks(numbers):
        chosen = select(verdict.c.run_id).where(verdict.c.run_id.in_(chunk), verdict.c.place == 0)
        known |= {*connection.scalars(chosen)}
    new = {number: one for number, one in zip(numbers, kept, strict=True) if number not in known}
    add_values(connection, "verdict", {number: (entry.stored.run, its) for number, (entry, its) in new.items()})


def _judged(judgement: Judgement, verdict: Verdict, gate: Gate | None, baseline: str) -> tuple[Figure, Columns]:
    """Return what a verdict is about, and its columns; without a figure or a change it has no value."""
    to_json(verdict)  # refuses what is not finite: a history could not be read with it
    one, figure = verdict.subject, figure_of(judgement.figures, verdict.subject.key)
    source = figure.source if figure else ""
    row: dict[str, Any] = {"outcome": verdict.outcome, "fails": verdict.fails, "reason": verdict.reason}
    if isinstance(one, Budget):
        row |= {"allowed": one.limit, **_NO_COMPARISON}
    else:
        row |= _compared(one, None if _is_of_stored(one) else gate, baseline)
        figure = _figure(one, one.change, source, one.per) if one.change else None
    if figure is None:
        return _figure(one, _NOTHING, source, ""), {**row, "value": None}
    return figure, row


def _figure(of: Budget | Comparison, estimate: Estimate, source: str, per: str) -> Figure:
    return Figure(metric=of.metric, statistic=of.statistic, estimate=estimate, source=source, per=per)


def _compared(one: Comparison, gate: Gate | None, baseline: str) -> Columns:
    """Return what only a comparison has; `gate` has run its pairs, None: it is with stored runs."""
    return {
        "scale": one.scale,
        "allowed": one.margin,
        "baseline": one.baseline,
        "p_value": one.p_value,
        "against": gate.against if gate else f"baseline {baseline}" if baseline else "",
        "revision": gate.revision if gate else "",
        "anchored": gate is not None and is_anchor(gate.against),
    }


def _is_of_stored(comparison: Comparison) -> bool:
    return comparison.method is not None and comparison.method.kind.startswith(("stored", "historical"))
