"""Where the time of calls goes: a table of operators for each measurement that was asked about them."""

from collections.abc import Iterator, Sequence

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.operators import Operator, OperatorProfile
from pytest_hwperf.core.records import Run
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.roofline import Roofline
from pytest_hwperf.core.structs import Record
from pytest_hwperf.core.units import counted, show, show_amount, show_number, show_share
from pytest_hwperf.reports.order import title_of

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
    own = run.scenario not in title_of(run)
    title = " ".join(filter(None, ["operators of", title_of(run), run.scenario if own else ""]))
    if profile.withheld:
        source = f" ({profile.source})" if profile.source else ""
        why = visible(f"withheld: {profile.withheld}{source}")
        return OperatorTable(title=visible(title), setting=why, rows=(), work=_work(run.roofline))
    scaled = "under the profiler" if profile.under_profiler else "scaled to the median without a profiler"
    setting = (
        f"{show_share(profile.coverage)} of {show(profile.latency_s, 's')} a call; {profile.source}, "
        f"n={counted(profile.calls, 'call')}, {scaled}"
    )
    shown = profile.operators if every else profile.operators[:_MOST]
    rows = (_COLUMNS, *map(_row, shown), *_rest(profile.operators[len(shown) :]), _framework(profile))
    cells = tuple(tuple(map(visible, row)) for row in rows)
    return OperatorTable(title=visible(title), setting=visible(setting), rows=cells, work=_work(run.roofline))


def _row(one: Operator) -> tuple[str, ...]:
    node = one.name if len(one.name) <= _LONGEST_NODE else f"…{one.name[1 - _LONGEST_NODE :]}"
    return one.kind, f"{one.calls:.6g}", show_share(one.share, 1), show(one.seconds, "s"), node


def _rest(left_out: Sequence[Operator]) -> Iterator[tuple[str, ...]]:
    """Yield a row for those that are not listed."""
    if left_out:
        calls, share = sum(one.calls for one in left_out), sum(one.share for one in left_out)
        seconds = show(sum(one.seconds for one in left_out), "s")
        yield counted(len(left_out), "other"), f"{calls:.6g}", show_share(share, 1), seconds, ""


def _framework(profile: OperatorProfile) -> tuple[str, ...]:
    return FRAMEWORK, "", show_share(1 - profile.coverage, 1), show(profile.framework_s, "s"), ""


def _work(found: Roofline | None) -> tuple[str, ...]:
    """Say what a call does at least, how fast that is, and what limits it."""
    if found is None:
        return ()
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
    return visible("; ".join(parts)), visible(_verdict(found))


def _verdict(found: Roofline) -> str:
    if found.bound is None or found.peak is None or found.explained is None:
        return f"what limits it is not known: {found.withheld}"
    reached, threads = found.peak, counted(found.peak.threads, "thread")
    rates = f"{show_amount(reached.flops_per_s, 'FLOP/s')} and {show_amount(reached.bytes_per_s, 'B/s')}, {threads}"
    if found.explained > 1:  # numpy is no ceiling
        return f"{found.bound}-bound: ×{show_number(found.explained, 2)} as fast as numpy here ({rates})"
    took = f"it would take {show_share(found.explained)} of its time"
    return f"{found.bound}-bound: at the rates that numpy reaches here ({rates}) {took}"
