"""Call trees of both sides: which functions hold the change of a call, as deep as most of it can be followed.

A tree is a mapping of paths, from the measured callable inwards, to the seconds that are spent at their ends. From the
measured callable on, the walk goes to the deepest function that holds most of what has moved so far. Where several
functions together hold it, each is followed. A function is named only if it has moved beyond the spread of the repeats.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from pytest_hwperf.records.profiles import Mover, SampledCalls, SampledFunction
from pytest_hwperf.stats.movers import Seconds, mover_between

_MOST = 0.8  # of a change: what holds it
_ALL = 0.98  # of a call: what is the whole of it
_LEAST = 0.05  # of the whole change: less is not followed, and not named
_LEAST_KEPT = 0.003  # of a call on either side: less has no stack of its own
_MOST_NAMED = 3  # changed functions
_SEPARATOR = ";"  # of the frames of a stack

Path = tuple[str, ...]  # frames, the outermost first
Tree = Mapping[Path, Seconds]
K = TypeVar("K", bound=Hashable)


def _folded(tree: Tree) -> Tree:
    """Return a tree in which what takes little of the call, on both sides, counts to its caller."""
    whole, kept = _total(tree.values()), dict(tree)
    limits = _LEAST_KEPT * sum(whole.baseline), _LEAST_KEPT * sum(whole.candidate)
    for depth in range(max(map(len, tree), default=0), 1, -1):
        for path in [path for path in kept if len(path) == depth]:
            sums = sum(kept[path].baseline), sum(kept[path].candidate)
            if sums[0] <= limits[0] and sums[1] <= limits[1]:
                caller, small = path[:-1], kept.pop(path)
                kept[caller] = _total([small, kept[caller]]) if caller in kept else small
    return kept


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
    clear = ((name, seconds) for name, seconds in found.items() if seconds.is_clear)
    sign = 1.0 if whole.moved > 0 else -1.0
    return dict(sorted(clear, key=lambda item: -sign * item[1].moved))


def _holders(tree: Tree, whole: Seconds) -> list[tuple[str, Seconds]]:
    """Return the deepest functions that hold the change of a tree whose paths all begin with one function.

    Of one that is the whole call, that it holds the whole change says nothing: only parts of it are named.
    """
    tree = _deepest(tree)
    name, total = next(iter(tree))[0], _total(tree.values())
    parts = [part for part in _parts(tree) if _total(part.values()).is_clear]
    parts = [part for part in parts if abs(_total(part.values()).moved) >= _LEAST * abs(whole.moved)]
    together = sum(_total(part.values()).moved for part in parts)
    is_part = _taken([total]) < _ALL * _taken([whole])
    if is_part and not (parts and _holds(together, total.moved)):
        return [(name, total)]
    return [
        found
        for part in parts
        for found in ([(name, _total(part.values()))] if (name,) in part else _holders(part, whole))
    ]


def _deepest(tree: Tree) -> Tree:
    """Return the tree below the deepest function that holds the change of this one, or the tree itself."""
    change = _total(tree.values()).moved
    below: dict[str, list[tuple[Path, Seconds]]] = {}
    for path, seconds in tree.items():
        for function in dict.fromkeys(path[1:]):  # outer ones first: of equal ones the inner is taken
            below.setdefault(function, []).append((path[path.index(function, 1) :], seconds))
    found, least = tree, _taken(tree.values())
    for merged in map(_summed, below.values()):
        total = _total(merged.values())
        if total.is_clear and _holds(total.moved, change) and _taken(merged.values()) <= least:
            found, least = merged, _taken(merged.values())
    return found


def _parts(tree: Tree) -> list[Tree]:
    """Return the subtree of each function that is called directly, and what is spent in the function itself."""
    found: dict[Path, dict[Path, Seconds]] = {}
    for path, seconds in tree.items():
        found.setdefault(path[1:2], {})[path[1:] or path] = seconds
    return list(found.values())


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
    """Add up what has the same key."""
    found: dict[K, list[Seconds]] = {}
    for key, seconds in parts:
        found.setdefault(key, []).append(seconds)
    return {key: _total(listed) for key, listed in found.items()}


def _taken(parts: Iterable[Seconds]) -> float:
    total = _total(parts)
    return sum(total.baseline) + sum(total.candidate)


class SampledSides:
    """Profiles of both sides.

    A function of the baseline that was renamed, or moved to another file, has its name of the candidate.
    """

    def __init__(self, baseline: Sequence[SampledCalls], candidate: Sequence[SampledCalls]) -> None:
        self._sides = baseline, candidate
        self._renamed = renames(baseline, candidate)
        self._then, self._now = _functions(baseline, self._renamed), _functions(candidate, {})
        self._own = {frame for one in (*candidate, *baseline) for frame, known in one.functions.items() if known.own}
        before, after = _codes(baseline, self._renamed), _codes(candidate, {})
        # The user's own functions that the calls run and that differ between the sides, or are new.
        self._changed = [frame for frame, code in after.items() if before.get(frame) != code]

    def tree(self, baseline_s: float | None = None, candidate_s: float | None = None) -> Tree:
        """Join the profiles, each scaled to these times of a call, or else to what it took without a profiler."""
        baseline, candidate = self._sides
        then = [_scaled(one, baseline_s, self._renamed) for one in baseline]
        now = [_scaled(one, candidate_s, {}) for one in candidate]
        return {  # a path that a repeat has not seen took no time there
            path: Seconds(*(tuple(repeat.get(path, 0.0) for repeat in side) for side in (then, now)))
            for path in dict.fromkeys(path for repeat in (*then, *now) for path in repeat)
        }

    def movers(self, tree: Tree, change: float) -> tuple[Mover, ...]:
        """Return the functions that moved in a tree, the largest first."""
        tree_of_own, found = _owned(tree, self._own), []
        for frame, seconds in holders(tree_of_own).items() if change else ():
            inner = _within(tree, frame, self._own, seconds.moved)
            called = {one for path in tree_of_own if frame in path for one in path[path.index(frame) + 1 :]}
            holds = [] if frame in self._changed else [one for one in self._changed if one in called]
            then, now = self._then.get(frame), self._now.get(frame)
            mover = mover_between(
                "function",
                (_qualified_name(frame), self._place(frame), self._described(inner) if inner else ""),
                seconds,
                change,
                (then.calls if then else None, now.calls if now else None),
                self._places(holds),
            )
            found.append(mover)
        return tuple(found)

    def seen_apart(self, movers: Sequence[Mover]) -> tuple[Mover, ...]:
        """Return the movers that took longer, or less long, in each process of the candidate than in any other.

        Shares are scaled to the change that the pairs have found. Where the profiles do not see it, each function would
        be given a part of it that is as large as its part of a call.
        """
        tree = self.tree()
        spent = ((mover, _spent_in(tree, _frame_of(mover))) for mover in movers)
        return tuple(mover for mover, one in spent if (one.low > 0 if mover.moved > 0 else one.high < 0))

    @property
    def changed(self) -> str:
        """Changed functions that the calls run, as `name (FILE:LINE)`; "" where there are none."""
        return self._places(self._changed)

    def _places(self, frames: Sequence[str]) -> str:
        """Name the first of these functions, and say how many more there are."""
        named = ", ".join(map(self._described, frames[:_MOST_NAMED]))
        more = len(frames) - _MOST_NAMED
        return f"{named} and {more} more" if more > 0 else named

    def _described(self, frame: str) -> str:
        return f"{_qualified_name(frame)} ({self._place(frame)})"

    def _place(self, frame: str) -> str:
        known = self._now.get(frame) or self._then.get(frame)
        return f"{_file(frame)}:{known.line}" if known and known.line else _file(frame)


def stacks_of(tree: Tree) -> tuple[Mapping[str, tuple[float, ...]], Mapping[str, tuple[float, ...]]]:
    """Return the stacks of both sides as they are kept: what is small counts to the frame that it is in."""
    named = {_SEPARATOR.join(path): seconds for path, seconds in _folded(tree).items()}
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
    gone, new = ([one for one in then if one not in now], [one for one in now if one not in then])
    callers = {**_callers(baseline, gone), **_callers(candidate, new)}
    found: dict[str, str] = {}
    for described in (_qualified_name, lambda frame: (_file(frame), callers[frame])):
        left, right = [one for one in gone if one not in found], [one for one in new if one not in found.values()]
        found |= _only_matches(left, right, described)
    return found


def _only_matches(left: list[str], right: list[str], described: Callable[[str], object]) -> dict[str, str]:
    """Return which of two lists are described alike, where no other is."""
    by_description: dict[object, tuple[list[str], list[str]]] = {}
    for place, side in enumerate((left, right)):
        for one in side:
            by_description.setdefault(described(one), ([], []))[place].append(one)
    return {then[0]: now[0] for then, now in by_description.values() if len(then) == len(now) == 1}


def _callers(side: Sequence[SampledCalls], frames: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return what each frame was seen to be called by."""
    found: dict[str, set[str]] = {frame: set() for frame in frames}
    for stack in (stack for one in side for stack in one.stacks):
        for caller, frame in pairwise(("", *stack.split(_SEPARATOR))):
            if frame in found:
                found[frame].add(caller)
    return {frame: frozenset(callers) for frame, callers in found.items()}


def _functions(side: Sequence[SampledCalls], renamed: Mapping[str, str]) -> dict[str, SampledFunction]:
    """Return what is known of each function: that of a repeat which has counted its calls, if there is one."""
    found: dict[str, SampledFunction] = {}
    for frame, known in ((frame, known) for one in side for frame, known in one.functions.items()):
        name = renamed.get(frame, frame)
        if found.setdefault(name, known).calls is None:
            found[name] = known if known.calls is not None else found[name]
    return found


def _codes(side: Sequence[SampledCalls], renamed: Mapping[str, str]) -> dict[str, str]:
    functions = ((frame, known) for one in side for frame, known in one.functions.items())
    return {renamed.get(frame, frame): known.code for frame, known in functions if known.own and known.code}


def _scaled(profile: SampledCalls, call_s: float | None, renamed: Mapping[str, str]) -> Mapping[Path, float]:
    total = sum(profile.stacks.values())
    whole = (profile.plain_s or profile.call_s) if call_s is None else call_s
    found: dict[Path, float] = {}
    for stack, seconds in profile.stacks.items():
        path = tuple(renamed.get(frame, frame) for frame in stack.split(_SEPARATOR))
        found[path] = found.get(path, 0.0) + seconds / total * whole if total else 0.0
    return found


def _spent_in(tree: Tree, function: str) -> Seconds:
    """Return what a function takes, with all that it calls."""
    return _total([next(iter(tree.values())).none, *(seconds for path, seconds in tree.items() if function in path)])


def _frame_of(mover: Mover) -> str:
    """Return the frame that a mover of functions stands for."""
    file, _, line = mover.where.rpartition(":")
    return f"{mover.name} ({file if line.isdecimal() else mover.where})"


def _qualified_name(frame: str) -> str:
    return frame.rpartition(" (")[0] or frame


def _file(frame: str) -> str:
    return frame.rpartition(" (")[2].removesuffix(")")
