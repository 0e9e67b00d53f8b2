"""Call trees of both sides: which functions hold the change of a call, as deep as most of it can be followed.

A tree is a mapping of paths, from the measured callable inwards, to the seconds that are spent at their ends. From the
measured callable on, the walk goes to the deepest function that holds most of what has moved so far. Where several
functions together hold it, each is followed. A function is named only if it has moved beyond the spread of the repeats.
"""

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from pytest_hwperf.records.profiles import Mover, MoverKind
from pytest_hwperf.records.units import relative

_MOST = 0.8  # of a change: what holds it
_ALL = 0.98  # of a call: what is the whole of it
_LEAST = 0.05  # of the whole change: less is not followed, and not named
_LEAST_KEPT = 0.003  # of a call on either side: less has no stack of its own
_REPEATS_OF_A_SIGN_TEST = 6
SEPARATOR = ";"  # of the frames of a stack


@dataclass(frozen=True, slots=True)
class Seconds:
    """What a part of a call takes on each side, in s (or B) of a call, for each repeat."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]

    @property
    def moved(self) -> float:
        return fmean(self.candidate) - fmean(self.baseline)

    @property
    def taken(self) -> float:
        return sum(self.baseline) + sum(self.candidate)

    @property
    def low(self) -> float:
        """Least that two repeats of the sides are apart."""
        return min(self.candidate) - max(self.baseline)

    @property
    def high(self) -> float:
        """Most that two repeats of the sides are apart."""
        return max(self.candidate) - min(self.baseline)

    def all_moved(self, sign: float) -> bool:
        """Whether all repeats moved in this direction: one side beyond the other, or each of six, or more, for itself.

        Both sides of a repeat run at the same time, when the machine is as fast as it is then. Equal sides pass the
        first test once in 20, the second once in 64.
        """
        apart = self.low > 0 if sign > 0 else self.high < 0
        each = [sign * (after - before) for before, after in zip(self.baseline, self.candidate, strict=False)]
        return apart or (len(each) >= _REPEATS_OF_A_SIGN_TEST and min(each) > 0)

    @property
    def is_clear(self) -> bool:
        """Whether both sides are clear of their spread: farther apart than half of it.

        All repeats of one side are then above all of the other, by more than they differ among themselves on average.
        """
        return max(self.low, -self.high) > (self.high - self.low) / 2

    def mover(self, kind: MoverKind, change: float, name: str, where: str = "") -> Mover:
        """Return what moved so, of a whole change: by its name, and where it is."""
        return Mover(
            kind=kind,
            name=name,
            where=where,
            baseline=fmean(self.baseline),
            candidate=fmean(self.candidate),
            low=self.low,
            high=self.high,
            share=relative(self.moved, change),
        )


Path = tuple[str, ...]  # frames, the outermost first
Tree = Mapping[Path, Seconds]
K = TypeVar("K", bound=Hashable)


def owned(tree: Tree, own: Container[str]) -> Tree:
    """Return a tree of the user's own functions, to which what they call in libraries counts."""
    found: list[tuple[Path, Seconds]] = []
    for path, seconds in tree.items():
        first = next((place for place, frame in enumerate(path) if frame in own), len(path))
        found.append(((*path[:first], *(frame for frame in path[first:] if frame in own)), seconds))
    return summed(found)


def within(tree: Tree, function: str, own: Container[str], change: float) -> str:
    """Return the deepest function of a library that holds what a function has moved, "" where none does."""
    found: list[tuple[Path, Seconds]] = []
    for path, seconds in tree.items():
        if function in path:
            rest = path[len(path) - 1 - path[::-1].index(function) :]
            if not any(frame in own for frame in rest[1:]):
                found.append((rest, seconds))
    inner = summed(found)
    if not inner or not holds(total_of(inner.values()).moved, change):
        return ""
    deepest = next(iter(_deepest(inner)))[0]
    return "" if deepest == function else deepest


def holders(tree: Tree) -> Mapping[str, Seconds]:
    """Return the functions that hold the change of a call, with what they and all that they call take.

    None is within another one, so that they may be added up; where they are less than the change, the rest of it is
    spread over functions of which none has clearly moved.
    """
    whole = total_of(tree.values())
    if not whole.moved:
        return {}
    found = summed(_holders({("", *path): seconds for path, seconds in tree.items()}, whole))
    return {name: seconds for name, seconds in found.items() if seconds.is_clear}


def _holders(tree: Tree, whole: Seconds) -> list[tuple[str, Seconds]]:
    """Return the deepest functions that hold the change of a tree whose paths all begin with one function.

    Of one that is the whole call, that it holds the whole change says nothing: only parts of it are named.
    """
    tree = _deepest(tree)
    name, total = next(iter(tree))[0], total_of(tree.values())
    called: dict[Path, dict[Path, Seconds]] = {}  # each function that is called directly; () is the function itself
    for path, seconds in tree.items():
        called.setdefault(path[1:2], {})[path[1:] or path] = seconds
    parts = [(part, total_of(part.values())) for part in called.values()]
    parts = [(part, own) for part, own in parts if own.is_clear and abs(own.moved) >= _LEAST * abs(whole.moved)]
    together = sum(own.moved for _, own in parts)
    if total.taken < _ALL * whole.taken and not (parts and holds(together, total.moved)):
        return [(name, total)]
    return [one for part, own in parts for one in ([(name, own)] if (name,) in part else _holders(part, whole))]


def _deepest(tree: Tree) -> Tree:
    """Return the tree below the deepest function that holds the change of this one, or the tree itself."""
    whole = total_of(tree.values())
    below: dict[str, list[tuple[Path, Seconds]]] = {}
    for path, seconds in tree.items():
        for function in dict.fromkeys(path[1:]):  # outer ones first: of equal ones the inner is taken
            below.setdefault(function, []).append((path[path.index(function, 1) :], seconds))
    found, least = tree, whole.taken
    for merged in map(summed, below.values()):
        total = total_of(merged.values())
        if total.is_clear and holds(total.moved, whole.moved) and total.taken <= least:
            found, least = merged, total.taken
    return found


def holds(part: float, whole: float) -> bool:
    """Whether a part is most of a change, and not so much more that something else has moved against it."""
    return whole != 0 and _MOST <= part / whole <= 1 / _MOST


def total_of(parts: Iterable[Seconds]) -> Seconds:
    listed = list(parts)
    return Seconds(
        tuple(map(sum, zip(*(one.baseline for one in listed), strict=True))),
        tuple(map(sum, zip(*(one.candidate for one in listed), strict=True))),
    )


def summed(parts: Iterable[tuple[K, Seconds]]) -> dict[K, Seconds]:
    found: dict[K, list[Seconds]] = {}
    for key, seconds in parts:
        found.setdefault(key, []).append(seconds)
    return {key: total_of(listed) for key, listed in found.items()}


def stacks_of(tree: Tree) -> tuple[Mapping[str, tuple[float, ...]], Mapping[str, tuple[float, ...]]]:
    """Return the stacks of both sides as they are kept: what is small on both counts to the frame that it is in."""
    whole, kept = total_of(tree.values()), dict(tree)
    limits = _LEAST_KEPT * sum(whole.baseline), _LEAST_KEPT * sum(whole.candidate)
    for depth in range(max(map(len, tree), default=0), 1, -1):
        for path in [path for path in kept if len(path) == depth]:
            if sum(kept[path].baseline) <= limits[0] and sum(kept[path].candidate) <= limits[1]:
                caller, small = path[:-1], kept.pop(path)
                kept[caller] = total_of([small, kept[caller]]) if caller in kept else small
    named = {SEPARATOR.join(path): seconds for path, seconds in kept.items()}
    return (
        {stack: seconds.baseline for stack, seconds in named.items() if any(seconds.baseline)},
        {stack: seconds.candidate for stack, seconds in named.items() if any(seconds.candidate)},
    )
