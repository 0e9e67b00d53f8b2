"""Call trees of both sides: which functions hold the change of a call, as deep as most of it can be followed.

A tree is a mapping of paths, from the measured callable inwards, to the seconds that are spent at their ends. From the
measured callable on, the walk goes to the deepest function that holds most of what has moved so far. Where several
functions together hold it, each is followed. A function is named only if it has moved beyond the spread of the repeats.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pytest_hwperf.core.movers import is_clear

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
