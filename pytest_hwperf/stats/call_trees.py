"""Call trees of both sides: which functions hold the change of a call, as deep as most of it can be followed.

A tree is a mapping of paths, from the measured callable inwards, to the seconds that are spent at their ends. From the
measured callable on, the walk goes to the deepest function that holds most of what has moved so far. Where several
functions together hold it, each is followed. A function is named only if it has moved beyond the spread of the repeats.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from pytest_hwperf.records.profiles import Mover, SampledCalls, SampledFunction, is_clear
from pytest_hwperf.stats.movers import mover_between

_MOST = 0.8  # of a change: what holds it
_ALL = 0.98  # of a call: what is the whole of it
_LEAST = 0.05  # of the whole change: less is not followed, and not named

Path = tuple[str, ...]  # frames, the outermost first


@dataclass(frozen=True, slots=True)
class Seconds:
    """What a part of a call takes on each side, in s of a call, for each repeat."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]

    @property
    def moved(self) -> float:
        """Mean of the candidate minus that of the baseline."""
        return fmean(self.candidate) - fmean(self.baseline)

    @property
    def low(self) -> float:
        """Least that two repeats of the sides are apart."""
        return min(self.candidate) - max(self.baseline)

    @property
    def high(self) -> float:
        """Most that two repeats of the sides are apart."""
        return max(self.candidate) - min(self.baseline)

    @property
    def none(self) -> "Seconds":
        """As many repeats in which nothing was spent."""
        return Seconds((0.0,) * len(self.baseline), (0.0,) * len(self.candidate))

    @property
    def is_clear(self) -> bool:
        """Whether it has moved beyond the spread of its repeats."""
        return is_clear(self.low, self.high)


Tree = Mapping[Path, Seconds]


def tree_of(baseline: Sequence[Mapping[Path, float]], candidate: Sequence[Mapping[Path, float]]) -> Tree:
    """Join the repeats of both sides; a path that a repeat has not seen took no time there."""
    paths = {path: None for repeat in (*baseline, *candidate) for path in repeat}
    return {
        path: Seconds(*(tuple(repeat.get(path, 0.0) for repeat in side) for side in (baseline, candidate)))
        for path in paths
    }


def folded(tree: Tree, least: float) -> Tree:
    """Return a tree in which what takes less than a share of the call, on both sides, counts to its caller."""
    whole, kept = _total(tree.values()), dict(tree)
    limits = least * sum(whole.baseline), least * sum(whole.candidate)
    for depth in range(max(map(len, tree), default=0), 1, -1):
        for path in [path for path in kept if len(path) == depth]:
            sums = sum(kept[path].baseline), sum(kept[path].candidate)
            if sums[0] <= limits[0] and sums[1] <= limits[1]:
                caller, small = path[:-1], kept.pop(path)
                kept[caller] = _total([small, kept[caller]]) if caller in kept else small
    return kept


def owned(tree: Tree, own: Container[str]) -> Tree:
    """Return a tree of the user's own functions, to which what they call in libraries counts."""
    found: dict[Path, list[Seconds]] = {}
    for path, seconds in tree.items():
        first = next((place for place, frame in enumerate(path) if frame in own), len(path))
        kept = (*path[:first], *(frame for frame in path[first:] if frame in own))
        found.setdefault(kept, []).append(seconds)
    return {path: _total(parts) for path, parts in found.items()}


def within(tree: Tree, function: str, own: Container[str], change: float) -> str:
    """Return the deepest function of a library that holds what a function has moved, "" where none does."""
    found: dict[Path, list[Seconds]] = {}
    for path, seconds in tree.items():
        if function in path:
            rest = path[len(path) - 1 - path[::-1].index(function) :]
            if not any(frame in own for frame in rest[1:]):
                found.setdefault(rest, []).append(seconds)
    inner = {path: _total(parts) for path, parts in found.items()}
    if not inner or not _holds(_total(inner.values()).moved, change):
        return ""
    deepest = next(iter(_deepest(inner)))[0]
    return "" if deepest == function else deepest


def spent_in(tree: Tree, function: str) -> Seconds:
    """Return what a function takes, with all that it calls."""
    return _total([next(iter(tree.values())).none, *(seconds for path, seconds in tree.items() if function in path)])


def holders(tree: Tree) -> Mapping[str, Seconds]:
    """Return the functions that hold the change of a call, with what they and all that they call take.

    None is within another one, so that they may be added up; where they are less than the change, the rest of it is
    spread over functions of which none has clearly moved.
    """
    whole = _total(tree.values())
    if not whole.moved:
        return {}
    rooted = {("", *path): seconds for path, seconds in tree.items()}
    found: dict[str, list[Seconds]] = {}
    for name, seconds in _holders(rooted, whole):
        found.setdefault(name, []).append(seconds)
    merged = ((name, _total(parts)) for name, parts in found.items())
    clear = ((name, seconds) for name, seconds in merged if seconds.is_clear)
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
    below: dict[str, dict[Path, list[Seconds]]] = {}
    for path, seconds in tree.items():
        for function in dict.fromkeys(path[1:]):  # outer ones first: of equal ones the inner is taken
            rest = path[path.index(function, 1) :]
            below.setdefault(function, {}).setdefault(rest, []).append(seconds)
    found, least = tree, _taken(tree.values())
    for parts in below.values():
        merged = {path: _total(seconds) for path, seconds in parts.items()}
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


def _taken(parts: Iterable[Seconds]) -> float:
    total = _total(parts)
    return sum(total.baseline) + sum(total.candidate)


_SEPARATOR = ";"  # of the frames of a stack
_MOST_NAMED = 3  # changed functions
_LEAST_KEPT = 0.003  # of a call on either side: less has no stack of its own


def joined(
    baseline: Sequence[SampledCalls], candidate: Sequence[SampledCalls], baseline_s: float, candidate_s: float
) -> Tree:
    """Join the profiles of both sides, each scaled to the time of a call without a profiler.

    A function of the baseline that was renamed, or moved to another file, has its name of the candidate.
    """
    renamed = renames(baseline, candidate)
    return tree_of(
        [_scaled(one, baseline_s, renamed) for one in baseline], [_scaled(one, candidate_s, {}) for one in candidate]
    )


def movers_of(
    tree: Tree, baseline: Sequence[SampledCalls], candidate: Sequence[SampledCalls], change: float
) -> tuple[Mover, ...]:
    """Return the functions that moved in a tree, the largest first."""
    if not change:
        return ()
    earlier = {now: then for then, now in renames(baseline, candidate).items()}
    own, changed = _own(candidate) | _own(baseline), changed_frames(baseline, candidate)
    tree_of_own, found = owned(tree, own), []
    for frame, seconds in holders(tree_of_own).items():
        inner = within(tree, frame, own, seconds.moved)
        known = _known(candidate, inner) or _known(baseline, inner)
        place = f"{_qualified_name(inner)} ({_place(inner, known)})" if inner else ""
        sides = _known(baseline, earlier.get(frame, frame)), _known(candidate, frame)
        called = {one for path in tree_of_own if frame in path for one in path[path.index(frame) + 1 :]}
        holds = [] if frame in changed else [one for one in changed if one in called]
        found.append(_mover((frame, place), seconds, change, sides, places_of(holds, baseline, candidate)))
    return tuple(found)


def seen_apart(
    movers: Sequence[Mover], baseline: Sequence[SampledCalls], candidate: Sequence[SampledCalls]
) -> tuple[Mover, ...]:
    """Return the movers that took longer, or less long, in each process of the candidate than in any of the baseline.

    Shares are scaled to the change that the pairs have found. Where the profiles do not see it, each function would be
    given a part of it that is as large as its part of a call.
    """
    renamed = renames(baseline, candidate)
    tree = tree_of(
        [_scaled(one, one.plain_s or one.call_s, renamed) for one in baseline],
        [_scaled(one, one.plain_s or one.call_s, {}) for one in candidate],
    )
    return tuple(one for one in movers if _is_apart(one, spent_in(tree, frame_of(one))))


def _is_apart(mover: Mover, seconds: Seconds) -> bool:
    return seconds.low > 0 if mover.moved > 0 else seconds.high < 0


def changed_frames(baseline: Sequence[SampledCalls], candidate: Sequence[SampledCalls]) -> list[str]:
    """Return the user's own functions that the calls run and that differ between the sides, or are new; in no order."""
    then, now = _codes(baseline), _codes(candidate)
    renamed = renames(baseline, candidate)
    before = {renamed.get(frame, frame): code for frame, code in then.items()}
    return [frame for frame, code in now.items() if before.get(frame) != code]


def places_of(frames: Sequence[str], baseline: Sequence[SampledCalls], candidate: Sequence[SampledCalls]) -> str:
    """Write `name (FILE:LINE)` for the first of these functions, and how many more there are; "" for none."""
    known = [(one, _known(candidate, one) or _known(baseline, one)) for one in frames[:_MOST_NAMED]]
    named = ", ".join(f"{_qualified_name(one)} ({_place(one, found)})" for one, found in known)
    more = len(frames) - len(known)
    return f"{named} and {more} more" if more else named


def stacks_of(tree: Tree) -> tuple[Mapping[str, tuple[float, ...]], Mapping[str, tuple[float, ...]]]:
    """Return the stacks of both sides as they are kept: what is small counts to the frame that it is in."""
    kept = folded(tree, _LEAST_KEPT)
    named = {_SEPARATOR.join(path): seconds for path, seconds in kept.items()}
    return (
        {stack: seconds.baseline for stack, seconds in named.items() if any(seconds.baseline)},
        {stack: seconds.candidate for stack, seconds in named.items() if any(seconds.candidate)},
    )


def overhead_of(profiles: Iterable[SampledCalls]) -> float | None:
    """Return how much longer a call takes under the profiler, as a share; None where one was too short to be timed."""
    listed = list(profiles)
    if not listed or not all(one.plain_s for one in listed):
        return None
    return fmean(one.call_s / one.plain_s for one in listed) - 1


def renames(baseline: Sequence[SampledCalls], candidate: Sequence[SampledCalls]) -> Mapping[str, str]:
    """Return which functions of the baseline have another name in the candidate: frame → frame.

    One that only the baseline has is that of the candidate alone which has its qualified name in another file, or else
    which is called by the same functions of the same file. Where there are several, none is.
    """
    then, now = _seen(baseline), _seen(candidate)
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


def _seen(side: Sequence[SampledCalls]) -> dict[str, None]:
    return {frame: None for one in side for frame in one.functions}


def _callers(side: Sequence[SampledCalls], frames: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return what each frame was seen to be called by."""
    found: dict[str, set[str]] = {frame: set() for frame in frames}
    for stack in (stack for one in side for stack in one.stacks):
        path = stack.split(_SEPARATOR)
        for caller, frame in pairwise(("", *path)):
            if frame in found:
                found[frame].add(caller)
    return {frame: frozenset(callers) for frame, callers in found.items()}


def frame_of(mover: Mover) -> str:
    """Return the frame that a mover of functions stands for."""
    file, _, line = mover.where.rpartition(":")
    return f"{mover.name} ({file if line.isdecimal() else mover.where})"


def _qualified_name(frame: str) -> str:
    return frame.rpartition(" (")[0] or frame


def _file(frame: str) -> str:
    return frame.rpartition(" (")[2].removesuffix(")")


def _scaled(profile: SampledCalls, call_s: float, renamed: Mapping[str, str]) -> Mapping[Path, float]:
    total = sum(profile.stacks.values())
    found: dict[Path, float] = {}
    for stack, seconds in profile.stacks.items():
        path = tuple(renamed.get(frame, frame) for frame in stack.split(_SEPARATOR))
        found[path] = found.get(path, 0.0) + seconds / total * call_s if total else 0.0
    return found


def _known(side: Sequence[SampledCalls], frame: str) -> SampledFunction | None:
    """Return what is known of a function: that of a repeat which has counted its calls, if there is one."""
    found = [one.functions[frame] for one in side if frame in one.functions]
    return next((one for one in found if one.calls is not None), found[0] if found else None)


def _codes(side: Sequence[SampledCalls]) -> dict[str, str]:
    return {frame: known.code for one in side for frame, known in one.functions.items() if known.own and known.code}


def _own(side: Sequence[SampledCalls]) -> set[str]:
    return {frame for one in side for frame, function in one.functions.items() if function.own}


def _place(frame: str, known: SampledFunction | None) -> str:
    return f"{_file(frame)}:{known.line}" if known and known.line else _file(frame)


def _mover(
    named: tuple[str, str],
    seconds: Seconds,
    change: float,
    sides: tuple[SampledFunction | None, SampledFunction | None],
    holds: str,
) -> Mover:
    then, now = sides
    return mover_between(
        "function",
        (_qualified_name(named[0]), _place(named[0], now or then), named[1]),
        (seconds.baseline, seconds.candidate),
        change,
        (then.calls if then else None, now.calls if now else None),
        holds,
    )
