"""Where a drift from the pinned release came from, as far as its history tells: for a gate that has found it."""

import shlex
from collections.abc import Iterator, Sequence

from pytest_hwperf.core.evidence import Gate
from pytest_hwperf.core.history import PastValue, Series, is_anchor
from pytest_hwperf.core.metrics import metric_of
from pytest_hwperf.core.past import with_run
from pytest_hwperf.core.records import Comparison, Judgement, replace
from pytest_hwperf.core.structs import Count, Record
from pytest_hwperf.core.trends import Change, trend_of
from pytest_hwperf.core.units import counted, show_change_interval

_DIGITS = 10  # of a commit


class Suspects(Record, frozen=True, kw_only=True):
    """The commits after `good` up to `bad`, one or more of which have made a test slower than the release."""

    test: str
    metric: str  # with its statistic, as reports call it
    good: str  # revision
    bad: str
    shift: str = ""  # of the change from the release, with its interval; "" where no change of level is known
    runs: Count  # of the history that was looked at, this one too


def drifted(judgements: Sequence[Judgement], gates: Sequence[Gate]) -> Iterator[tuple[Judgement, Comparison, Gate]]:
    """Yield what is worse than a pinned release: of each measurement the first statistic that shows it."""
    anchors = {gate.kind: gate for gate in gates if is_anchor(gate.against) and gate.revision}
    for one in judgements:
        found = next((compared for compared in one.comparisons if compared.outcome == "regressed"), None)
        if found is not None and one.run.kind in anchors:
            yield one, found, anchors[one.run.kind]


def suspects_of(judgement: Judgement, compared: Comparison, gate: Gate, history: Sequence[Series]) -> Suspects:
    """Say which commits to search: around the largest change for the worse that the history shows, else all."""
    run = judgement.run
    metric = metric_of(compared.metric, run.directions.get(compared.metric, "lower"))
    mine = (compared.key, gate.revision, run.test, run.label, run.machine.fingerprint)
    found = [one for one in history if (one.key, one.anchor, one.test, one.label, one.machine.fingerprint) == mine]
    line = with_run(found[0], judgement, (gate,)) if found else None
    named = gate.against.split()[1:2]
    everything = Suspects(
        test=run.test,
        metric=metric.called(compared.statistic.replace("_", ".")),
        good=named[0] if named else gate.revision[:_DIGITS],
        bad="HEAD",
        runs=len(line.values) if line else 1,
    )
    change = _largest(line) if line else None
    if line is None or change is None:
        return everything
    good, bad = _around(change, line.values)
    if not (good and bad) or good == bad:
        return everything
    shift = show_change_interval(change.shift.value, change.shift.low, change.shift.high, "relative")
    return replace(everything, good=good[:_DIGITS], bad=bad[:_DIGITS], shift=shift)


def explained(one: Suspects, commits: int | None) -> str:
    """Say which commits are suspected, with what to type."""
    command = shlex.join(["hwperf", "bisect", one.good, one.bad, "--", one.test])
    between = f"between {one.good} and {one.bad}"
    if commits is not None:
        between += f", {counted(commits, 'commit')}"
    if one.shift:
        where = f"the change from the release went by {one.shift} {between} (95 %, of {counted(one.runs, 'run')})"
    else:
        where = f"its history of {counted(one.runs, 'run')} shows no change of level, which leaves all {between}"
    return f"drift of {one.test}, {one.metric}: {where}; search them with {command}"


def _largest(line: Series) -> Change | None:
    """Return the largest change of level for the worse."""
    worse = 1 if line.better == "lower" else -1
    found = [one for one in trend_of(line, ()).changes if worse * one.shift.value > 0]
    return max(found, key=lambda one: worse * one.shift.value, default=None)


def _around(change: Change, values: Sequence[PastValue]) -> tuple[str, str]:
    """Return the revisions of the last run that is surely before a change, and of the first that surely has it."""
    return values[max(0, change.earliest - 1)].revision, values[change.latest].revision
