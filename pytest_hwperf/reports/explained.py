"""What moved, where there is more to say than the first mover, which stands with the verdict."""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from statistics import fmean
from typing import Any

from pytest_hwperf.records.evidence import Explanation
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.profiles import Mover, OperatorProfile, Roofline
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Run
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted, show, show_amount, show_number, show_share
from pytest_hwperf.reports.document import INDENT, aligned, room_of
from pytest_hwperf.reports.rows import benchmark_of


def lines_of(report: Report, width: int) -> list[str]:
    """Return lines for each explanation of several movers, with remarks, or of what improved: no failure tells it."""
    improved = {
        (judgement.run.test, judgement.run.label, *one.key)
        for judgement in report.judgements
        for one in judgement.comparisons
        if one.outcome == "improved"
    }
    lines = list[str]()
    for one, kind in ((one, gate.kind) for gate in report.gates for one in gate.explanations):
        at, unit = one.measurement, "B" if one.kind == "allocation" else "s"
        is_told = one.remarks or (at.test, at.label, one.metric, one.statistic) in improved
        if not one.movers or (len(one.movers) == 1 and not is_told):
            continue
        name = " ".join(filter(None, [at.test, at.label, kind and f"on {kind}"]))
        rate = ", a call " if metric_of(one.metric).is_rate else " "
        change = f"{one.metric} {one.statistic}{rate}{show(one.baseline, unit)} → {show(one.candidate, unit)}"
        rows = [_mover_row(mover, unit) for mover in one.movers]
        widths = [max(map(room_of, column)) for column in zip(*rows, strict=True)]
        told = any(remark.kind == "profiler slows" for remark in one.remarks)
        overhead = "" if told or one.overhead is None else f"; calls took {show_share(one.overhead)} longer under it"
        each = counted(one.repeats, "profile")
        for text, indent in (
            (f"what moved in {name}: {change}", ""),
            *((aligned(row, widths, range(4), range(4)).rstrip(), INDENT) for row in rows),
            *((str(remark), INDENT) for remark in one.remarks),
            (f"by {one.method}, {each} of each side in fresh processes{overhead}", INDENT),
        ):  # what is longer than a line is broken
            rest = f"{indent}{INDENT}"
            lines += textwrap.wrap(visible(text), max(width, 40), initial_indent=indent, subsequent_indent=rest)
    return lines


def _mover_row(mover: Mover, unit: str) -> Sequence[str]:
    sign = "-" if mover.moved < 0 else "+"
    spread = f"({show_share(min(mover.spread))} .. {show_share(max(mover.spread))})"
    then, now = mover.baseline_calls, mover.candidate_calls
    called = ["" if number is None else show_number(number) for number in (then, now)]
    calls = f"called {called[0]} → {called[1]} ×" if all(called) and called[0] != called[1] else ""
    inner = f"most of it in {mover.within}" if mover.within else ""
    held = f"in which changed: {mover.holds}" if mover.holds else ""
    what = ", ".join(filter(None, [" ".join(filter(None, [mover.name, mover.where])), held, inner, calls]))
    return f"{sign}{show(abs(mover.moved), unit)}", show_share(mover.share), spread, visible(what)


_FOLDER = "explain"
_LONGEST_NAME = 80  # characters
_US = 1e6  # of a second: the unit of a Chrome trace


def render(report: Report) -> dict[str, bytes]:
    """Return the content of each file under its name; none where no functions were profiled."""
    found: dict[str, bytes] = {}
    for one, kind in ((one, gate.kind) for gate in report.gates for one in gate.explanations):
        stacks = {"baseline": one.baseline_stacks, "candidate": one.candidate_stacks}
        means = {side: {stack: fmean(s) for stack, s in of.items() if s} for side, of in stacks.items()}  # s of a call
        sides = {side: seconds for side, seconds in means.items() if seconds}
        if sides:
            name = f"{_FOLDER}/{safe_name(one, kind)}"
            for side, seconds in sides.items():
                lines = (f"{visible(stack)} {round(taken * 1e9)}\n" for stack, taken in sorted(seconds.items()))
                found[f"{name}.{side}.collapsed"] = "".join(lines).encode()
            found[f"{name}.trace.json"] = _trace(sides)
    return found


def safe_name(explanation: Explanation, kind: str = "") -> str:
    """Return a name of a file for what was explained: no path, no character with a meaning, no name of another one."""
    named = [explanation.measurement.test, explanation.measurement.label, explanation.metric, explanation.statistic]
    named += [kind] if kind else []
    text = re.sub(r"[^A-Za-z0-9_]+", "-", named[0].rpartition("::")[2] + f"-{named[1]}").strip("-")
    return f"{text[:_LONGEST_NAME] or 'test'}-{sha256(json.dumps(named).encode()).hexdigest()[:8]}"


def _trace(sides: Mapping[str, Mapping[str, float]]) -> bytes:
    events: list[dict[str, Any]] = []
    for process, (side, stacks) in enumerate(sides.items(), 1):
        at = {"pid": process, "tid": 1}
        events.append({"name": "process_name", "ph": "M", **at, "args": {"name": f"{side}, a mean call"}})
        paths = {tuple(visible(stack).split(";")): seconds * _US for stack, seconds in stacks.items()}
        events.extend(
            {"name": name, "ph": "X", "ts": round(start, 3), "dur": round(lasts, 3), **at}
            for name, start, lasts in _spans(paths, 0.0)
        )
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}).encode()


def _spans(paths: Mapping[tuple[str, ...], float], start: float) -> Iterator[tuple[str, float, float]]:
    """Yield name, start and duration of each function, those that it calls within it."""
    below: dict[str, dict[tuple[str, ...], float]] = {}
    for path, taken in paths.items():
        if path:
            below.setdefault(path[0], {})[path[1:]] = taken
    for name, inner in sorted(below.items()):
        lasts = sum(inner.values())
        yield name, start, lasts
        yield from _spans(inner, start)
        start += lasts


FRAMEWORK = "framework"  # the row of what no operator takes
_COLUMNS = ("operator", "calls", "share", "time", "node")
_MOST = 8  # operators that are listed, unless all are asked for
_MOVED = "weights + inputs + outputs, each moved once"
_LONGEST_NODE = 40  # characters; its end tells nodes apart


class OperatorTable(Record, frozen=True, kw_only=True):
    """The operators of one measurement."""

    title: str  # test, label and scenario
    setting: str  # what the shares are of and where they are from, or why there are none
    rows: tuple[tuple[str, ...], ...]  # their head first; none where the shares are withheld
    work: tuple[str, ...] = ()  # what a call does and what limits it; () where that is not known


def operator_tables(report: Report, *, every: bool) -> tuple[OperatorTable, ...]:
    """Return a table for each measurement with a profile."""
    runs = [judgement.run for judgement in report.judgements]
    return tuple(_table(run, run.operators, every=every) for run in runs if run.operators is not None)


def _table(run: Run, profile: OperatorProfile, *, every: bool) -> OperatorTable:
    title, work = visible(f"operators of {benchmark_of(run)}"), _work(run.roofline) if run.roofline else ()
    if profile.withheld:
        source = f" ({profile.source})" if profile.source else ""
        return OperatorTable(title=title, setting=visible(f"withheld: {profile.withheld}{source}"), rows=(), work=work)
    scaled = "under the profiler" if profile.under_profiler else "scaled to the median without a profiler"
    setting = (
        f"{show_share(profile.coverage)} of {show(profile.latency_s, 's')} a call; {profile.source}, "
        f"n={counted(profile.calls, 'call')}, {scaled}"
    )
    shown = profile.operators if every else profile.operators[:_MOST]
    rows = [(one.kind, f"{one.calls:.6g}", one.share, one.seconds, one.name) for one in shown]
    if left_out := profile.operators[len(shown) :]:
        calls, share, seconds = (sum(getattr(one, name) for one in left_out) for name in ("calls", "share", "seconds"))
        rows.append((counted(len(left_out), "other"), f"{calls:.6g}", share, seconds, ""))
    rows.append((FRAMEWORK, "", 1 - profile.coverage, profile.framework_s, ""))
    cells = [_COLUMNS]
    for kind, often, of, taken, name in rows:
        node = name if len(name) <= _LONGEST_NODE else f"…{name[1 - _LONGEST_NODE :]}"
        cells.append((visible(kind), often, show_share(of, 1), show(taken, "s"), visible(node)))
    return OperatorTable(title=title, setting=visible(setting), rows=tuple(cells), work=work)


def _work(found: Roofline) -> tuple[str, str]:
    """Say what a call does at least, how fast that is, and what limits it."""
    work = found.work
    operations = ((work.flops, "FLOP"), (work.integer_ops, "OP on integers"))
    counted_of = " and ".join(show_amount(value, unit) for value, unit in operations if value)
    none = "no operation was counted" if work.uncounted else "no operation"
    least = "at least " if work.uncounted else ""
    least_moved = "" if counted_of else least  # said once
    bytes_of = f"{least_moved}{show_amount(work.moved_bytes or 0, 'B')} ({_MOVED})"
    moved = "no byte was counted" if work.moved_bytes is None else bytes_of
    intensity = [f"{show_number(found.intensity)} FLOP/B"] if found.intensity else []
    speeds = ((found.flops_per_s, "FLOP/s"), (found.bytes_per_s, "B/s"))
    rates = " and ".join(show_amount(value, unit) for value, unit in speeds if value)
    speed = [f"over its median {rates}"] if rates else []
    parts = [f"a call: {f'{least}{counted_of}' if counted_of else none}, {moved}", *intensity, *speed]
    verdict = f"what limits it is not known: {found.withheld}"
    if found.bound is not None and found.peak is not None and found.explained is not None:
        peak, threads = found.peak, counted(found.peak.threads, "thread")
        reached = f"{show_amount(peak.flops_per_s, 'FLOP/s')} and {show_amount(peak.bytes_per_s, 'B/s')}, {threads}"
        took = f"it would take {show_share(found.explained)} of its time"
        verdict = f"{found.bound}-bound: at the rates that numpy reaches here ({reached}) {took}"
        if found.explained > 1:  # numpy is no ceiling
            times = f"×{show_number(found.explained, 2)}"
            verdict = f"{found.bound}-bound: {times} as fast as numpy here ({reached})"
    return visible("; ".join(parts)), visible(verdict)
