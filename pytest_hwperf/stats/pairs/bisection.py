"""Bisection: which commit brought a regression, by pairs of BAD and older commits.

Where BAD is slower than a commit by more than half of the change that is searched, that commit lies before the culprit;
where by less, it contains it. Either answer is an exact signed-rank test of the pair values against that half, so that
it is wrong at most at `ERROR_RATE`, whatever the noise. What the answers make of the commits: `posterior`.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from statistics import median
from typing import Literal

from pytest_hwperf.records.evidence import Evidence, Hypothesis, MeasuredStatistic, MeasurementKey
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, Better
from pytest_hwperf.records.run import SCHEMA, Estimate
from pytest_hwperf.records.structs import Count, Number, Record, Share
from pytest_hwperf.records.units import counted, relative_change
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.figures.ranks import hodges_lehmann, shift_bound, signed_rank_p, walsh_bounds
from pytest_hwperf.stats.pairs.sequence import decide

ERROR_RATE = 1 / 45  # of an answer

CommitAnswer = tuple[str, bool]  # commit, whether it contains the culprit: it is as slow as BAD

_ODDS = ERROR_RATE / (1 - ERROR_RATE)  # by which an answer that contradicts a commit makes it less likely
_ROUNDING = 1e-9  # of masses, relative
BITS = 1 + ERROR_RATE * math.log2(ERROR_RATE) + (1 - ERROR_RATE) * math.log2(1 - ERROR_RATE)  # that an answer gives


class Commit(Record, frozen=True, kw_only=True):
    """A commit that may have brought the change, with its parents."""

    name: str  # its whole hash
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """The commits between both ends, the oldest first: each after its parents, the last one is BAD."""

    commits: tuple[Commit, ...]
    reach: Mapping[str, int] = field(init=False)  # commit → which commits it contains, itself too: a bit for each

    def __post_init__(self) -> None:
        """Collect what each commit contains."""
        reach = dict[str, int]()
        for place, commit in enumerate(self.commits):
            reach[commit.name] = reduce(or_, (reach.get(parent, 0) for parent in commit.parents), 1 << place)
        object.__setattr__(self, "reach", reach)

    @property
    def all(self) -> int:
        return (1 << len(self.commits)) - 1

    def names(self, chosen: int) -> tuple[str, ...]:
        return tuple(commit.name for place, commit in enumerate(self.commits) if chosen >> place & 1)


@dataclass(frozen=True, slots=True)
class Posterior:
    """How likely each commit is the culprit: those that equally many answers contradict are equally likely."""

    contradicted: tuple[int, ...]  # commits that so many answers contradict, as bits

    @property
    def whole(self) -> float:
        return sum(one.bit_count() * _ODDS**number for number, one in enumerate(self.contradicted))

    def mass(self, chosen: int) -> float:
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


def posterior(history: History, answers: Sequence[CommitAnswer]) -> Posterior:
    """Return how likely each commit is after these answers, all being equally likely before."""
    found = Posterior((history.all,))
    for commit, contains in answers:
        reach = history.reach[commit]
        found = found.after(history.all & ~reach if contains else reach)
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


# Of the looks at one commit, each after six pairs: six pairs have no lower p-value than the first. The sum of all is
# below `ERROR_RATE`.
LEVELS = (1 / 64, *[1 / 768] * 5)
SURE = 0.95  # chance of the culprit at which nothing more is asked, unless another is given

_ENTROPY_OF_SURE = 0.5  # bits that are about left in the end
_BOUND = 0.025  # one-sided, of the change that the culprit has brought


class BisectionQuestion(Record, frozen=True, kw_only=True):
    """What is searched: the same question goes on where it was interrupted."""

    good: str  # commit
    bad: str  # commit
    first_parent: bool
    folder: str  # in which pytest is started, relative to the top of the work tree
    arguments: tuple[str, ...]  # of pytest
    laid: Mapping[str, str] = {}  # file of the user's tree that BAD was given, with a test that it lacks → SHA-256


class KnownChange(MeasuredStatistic, frozen=True, kw_only=True):
    """The regression between both ends, as measured before it is searched."""

    better: Better
    change: Estimate  # relative, of BAD over GOOD
    values: tuple[Number, ...]  # log ratios of fresh pairs, positive for the worse; at least one

    def __post_init__(self) -> None:
        """Refuse what is no regression."""
        if not self.values or self.half <= 0:
            raise ValueError("no values of a change for the worse")

    @property
    def half(self) -> float:
        return hodges_lehmann(self.values) / 2


class BisectionStep(Record, frozen=True, kw_only=True):
    """What the pairs of one step have shown."""

    commit: str
    values: tuple[Number, ...] = ()  # log ratios of BAD over the commit, positive for the worse, one a pair
    reason: str = ""  # why the commit cannot be compared: it is skipped


class Bisection(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf bisection"):
    """A bisection so far: everything that is said of it follows from this."""

    schema: int = SCHEMA
    question: BisectionQuestion
    known: KnownChange
    steps: tuple[BisectionStep, ...] = ()


class Suspect(Record, frozen=True, kw_only=True):
    """A commit that may have brought the change, as it is shown."""

    commit: str
    date: str  # of its author, ISO 8601
    author: str
    subject: str
    reason: str = ""  # why it could not be compared, "" where it was


class BisectionFile(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf bisection result"):
    """What `hwperf bisect` has found, as a file for other programs."""

    schema: int = SCHEMA
    outcome: Literal["found", "inconclusive", "no regression"]
    question: BisectionQuestion
    known: KnownChange | None = None  # between both ends; None: there is no regression, or it is not sure
    comparisons: tuple[Comparison, ...] = ()  # of both ends, where there is none
    lost: tuple[str, ...] = ()  # of both ends, of what pairs have no values: "latency p50 of TEST"
    steps: tuple[BisectionStep, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    confidence: Share | None = None  # that the culprit is among them; None: nothing was searched
    sure: Share = SURE  # confidence that was asked for
    left: Count = 0  # commits that together are as likely as was asked for
    change: Estimate | None = None  # that they have brought


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a bisection is."""

    suspects: tuple[str, ...]  # the most likely culprit with those that nothing can tell from it, oldest first
    confidence: float  # that it is among them
    left: int  # commits that together are as likely as is asked for
    steps: int  # so far
    about: int  # steps in all, as far as can be foreseen
    ask: str | None  # commit to be compared next; None: nothing more is to be asked
    skipped: Mapping[str, str]  # commit → why it cannot be compared


def known_change(evidence: Evidence) -> KnownChange | None:
    """Return the regression that the pairs of both ends have found: of the median latency, else the largest one.

    None: nothing that pairs measure has regressed.
    """
    sure = dict[Hypothesis, tuple[Estimate, tuple[float, ...]]]()
    for one, it in compared_in_pairs(evidence).items():
        values = pair_values(evidence, one.key, one.better, fresh=True)
        if it.outcome == "regressed" and it.change is not None and values:
            sure[one] = it.change, values
    if not sure:
        return None
    first = max(sure, key=lambda one: (one.margin.key == MEDIAN_LATENCY, abs(sure[one][0].value)))
    change, values = sure[first]
    metric, statistic = first.margin.key
    return KnownChange(
        measurement=first.measurement, metric=metric, statistic=statistic, better=first.better, change=change,
        values=values,
    )  # fmt: skip


def compared_in_pairs(evidence: Evidence) -> dict[Hypothesis, Comparison]:
    found = decide(evidence)
    return {one: found[one] for one in evidence.hypotheses if one in found}


def pair_values(evidence: Evidence, key: MeasurementKey, better: Better, *, fresh: bool = False) -> tuple[float, ...]:
    """Return the log ratios of one statistic, one a pair, positive for the worse."""
    stage, sign = ("confirm" if fresh else "screen"), (1 if better == "lower" else -1)
    seen = (one for pair in evidence.pairs if pair.stage == stage for one in pair.observations)
    return tuple(sign * one.change for one in seen if one.key == key and one.change is not None)


def answers_of(bisection: Bisection) -> tuple[list[CommitAnswer], dict[str, str]]:
    """Read the steps: return what was answered, and the commits that cannot be compared, each with its reason.

    What a look leaves inconclusive is looked at again with further pairs of the same commit, at levels whose sum stays
    below `ERROR_RATE`. A commit that is inconclusive after the last look lies between both ends, and is skipped.
    """
    answers, skipped, half = list[CommitAnswer](), dict[str, str](), bisection.known.half
    waiting = dict[str, list[tuple[float, ...]]]()
    for step in bisection.steps:
        if step.reason:
            skipped[step.commit] = step.reason
            continue
        looks = [*waiting.pop(step.commit, []), step.values]
        values, level = [value for look in looks for value in look], LEVELS[len(looks) - 1]
        # an exact test on which side of half the change it lies
        if signed_rank_p(values, half) <= level:
            answers.append((step.commit, False))
        elif signed_rank_p([-value for value in values], -half) <= level:
            answers.append((step.commit, True))
        elif len(looks) < len(LEVELS):
            waiting[step.commit] = looks
        else:
            skipped[step.commit] = f"inconclusive after {counted(len(values), 'pair')}: it lies between both ends"
    return answers, skipped


def standing(history: History, bisection: Bisection, sure: float = SURE) -> Standing:
    """Say how far a bisection is, and which commit is to be asked next."""
    answers, skipped = answers_of(bisection)
    found = posterior(history, answers)
    suspects = alike(history, found, skipped)
    confidence = found.mass(suspects) / found.whole
    ask = None if confidence >= sure else halving(history, found, skipped)
    steps = len(bisection.steps)
    further = 0 if ask is None else max(1, math.ceil((found.entropy() - _ENTROPY_OF_SURE) / BITS))
    return Standing(
        suspects=history.names(suspects),
        confidence=confidence,
        left=found.fewest(sure),
        steps=steps,
        about=steps + further,
        ask=ask,
        skipped=skipped,
    )


def change_of(history: History, bisection: Bisection, suspects: Sequence[str]) -> Estimate:
    """Return the change that the suspects have brought: between the last commit before them and the first after."""
    known, places = bisection.known, {commit.name: place for place, commit in enumerate(history.commits)}
    chosen = sum(1 << places[name] for name in suspects)
    seen = dict[str, list[float]]()
    for step in bisection.steps:
        seen.setdefault(step.commit, []).extend(step.values)
    asked = [name for name in seen if seen[name]]
    before = [name for name in asked if not history.reach[name] & chosen]
    later = [name for name in asked if history.reach[name] & chosen == chosen]
    if not (before or later):
        return known.change
    slow = seen[max(before, key=lambda name: history.reach[name].bit_count())] if before else [*known.values]
    fast = seen[min(later, key=lambda name: history.reach[name].bit_count())] if later else []
    # How far one group of log ratios lies above the other, which is exactly 0 where it is empty: BAD itself.
    sign = 1 if known.better == "lower" else -1
    if fast:
        centre = median(one - other for one in slow for other in fast)
        upper = shift_bound(fast, slow, _BOUND)
        bounds = shift_bound(slow, fast, _BOUND), None if upper is None else -upper
    else:
        centre, bounds = hodges_lehmann(slow), walsh_bounds(slow, _BOUND)
    method = "difference of pairs, rank sums" if fast else "Walsh averages"
    found = Estimate.of(centre, bounds, 1 - 2 * _BOUND, len(slow) + len(fast), method)
    return found.mapped(lambda log_ratio: relative_change(sign * log_ratio), falls=sign < 0)
