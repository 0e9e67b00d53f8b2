"""Everything that the page shows, as plain data: the rows of its table, and what opens of each measurement."""

from collections.abc import Mapping, Sequence
from itertools import chain

from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Key
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted
from pytest_hwperf.records.verdict import Budget, Judgement
from pytest_hwperf.reports.explained import operator_tables
from pytest_hwperf.reports.html.assets import as_json
from pytest_hwperf.reports.html.decision import PairData, SeenKey, seen_of
from pytest_hwperf.reports.html.details import Plain, detail_of, facts_of, flames_of, measurement_of, rounded
from pytest_hwperf.reports.html.histories import Reader, add_histories
from pytest_hwperf.reports.rows import GROUPS, Row, title_of, unnamed_scenario

_MOST_BLOCKS = 1_500_000  # values of blocks that a page holds: some 10 MB
_MOST_DETAILS = 5_000  # verdicts of which all are explained in full
_NONE = PairData()


def content_of(
    report: Report, groups: Mapping[str, Sequence[Row]], history: Reader | None
) -> tuple[bytes, list[bytes], list[str]]:
    """Return as JSON the table and what opens of each measurement, and sentences on what the page does not hold.

    A report of usual size is embedded whole, of a larger one what needs a look.
    """
    seen = seen_of(report)
    places = {id(judgement): place for place, judgement in enumerate(report.judgements)}
    details, blocks, left_out = _selection([row for name in GROUPS for row in groups[name] if row.verdicts], seen)
    found = [_shared(report, judgement) for judgement in report.judgements]
    asked = (shared for shared, one in zip(found, report.judgements, strict=True) if one.run.operators is not None)
    for shared, table in zip(asked, operator_tables(report, every=False), strict=True):
        shared["operators"] = {"setting": table.setting, "rows": table.rows, "work": table.work}
    rows, keys = list[Plain](), dict[int, set[Key]]()
    for name in GROUPS:
        for row in groups[name]:
            place, detail = places[id(row.judgement)], None
            if id(row) in details:
                own = found[place]["verdicts"]
                own.append(detail_of(row, seen.get(_key_of(row), _NONE), blocks=id(row) in blocks))
                detail = len(own) - 1
            rows.append(_row(name, row, place, detail))
            keys.setdefault(place, set()).add(row.key)
    runs = [judgement.run for judgement in report.judgements]
    tests = [[visible(title_of(run)), visible(unnamed_scenario(run))] for run in runs]
    unshown = add_histories(report, [*keys], keys, found, history) if history else ""
    return as_json({"tests": tests, "rows": rows}), [*map(as_json, found)], [*left_out, *filter(None, [unshown])]


def _selection(
    every: Sequence[Row], seen: Mapping[SeenKey, PairData]
) -> tuple[frozenset[int], frozenset[int], Sequence[str]]:
    """Choose by identity which rows have details, and which have their blocks; and say what is left out.

    Rows are chosen in the order of the table, so that what is well is left out first.
    """
    telling = [row for row in every if row.verdict.outcome not in GROUPS["settled"]]
    detailed = every if len(every) <= _MOST_DETAILS else telling[:_MOST_DETAILS]
    left_out = []
    if len(detailed) < len(every):
        left_out.append(
            f"How it was decided is shown of {counted(len(detailed), 'verdict')} of {len(every)}, in the order of the "
            "table and of none that is equivalent or passed. The JSON report holds all."
        )
    blocks, total = set[int](), 0
    for row in detailed:
        total += 0 if row.budget else seen.get(_key_of(row), _NONE).blocks
        if total <= _MOST_BLOCKS:
            blocks.add(id(row))
    if len(blocks) < len(detailed):
        left_out.append(
            f"Blocks within pairs are shown of {counted(len(blocks), 'verdict')} of {len(detailed)}, in the order of "
            "the table: more would make the page slow. The JSON report holds all."
        )
    return frozenset(map(id, detailed)), frozenset(blocks), left_out


def _key_of(row: Row) -> SeenKey:
    return row.run.kind, measurement_of(row.judgement), *row.key


def _shared(report: Report, judgement: Judgement) -> Plain:
    """Return what belongs to a measurement as a whole."""
    found: Plain = {"facts": facts_of(judgement), "verdicts": []}
    gates = (gate for gate in report.gates if gate.kind == judgement.run.kind)
    flames = [*chain.from_iterable(flames_of(gate, measurement_of(judgement)) for gate in gates)]
    return found | ({"flames": flames} if flames else {})


def _row(group: str, row: Row, place: int, detail: int | None) -> Plain:
    """Return a row by short names, which the table's script reads; it is sorted by a value, and bars need numbers."""
    found: Plain = {"g": group, "j": place, "m": row.name, "v": row.values, "o": row.outcome or "measured only"}
    found |= {"n": row.n, "a": row.allowed, "x": row.change, "w": row.cause, "d": detail}
    at, sign = row.figure.estimate if row.figure else None, 1 if row.metric.better == "lower" else -1
    found["r"] = rounded(row.comparison.candidate if row.comparison else at.value if at else None)
    subject = row.verdict.subject if row.verdicts else None
    if isinstance(subject, Budget):
        found["k"] = 1
        if at:
            found["b"] = [*map(rounded, (at.value, at.low, at.high, subject.limit)), sign]
    elif subject is not None and subject.change is not None:
        change = subject.change
        found["c"] = [*map(rounded, (change.value, change.low, change.high, subject.margin)), sign]
    return {name: value for name, value in found.items() if value not in ("", None)}
