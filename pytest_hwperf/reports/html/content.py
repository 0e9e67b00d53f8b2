"""Everything that the page shows, as plain data: the rows of its table, and what opens of each measurement."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Key, figure_of
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted
from pytest_hwperf.records.verdict import Budget, Judgement
from pytest_hwperf.reports.explained import operator_tables
from pytest_hwperf.reports.groups import Groups, VerdictRow
from pytest_hwperf.reports.html.assets import as_json
from pytest_hwperf.reports.html.decision import PairData
from pytest_hwperf.reports.html.details import (
    Plain,
    SeenKey,
    blocks_in,
    detail_of,
    facts_of,
    flames_of,
    measurement_of,
    rounded,
    seen_of,
)
from pytest_hwperf.reports.html.histories import Reader, add_histories
from pytest_hwperf.reports.rows import RowEntry, cells_of, metric_of, title_of

# Names of the groups as readers see them, in their order.
GROUPS: Mapping[str, str] = {
    "regressed": "regressed",
    "failed": "budget missed",
    "inconclusive": "inconclusive",
    "improved": "improved",
    "unanswered": "not answered",
    "settled": "equivalent or passed",
    "plain": "measured only",
}
_MOST_BLOCKS = 1_500_000  # values of blocks that a page holds: some 10 MB
_MOST_DETAILS = 5_000  # verdicts of which all are explained in full
_NONE = PairData()


class Content(Record, frozen=True, kw_only=True):
    """What is embedded in the page."""

    rows: bytes  # JSON: the table
    details: tuple[bytes, ...]  # JSON, one a measurement
    left_out: tuple[str, ...]  # sentences on what the page does not hold
    counts: Mapping[str, int]  # group → rows


def content_of(report: Report, groups: Groups, history: Reader | None) -> Content:
    """Choose what is embedded: everything of a report of usual size, of a larger one what needs a look."""
    seen = seen_of(report)
    places = {id(judgement): place for place, judgement in enumerate(report.judgements)}
    selection = _selection(groups, seen)
    found: list[Plain] = [_shared(report, judgement) for judgement in report.judgements]
    _add_operators(report, found)
    rows: list[Plain] = []
    for name in GROUPS:
        for row in getattr(groups, name, ()):
            place = places[id(row.judgement)]
            detail = _add_detail(found[place]["verdicts"], row, seen, selection)
            rows.append(_row(name, row, place, detail))
    plain = [*_without_verdict(report)]
    rows += [{**one, "j": places[id(judgement)]} for judgement, _, one in plain]
    keys: dict[int, set[Key]] = {}
    shown = [(row.judgement, row.verdict.subject.key) for name in GROUPS for row in getattr(groups, name, ())]
    for judgement, key in (*shown, *((judgement, key) for judgement, key, _ in plain)):
        keys.setdefault(places[id(judgement)], set()).add(key)
    unshown = add_histories(report, [*keys], keys, found, history) if history else ""
    counts = Counter(row["g"] for row in rows)
    return Content(
        rows=as_json({"tests": [_named(judgement) for judgement in report.judgements], "rows": rows}),
        details=tuple(map(as_json, found)),
        left_out=(*selection.left_out, *filter(None, [unshown])),
        counts={name: counts[name] for name in GROUPS if counts[name]},
    )


def _add_detail(
    details: list[Plain], row: VerdictRow, seen: Mapping[SeenKey, PairData], selection: "_Selection"
) -> int | None:
    """Add what is known of a verdict where that is embedded, and return its place."""
    if id(row) not in selection.details:
        return None
    observed = seen.get(_key_of(row), _NONE)
    details.append(detail_of(row, observed, blocks=id(row) in selection.blocks))
    return len(details) - 1


class _Selection(Record, frozen=True, kw_only=True):
    """Which rows are embedded in full, by the identity of their records."""

    details: frozenset[int]
    blocks: frozenset[int]
    left_out: tuple[str, ...]  # sentences on the others


def _selection(groups: Groups, seen: Mapping[SeenKey, PairData]) -> _Selection:
    """Choose in the order of the table, so that what is well is left out first."""
    telling = (*groups.changed, *groups.unanswered)
    every = (*telling, *groups.settled)
    detailed = every if len(every) <= _MOST_DETAILS else telling[:_MOST_DETAILS]
    left_out = []
    if len(detailed) < len(every):
        left_out.append(
            f"How it was decided is shown of {counted(len(detailed), 'verdict')} of {len(every)}, in the order of the "
            "table and of none that is equivalent or passed. The JSON report holds all."
        )
    blocks, total = set[int](), 0
    for row in detailed:
        total += _blocks_of(row, seen)
        if total <= _MOST_BLOCKS:
            blocks.add(id(row))
    if len(blocks) < len(detailed):
        left_out.append(
            f"Blocks within pairs are shown of {counted(len(blocks), 'verdict')} of {len(detailed)}, in the order of "
            "the table: more would make the page slow. The JSON report holds all."
        )
    return _Selection(details=frozenset(map(id, detailed)), blocks=frozenset(blocks), left_out=tuple(left_out))


def _blocks_of(row: VerdictRow, seen: Mapping[SeenKey, PairData]) -> int:
    if row.is_budget:
        return 0
    return blocks_in(seen.get(_key_of(row), _NONE))


def _key_of(row: VerdictRow) -> SeenKey:
    return row.judgement.run.kind, measurement_of(row.judgement), *row.verdict.subject.key


def _shared(report: Report, judgement: Judgement) -> Plain:
    """Return what belongs to a measurement as a whole."""
    found: Plain = {"facts": facts_of(judgement), "verdicts": []}
    gates = (gate for gate in report.gates if gate.kind == judgement.run.kind)
    flames = [*chain.from_iterable(flames_of(gate, measurement_of(judgement)) for gate in gates)]
    return found | ({"flames": flames} if flames else {})


def _add_operators(report: Report, found: Sequence[Plain]) -> None:
    """Add the tables of operators to the measurements that were asked for them, which come in the same order."""
    asked = [place for place, judgement in enumerate(report.judgements) if judgement.run.operators is not None]
    for place, table in zip(asked, operator_tables(report, every=False), strict=True):
        found[place]["operators"] = {"setting": table.setting, "rows": table.rows, "work": table.work}


def _named(judgement: Judgement) -> list[str]:
    """Return test with label, and the scenario where the id does not say it."""
    title, scenario = title_of(judgement.run), judgement.run.scenario
    return [visible(title), "" if scenario in title else visible(scenario)]


def _row(group: str, row: VerdictRow, place: int, detail: int | None) -> Plain:
    """Return a verdict as a row of short names, which the table's script reads; bars need their numbers."""
    found: Plain = {"g": group, "j": place, "m": row.metric, "v": row.values, "o": row.outcome, "n": row.n}
    found |= {"a": row.allowed, "x": row.change, "w": row.cause, "d": detail}
    subject, run = row.verdict.subject, row.judgement.run
    found["r"] = _value(row)
    sign = 1 if metric_of(run, subject.metric).better == "lower" else -1
    if isinstance(subject, Budget):
        figure = figure_of(row.judgement.figures, subject.key)
        at = figure.estimate if figure else None
        bar = [rounded(one) for one in (at.value, at.low, at.high, subject.limit)] if at else []
        found |= {"k": 1, "b": [*bar, sign]} if bar else {"k": 1}
    elif subject.change is not None:
        change = subject.change
        ends = [rounded(one) for one in (change.value, change.low, change.high, subject.margin)]
        found["c"] = [*ends, sign]
    return {name: value for name, value in found.items() if value not in ("", None)}


def _value(row: VerdictRow) -> float | None:
    """Return the value by which rows are sorted, in base units."""
    subject = row.verdict.subject
    if isinstance(subject, Budget):
        figure = figure_of(row.judgement.figures, subject.key)
        return rounded(figure.estimate.value) if figure else None
    return rounded(subject.candidate)


def _without_verdict(report: Report) -> Iterator[tuple[Judgement, Key, Plain]]:
    """Yield a row for each figure that nothing judges and that the table of the terminal shows too."""
    for judgement in report.judgements:
        judged = {verdict.subject.key for verdict in judgement.verdicts}
        for figure in judgement.figures:
            metric = metric_of(judgement.run, figure.metric)
            usual = figure.metric not in METRICS or figure.statistic in metric.shown
            if figure.key in judged or not usual:
                continue
            name = visible(metric.called(figure.statistic.replace("_", ".")))
            cells = cells_of(judgement.run, RowEntry(key=figure.key, name=name, figure=figure))
            found = {"g": "plain", "m": name, "v": cells["value"], "o": "measured only", "n": cells["n"]}
            yield judgement, figure.key, {**found, "r": rounded(figure.estimate.value)}
