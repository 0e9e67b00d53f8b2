"""Profiles of functions from several processes of both sides, joined: what moved from the baseline to the candidate."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from pytest_hwperf.core.call_trees import Path, Seconds, Tree, folded, holders, owned, spent_in, tree_of, within
from pytest_hwperf.core.movers import Mover, SampledCalls, SampledFunction, mover_between

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
