"""What moved in profiles of both sides: functions that hold a change, or the changed ones that call them."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from pytest_hwperf.records.profiles import Mover, SampledCalls, SampledFunction
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.causes.call_trees import (
    SEPARATOR,
    Path,
    Seconds,
    Tree,
    holders,
    holds,
    owned,
    summed,
    total_of,
    within,
)

_MOST_NAMED = 3  # changed functions
_HALF = 0.5  # of what a function moved


class SampledSides:
    """Profiles of both sides.

    A function of the baseline that was renamed, or moved to another file, has its name of the candidate.
    """

    def __init__(self, baseline: Sequence[SampledCalls], candidate: Sequence[SampledCalls]) -> None:
        renamed, same = renames(baseline, candidate), dict[str, str]()
        self._sides = ((baseline, renamed), (candidate, same))
        self._then, self._now = (_functions(*side) for side in self._sides)
        self._own = {frame for one in (*candidate, *baseline) for frame, known in one.functions.items() if known.own}
        before, after = (
            {renamed.get(frame, frame): code for one in side for frame, code in one.codes.items()}
            for side, renamed in self._sides
        )
        # The user's own functions that the calls run and that differ between the sides, or that one side alone has.
        # Of one that runs on both, the code may not be known.
        self._changed = {
            one: None
            for one in self._now | self._then
            if before.get(one) != after.get(one)
            and (one in after or one not in self._now)
            and (one in before or one not in self._then)
        }.keys()

    def tree(self, baseline_s: float | None = None, candidate_s: float | None = None) -> Tree:
        """Join the profiles, each scaled to these times of a call, or else to what it took without a profiler."""
        sides: list[list[dict[Path, float]]] = []
        is_plain = all(one.plain_s for side, _ in self._sides for one in side)  # else some were too short to be timed
        for (profiles, renamed), call_s in zip(self._sides, (baseline_s, candidate_s), strict=True):
            sides.append([])
            for one in profiles:
                total = sum(one.stacks.values())
                whole = (one.plain_s if is_plain else one.call_s) if call_s is None else call_s
                found: dict[Path, float] = {}
                for stack, seconds in one.stacks.items():
                    path = tuple(renamed.get(frame, frame) for frame in stack.split(SEPARATOR))
                    found[path] = found.get(path, 0.0) + (seconds / total * whole if total else 0.0)
                sides[-1].append(found)
        return {  # a path that a repeat has not seen took no time there
            path: Seconds(*(tuple(repeat.get(path, 0.0) for repeat in side) for side in sides))
            for path in dict.fromkeys(path for side in sides for repeat in side for path in repeat)
        }

    def moved(self, tree: Tree) -> Mapping[str, Seconds]:
        """Return the user's functions that hold the change of a tree, by frame.

        A function that one side alone has may have been put between two others: then what it calls is no part of it.
        Or it does something more: then it is. The view that leaves less of the change unexplained is used.
        """
        own = owned(tree, self._own)
        whole = total_of(own.values()).moved

        def missed(found: Mapping[str, Seconds]) -> float:
            return abs(whole - sum(one.moved for one in self.seen(found, tree).values()))

        return min(holders(self._looked_through(own)), holders(own), key=missed)

    def _looked_through(self, tree: Tree) -> Tree:
        """Drop the frames that one side alone has from above those that both have."""
        both = self._then.keys() & self._now.keys()
        found: list[tuple[Path, Seconds]] = []
        for path, seconds in tree.items():
            last = max((place for place, frame in enumerate(path) if frame in both), default=0)
            found.append(((*(frame for frame in path[:last] if frame in both), *path[last:]), seconds))
        return summed(found)

    def seen(self, moved: Mapping[str, Seconds], tree: Tree) -> Mapping[str, Seconds]:
        """Return those that took longer, or less long, in all repeats, or clearly more or less of a call.

        Shares are scaled to the change that the pairs have found. Where the profiles do not see it, each function would
        be given a part of it that is as large as its part of a call. A machine that changes its speed between repeats
        changes their times, and no part of a call. What is nearly all of a call stays so: then the part of a function
        in it tells, which holds half of the move. Parts tell something only where the whole call moved that way: if
        one function takes less, all others take more of it.
        """
        times, parts = self.tree(), self.tree(1.0, 1.0)
        whole = total_of(times.values()).moved

        def is_seen(frame: str, one: Seconds) -> bool:
            sign = math.copysign(1, one.moved)
            if _inside(times, frame)[frame].all_moved(sign):
                return True
            inner, share = _inside(tree, frame), _inside(parts, frame)
            halves = (share[name] for name, part in inner.items() if part.moved / one.moved >= _HALF)
            return sign * whole > 0 and any(part.is_clear and sign * part.moved > 0 for part in halves)

        return {frame: one for frame, one in moved.items() if is_seen(frame, one)}

    def movers(self, tree: Tree, moved: Mapping[str, Seconds], change: float) -> list[Mover]:
        """Name what moved in a tree: of unchanged functions, the changed one that calls them."""
        own, by = owned(tree, self._own), defaultdict[str, dict[str, Seconds]](dict)
        for frame, seconds in moved.items():
            by[self._cause(frame, own)][frame] = seconds
        return [self._mover(frame, parts, tree, own, change) for frame, parts in by.items()]

    def _mover(self, frame: str, parts: Mapping[str, Seconds], tree: Tree, own: Tree, change: float) -> Mover:
        seconds, then, now = total_of(parts.values()), self._then.get(frame), self._now.get(frame)
        called = next((one for one, part in parts.items() if one != frame and holds(part.moved, seconds.moved)), "")
        inner = called or (within(tree, frame, self._own, seconds.moved) if frame in parts else "")
        below = {one for path in own if frame in path for one in path[path.index(frame) + 1 :]}
        changed = [] if frame in self._changed else [one for one in self._changed if one in below]
        return replace(
            seconds.mover("function", change, _split(frame)[0], self._place(frame)),
            within=self._places([inner] if inner else []),
            holds=self._places(changed),
            baseline_calls=then.calls if then else None,
            candidate_calls=now.calls if now else None,
        )

    def _cause(self, frame: str, tree: Tree) -> str:
        """Return the innermost changed caller of an unchanged function that holds most of its move, else itself.

        It is itself where changed functions that it calls hold that. A caller that one side alone has holds it too if
        all calls of that side come from there.
        """
        if frame in self._changed:
            return frame
        around, below, nearest = list[Seconds](), list[Seconds](), dict[str, None]()
        callers = defaultdict[str, list[Seconds]](list)
        for path, taken in tree.items():
            if frame in path:
                place = path.index(frame)
                above = [one for one in path[:place] if one in self._changed]
                for one in {*above}:
                    callers[one].append(taken)
                nearest |= dict.fromkeys(above[-1:])
                around.append(taken)
                below += [] if self._changed.isdisjoint(path[place:]) else [taken]
        if not nearest or (below and holds(total_of(below).moved, total_of(around).moved)):
            return frame
        whole, totals = total_of(around), {one: total_of(callers[one]) for one in nearest}
        holding = [
            one
            for one, total in totals.items()
            if holds(total.moved, whole.moved)
            or (one not in self._then and holds(sum(total.candidate), sum(whole.candidate)))
            or (one not in self._now and holds(sum(total.baseline), sum(whole.baseline)))
        ]
        return min(holding, key=lambda one: totals[one].taken, default=frame)

    @property
    def changed(self) -> str:
        """Changed functions that the calls run, as `name (FILE:LINE)`; "" where there are none."""
        return self._places([one for one in self._changed if one in self._now])

    def _places(self, frames: Sequence[str]) -> str:
        """Name the first of these functions, and say how many more there are."""
        named = ", ".join(f"{_split(frame)[0]} ({self._place(frame)})" for frame in frames[:_MOST_NAMED])
        more = len(frames) - _MOST_NAMED
        return f"{named} and {more} more" if more > 0 else named

    def _place(self, frame: str) -> str:
        known, file = self._now.get(frame) or self._then.get(frame), _split(frame)[1]
        return f"{file}:{known.line}" if file and known and known.line else file


def _inside(tree: Tree, frame: str) -> Mapping[str, Seconds]:
    """Return a function and all that it calls, with what each takes there."""
    below = ((path[path.index(frame) :], taken) for path, taken in tree.items() if frame in path)
    return summed((one, taken) for path, taken in below for one in {*path})


def renames(baseline: Sequence[SampledCalls], candidate: Sequence[SampledCalls]) -> Mapping[str, str]:
    """Return which functions of the baseline have another name in the candidate: frame → frame.

    One that only the baseline has, called or not, is that of the candidate alone which has its qualified name in
    another file, or else which is called by the same functions of the same file. Where there are several, none is.
    """
    then, now = ({frame: None for one in side for frame in one.functions} for side in (baseline, candidate))
    before, after = ({frame for one in side for frame in one.codes} for side in (baseline, candidate))
    callers = defaultdict[str, set[str]](set)  # of what one side alone has
    for side, others in ((baseline, now), (candidate, then)):
        for stack in (stack for one in side for stack in one.stacks):
            for caller, frame in pairwise(("", *stack.split(SEPARATOR))):
                if frame not in others:
                    callers[frame].add(caller)
    found: dict[str, str] = {}
    for by_callers in (False, True):
        gone = [frame for frame in then if frame not in {*now, *after, *found}]
        new = [frame for frame in now if frame not in {*then, *before, *found.values()}]
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
