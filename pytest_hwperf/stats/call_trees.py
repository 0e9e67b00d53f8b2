"""Call trees of both sides: which functions hold the change of a call, as deep as most of it can be followed.

A tree is a mapping of paths, from the measured callable inwards, to the seconds that are spent at their ends. From the
measured callable on, the walk goes to the deepest function that holds most of what has moved so far. Where several
functions together hold it, each is followed. A function is named only if it has moved beyond the spread of the repeats.
"""

import math
from collections import defaultdict
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TypeVar

from pytest_hwperf.records.profiles import Mover, MoverKind, SampledCalls, SampledFunction
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.units import relative

_MOST = 0.8  # of a change: what holds it
_ALL = 0.98  # of a call: what is the whole of it
_LEAST = 0.05  # of the whole change: less is not followed, and not named
_LEAST_KEPT = 0.003  # of a call on either side: less has no stack of its own
_REPEATS_OF_A_SIGN_TEST = 6
_MOST_NAMED = 3  # changed functions
_SEPARATOR = ";"  # of the frames of a stack


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

        Both sides of a repeat run at the same time, when the machine is as fast as it is then. Of equal sides one in 20
        is the one, and one in 64 the other.
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


def _owned(tree: Tree, own: Container[str]) -> Tree:
    """Return a tree of the user's own functions, to which what they call in libraries counts."""
    found: list[tuple[Path, Seconds]] = []
    for path, seconds in tree.items():
        first = next((place for place, frame in enumerate(path) if frame in own), len(path))
        found.append(((*path[:first], *(frame for frame in path[first:] if frame in own)), seconds))
    return _summed(found)


def _within(tree: Tree, function: str, own: Container[str], change: float) -> str:
    """Return the deepest function of a library that holds what a function has moved, "" where none does."""
    found: list[tuple[Path, Seconds]] = []
    for path, seconds in tree.items():
        if function in path:
            rest = path[len(path) - 1 - path[::-1].index(function) :]
            if not any(frame in own for frame in rest[1:]):
                found.append((rest, seconds))
    inner = _summed(found)
    if not inner or not _holds(_total(inner.values()).moved, change):
        return ""
    deepest = next(iter(_deepest(inner)))[0]
    return "" if deepest == function else deepest


def holders(tree: Tree) -> Mapping[str, Seconds]:
    """Return the functions that hold the change of a call, with what they and all that they call take.

    None is within another one, so that they may be added up; where they are less than the change, the rest of it is
    spread over functions of which none has clearly moved.
    """
    whole = _total(tree.values())
    if not whole.moved:
        return {}
    found = _summed(_holders({("", *path): seconds for path, seconds in tree.items()}, whole))
    return {name: seconds for name, seconds in found.items() if seconds.is_clear}


def _holders(tree: Tree, whole: Seconds) -> list[tuple[str, Seconds]]:
    """Return the deepest functions that hold the change of a tree whose paths all begin with one function.

    Of one that is the whole call, that it holds the whole change says nothing: only parts of it are named.
    """
    tree = _deepest(tree)
    name, total = next(iter(tree))[0], _total(tree.values())
    called: dict[Path, dict[Path, Seconds]] = {}  # each function that is called directly; () is the function itself
    for path, seconds in tree.items():
        called.setdefault(path[1:2], {})[path[1:] or path] = seconds
    parts = [(part, _total(part.values())) for part in called.values()]
    parts = [(part, own) for part, own in parts if own.is_clear and abs(own.moved) >= _LEAST * abs(whole.moved)]
    together = sum(own.moved for _, own in parts)
    if total.taken < _ALL * whole.taken and not (parts and _holds(together, total.moved)):
        return [(name, total)]
    return [one for part, own in parts for one in ([(name, own)] if (name,) in part else _holders(part, whole))]


def _deepest(tree: Tree) -> Tree:
    """Return the tree below the deepest function that holds the change of this one, or the tree itself."""
    whole = _total(tree.values())
    below: dict[str, list[tuple[Path, Seconds]]] = {}
    for path, seconds in tree.items():
        for function in dict.fromkeys(path[1:]):  # outer ones first: of equal ones the inner is taken
            below.setdefault(function, []).append((path[path.index(function, 1) :], seconds))
    found, least = tree, whole.taken
    for merged in map(_summed, below.values()):
        total = _total(merged.values())
        if total.is_clear and _holds(total.moved, whole.moved) and total.taken <= least:
            found, least = merged, total.taken
    return found


def _holds(part: float, whole: float) -> bool:
    """Whether a part is most of a change, and not so much more that something else has moved against it."""
    return whole != 0 and _MOST <= part / whole <= 1 / _MOST


def _total(parts: Iterable[Seconds]) -> Seconds:
    listed = list(parts)
    return Seconds(
        tuple(map(sum, zip(*(one.baseline for one in listed), strict=True))),
        tuple(map(sum, zip(*(one.candidate for one in listed), strict=True))),
    )


def _summed(parts: Iterable[tuple[K, Seconds]]) -> dict[K, Seconds]:
    found: dict[K, list[Seconds]] = {}
    for key, seconds in parts:
        found.setdefault(key, []).append(seconds)
    return {key: _total(listed) for key, listed in found.items()}


class SampledSides:
    """Profiles of both sides.

    A function of the baseline that was renamed, or moved to another file, has its name of the candidate.
    """

    def __init__(self, baseline: Sequence[SampledCalls], candidate: Sequence[SampledCalls]) -> None:
        renamed, same = renames(baseline, candidate), dict[str, str]()
        self._sides = ((baseline, renamed), (candidate, same))
        self._then, self._now = (_functions(*side) for side in self._sides)
        self._own = {frame for one in (*candidate, *baseline) for frame, known in one.functions.items() if known.own}
        # The user's own functions that the calls run and that differ between the sides, or are new.
        before, after = (
            {renamed.get(frame, frame): code for one in side for frame, code in one.codes.items()}
            for side, renamed in self._sides
        )
        self._changed = [frame for frame in self._now if frame in after and before.get(frame) != after[frame]]

    def tree(self, baseline_s: float | None = None, candidate_s: float | None = None) -> Tree:
        """Join the profiles, each scaled to these times of a call, or else to what it took without a profiler."""
        sides: list[list[dict[Path, float]]] = []
        for (profiles, renamed), call_s in zip(self._sides, (baseline_s, candidate_s), strict=True):
            sides.append([])
            for one in profiles:
                total = sum(one.stacks.values())
                whole = (one.plain_s or one.call_s) if call_s is None else call_s
                found: dict[Path, float] = {}
                for stack, seconds in one.stacks.items():
                    path = tuple(renamed.get(frame, frame) for frame in stack.split(_SEPARATOR))
                    found[path] = found.get(path, 0.0) + (seconds / total * whole if total else 0.0)
                sides[-1].append(found)
        return {  # a path that a repeat has not seen took no time there
            path: Seconds(*(tuple(repeat.get(path, 0.0) for repeat in side) for side in sides))
            for path in dict.fromkeys(path for side in sides for repeat in side for path in repeat)
        }

    def movers(self, tree: Tree, change: float) -> Mapping[str, Mover]:
        """Return the frames that moved in a tree: of unchanged ones, the changed one that calls them."""
        tree_of_own, by = _owned(tree, self._own), defaultdict[str, dict[str, Seconds]](dict)
        for frame, seconds in holders(self._aligned(tree_of_own)).items() if change else ():
            by[self._cause(frame, tree_of_own)][frame] = seconds
        found = dict[str, Mover]()
        for frame, parts in by.items():
            seconds, inner = _total(parts.values()), self._inside(frame, parts, tree)
            then, now = self._then.get(frame), self._now.get(frame)
            found[frame] = replace(
                seconds.mover("function", change, _split(frame)[0], self._place(frame)),
                within=self._places([inner] if inner else []),
                holds=self._places([] if frame in self._changed else self._changed_below(frame, tree_of_own)),
                baseline_calls=then.calls if then else None,
                candidate_calls=now.calls if now else None,
            )
        return found

    def _aligned(self, tree: Tree) -> Tree:
        """Return a tree in which what both sides call is within what both call: the calls between are looked through.

        A function that one side alone has would else hold all that is within it, and what calls it there nothing.
        """
        both = self._then.keys() & self._now.keys()
        found: list[tuple[Path, Seconds]] = []
        for path, seconds in tree.items():
            last = max((place for place, frame in enumerate(path) if frame in both), default=0)
            found.append(((*(frame for frame in path[:last] if frame in both), *path[last:]), seconds))
        return _summed(found)

    def _cause(self, frame: str, tree: Tree) -> str:
        """Return the innermost changed function within which an unchanged one has moved, or this one."""
        if frame in self._changed or self._changed_below(frame, tree):
            return frame
        above = [(path[: path.index(frame)], taken) for path, taken in tree.items() if frame in path]
        whole = _total(taken for _, taken in above)
        callers = _summed(  # inner ones first: of equal ones the inner is taken
            (one, taken) for path, taken in above for one in dict.fromkeys(reversed(path)) if one in self._changed
        )
        holding = [
            one
            for one, total in callers.items()
            if _holds(total.moved, whole.moved)
            or (one not in self._then and _holds(sum(total.candidate), sum(whole.candidate)))  # all calls go through it
        ]
        return min(holding, key=lambda one: callers[one].taken, default=frame)

    def _inside(self, frame: str, parts: Mapping[str, Seconds], tree: Tree) -> str:
        """Return the function that most of what moved is spent in: an unchanged one, or one of a library."""
        moved = _total(parts.values()).moved
        if frame in parts:
            return _within(tree, frame, self._own, moved)
        return next((one for one, part in parts.items() if _holds(part.moved, moved)), "")

    def _changed_below(self, frame: str, tree: Tree) -> list[str]:
        called = {one for path in tree if frame in path for one in path[path.index(frame) + 1 :]}
        return [one for one in self._changed if one in called]

    def seen_apart(self, movers: Mapping[str, Mover]) -> tuple[Mover, ...]:
        """Return the movers that took longer, or less long, in all repeats, or clearly more or less of a call.

        Shares are scaled to the change that the pairs have found. Where the profiles do not see it, each function would
        be given a part of it that is as large as its part of a call. A machine that changes its speed between repeats
        changes their times, and no part of a call.
        """
        times, parts = self.tree(), self.tree(1.0, 1.0)

        def is_seen(frame: str, sign: float) -> bool:
            time, part = (_total(taken for path, taken in tree.items() if frame in path) for tree in (times, parts))
            return time.all_moved(sign) or (part.is_clear and sign * part.moved > 0)

        return tuple(one for frame, one in movers.items() if is_seen(frame, math.copysign(1, one.moved)))

    @property
    def changed(self) -> str:
        """Changed functions that the calls run, as `name (FILE:LINE)`; "" where there are none."""
        return self._places(self._changed)

    def _places(self, frames: Sequence[str]) -> str:
        """Name the first of these functions, and say how many more there are."""
        named = ", ".join(f"{_split(frame)[0]} ({self._place(frame)})" for frame in frames[:_MOST_NAMED])
        more = len(frames) - _MOST_NAMED
        return f"{named} and {more} more" if more > 0 else named

    def _place(self, frame: str) -> str:
        known, file = self._now.get(frame) or self._then.get(frame), _split(frame)[1]
        return f"{file}:{known.line}" if file and known and known.line else file


def stacks_of(tree: Tree) -> tuple[Mapping[str, tuple[float, ...]], Mapping[str, tuple[float, ...]]]:
    """Return the stacks of both sides as they are kept: what is small on both counts to the frame that it is in."""
    whole, kept = _total(tree.values()), dict(tree)
    limits = _LEAST_KEPT * sum(whole.baseline), _LEAST_KEPT * sum(whole.candidate)
    for depth in range(max(map(len, tree), default=0), 1, -1):
        for path in [path for path in kept if len(path) == depth]:
            if sum(kept[path].baseline) <= limits[0] and sum(kept[path].candidate) <= limits[1]:
                caller, small = path[:-1], kept.pop(path)
                kept[caller] = _total([small, kept[caller]]) if caller in kept else small
    named = {_SEPARATOR.join(path): seconds for path, seconds in kept.items()}
    return (
        {stack: seconds.baseline for stack, seconds in named.items() if any(seconds.baseline)},
        {stack: seconds.candidate for stack, seconds in named.items() if any(seconds.candidate)},
    )


def renames(baseline: Sequence[SampledCalls], candidate: Sequence[SampledCalls]) -> Mapping[str, str]:
    """Return which functions of the baseline have another name in the candidate: frame → frame.

    One that only the baseline has is that of the candidate alone which has its qualified name in another file, or else
    which is called by the same functions of the same file. Where there are several, none is.
    """
    then, now = ({frame: None for one in side for frame in one.functions} for side in (baseline, candidate))
    callers = defaultdict[str, set[str]](set)  # of what one side alone has
    for side, others in ((baseline, now), (candidate, then)):
        for stack in (stack for one in side for stack in one.stacks):
            for caller, frame in pairwise(("", *stack.split(_SEPARATOR))):
                if frame not in others:
                    callers[frame].add(caller)
    found: dict[str, str] = {}
    for by_callers in (False, True):
        gone = [frame for frame in then if frame not in now and frame not in found]
        new = [frame for frame in now if frame not in then and frame not in found.values()]
        alike = defaultdict[object, tuple[list[str], list[str]]](lambda: ([], []))
        for place, frame in (*((0, frame) for frame in gone), *((1, frame) for frame in new)):
            name, file = _split(frame)
            alike[(file, frozenset(callers[frame])) if by_callers else name][place].append(frame)
        found |= {one[0]: other[0] for one, other in alike.values() if len(one) == len(other) == 1}
    return found


def _functions(side: Sequence[SampledCalls], renamed: Mapping[str, str]) -> dict[str, SampledFunction]:
    """Return what is known of each function: that of a repeat which has counted its calls, if there is one."""
    found: dict[str, SampledFunction] = {}
    for frame, known in ((frame, known) for one in side for frame, known in one.functions.items()):
        name = renamed.get(frame, frame)
        if found.setdefault(name, known).calls is None and known.calls is not None:
            found[name] = known
    return found


def _split(frame: str) -> tuple[str, str]:
    name, parted, file = frame.rpartition(" (")
    return (name, file.removesuffix(")")) if parted else (frame, "")
