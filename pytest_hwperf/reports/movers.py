"""What moved, where there is more to say than the first mover, which stands with the verdict."""

import textwrap
from collections.abc import Iterator, Sequence

from pytest_hwperf.core.evidence import Explanation
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.metrics import metric_of
from pytest_hwperf.core.movers import Mover
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.units import counted, show, show_number, show_share

_INDENT = "  "
_GAP = "  "


def lines_of(report: Report, width: int) -> list[str]:
    """Return lines for each explanation of several movers, with remarks, or of what improved: no failure tells it."""
    improved = {
        (judgement.run.test, judgement.run.label, *one.key)
        for judgement in report.judgements
        for one in judgement.comparisons
        if one.outcome == "improved"
    }
    found = ((one, gate.kind) for gate in report.gates for one in gate.explanations if one.movers)
    return [
        line
        for one, kind in found
        if len(one.movers) > 1
        or one.remarks
        or (one.measurement.test, one.measurement.label, one.metric, one.statistic) in improved
        for line in _lines(one, kind, width)
    ]


def _lines(one: Explanation, kind: str, width: int) -> Iterator[str]:
    unit = "B" if one.kind == "allocation" else "s"
    name = " ".join(filter(None, [one.measurement.test, one.measurement.label, kind and f"on {kind}"]))
    rate = ", a call " if metric_of(one.metric).is_rate else " "
    change = f"{one.metric} {one.statistic}{rate}{show(one.baseline, unit)} → {show(one.candidate, unit)}"
    yield from _wrapped(f"what moved in {name}: {change}", width)
    rows = [_row(mover, unit) for mover in one.movers]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(cells) for cell, cells in zip(row[:-1], widths, strict=False)]
        yield from _wrapped(_GAP.join([*cells, row[-1]]).rstrip(), width, _INDENT)
    for remark in one.remarks:
        yield from _wrapped(str(remark), width, _INDENT)
    told = any(remark.kind == "profiler slows" for remark in one.remarks)
    overhead = "" if told or one.overhead is None else f"; calls took {show_share(one.overhead)} longer under it"
    each = counted(one.repeats, "profile")
    yield from _wrapped(f"by {one.method}, {each} of each side in fresh processes{overhead}", width, _INDENT)


def _row(mover: Mover, unit: str) -> Sequence[str]:
    sign = "-" if mover.moved < 0 else "+"
    spread = f"({show_share(min(mover.spread))} .. {show_share(max(mover.spread))})"
    then, now = mover.baseline_calls, mover.candidate_calls
    called = ["" if number is None else show_number(number) for number in (then, now)]
    calls = f"called {called[0]} → {called[1]} ×" if all(called) and called[0] != called[1] else ""
    inner = f"most of it in {mover.within}" if mover.within else ""
    held = f"in which changed: {mover.holds}" if mover.holds else ""
    what = ", ".join(filter(None, [" ".join(filter(None, [mover.name, mover.where])), held, inner, calls]))
    return f"{sign}{show(abs(mover.moved), unit)}", show_share(mover.share), spread, visible(what)


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Cut a text into lines; what is longer than a line is broken."""
    return textwrap.wrap(visible(text), max(width, 40), initial_indent=indent, subsequent_indent=f"{indent}{_INDENT}")
