"""What a report adds to its runs in the database: a row for each verdict."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_hwperf.core.baselines import stored_run_of
from pytest_hwperf.core.evidence import Gate, Measurement
from pytest_hwperf.core.history import is_anchor
from pytest_hwperf.core.records import Budget, Comparison, Estimate, Figure, Judgement, Verdict, figure_of
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.serialisation import to_json
from pytest_hwperf.stores.sql.entries import Entry, entry_of
from pytest_hwperf.stores.sql.tables import table
from pytest_hwperf.stores.sql.writing import KEPT, Row, add_runs, add_values

if TYPE_CHECKING:
    from sqlalchemy import Connection

_NOTHING = Estimate(value=0.0, low=None, high=None, confidence=0.0, n=0, method="")
_NO_COMPARISON = {"scale": "", "baseline": None, "p_value": None, "against": "", "revision": "", "anchored": False}


class Kept(NamedTuple):
    """A run with what was judged of it: of each verdict what it is about, and the columns of the answer."""

    entry: Entry
    verdicts: Sequence[tuple[Figure, Row]]


def kept_of(report: Report) -> list[Kept]:
    """Return what is kept of a report."""
    asked = {one.key: gate for gate in report.gates for one in gate.evidence.hypotheses}
    kept = []
    for one in report.judgements:
        test = Measurement(test=one.run.test, label=one.run.label)
        gates = [asked.get((test, *verdict.subject.key)) for verdict in one.verdicts]
        answers = [_judged(one, *found, report.baseline) for found in zip(one.verdicts, gates, strict=True)]
        kept.append(Kept(entry=entry_of(stored_run_of(one)), verdicts=answers))
    return kept


def add_report(connection: "Connection", baseline: str, kept: Sequence[Kept]) -> None:
    """Add what is not there yet."""
    numbers = add_runs(connection, baseline, [one.entry for one in kept], KEPT)
    known = _with_verdicts(connection, numbers)
    new = {number: one for number, one in zip(numbers, kept, strict=True) if number not in known}
    add_values(connection, "verdict", {number: (one.entry.stored.run, one.verdicts) for number, one in new.items()})


def _with_verdicts(connection: "Connection", runs: Sequence[int]) -> set[int]:
    from sqlalchemy import select

    verdict, found = table("verdict"), set[int]()
    for first in range(0, len(runs), 500):
        chosen = select(verdict.c.run_id).where(verdict.c.run_id.in_(runs[first : first + 500]), verdict.c.place == 0)
        found |= {*connection.scalars(chosen)}
    return found


def _judged(judgement: Judgement, verdict: Verdict, gate: Gate | None, baseline: str) -> tuple[Figure, Row]:
    """Return what a verdict is about, and its columns; without a figure or a change it has no value."""
    to_json(verdict)  # refuses what is not finite: a history could not be read with it
    one, figure = verdict.subject, figure_of(judgement.figures, verdict.subject.key)
    source = figure.source if figure else ""
    row: dict[str, Any] = {"outcome": verdict.outcome, "fails": verdict.fails, "reason": verdict.reason}
    if isinstance(one, Budget):
        row |= {"allowed": one.limit, **_NO_COMPARISON}
    else:
        row |= _comparison_columns(one, None if _is_of_stored(one) else gate, baseline)
        figure = _figure(one, one.change, source, one.per) if one.change else None
    if figure is None:
        return _figure(one, _NOTHING, source, ""), {**row, "value": None}
    return figure, row


def _figure(of: Budget | Comparison, estimate: Estimate, source: str, per: str) -> Figure:
    return Figure(metric=of.metric, statistic=of.statistic, estimate=estimate, source=source, per=per)


def _comparison_columns(one: Comparison, gate: Gate | None, baseline: str) -> Row:
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
