"""What a report adds to its runs in the database: verdicts, comparisons, and the ratio of each pair."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_hwperf.core.baselines import stored_run_of
from pytest_hwperf.core.evidence import Gate, Measurement, Observation, Pair
from pytest_hwperf.core.history import is_anchor
from pytest_hwperf.core.records import Comparison, Estimate, Figure, Judgement, figure_of
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.serialisation import to_json
from pytest_hwperf.stores.sql.entries import Entry, entry_of
from pytest_hwperf.stores.sql.tables import tables
from pytest_hwperf.stores.sql.writing import KEPT, Row, add_runs, estimate_columns, insert_parts, metric_ids

if TYPE_CHECKING:
    from sqlalchemy import Connection


class KeptComparison(NamedTuple):
    """A comparison with where it is from."""

    place: int  # among the verdicts of its run
    comparison: Comparison
    figure: Figure  # of the change, for what it is
    gate: Gate | None  # that has run its pairs; None: with stored runs
    pairs: Sequence[tuple[Pair, Observation]]


class Kept(NamedTuple):
    """A run with its judgement."""

    entry: Entry
    judgement: Judgement
    comparisons: Sequence[KeptComparison]


def kept_of(report: Report) -> list[Kept]:
    """Return what is kept of a report."""
    asked = {one.key: gate for gate in report.gates for one in gate.evidence.hypotheses}
    return [
        Kept(entry=entry_of(stored_run_of(one)), judgement=one, comparisons=[*_comparisons(one, asked)])
        for one in report.judgements
    ]


def add_report(connection: "Connection", baseline: str, name: str, kept: Sequence[Kept]) -> None:
    """Add what is not there yet.

    Args:
        connection: of the only writer.
        baseline: to whose tests the runs belong.
        name: of the baseline that the report was compared with, "" for none.
        kept: of the report.
    """
    numbers = add_runs(connection, baseline, [one.entry for one in kept], KEPT)
    known = _judged(connection, numbers)
    new = {number: one for number, one in zip(numbers, kept, strict=True) if number not in known}
    figures = [(one.judgement.run, each.figure) for one in new.values() for each in one.comparisons]
    metric = metric_ids(connection, figures)
    verdicts, compared, pairs = list[Row](), list[Row](), list[Row]()
    for number, one in new.items():
        verdicts += _verdict_rows(number, one.judgement)
        for each in one.comparisons:
            of = {"run_id": number, "place": each.place}
            compared.append({**of, "metric_id": metric(one.judgement.run, each.figure), **_comparison_row(each, name)})
            pairs += [{**of, **_pair_row(pair, observation)} for pair, observation in each.pairs]
    for table, rows in ((tables().verdict, verdicts), (tables().comparison, compared), (tables().pair, pairs)):
        insert_parts(connection, table, rows)


def _judged(connection: "Connection", runs: Sequence[int]) -> set[int]:
    """Return which of these runs have verdicts already."""
    from sqlalchemy import select

    verdict, found = tables().verdict, set[int]()
    for first in range(0, len(runs), 500):
        chosen = select(verdict.c.run_id).where(verdict.c.run_id.in_(runs[first : first + 500]), verdict.c.place == 0)
        found |= {*connection.scalars(chosen)}
    return found


def _comparisons(judgement: Judgement, asked: Mapping[Any, Gate]) -> Iterator[KeptComparison]:
    run = judgement.run
    of_run = Measurement(test=run.test, label=run.label)
    for place, verdict in enumerate(judgement.verdicts):
        one = verdict.subject
        if not isinstance(one, Comparison):
            continue
        key = (of_run, *one.key)
        gate = None if _is_of_stored(one) else asked.get(key)
        pairs = gate.evidence.pairs if gate else ()
        found = [(pair, each) for pair in pairs for each in pair.observations if each.key == key]
        yield KeptComparison(place=place, comparison=one, figure=_figure(judgement, one), gate=gate, pairs=found)


def _is_of_stored(comparison: Comparison) -> bool:
    return comparison.method is not None and comparison.method.kind.startswith(("stored", "historical"))


def _figure(judgement: Judgement, comparison: Comparison) -> Figure:
    """Return what a comparison is about: its change in the place of the value."""
    figure = figure_of(judgement.figures, comparison.key)
    none = Estimate(value=0.0, low=None, high=None, confidence=0.0, n=0, method="")
    return Figure(
        metric=comparison.metric,
        statistic=comparison.statistic,
        estimate=comparison.change or none,
        source=figure.source if figure else "",
        per=comparison.per,
    )


def _verdict_rows(number: int, judgement: Judgement) -> list[Row]:
    return [
        {
            "run_id": number,
            "place": place,
            "outcome": one.outcome,
            "fails": one.fails,
            "reason": one.reason,
            "record": to_json(one).decode(),
        }
        for place, one in enumerate(judgement.verdicts)
    ]


def _comparison_row(each: KeptComparison, baseline: str) -> Row:
    one, gate = each.comparison, each.gate
    nothing = {"value": None, "low": None, "high": None, "n": 0, "warnings": ""}
    return {
        **(estimate_columns(each.figure) if one.change else nothing),
        "outcome": one.outcome,
        "scale": one.scale,
        "margin": one.margin,
        "p_value": one.p_value,
        "baseline": one.baseline,
        "against": gate.against if gate else f"baseline {baseline}" if baseline else "",
        "revision": gate.revision if gate else "",
        "anchored": gate is not None and is_anchor(gate.against),
    }


def _pair_row(pair: Pair, one: Observation) -> Row:
    return {
        "number": pair.number,
        "stage": pair.stage,
        "change": one.change,
        "baseline": median(one.baseline),
        "candidate": median(one.candidate),
        "preempted": one.preempted,
    }
