"""Differential flame graphs: the stacks of both sides as one tree, each frame with what it takes on either side."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from pytest_hwperf.core.evidence import Explanation, Gate, Measurement
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.movers import Mover
from pytest_hwperf.core.units import scale_for, show_move, show_share

_LEAST = 0.002  # of the whole: a smaller frame would be less than a pixel wide
_LONGEST = 200  # characters of a frame
_DEEPEST = 120  # frames of a stack

Stacks = Mapping[str, Sequence[float]]


def flames_of(gate: Gate, measurement: Measurement) -> list[dict[str, Any]]:
    """Return the explanations of one measurement: their movers, and a tree of frames where there are stacks."""
    return [_explained(one) for one in gate.explanations if one.measurement == measurement]


def _explained(one: Explanation) -> dict[str, Any]:
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
    wide = {frames: both for frames, both in sums.items() if max(both) >= _LEAST * whole}
    return _placed(sorted(wide.items()))


def _placed(frames: Iterable[tuple[tuple[str, ...], list[float]]]) -> list[list[Any]]:
    places: dict[tuple[str, ...], int] = {}
    found: list[list[Any]] = []
    for stack, (old, new) in frames:
        places[stack] = len(found)
        name = visible(stack[-1])
        short = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
        found.append([places.get(stack[:-1], -1), short, float(f"{old:.5g}"), float(f"{new:.5g}")])
    return found
