"""The sequential test of a build: what its pairs have decided, and what the next pair must measure.

Every test is screened by a few pairs. What looks slower is asked again with fresh pairs, which are looked at three
times at fixed numbers, or four; the false-alarm rate of the whole build is split over the looks and, by Holm's rule,
over what is asked. One pure function of the evidence serves the live run and the recomputation from a file.
Why the rate holds: docs/statistics.md.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, get_args

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Evidence, Hypothesis, Measurement, Observation, Stage
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.units import counted
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.figures.ranks import fewest_pairs, signed_rank_p, walsh_bounds
from pytest_hwperf.stats.pairs.paired import MOST_PAIRS, Exact, Paired, is_ratio

_STAGES: tuple[Stage, ...] = get_args(Stage)
SCREEN_PAIRS: Final = 6
FIRST_PAIRS: Final = 3  # after which a test may be known to need no more
LONG_SCREEN: Final = 9  # of it, where six show a test to be neither slower nor equal: one may be disturbed
SCREEN_P = 0.11  # at a margin of 0: a rank sum of 17 of 21
CLEARING_PAIRS: Final = 8  # fresh ones, after which a suspect is asked no further if they show no change for the worse
SHARES = (0.4, 0.3, 0.3)  # of alpha, one for each look
PATIENT_SHARES = (0.4, 0.2, 0.2, 0.2)  # the same where pairs go on until equivalence is shown: with a late look more
LOOKS = {pairs: 2.0**-7 * 0.5**number for number, pairs in enumerate((8, 16, 32, MOST_PAIRS))}  # for equivalence

_LONG_LEVEL = 10 * 2.0**-9  # of its interval; with 1/64 after six, 3.5 % of changes of the margin's size seem equal
_FEWEST = 8  # pairs at the first look
_DISTANCES = (5, 7, 20)  # pairs from look to look

_Seen = Mapping[Hypothesis, Mapping[Stage, Sequence[Observation]]]  # what the pairs observed, in time order


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the next pair is for."""

    stage: Stage | None  # None: everything is decided, or it was stopped
    hypotheses: tuple[Hypothesis, ...] = ()  # that wait for values of it
    pairs: int = 0  # until the next look
    lacking: tuple[int, ...] = field(default=(), compare=False)  # how many of these each hypothesis waits for

    def after(self, pairs: int) -> "Step":
        """Return what a further pair is for, where so many are under way whose values nobody has seen yet."""
        left = {one: count - pairs for one, count in zip(self.hypotheses, self.lacking, strict=True)}
        return _step(self.stage, left) if self.stage else self

    def only(self, hypotheses: Collection[Hypothesis]) -> "Step":
        """Return what it is for among some hypotheses, of which some wait for it."""
        left = {one: count for one, count in zip(self.hypotheses, self.lacking, strict=True) if one in hypotheses}
        return _step(self.stage, left) if self.stage else self

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return tuple(dict.fromkeys(hypothesis.measurement for hypothesis in self.hypotheses))


def looks(family: int, alpha: float, shares: Sequence[float] = SHARES) -> tuple[int, ...]:
    """Return the numbers of fresh pairs at which is looked: (8, 13, 20) for one hypothesis at 1 %, patiently 40 too.

    Each look can reject the first of `family` testable at its own share of alpha.
    """
    found = [max(_FEWEST, fewest_pairs(shares[0] * alpha / family))]
    for share, distance in zip(shares[1:], _DISTANCES, strict=False):
        found.append(max(found[-1] + distance, fewest_pairs(share * alpha / family)))
    return tuple(found)


def check_alpha(alpha: float, testable: int = 1) -> None:
    """Refuse a false-alarm rate that takes more pairs than a build can have; `parse_rate` has checked its range."""
    if (pairs := looks(testable, alpha)[-1]) > MOST_PAIRS:
        raise UsageProblem(
            f"a false-alarm rate of {alpha:g} over {counted(testable, 'comparison')} would take {pairs} pairs of "
            f"processes, where {MOST_PAIRS} are the most: give a larger rate, such as 0.01"
        )


def next_step(evidence: Evidence) -> Step:
    """Say what the next pair must measure, and how many pairs it is until the next look.

    Groups go one after the other; what is in none of those that were started is not measured. When no group is left
    to be begun, further pairs may be asked for, to show what is still open to be equivalent.
    """
    if evidence.stopped:
        return Step(stage=None)
    seen, over = _seen(evidence), list[_Course]()
    for course in _courses(evidence, seen):
        if waiting_for := course.lacking():
            return _step(*waiting_for)
        over.append(course)
    if not evidence.until_equivalent or evidence.unreached:
        return Step(stage=None)
    decided = {one: comparison for course in over for one, comparison in course.close().items()}
    if any(one.outcome == "regressed" for one in decided.values()):
        return Step(stage=None)  # nothing that is still open would change the answer
    waiting = (one for one in evidence.hypotheses if one in decided and one not in evidence.dropped)
    observed = {one: len(seen[one]["equivalence"]) for one in waiting if decided[one].outcome == "inconclusive"}
    lacking = {one: next((pairs for pairs in LOOKS if pairs > count), 0) - count for one, count in observed.items()}
    return _step("equivalence", lacking) if any(count > 0 for count in lacking.values()) else Step(stage=None)


def decide(evidence: Evidence) -> Mapping[Hypothesis, Comparison]:
    """Return the comparison of every hypothesis and every fixed sample, as far as they are decided now.

    Hypotheses that the screen cleared are shown with the interval of its pairs and are never called regressed;
    confirmed ones with that of their last complete look. What has not got its values is inconclusive and says why.
    A hypothesis of which nothing was observed is left out, and so is one that was dropped before it was decided: the
    conductor knows why. What was dropped still counts as asked, so that nothing that was decided before moves.
    """
    courses = _courses(evidence, _seen(evidence))
    return {one: comparison for course in courses for one, comparison in course.close().items()}


def _seen(evidence: Evidence) -> _Seen:
    """Sort what the pairs observed by hypothesis and stage."""
    keys = {one.key: {stage: list[Observation]() for stage in _STAGES} for one in evidence.hypotheses}
    for pair in evidence.pairs:
        for one in pair.observations:
            if one.key in keys:
                keys[one.key][pair.stage].append(one)
    return dict(zip(evidence.hypotheses, keys.values(), strict=True))


def _courses(evidence: Evidence, seen: _Seen) -> Iterator["_Course"]:
    """Go through the groups of a build; each has its share of the rate that is left.

    The share is that of what is expected to be tested of it, at least one hypothesis, among all that is left. A group
    that has tested nothing has spent nothing. Fixed samples belong to the first group.
    """
    left, at, fixed, is_red = evidence.alpha, 0, tuple(map(Exact, evidence.fixed_samples)), False
    testable = sum(one.is_testable(one.compare(left), left) for one in fixed)
    for size in evidence.groups or (len(evidence.hypotheses),):
        counts = size, len(evidence.hypotheses) - at - size
        here, others = (max(1.0, SCREEN_P * count) if count else 0.0 for count in counts)  # expected to be tested
        course = _Course(
            evidence=evidence,
            seen=seen,
            alpha=left * (here + testable) / (here + testable + others) if others else left,
            hypotheses=evidence.hypotheses[at : at + size],
            is_red=is_red,
        )
        course.follow(fixed)
        yield course
        is_red |= bool(course.rejected)
        left -= course.alpha if course.family else 0.0
        at, fixed, testable = at + size, (), 0


@dataclass(slots=True, kw_only=True)
class _Course:
    """The sequential test of one group."""

    evidence: Evidence
    seen: _Seen
    alpha: float  # of this group
    hypotheses: Sequence[Hypothesis]
    is_red: bool = False  # whether something has regressed in a group before: the build fails
    screened: list[Hypothesis] = field(default_factory=list)  # to be confirmed
    testable: dict[Hypothesis, tuple[Exact, float]] = field(default_factory=dict)  # with the p-value of each
    rejected: int = 0  # hypotheses and fixed samples that regressed
    decided: dict[Hypothesis, Comparison] = field(default_factory=dict)
    latest: dict[Hypothesis, tuple[int, Comparison]] = field(default_factory=dict)  # inconclusive at so many pairs

    @property
    def family(self) -> int:
        """Number of testable among which alpha is split."""
        return len(self.screened) + len(self.testable)

    @property
    def left(self) -> int:
        """By Holm's rule, the testable among which alpha is split now."""
        return self.family - self.rejected

    @property
    def shares(self) -> Sequence[float]:
        return PATIENT_SHARES if self.evidence.until_equivalent else SHARES

    @property
    def looks(self) -> Sequence[int]:
        """Fresh pairs at each look; none where there is nothing to confirm."""
        found = looks(self.family, self.alpha, self.shares) if self.family else ()
        return found[: len(SHARES)] + tuple(pairs for pairs in found[len(SHARES) :] if pairs <= MOST_PAIRS)

    def paired(self, one: Hypothesis, pairs: int, stage: Stage = "confirm") -> Paired:
        return Paired(one, self.seen[one][stage][:pairs])

    def screen(self, one: Hypothesis) -> tuple[Paired, int]:
        """Return what the screen of something tells, and how many pairs more it waits for."""
        seen, pairs = self.paired(one, LONG_SCREEN, "screen"), SCREEN_PAIRS
        if seen.observations and not seen.exact and all(map(is_ratio, seen.observations)):
            pairs = SCREEN_PAIRS if one in self.screened else _length_of_screen(seen)
        is_cut = self.is_red or self.evidence.stopped or one in self.evidence.dropped
        if is_cut and SCREEN_PAIRS <= len(seen.observations) < pairs:
            pairs = SCREEN_PAIRS  # they are a screen of their own
        missing = 0 if one in self.screened else max(0, pairs - len(seen.observations))
        return self.paired(one, pairs, "screen"), missing

    def follow(self, fixed_samples: Sequence[Exact]) -> None:
        """Go from the screen to the last look that is complete."""
        for one in self.hypotheses:
            if one in self.evidence.suspects or is_suspect(one, self.seen[one]["screen"]):
                self.screened.append(one)
        for fixed in fixed_samples:
            found, asked = fixed.compare(self.alpha), fixed.fixed.hypothesis
            if fixed.is_testable(found, self.alpha):
                p_value = found.p_value if found.outcome == "regressed" else None
                self.testable[asked] = fixed, 1.0 if p_value is None else p_value
            else:
                self.decided[asked] = found
        if not self.evidence.until_equivalent:
            for fresh in (self.paired(one, CLEARING_PAIRS) for one in self.screened):
                if _is_cleared(fresh):
                    self.decided[fresh.hypothesis] = fresh.compare(2.0 ** -len(fresh.observations), "second screen")
        for pairs, share in zip(self.looks, self.shares, strict=False):  # without a family there are no looks
            self._look(pairs, share)

    def _look(self, pairs: int, share: float) -> None:
        """Take a look: step down by Holm's rule until nothing more is rejected, then see what else is decided."""
        waiting = [one for one in self.screened if one not in self.decided and len(self.seen[one]["confirm"]) >= pairs]
        ready = {one: self.paired(one, pairs) for one in waiting}
        for one, fresh in ready.items():
            if not fresh.is_comparable:
                self.decided[one] = fresh.compare(0.0)
        found: dict[Hypothesis, Comparison] = {}
        while self.left:
            level = self.alpha / self.left
            found = {one: fresh.compare(share * level) for one, fresh in ready.items() if one not in self.decided}
            rejected = {one: comparison for one, comparison in found.items() if comparison.outcome == "regressed"}
            for one, (fixed, p_value) in self.testable.items():
                if one not in self.decided and p_value <= level:
                    rejected[one] = fixed.compare(level)
            self.decided.update((one, self._worded(comparison)) for one, comparison in rejected.items())
            self.rejected += len(rejected)
            if not rejected:
                break
        for one, comparison in found.items():
            if one not in self.decided:
                self.latest[one] = pairs, self._worded(comparison)
                if comparison.outcome != "inconclusive":
                    self.decided[one] = self._worded(comparison)

    def lacking(self) -> tuple[Stage, Mapping[Hypothesis, int]] | None:
        """Return how many pairs of which stage the group waits for; None where it is over."""
        waiting = [one for one in self.hypotheses if one not in self.evidence.dropped]
        lacking = {one: self.screen(one)[1] for one in waiting}
        if any(count > 0 for count in lacking.values()):
            return "screen", lacking
        waiting = [one for one in self.screened if one in waiting and one not in self.decided]
        for pairs in (CLEARING_PAIRS, *self.looks):
            lacking = {one: pairs - len(self.seen[one]["confirm"]) for one in waiting}
            if any(count > 0 for count in lacking.values()):
                return "confirm", lacking
        return None

    def close(self) -> Mapping[Hypothesis, Comparison]:
        """Say of everything in the group what is known of it now, decided or not."""
        for one, (fixed, _) in self.testable.items():
            if one not in self.decided:
                self.decided[one] = self._worded(fixed.compare(self.alpha / self.left))
        for one in self.hypotheses:
            found = self.decided.get(one) or self._undecided(one)
            if found is not None:
                self.decided[one] = self._after_further_pairs(one, found)
        return self.decided

    def _undecided(self, hypothesis: Hypothesis) -> Comparison | None:
        """Return the comparison of what no look has decided: of its screen, or of its last complete look.

        None where nothing was observed of it, or where it was dropped before all values were there.
        """
        screen, missing = self.screen(hypothesis)
        pairs, found = self.latest.get(hypothesis, (0, None))
        seen = len(screen.observations)
        if hypothesis not in self.screened and not missing:
            level = _LONG_LEVEL if seen == LONG_SCREEN else 2.0**-seen  # from the smallest to the largest
            return screen.compare(level, screen.exact[0] if screen.exact else "screen")
        if found and pairs == self.looks[-1]:
            return found
        if hypothesis in self.evidence.dropped or not (found or screen.observations):
            return None
        if found is None:
            found = screen.compare(2.0 ** -len(screen.observations), "unconfirmed screen")
            if found.outcome == "not comparable":
                return found
            found = replace(found, outcome="inconclusive", p_value=None)  # the same pairs have chosen it
        if hypothesis in self.screened:
            missing = next((look for look in self.looks if look > pairs), 0) - len(self.seen[hypothesis]["confirm"])
        return replace(found, cause=self.evidence.stopped or state("pairs missing", missing=missing))

    def _after_further_pairs(self, hypothesis: Hypothesis, before: Comparison) -> Comparison:
        """Return what is known of a hypothesis after further pairs, which can show equivalence and fail nothing."""
        if not self.evidence.until_equivalent or before.outcome != "inconclusive":
            return before
        found = look_for_equivalence(hypothesis, self.seen[hypothesis]["equivalence"]) or before
        if found.outcome in ("equivalent", "improved"):
            return found
        cause = self.evidence.stopped or before.cause
        return replace(found, outcome="inconclusive", p_value=None, cause=cause, promise=before.promise)

    def _worded(self, comparison: Comparison) -> Comparison:
        kind = "error rate with others" if self.testable else "error rate"
        kind = "error rate of one" if self.evidence.in_test else kind
        facts = {"screened": len(self.screened), "asked": len(self.hypotheses), "others": len(self.testable)}
        return replace(comparison, promise=state(kind, alpha=100 * self.evidence.alpha, **facts))


def _step(stage: Stage, lacking: Mapping[Hypothesis, int]) -> Step:
    waiting = {hypothesis: count for hypothesis, count in lacking.items() if count > 0}
    return Step(stage=stage, hypotheses=tuple(waiting), pairs=max(lacking.values()), lacking=tuple(waiting.values()))


def look_for_equivalence(hypothesis: Hypothesis, observations: Sequence[Observation]) -> Comparison | None:
    """Compare at the first look that decides, else at the last one that is complete; None before the first."""
    found = None
    for pairs, level in LOOKS.items():
        seen = Paired(hypothesis, observations[:pairs])
        if len(seen.observations) < pairs or not all(map(is_ratio, seen.observations)):
            break
        found = seen.compare(level)
        if found.outcome in ("equivalent", "improved"):
            break
    return found


def is_suspect(hypothesis: Hypothesis, observations: Sequence[Observation]) -> bool:
    """Say whether the screen leaves it open that a change for the worse exceeds the margin.

    It has to look like one, and not to lie within the margin in every single pair: of a change beyond it that happens
    to one in 64 at most. Also a value that never varies may follow the coin, as one that depends on who starts first.
    """
    whole = Paired(hypothesis, observations[:SCREEN_PAIRS])
    if len(whole.observations) < SCREEN_PAIRS or not whole.is_comparable:
        return False
    if whole.exact:
        return whole.compare(0.0, "screen").outcome == "regressed"
    worse, margin = whole.worsened()
    return _looks_slower(worse) and max(worse) >= margin


def _looks_slower(worse: Sequence[float]) -> bool:
    return signed_rank_p(worse) <= SCREEN_P


def _length_of_screen(seen: Paired) -> int:
    """Return how many pairs the screen takes of what is no suspect, as far as those that are there tell.

    After six it is over if they show it to be equal or better. Else it goes on to nine, as long as they can show it to
    be equal: if none of the others showed a change. Before six it ends where it cannot become a suspect either.
    """
    pairs, (worse, margin) = len(seen.observations), seen.worsened()
    for count in range(FIRST_PAIRS, pairs + 1):
        first = worse[: min(count, SCREEN_PAIRS)]
        is_shown, rest = max(first) < -margin or max(map(abs, first)) < margin, SCREEN_PAIRS - len(first)
        if is_shown and not rest:
            return count
        if is_shown or (rest and _looks_slower([*first, *[math.inf] * rest])):
            continue
        bounds = walsh_bounds([*worse[:count], *[0.0] * (LONG_SCREEN - count)], _LONG_LEVEL)
        if any(end is None or abs(end) >= margin for end in bounds):
            return count
    return SCREEN_PAIRS if pairs < SCREEN_PAIRS else LONG_SCREEN


def _is_cleared(fresh: Paired) -> bool:
    """Say whether fresh pairs put a suspect within the margin: half of eight do, as of most that are not slower.

    Fewer are enough where the others can change neither that, nor that it is `inconclusive`: those that are there are
    neither all within the margin nor all better than it.
    """
    count = len(fresh.observations)
    is_early = count < CLEARING_PAIRS
    if count < FIRST_PAIRS or (is_early and fresh.exact) or not all(map(is_ratio, fresh.observations)):
        return False
    worse, margin = fresh.worsened()
    if median([*worse, *[math.inf] * (CLEARING_PAIRS - count)]) > margin:
        return False
    return not is_early or (max(worse) >= -margin and max(map(abs, worse)) >= margin)
