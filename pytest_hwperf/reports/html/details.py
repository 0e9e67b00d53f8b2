"""What the page shows of one measurement on demand: how verdicts were decided, pairs, distributions, stacks, history.

Sentences are from records and counts of pairs; nothing is recomputed.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from pytest_hwperf.records import units
from pytest_hwperf.records.evidence import Explanation, FixedSample, Measurement, Observation, Pair, Stage
from pytest_hwperf.records.metrics import Metric, metric_of
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.verdict import Budget, Comparison, Judgement
from pytest_hwperf.reports.rows import Row
from pytest_hwperf.stats.figures.ranks import decisive
from pytest_hwperf.stats.stored.history import Trend

Plain = dict[str, Any]
SeenKey = tuple[str, Measurement, str, str]  # kind of machine, measurement, metric and statistic

_IN_TURNS = "fresh processes, the baseline's code and the candidate's, took turns in blocks of calls"
_APART = "two fresh processes of each side were measured one after the other, with one of them alive at a time"
_WORSE = {"lower": "higher", "higher": "lower"}  # better → what a value is that got worse


class PairData(Record, frozen=True, kw_only=True):
    """What the pairs observed of one statistic, in their order; what no pair measures has a fixed sample."""

    pairs: tuple[tuple[Pair, Observation, str], ...] = ()  # with the side of each block in time order, "BCCB"
    fixed: FixedSample | None = None

    @property
    def blocks(self) -> int:
        """How many values the timelines need."""
        return sum(len(one.baseline) + len(one.candidate) for _, one, _ in self.pairs)

    @property
    def changes(self) -> Mapping[Stage, Sequence[float]]:
        """The one number of each pair that has one, by stage."""
        found: dict[Stage, list[float]] = {}
        for pair, one, _ in self.pairs:
            found.setdefault(pair.stage, []).extend([] if one.change is None else [one.change])
        return found


def seen_of(report: Report) -> dict[SeenKey, PairData]:
    """Sort what all pairs observed by kind of machine, measurement, metric and statistic."""
    pairs: dict[SeenKey, list[tuple[Pair, Observation, str]]] = {}
    fixed = {(gate.kind, *one.hypothesis.key): one for gate in report.gates for one in gate.evidence.fixed_samples}
    for gate in report.gates:
        for pair in gate.evidence.pairs:
            turns = {drawn.measurement: drawn.turns for drawn in pair.assignments}
            for one in pair.observations if pair.stage != "rehearsal" else ():
                pairs.setdefault((gate.kind, *one.key), []).append((pair, one, turns.get(one.measurement, "")))
    return {key: PairData(pairs=tuple(pairs.get(key, ())), fixed=fixed.get(key)) for key in {**pairs, **fixed}}


def detail_of(row: Row, seen: PairData, *, blocks: bool) -> Plain:
    """Return one verdict: the sentences that say how it was decided, in the order in which a reader asks; and values.

    Blocks are without turns where those that were drawn are of other blocks.
    """
    subject, unit = row.verdict.subject, row.metric.unit
    said = _of_budget(row, subject) if isinstance(subject, Budget) else _of_comparison(row, subject, seen)
    fails = "It fails the test." if row.fails else "It does not fail the test."
    words = [*map(visible, said), visible(f"Verdict: {row.verdict.outcome}. {fails}")]
    found: Plain = {"words": words, "source": row.source}
    if isinstance(subject, Budget):
        sample = row.run.sample(subject.metric)
        if sample is not None and len({*sample.values}) > 1:  # one value has no distribution
            limit = rounded(subject.limit / units.scale_for(unit, max(map(abs, sample.values)))[0])
            values = packed([[], quantiles(sample.values)], unit)
            found["values"] = {**values, "per": visible(sample.per), "limit": limit}
        return found
    if subject.change is None:
        return found
    found["change"] = [rounded(one) for one in (subject.change.value, subject.change.low, subject.change.high)]
    found |= {"margin": rounded(subject.margin), "allowed": subject.allowed}
    found |= {"scale": subject.scale, "better": row.metric.better, "pairs": []}
    every = (value for _, one, _ in seen.pairs for side in (one.baseline, one.candidate) for value in side)
    largest = max(map(abs, every), default=0.0) if blocks else 0.0
    found |= {"blocks": []} if blocks else {}
    for pair, one, turns in seen.pairs:
        change = None if one.change is None else rounded(units.relative_change(one.change))
        noticed = [visible(text) for text in one.warnings]
        found["pairs"].append([pair.number, pair.stage, change, rounded(one.preempted, 3), noticed])
        if blocks:
            fits = (turns.count("B"), turns.count("C")) == (len(one.baseline), len(one.candidate))
            values = packed([one.baseline, one.candidate], unit, largest)
            found["blocks"].append({"n": pair.number, "t": turns if fits else "", **values})
    if seen.fixed is not None and not {*seen.fixed.baseline, *seen.fixed.candidate} <= {0.0, 1.0}:
        sides = [quantiles(side) for side in (seen.fixed.baseline, seen.fixed.candidate)]
        found["values"] = {**packed(sides, unit), "per": visible(seen.fixed.per)}
    return found


def _of_budget(row: Row, budget: Budget) -> Iterator[str]:
    yield f"Asked: is {row.name} {row.limit}? ({budget.keyword}{', from the configuration file' * budget.default})"
    if row.figure is None:
        yield f"It was not measured: {row.verdict.cause or row.verdict.reason}."
        return
    at, n = row.figure.estimate, units.counted(row.figure.estimate.n, row.figure.per)
    if at.low is None and at.high is None:
        yield f"Measured: {units.show_measured(at.value, row.metric.unit)}, without an interval (n={n})."
    else:
        yield (
            f"Measured: {units.show_interval(at.value, at.low, at.high, row.metric.unit)}, {100 * at.confidence:.3g} % "
            f"confidence, n={n}, by {row.figure.source}; interval: {at.method}."
        )
    if row.verdict.outcome == "inconclusive":
        yield "The limit lies within the interval, so that these values alone do not answer it."
    yield from (f"{text[:1].upper()}{text[1:]}." for text in map(str, row.verdict.decided_by))
    yield from (f"To be known: {one}." for one in at.warnings)


def _of_comparison(row: Row, comparison: Comparison, seen: PairData) -> Iterator[str]:
    margin = f"the margin of {row.allowed}" if comparison.margin else "nothing at all"
    yield f"Asked: did {row.name} get worse by more than {margin}?"
    if comparison.is_left_out:
        yield f"No pair of processes was run (n=0): {comparison.reason}."
        return
    if comparison.change is None:
        yield f"Nothing could be compared: {row.cause or comparison.outcome}."
        return
    yield from _evidence(comparison, row.metric, seen)
    change = comparison.change
    yield f"Change: {row.change}, {100 * change.confidence:.3g} % confidence ({change.method}); {row.values}."
    if comparison.p_value is not None:
        yield (
            f"The chance of such values if nothing had got worse by more than {margin}: "
            f"{_percent(comparison.p_value)} (p = {comparison.p_value:.2g})."
        )
    if comparison.method is not None:
        yield f"Found by: {comparison.method}."
    if comparison.promise is not None:
        yield f"How often such an answer is wrong: {comparison.promise}."
    if comparison.outcome == "inconclusive":
        yield f"The values do not decide it{f': {comparison.reason}' if comparison.reason else ''}."
    if row.detectable:
        yield f"The smallest change for the worse that could have been caught: {row.detectable}."
    if comparison.interference:
        yield f"Other work took the processor away in {_percent(comparison.interference)} of the blocks."
    if comparison.moved is not None:
        yield f"What moved: {comparison.moved}."
    yield from (f"To be known: {one}." for one in comparison.warnings)


def _evidence(comparison: Comparison, metric: Metric, seen: PairData) -> Iterator[str]:
    """Count what the pairs show; counts describe, the exact test decides."""
    if changes := decisive(comparison, seen.changes):
        how = _APART if any(one.apart for _, one, _ in seen.pairs) else _IN_TURNS
        others = units.counted(len(seen.pairs) - len(changes), "other pair")
        besides = f" ({others} screened or were taken besides)" if len(changes) < len(seen.pairs) else ""
        yield f"{units.counted(len(changes), 'pair')} of {how}, in an order drawn at random{besides}."
        sign, worse = (1 if metric.better == "lower" else -1), _WORSE[metric.better]
        beyond = sum(sign * units.relative_change(change) > comparison.margin for change in changes)
        higher = sum(sign * change > 0 for change in changes)
        yield (
            f"In {higher} of {len(changes)} the candidate's value was {worse}, in {beyond} of {len(changes)} by more "
            f"than the margin."
        )
    if seen.fixed is None:
        return
    old, new, per = seen.fixed.baseline, seen.fixed.candidate, seen.fixed.per
    if per == "example" and {*old, *new} <= {0.0, 1.0}:
        lost = sum(a > b for a, b in zip(old, new, strict=True))
        won = sum(a < b for a, b in zip(old, new, strict=True))
        examples = units.counted(len(old), "example")
        yield f"Of the same {examples}, {lost} count for the baseline only, {won} for the candidate only."
    else:
        middles = " and ".join(units.show_measured(median(side), metric.unit) for side in (old, new))
        counts = [units.counted(len(side), per) for side in (old, new)]
        yield f"{counts[0]} of the baseline, {counts[1]} of the candidate; medians {middles}."


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 1 - 1e-9 and share > 0 else f"{100 * share:.0f} %"


_DIGITS = 10_000  # of the largest value: a pixel of a chart is a thousandth of it


def rounded(value: float | None, digits: int = 6) -> float | None:
    """Return a number with so many significant digits; None stays None, and what is not finite becomes it."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short  # noqa: PLR2004 - whole and exact


def packed(sides: Sequence[Sequence[float]], unit: str, largest: float = 0.0) -> Plain:
    """Return the values of both sides as whole numbers with one factor, in the unit in which the largest reads well."""
    largest = largest or max((abs(value) for side in sides for value in side), default=0.0) or 1.0
    factor, name = units.scale_for(unit, largest)
    step = largest / _DIGITS
    baseline, candidate = ([round(value / step) for value in side] for side in sides)
    return {"u": name, "f": rounded(step / factor), "b": baseline, "c": candidate}


def quantiles(values: Sequence[float], most: int = 64) -> list[float]:
    """Return the values in their order, of many ones evenly spaced ranks with both ends."""
    ordered = sorted(values)
    if len(ordered) <= most:
        return ordered
    return [ordered[round(place * (len(ordered) - 1) / (most - 1))] for place in range(most)]


def shared_of(report: Report, judgement: Judgement) -> Plain:
    """Return what belongs to a measurement as a whole: conditions and context by name, and what moved."""
    run = judgement.run
    named = {**run.conditions, **run.context, "revision": run.shown_revision}
    named |= {f"{metric} unmeasured": str(why) for metric, why in run.unmeasured.items()}
    facts = [[visible(name.replace("_", " ")), visible(value)] for name, value in named.items() if value]
    measurement = Measurement(test=run.test, label=run.label)
    explained = (one for gate in report.gates if gate.kind == run.kind for one in gate.explanations)
    flames = [_explained(one) for one in explained if one.measurement == measurement]
    return {"facts": facts, "verdicts": []} | ({"flames": flames} if flames else {})


_LEAST = 0.002  # of the whole: a smaller frame would be less than a pixel wide
_LONGEST = 200  # characters of a frame
_DEEPEST = 120  # frames of a stack

Stacks = Mapping[str, Sequence[float]]


def _explained(one: Explanation) -> Plain:
    """Return what moved.

    A mover is name, place, time or memory on both sides, its share of the change, and how often it is called.
    """
    unit, movers = "B" if one.kind == "allocation" else "s", list[list[str]]()
    for mover in one.movers:
        calls = (mover.baseline_calls, mover.candidate_calls)
        often = "" if None in calls else " → ".join(f"{count:.6g}" for count in calls if count is not None)
        values = units.show_move(mover.baseline, mover.candidate, unit)
        where = ", most of it in ".join(filter(None, (mover.where, mover.within)))
        movers.append([visible(mover.name), visible(where), values, units.show_share(mover.share), often])
    scale, name = units.scale_for(unit, max(one.baseline, one.candidate))
    return {
        "metric": visible(f"{one.metric} {one.statistic}"),
        "kind": one.kind,
        "method": visible(one.method),
        "covered": units.show_share(one.covered),
        "movers": movers,
        "notes": [visible(str(note)) for note in (one.withheld, *one.remarks) if note],
        "f": 1 / scale,
        "u": name,
        "tree": tree_of(one.baseline_stacks, one.candidate_stacks),
    }


def tree_of(baseline: Stacks, candidate: Stacks) -> list[list[Any]]:
    """Put the stacks of both sides into one tree."""
    sums: dict[tuple[str, ...], list[float]] = {}
    for side, stacks in enumerate((baseline, candidate)):
        for stack, seconds in stacks.items():
            frames = tuple(stack.split(";")[:_DEEPEST])
            for depth in range(1, len(frames) + 1):
                sums.setdefault(frames[:depth], [0.0, 0.0])[side] += fmean(seconds) if seconds else 0.0
    whole = max((max(both) for frames, both in sums.items() if len(frames) == 1), default=0.0)
    places: dict[tuple[str, ...], int] = {}
    found: list[list[Any]] = []
    for frames, (old, new) in sorted(sums.items()):
        if max(old, new) >= _LEAST * whole:
            places[frames] = len(found)
            name = visible(frames[-1])
            short = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
            found.append([places.get(frames[:-1], -1), short, float(f"{old:.5g}"), float(f"{new:.5g}")])
    return found


_REVISION = 10  # digits of a commit


def chart_of(trend: Trend) -> Plain:
    """Return a series over time as the script draws it, in the unit in which its largest value reads well.

    Notes are a sentence on each change of level, then those that people have left.
    """
    series, values = trend.series, trend.series.values
    metric, machine = metric_of(series.metric, series.better), series.machine
    factor, unit = units.scale_for(metric.unit, max(abs(one.estimate.value) for one in values))
    if series.anchor:
        factor, unit = 0.01, "%"
    called, against = metric.called(series.statistic), f", change from {series.anchor[:_REVISION]}"
    changes = f"{units.counted(len(trend.changes), 'change')} of level"
    facts = (
        f"{series.source or 'pairs'}, machine {machine.fingerprint} ({machine.cpu_model}): "
        f"{units.counted(len(values), 'run')}, {'too few to look for changes' if trend.is_too_short else changes}"
    )
    newest = f"{units.show_number(values[-1].estimate.value / factor, 4)} {unit}".rstrip()
    places = {one.revision: place for place, one in enumerate(values)}
    notes = list[str]()
    for change in trend.changes:
        shift, commits = change.shift, [one[:_REVISION] or "no commit" for one in (change.before, change.revision)]
        notes.append(
            f"Changed by {units.show_change_interval(shift.value, shift.low, shift.high, trend.scale)} between "
            f"{' and '.join(commits)}, p={change.p_value:.2g}, n={shift.n} runs; {shift.method}."
        )
    rows = list[Sequence[Any]]()  # what chart and table say of each run
    for one in values:
        at, code = one.estimate, f"{visible(one.revision[:_REVISION]) or 'no commit'}{'+changes' * one.changed}"
        ends = [None if end is None else rounded(end / factor) for end in (at.value, at.low, at.high)]
        rows.append([visible(one.started_at), code, *ends, at.n, one.accepted])
    return {
        "metric": visible(called),
        "title": visible(f"{called}{against * bool(series.anchor)}"),
        "says": f"{visible(facts)}; the newest: {newest}.",
        "unit": unit,
        "rows": rows,
        "changes": [[one.place, one.earliest, one.latest] for one in trend.changes],
        "marks": [[places[note.revision], visible(note.text)] for note in trend.notes],
        "notes": [*map(visible, (*notes, *(f"{note.revision[:_REVISION]}: {note.text}" for note in trend.notes)))],
    }
