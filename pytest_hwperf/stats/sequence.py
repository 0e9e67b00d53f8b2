"""The sequential test of a build: what its pairs have decided, and what the next pair must measure.

Every test is screened by a few pairs. What looks slower is asked again with fresh pairs, which are looked at three
times at fixed numbers, or four; the false-alarm rate of the whole build is split over the looks and, by Holm's rule,
over what is asked. One pure function of the evidence serves the live run and the recomputation from a file.
Why the rate holds: docs/statistics.md.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Evidence, FixedSample, Hypothesis, Measurement, Observation, Stage
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.units import counted
from pytest_hwperf.records.verdict import Comparison, uncompared
from pytest_hwperf.stats.paired import MOST_PAIRS, compare_fixed, compare_observations, is_ratio, is_testable
from pytest_hwperf.stats.ranks import fewest_pairs
from pytest_hwperf.stats.screen import (
    NO_RATIO,
    SCREEN_P,
    SCREEN_PAIRS,
    compare_fresh,
    is_suspect,
    never_varies,
    screened,
)

_STAGES: tuple[Stage, ...] = get_args(Stage)
LOOKS = {pairs: 2.0**-7 * 0.5**number for number, pairs in enumerate((8, 16, 32, MOST_PAIRS))}


def next_look(observed: int) -> int:
    """Return at how many further pairs is looked next; 0 after the last look."""
    return next((pairs for pairs in LOOKS if pairs > observed), 0)


def look_for_equivalence(hypothesis: Hypothesis, observations: Sequence[Observation]) -> Comparison | None:
    """Compare at the first look that decides, else at the last one that is complete; None before the first."""
    found = None
    for pairs, level in LOOKS.items():
        seen = observations[:pairs]
        if len(seen) < pairs or not all(map(is_ratio, seen)):
            break
        found = compare_observations(hypothesis, seen, level)
        if found.outcome in ("equivalent", "improved"):
            break
    return found


SHARES = (0.4, 0.3, 0.3)  # of alpha, one for each look
PATIENT_SHARES = (0.4, 0.2, 0.2, 0.2)  # the same where pairs go on until equivalence is shown: with a late look more

_FEWEST = 8  # pairs at the first look
_DISTANCES = (5, 7, 20)  # pairs from look to look


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
        """What it must measure."""
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

    Groups go one after the other; what is in none of those that were started is not measured.
    """
    if evidence.stopped:
        return Step(stage=None)
    seen = _seen(evidence)
    for course in _courses(evidence, seen):
        step = course.step()
        if step.stage:
            return step
    return _further_step(evidence, seen)


def _further_step(evidence: Evidence, seen: "_Seen") -> Step:
    """Say what further pairs must measure, where they were asked for: when no group is left to be begun."""
    if not evidence.until_equivalent or evidence.unreached:
        return Step(stage=None)
    found = decide(evidence)
    if any(one.outcome == "regressed" for one in found.values()):
        return Step(stage=None)  # nothing that is still open would change the answer
    waiting = (one for one in evidence.hypotheses if one in found and one not in evidence.dropped)
    observed = {one: len(seen[one]["equivalence"]) for one in waiting if found[one].outcome == "inconclusive"}
    lacking = {one: next_look(count) - count for one, count in observed.items()}
    return _step("equivalence", lacking) if any(count > 0 for count in lacking.values()) else Step(stage=None)


def decide(evidence: Evidence) -> Mapping[Hypothesis, Comparison]:
    """Return the comparison of every hypothesis and every fixed sample, as far as they are decided now.

    Hypotheses that the screen cleared are shown with the interval of its six pairs and are never called regressed;
    confirmed ones with that of their last complete look. What has not got its values is inconclusive and says why.
    A hypothesis of which nothing was observed is left out, and so is one that was dropped before it was decided: the
    conductor knows why. What was dropped still counts as asked, so that nothing that was decided before moves.
    """
    decided = dict[Hypothesis, Comparison]()
    for course in _courses(evidence, _seen(evidence)):
        course.close()
        decided |= course.decided
    return decided


_Seen = Mapping[Hypothesis, Mapping[Stage, Sequence[Observation]]]  # what the pairs observed, in time order


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
    left, at, fixed = evidence.alpha, 0, evidence.fixed_samples
    testable = sum(is_testable(one, compare_fixed(one, left), left) for one in fixed)
    for size in evidence.groups or (len(evidence.hypotheses),):
        counts = size, len(evidence.hypotheses) - at - size
        here, others = (max(1.0, SCREEN_P * count) if count else 0.0 for count in counts)  # expected to be tested
        course = _Course(
            evidence=evidence,
            seen=seen,
            alpha=left * (here + testable) / (here + testable + others) if others else left,
            hypotheses=evidence.hypotheses[at : at + size],
        )
        course.follow(fixed)
        yield course
        left -= course.alpha if course.family else 0.0
        at, fixed, testable = at + size, (), 0


@dataclass(slots=True, kw_only=True)
class _Course:
    """The sequential test of one group."""

    evidence: Evidence
    seen: _Seen
    alpha: float  # of this group
    hypotheses: Sequence[Hypothesis]
    screened: list[Hypothesis] = field(default_factory=list)  # to be confirmed
    testable: dict[Hypothesis, tuple[FixedSample, float]] = field(default_factory=dict)  # with the p-value of each
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
        """Shares of alpha, one for each look."""
        return PATIENT_SHARES if self.evidence.until_equivalent else SHARES

    @property
    def looks(self) -> Sequence[int]:
        """Fresh pairs at each look; none where there is nothing to confirm."""
        found = looks(self.family, self.alpha, self.shares) if self.family else ()
        return found[: len(SHARES)] + tuple(pairs for pairs in found[len(SHARES) :] if pairs <= MOST_PAIRS)

    @property
    def inconclusive(self) -> list[Hypothesis]:
        """What needs more pairs."""
        return [hypothesis for hypothesis in self.screened if hypothesis not in self.decided]

    def follow(self, fixed_samples: Sequence[FixedSample]) -> None:
        """Go from the screen to the last look that is complete."""
        self.screened.extend(one for one in self.hypotheses if is_suspect(one, self.seen[one]["screen"]))
        for fixed in fixed_samples:
            found = compare_fixed(fixed, self.alpha)
            if is_testable(fixed, found, self.alpha):
                p_value = found.p_value if found.outcome == "regressed" else None
                self.testable[fixed.hypothesis] = fixed, 1.0 if p_value is None else p_value
            else:
                self.decided[fixed.hypothesis] = found
        for pairs, share in zip(self.looks, self.shares, strict=False):  # without a family there are no looks
            self._look(pairs, share)

    def _look(self, pairs: int, share: float) -> None:
        """Take a look: step down by Holm's rule until nothing more is rejected, then see what else is decided."""
        confirm = {one: self.seen[one]["confirm"] for one in self.inconclusive}
        ready = {one: fresh[:pairs] for one, fresh in confirm.items() if len(fresh) >= pairs}
        for one, fresh in ready.items():
            if not never_varies(one, fresh) and not all(map(is_ratio, fresh)):
                self.decided[one] = uncompared(one.margin, "not comparable", NO_RATIO)
        found: dict[Hypothesis, Comparison] = {}
        while self.left:
            level = self.alpha / self.left
            waiting = {one: fresh for one, fresh in ready.items() if one not in self.decided}
            found = {one: compare_fresh(one, fresh, share * level) for one, fresh in waiting.items()}
            rejected = {one: comparison for one, comparison in found.items() if comparison.outcome == "regressed"}
            for one, (fixed, p_value) in self.testable.items():
                if one not in self.decided and p_value <= level:
                    rejected[one] = compare_fixed(fixed, level)
            self.decided.update((one, self._worded(comparison)) for one, comparison in rejected.items())
            self.rejected += len(rejected)
            if not rejected:
                break
        for one, comparison in found.items():
            if one not in self.decided:
                self.latest[one] = pairs, self._worded(comparison)
                if comparison.outcome != "inconclusive":
                    self.decided[one] = self._worded(comparison)

    def step(self) -> Step:
        """Say what the next pair must measure of this group."""
        waiting = [one for one in self.hypotheses if one not in self.evidence.dropped]
        lacking = {one: SCREEN_PAIRS - len(self.seen[one]["screen"]) for one in waiting if one not in self.screened}
        if any(count > 0 for count in lacking.values()):
            return _step("screen", lacking)
        for pairs in self.looks:
            lacking = {one: pairs - len(self.seen[one]["confirm"]) for one in self.inconclusive if one in waiting}
            if any(count > 0 for count in lacking.values()):
                return _step("confirm", lacking)
        return Step(stage=None)

    def close(self) -> None:
        """Say of everything in the group what is known of it now, decided or not."""
        for one, (fixed, _) in self.testable.items():
            if one not in self.decided:
                self.decided[one] = self._worded(compare_fixed(fixed, self.alpha / self.left))
        for one in self.hypotheses:
            is_lost = one in self.evidence.dropped and not self._is_settled(one)
            if self.seen[one]["screen"] and one not in self.decided and not is_lost:
                self.decided[one] = self._undecided(one)
            if one in self.decided:
                self.decided[one] = self._after_further_pairs(one, self.decided[one])

    def _is_settled(self, hypothesis: Hypothesis) -> bool:
        """Whether no further value of a hypothesis is waited for: it is decided, cleared, or at its last look."""
        if hypothesis in self.decided:
            return True
        if hypothesis in self.screened:
            return self.latest.get(hypothesis, (0, None))[0] == self.looks[-1]
        return len(self.seen[hypothesis]["screen"]) >= SCREEN_PAIRS

    def _undecided(self, hypothesis: Hypothesis) -> Comparison:
        """Return the comparison of what no look has decided: of its last complete look, or of its screen."""
        screen = self.seen[hypothesis]["screen"][:SCREEN_PAIRS]
        if len(screen) == SCREEN_PAIRS and hypothesis not in self.screened:
            return screened(hypothesis, screen, "equal pairs" if never_varies(hypothesis, screen) else "screen")
        pairs, found = self.latest.get(hypothesis, (0, None))
        if found and pairs == self.looks[-1]:
            return found
        if found is None:
            found = screened(hypothesis, screen, "unconfirmed screen")
            if found.outcome == "not comparable":
                return found
            found = replace(found, outcome="inconclusive", p_value=None)  # the same pairs have chosen it
        missing = SCREEN_PAIRS - len(screen)
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
        """Say what the level of a comparison promises."""
        kind = "error rate with others" if self.testable else "error rate"
        kind = "error rate of one" if self.evidence.in_test else kind
        facts = {"screened": len(self.screened), "asked": len(self.hypotheses), "others": len(self.testable)}
        return replace(comparison, promise=state(kind, alpha=100 * self.evidence.alpha, **facts))


def _step(stage: Stage, lacking: Mapping[Hypothesis, int]) -> Step:
    waiting = {hypothesis: count for hypothesis, count in lacking.items() if count > 0}
    return Step(stage=stage, hypotheses=tuple(waiting), pairs=max(lacking.values()), lacking=tuple(waiting.values()))
