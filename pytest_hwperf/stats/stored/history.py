"""What a store remembers of a team's runs: series of values, and notes at revisions."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pytest_hwperf.records.evidence import Gate
from pytest_hwperf.records.metrics import METRICS, Better, Scale, metric_of
from pytest_hwperf.records.run import SCHEMA, Estimate, Keyed, Machine, Run, StoredRun, figure_of, replace
from pytest_hwperf.records.structs import Count, ErrorRate, Record
from pytest_hwperf.records.text import shell_line
from pytest_hwperf.records.units import counted, relative_change, show_change_interval
from pytest_hwperf.records.verdict import Comparison, Judgement
from pytest_hwperf.stats.stored.change_points import FEWEST, LevelChange, change_points

ANCHOR = "anchor"  # how a gate names what it ran against where that is the pinned anchor: by this, or by more behind it


class PastValue(Record, frozen=True, kw_only=True):
    """One statistic of one run."""

    started_at: str  # ISO 8601, UTC
    revision: str  # "" where there is none
    changed: bool = False  # whether files differed from it
    estimate: Estimate  # base units; of a series with an anchor the relative change from it
    accepted: bool  # whether the run is, or was, of a baseline


class Series(Keyed, frozen=True, kw_only=True):
    """One statistic of one measurement on one machine over time.

    Values of other machines, sources or anchors are other series: they are never put on one axis unasked.
    """

    test: str
    label: str
    machine: Machine
    source: str  # what measured it
    better: Better
    anchor: str = ""  # commit that ran beside each candidate in pairs; "": the figures of the runs themselves
    values: tuple[PastValue, ...]  # oldest first


class Annotation(Record, frozen=True, kw_only=True):
    """A note of the team at a revision: "new runner", "accepted: larger model"."""

    revision: str  # commit, in full
    text: str
    noted_at: str  # ISO 8601, UTC


class Statistic(NamedTuple):
    """What tells the series of one measurement on one machine from each other."""

    metric: str
    statistic: str
    source: str
    better: Better
    anchor: str = ""


def is_anchor(against: str) -> bool:
    """Whether a gate ran against the pinned anchor: `anchor`, or `anchor v1.4`, and not a branch `anchors/new`."""
    return against.partition(" ")[0] == ANCHOR


def lined_up(
    test: str, label: str, machine: Machine, values: Iterable[tuple[Statistic, PastValue]]
) -> tuple[Series, ...]:
    """Return the series of one measurement on one machine, each with its values in the order of time."""
    found = dict[Statistic, list[PastValue]]()
    for statistic, value in values:
        found.setdefault(statistic, []).append(value)
    return tuple(
        Series(
            test=test, label=label, machine=machine, **one._asdict(),
            values=tuple(sorted(past, key=lambda value: value.started_at)),
        )
        for one, past in found.items()
    )  # fmt: skip


def series_of(runs: Sequence[StoredRun]) -> tuple[Series, ...]:
    """Return the series of accepted runs of one test, label and machine; at least one run."""
    values = list[tuple[Statistic, PastValue]]()
    for run, figure in ((stored.run, figure) for stored in runs for figure in stored.figures):
        better = metric_of(figure.metric, run.directions.get(figure.metric, "lower")).better
        past = _past(run, figure.estimate, accepted=True)
        values.append((Statistic(figure.metric, figure.statistic, figure.source, better), past))
    first = runs[0].run
    return lined_up(first.test, first.label, first.machine, values)


def _past(run: Run, estimate: Estimate, *, accepted: bool) -> PastValue:
    return PastValue(
        started_at=run.started_at, revision=run.revision, changed=run.changed, estimate=estimate, accepted=accepted
    )


ALPHA = 0.01  # of a false change in a series without one


class Trend(Record, frozen=True, kw_only=True):
    """A series with its changes and what was noted at its revisions."""

    series: Series
    scale: Scale  # of the changes
    changes: tuple[LevelChange, ...]
    notes: tuple[Annotation, ...]  # at revisions that are in the series

    @property
    def is_too_short(self) -> bool:
        return len(self.series.values) < FEWEST


class TrendFile(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf history"):
    """What `hwperf history` has shown, as a file for other programs."""

    schema: int = SCHEMA
    baseline: str
    alpha: ErrorRate  # of a false change in each series
    trends: tuple[Trend, ...]


def trend_of(series: Series, notes: Sequence[Annotation], alpha: float = ALPHA) -> Trend:
    """Look for changes of level in a series: of logarithms, or of points where it is of a share."""
    past, values = series.values, [value.estimate.value for value in series.values]
    known = METRICS.get(series.metric)
    scale: Scale = "absolute"
    is_share = any(one.scale == "absolute" for one in known.margins) if known else False
    if series.anchor and min(values) > -1:
        scale, values = "relative", [math.log1p(value) for value in values]
    elif not series.anchor and min(values) > 0 and not is_share:
        scale, values = "relative", [math.log(value) for value in values]
    changes = list[LevelChange]()
    for one in change_points(values, alpha):  # with their revisions, and their size on the scale of the series
        shift = one.shift.mapped(relative_change) if scale == "relative" else one.shift
        before, revision = past[one.place - 1].revision, past[one.place].revision
        changes.append(replace(one, revision=revision, before=before, shift=shift))
    revisions = {value.revision for value in past}
    noted = tuple(note for note in notes if note.revision in revisions)
    return Trend(series=series, scale=scale, changes=tuple(changes), notes=noted)


FEWEST_DRAWN = 3  # runs before this one, below which a series tells too little to be drawn


def with_run(series: Series, judgement: Judgement, gates: Sequence[Gate]) -> Series:
    """Return a series of a test that ends with a run of it, whether that is stored already or not.

    Of a series with an anchor it is the change from it, if a gate of the run was against it.
    """
    run, estimate = judgement.run, None
    if series.machine.fingerprint != run.machine.fingerprint:
        return series
    if not series.anchor:
        figure = figure_of(judgement.figures, series.key)
        estimate = figure.estimate if figure is not None and figure.source == series.source else None
    elif any(is_anchor(one.against) and (one.revision, one.kind) == (series.anchor, run.kind) for one in gates):
        found = (one for one in judgement.comparisons if one.key == series.key and one.scale == "relative")
        estimate = next((one.change for one in found), None)
    if estimate is None:
        return series
    earlier = tuple(one for one in series.values if one.started_at < run.started_at)  # it may be an old report
    accepted = any(one.accepted for one in series.values if one.started_at == run.started_at)
    return replace(series, values=(*earlier, _past(run, estimate, accepted=accepted)))


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
        metric=metric.called(compared.statistic),
        good=named[0] if named else gate.revision[:_DIGITS],
        bad="HEAD",
        runs=len(line.values) if line else 1,
    )
    sign = 1 if metric.better == "lower" else -1
    worse = [one for one in trend_of(line, ()).changes if sign * one.shift.value > 0] if line else []
    change = max(worse, key=lambda one: sign * one.shift.value, default=None)
    if line is None or change is None:
        return everything
    # of the last run that is surely before the change, and of the first that surely has it
    good, bad = line.values[max(0, change.earliest - 1)].revision, line.values[change.latest].revision
    if not (good and bad) or good == bad:
        return everything
    shift = show_change_interval(change.shift.value, change.shift.low, change.shift.high, "relative")
    return replace(everything, good=good[:_DIGITS], bad=bad[:_DIGITS], shift=shift)


def explained(one: Suspects, commits: int | None) -> str:
    """Say which commits are suspected, with what to type."""
    command = shell_line(["hwperf", "bisect", one.good, one.bad, "--", one.test])
    between = f"between {one.good} and {one.bad}"
    if commits is not None:
        between += f", {counted(commits, 'commit')}"
    if one.shift:
        where = f"the change from the release went by {one.shift} {between} (95 %, of {counted(one.runs, 'run')})"
    else:
        where = f"its history of {counted(one.runs, 'run')} shows no change of level, which leaves all {between}"
    return f"drift of {one.test}, {one.metric}: {where}; search them with {command}"
