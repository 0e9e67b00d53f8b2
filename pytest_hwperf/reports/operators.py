"""Where the time of calls goes: a table of operators for each measurement that was asked about them."""

from collections.abc import Iterator, Sequence

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.operators import Operator, OperatorProfile
from pytest_hwperf.core.records import Run
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.structs import Record
from pytest_hwperf.core.units import counted, show
from pytest_hwperf.reports.order import title_of

FRAMEWORK = "framework"  # the row of what no operator takes
_COLUMNS = ("operator", "calls", "share", "time", "node")
_MOST = 8  # operators that are listed, unless all are asked for
_LONGEST_NODE = 40  # characters; its end tells nodes apart


class OperatorTable(Record, frozen=True, kw_only=True):
    """The operators of one measurement."""

    title: str  # test, label and scenario
    setting: str  # what the shares are of and where they are from, or why there are none
    rows: tuple[tuple[str, ...], ...]  # their head first; none where the shares are withheld


def operator_tables(report: Report, *, every: bool) -> tuple[OperatorTable, ...]:
    """Return a table for each measurement with a profile.

    Args:
        report: the whole run.
        every: whether all operators are listed, and not the slowest alone.
    """
    runs = [judgement.run for judgement in report.judgements]
    return tuple(_table(run, run.operators, every=every) for run in runs if run.operators is not None)


def _table(run: Run, profile: OperatorProfile, *, every: bool) -> OperatorTable:
    own = run.scenario not in title_of(run)
    title = " ".join(filter(None, ["operators of", title_of(run), run.scenario if own else ""]))
    if profile.withheld:
        source = f" ({profile.source})" if profile.source else ""
        return OperatorTable(title=visible(title), setting=visible(f"withheld: {profile.withheld}{source}"), rows=())
    setting = (
        f"{profile.coverage:.0%} of {show(profile.latency_s, 's')} a call; {profile.source}, "
        f"n={counted(profile.calls, 'call')}, scaled to the median without a profiler"
    )
    shown = profile.operators if every else profile.operators[:_MOST]
    rows = (_COLUMNS, *map(_row, shown), *_rest(profile.operators[len(shown) :]), _framework(profile))
    return OperatorTable(
        title=visible(title), setting=visible(setting), rows=tuple(tuple(map(visible, row)) for row in rows)
    )


def _row(one: Operator) -> tuple[str, ...]:
    node = one.name if len(one.name) <= _LONGEST_NODE else f"…{one.name[1 - _LONGEST_NODE :]}"
    return one.kind, f"{one.calls:.6g}", f"{one.share:.1%}", show(one.seconds, "s"), node


def _rest(left_out: Sequence[Operator]) -> Iterator[tuple[str, ...]]:
    """Yield a row for those that are not listed."""
    if left_out:
        calls, share = sum(one.calls for one in left_out), sum(one.share for one in left_out)
        seconds = show(sum(one.seconds for one in left_out), "s")
        yield counted(len(left_out), "other"), f"{calls:.6g}", f"{share:.1%}", seconds, ""


def _framework(profile: OperatorProfile) -> tuple[str, ...]:
    return FRAMEWORK, "", f"{1 - profile.coverage:.1%}", show(profile.framework_s, "s"), ""
