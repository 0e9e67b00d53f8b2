"""Culprits: how likely each commit of a history is to have brought a change, by answers that may be wrong.

Each answer says of a commit whether it contains the culprit, and is wrong at a known rate. It turns the chances of all
commits into others by Bayes' rule; the commit is asked next that halves them. Without wrong answers that is the order
of `git bisect`; with them, an answer that later ones contradict is asked again.

References:
    Horstein, IEEE Transactions on Information Theory 9 (1963); Burnashev & Zigangirov, Problems of Information
    Transmission 10 (1974); Karp & Kleinberg, SODA (2007).
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_hwperf.core.structs import Record

ERROR_RATE = 1 / 45  # of an answer

_ODDS = ERROR_RATE / (1 - ERROR_RATE)  # by which an answer that contradicts a commit makes it less likely
_ROUNDING = 1e-9  # of masses, relative
BITS = 1 + ERROR_RATE * math.log2(ERROR_RATE) + (1 - ERROR_RATE) * math.log2(1 - ERROR_RATE)  # that an answer gives


class Commit(Record, frozen=True, kw_only=True):
    """A commit that may have brought the change, with its parents."""

    name: str  # its whole hash
    parents: tuple[str, ...] = ()


class Answer(Record, frozen=True, kw_only=True):
    """What the pairs say of a commit."""

    commit: str
    contains: bool  # the culprit: it is as slow as BAD


@dataclass(frozen=True, slots=True)
class History:
    """The commits between both ends, the oldest first: each after its parents, the last one is BAD."""

    commits: tuple[Commit, ...]
    reach: Mapping[str, int] = field(init=False)  # commit → which commits it contains, itself too: a bit for each

    def __post_init__(self) -> None:
        """Collect what each commit contains."""
        reach = dict[str, int]()
        for place, commit in enumerate(self.commits):
            before = (reach.get(parent, 0) for parent in commit.parents)
            reach[commit.name] = union(before) | 1 << place
        object.__setattr__(self, "reach", reach)

    @property
    def all(self) -> int:
        """Every commit."""
        return (1 << len(self.commits)) - 1

    def names(self, chosen: int) -> tuple[str, ...]:
        """Return the commits of a set of bits."""
        return tuple(commit.name for place, commit in enumerate(self.commits) if chosen >> place & 1)


@dataclass(frozen=True, slots=True)
class Posterior:
    """How likely each commit is the culprit: those that equally many answers contradict are equally likely."""

    contradicted: tuple[int, ...]  # commits that so many answers contradict, as bits

    @property
    def whole(self) -> float:
        """The mass of all commits."""
        return sum(one.bit_count() * _ODDS**number for number, one in enumerate(self.contradicted))

    def mass(self, chosen: int) -> float:
        """Return the mass of some commits."""
        return sum((one & chosen).bit_count() * _ODDS**number for number, one in enumerate(self.contradicted))

    def after(self, inconsistent: int) -> "Posterior":
        """Return what an answer makes of it that contradicts some commits."""
        levels = [*self.contradicted, 0]
        kept = [one & ~inconsistent for one in levels]
        return Posterior(tuple(one | (levels[n - 1] & inconsistent if n else 0) for n, one in enumerate(kept)))

    def entropy(self) -> float:
        """Return how many bits are not known."""
        shares = ((one.bit_count(), _ODDS**number / self.whole) for number, one in enumerate(self.contradicted))
        return -sum(count * share * math.log2(share) for count, share in shares if share > 0)

    def fewest(self, share: float) -> int:
        """Return how many of the most likely commits have that share of the mass."""
        count, lacking = 0, share * self.whole
        for number, one in enumerate(self.contradicted):
            taken = min(one.bit_count(), max(0, math.ceil(lacking / _ODDS**number - _ROUNDING)))
            count, lacking = count + taken, lacking - taken * _ODDS**number
        return count


def posterior(history: History, answers: Sequence[Answer]) -> Posterior:
    """Return how likely each commit is after these answers, all being equally likely before."""
    found = Posterior((history.all,))
    for answer in answers:
        reach = history.reach[answer.commit]
        found = found.after(history.all & ~reach if answer.contains else reach)
    return found


def halving(history: History, found: Posterior, skipped: Collection[str]) -> str | None:
    """Return the commit whose answer tells most: it halves the mass as well as any; None where no answer tells."""
    whole = found.whole
    best, most = None, _ROUNDING * whole
    for commit in history.commits:
        if commit.name not in skipped:
            mass = found.mass(history.reach[commit.name])
            if min(mass, whole - mass) > most:
                best, most = commit.name, min(mass, whole - mass)
    return best


def alike(history: History, found: Posterior, skipped: Collection[str]) -> int:
    """Return the most likely commits that no commit which can be compared tells from each other, as bits."""
    if not skipped:  # each commit tells itself from all others: the oldest of the most likely ones
        likely = next(filter(None, found.contradicted))
        return likely & -likely
    classes = {history.all}
    for name in (commit.name for commit in history.commits if commit.name not in skipped):
        reach = history.reach[name]
        classes = {part for one in classes for part in (one & reach, one & ~reach) if part}
    return max(classes, key=lambda one: (found.mass(one), -one))


def union(sets: Iterable[int]) -> int:
    """Return what is in any of these sets of bits."""
    found = 0
    for one in sets:
        found |= one
    return found
