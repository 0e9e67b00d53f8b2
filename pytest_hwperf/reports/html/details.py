"""What the page shows of one measurement on demand: pairs, blocks, distributions, operators, in plain data."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from pytest_hwperf.records.evidence import Explanation, Gate, Measurement, Observation, Pair
from pytest_hwperf.records.profiles import Mover
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import relative_change, scale_for, show_move, show_share
from pytest_hwperf.records.verdict import Budget, Judgement
from pytest_hwperf.reports.html.decision import PairData, words_of
from pytest_hwperf.reports.rows import Row

_DIGITS = 10_000  # of the largest value: a pixel of a chart is a thousandth of it


def rounded(value: float | None, digits: int = 6) -> float | None:
    """Return a number with so many significant digits; None stays None, and what is not finite becomes it."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short  # noqa: PLR2004 - whole and exact


def packed(sides: Sequence[Sequence[float]], unit: str, largest: float = 0.0) -> dict[str, object]:
    """Return the values of both sides as whole numbers with one factor, in the unit in which the largest reads well."""
    largest = largest or max((abs(value) for side in sides for value in side), default=0.0) or 1.0
    factor, name = scale_for(unit, largest)
    step = largest / _DIGITS
    baseline, candidate = ([round(value / step) for value in side] for side in sides)
    return {"u": name, "f": rounded(step / factor), "b": baseline, "c": candidate}


def quantiles(values: Sequence[float], most: int = 64) -> list[float]:
    """Return the values in their order, of many ones evenly spaced ranks with both ends."""
    ordered = sorted(values)
    if len(ordered) <= most:
        return ordered
    return [ordered[round(place * (len(ordered) - 1) / (most - 1))] for place in range(most)]


Plain = dict[str, Any]


def detail_of(row: Row, seen: PairData, *, blocks: bool) -> Plain:
    """Return the words and the values of one verdict."""
    subject, unit = row.verdict.subject, row.metric.unit
    found: Plain = {"words": words_of(row, seen), "source": row.source}
    if isinstance(subject, Budget):
        return found | _budget_values(row, subject)
    if subject.change is None:
        return found
    change = subject.change
    found["change"] = [rounded(one) for one in (change.value, change.low, change.high)]
    found |= {"margin": rounded(subject.margin), "allowed": subject.allowed}
    found |= {"scale": subject.scale, "better": row.metric.better}
    found["pairs"] = [_pair(pair, one) for pair, one, _ in seen.pairs]
    if blocks:
        every = (value for _, one, _ in seen.pairs for side in (one.baseline, one.candidate) for value in side)
        largest = max(map(abs, every), default=0.0)
        found["blocks"] = [_blocks(pair, one, turns, unit, largest) for pair, one, turns in seen.pairs]
    if seen.fixed is not None and not {*seen.fixed.baseline, *seen.fixed.candidate} <= {0.0, 1.0}:
        sides = [quantiles(side) for side in (seen.fixed.baseline, seen.fixed.candidate)]
        found["values"] = {**packed(sides, unit), "per": visible(seen.fixed.per)}
    return found


def _budget_values(row: Row, budget: Budget) -> Plain:
    sample, unit = row.run.sample(budget.metric), row.metric.unit
    if sample is None or len({*sample.values}) < 2:  # noqa: PLR2004 - one value has no distribution
        return {}
    values = packed([[], quantiles(sample.values)], unit)
    factor, _ = scale_for(unit, max(map(abs, sample.values)))
    return {"values": {**values, "per": visible(sample.per), "limit": rounded(budget.limit / factor)}}


def _pair(pair: Pair, one: Observation) -> list[Any]:
    """Return number, stage, relative change, share of preempted blocks and what was noticed."""
    change = None if one.change is None else rounded(relative_change(one.change))
    return [pair.number, pair.stage, change, rounded(one.preempted, 3), [visible(text) for text in one.warnings]]


def _blocks(pair: Pair, one: Observation, turns: str, unit: str, largest: float) -> Plain:
    """Return the values of a pair; without turns where those that were drawn are of other blocks."""
    fits = turns.count("B") == len(one.baseline) and turns.count("C") == len(one.candidate)
    return {"n": pair.number, "t": turns if fits else "", **packed([one.baseline, one.candidate], unit, largest)}


def facts_of(judgement: Judgement) -> list[list[str]]:
    """Return the conditions and the context of a measurement by name."""
    run = judgement.run
    named = {**run.conditions, **run.context, "revision": run.shown_revision}
    unmeasured = {f"{metric} unmeasured": str(why) for metric, why in run.unmeasured.items()}
    facts = {**named, **unmeasured}
    return [[visible(name.replace("_", " ")), visible(value)] for name, value in facts.items() if value]


def measurement_of(judgement: Judgement) -> Measurement:
    """Return what the pairs call this measurement."""
    return Measurement(test=judgement.run.test, label=judgement.run.label)


_LEAST = 0.002  # of the whole: a smaller frame would be less than a pixel wide
_LONGEST = 200  # characters of a frame
_DEEPEST = 120  # frames of a stack

Stacks = Mapping[str, Sequence[float]]


def flames_of(gate: Gate, measurement: Measurement) -> list[Plain]:
    """Return the explanations of one measurement: their movers, and a tree of frames where there are stacks."""
    return [_explained(one) for one in gate.explanations if one.measurement == measurement]


def _explained(one: Explanation) -> Plain:
    unit = "B" if one.kind == "allocation" else "s"
    scale, name = scale_for(unit, max(one.baseline, one.candidate))
    return {
        "metric": visible(f"{one.metric} {one.statistic}"),
        "kind": one.kind,
        "method": visible(one.method),
        "covered": show_share(one.covered),
        "movers": [_mover(mover, unit) for mover in one.movers],
        "notes": [visible(str(note)) for note in (one.withheld, *one.remarks) if note],
        "f": 1 / scale,
        "u": name,
        "tree": tree_of(one.baseline_stacks, one.candidate_stacks),
    }


def _mover(one: Mover, unit: str) -> list[str]:
    """Return name, place, time or memory on both sides, its share of the change, and how often it is called."""
    calls = (one.baseline_calls, one.candidate_calls)
    often = "" if None in calls else " → ".join(f"{count:.6g}" for count in calls if count is not None)
    values = show_move(one.baseline, one.candidate, unit)
    return [*map(visible, (one.name, one.where)), values, show_share(one.share), often]


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
