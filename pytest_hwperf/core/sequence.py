"""The sequential test of a build: what its pairs have decided, and what the next pair must measure.

Every test is screened by a few pairs. What looks slower is asked again with fresh pairs, which are looked at three
times at fixed numbers; the false-alarm rate of the whole build is split over the looks and, by Holm's rule, over what
is asked. One pure function of the evidence serves the live run and the recomputation from a file.
Why the rate holds: docs/statistics.md.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from pytest_hwperf.core.comparisons import compare_accuracy, compare_exact
from pytest_hwperf.core.equivalence import look_for_equivalence, next_look
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.evidence import Evidence, FixedSample, Hypothesis, Measurement, Observation, Stage
from pytest_hwperf.core.metrics import METRICS, Metric, metric_of
from pytest_hwperf.core.paired import MOST_PAIRS, compare_observations, compare_processes, is_ratio, pair_value
from pytest_hwperf.core.ranks import fewest_pairs, signed_rank_p
from pytest_hwperf.core.records import Comparison, ComparisonOutcome, replace, uncompared
from pytest_hwperf.core.statements import Kind, state
from pytest_hwperf.core.units import counted, relative

SCREEN_PAIRS = 6
SCREEN_P = 0.11  # at a margin of 0: a rank sum of 17 of 21
SHARES = (0.4, 0.3, 0.3)  # of alpha, one for each look

_FEWEST = 8  # pairs at the first look
_DISTANCES = (5, 7)  # pairs from look to look
_SCREEN_LEVEL = 2.0**-SCREEN_PAIRS  # the narrowest that six pairs can give: from the smallest to the largest
_NO_RATIO = state("no ratio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the next pair is for."""

    stage: Stage | None  # None: everything is decided, or it was stopped
    hypotheses: tuple[Hypothesis, ...] = ()  # that wait for values of it
    pairs: int = 0  # until the next look

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What it must measure."""
        return tuple(dict.fromkeys(hypothesis.measurement for hypothesis in self.hypotheses))


def looks(family: int, alpha: float) -> tuple[int, int, int]:
    """Return the numbers of fresh pairs at which is looked: (8, 13, 20) for one hypothesis at 1 %.

    Each look can reject the first of `family` testable at its own share of alpha.
    """
    first, second, third = (fewest_pairs(share * alpha / family) for share in SHARES)
    first = max(_FEWEST, first)
    second = max(first + _DISTANCES[0], second)
    return first, second, max(second + _DISTANCES[1], third)


def check_alpha(alpha: float, testable: int = 1) -> None:
    """Refuse a false-alarm rate that takes more pairs than a build can have; `parse_rate` has checked its range.

    Raises:
        UsageProblem: says how many pairs it would take.
    """
    if (pairs := looks(testable, alpha)[-1]) > MOST_PAIRS:
        raise UsageProblem(
            f"a false-alarm rate of {alpha:g} over {counted(testable, 'comparison')} would take {pairs} pairs of "
            f"processes, where {MOST_PAIRS} are the most: give a larger rate, such as 0.01"
        )


def next_step(evidence: Evidence) -> Step:
    """Say what the next pair must measure, and how many pairs it is until the next look."""
    if evidence.stopped:
        return Step(stage=None)
    seen = _seen(evidence)
    waiting = [hypothesis for hypothesis in evidence.hypotheses if hypothesis not in evidence.dropped]
    lacking = {hypothesis: SCREEN_PAIRS - len(seen[hypothesis].screen) for hypothesis in waiting}
    if any(count > 0 for count in lacking.values()):
        return _step("screen", lacking)
    course = _course(evidence, seen)
    for pairs in course.looks:
        lacking = {one: pairs - len(seen[one].confirm) for one in course.undecided if one in waiting}
        if any(count > 0 for count in lacking.values()):
            return _step("confirm", lacking)
    return _further_step(evidence, seen, waiting)


def _further_step(evidence: Evidence, seen: Mapping[Hypothesis, "_Seen"], waiting: Sequence[Hypothesis]) -> Step:
    """Say what further pairs must measure, where they were asked for."""
    if not evidence.until_equivalent:
        return Step(stage=None)
    found = decide(evidence)
    if any(one.outcome == "regressed" for one in found.values()):
        return Step(stage=None)  # nothing that is still open would change the answer
    undecided = [one for one in waiting if one in found and found[one].outcome == "inconclusive"]
    lacking = {one: next_look(len(seen[one].further)) - len(seen[one].further) for one in undecided}
    return _step("equivalence", lacking) if any(count > 0 for count in lacking.values()) else Step(stage=None)


def decide(evidence: Evidence) -> Mapping[Hypothesis, Comparison]:
    """Return the comparison of every hypothesis and every fixed sample, as far as they are decided now.

    Hypotheses that the screen cleared are shown with the interval of its six pairs and are never called regressed;
    confirmed ones with that of their last complete look. What has not got its values is inconclusive and says why.
    A hypothesis of which nothing was observed is left out, and so is one that was dropped before it was decided: the
    conductor knows why. What was dropped still counts as asked, so that nothing that was decided before moves.
    """
    seen = _seen(evidence)
    course = _course(evidence, seen)
    for hypothesis, (fixed, _) in course.testable.items():
        if hypothesis not in course.decided:
            course.decided[hypothesis] = course.worded(_compare_fixed(fixed, course.alpha / course.left))
    for hypothesis in evidence.hypotheses:
        is_lost = hypothesis in evidence.dropped and not _is_settled(course, seen[hypothesis], hypothesis)
        if seen[hypothesis].screen and hypothesis not in course.decided and not is_lost:
            course.decided[hypothesis] = _undecided(evidence, course, seen[hypothesis], hypothesis)
        if hypothesis in course.decided:
            before, further = course.decided[hypothesis], seen[hypothesis].further
            course.decided[hypothesis] = _after_further_pairs(evidence, hypothesis, before, further)
    return course.decided


@dataclass(slots=True, kw_only=True)
class _Seen:
    """What the pairs observed of one hypothesis, in time order."""

    screen: list[Observation] = field(default_factory=list)
    confirm: list[Observation] = field(default_factory=list)
    further: list[Observation] = field(default_factory=list)  # for equivalence


@dataclass(slots=True, kw_only=True)
class _Course:
    """The state of a build's sequential test."""

    alpha: float
    hypotheses: int
    screened: list[Hypothesis] = field(default_factory=list)  # to be confirmed
    testable: dict[Hypothesis, tuple[FixedSample, float]] = field(default_factory=dict)  # with the p-value of each
    rejected: int = 0  # hypotheses and fixed samples that regressed
    decided: dict[Hypothesis, Comparison] = field(default_factory=dict)
    latest: dict[Hypothesis, tuple[int, Comparison]] = field(default_factory=dict)  # undecided at so many pairs

    @property
    def family(self) -> int:
        """Number of testable among which alpha is split."""
        return len(self.screened) + len(self.testable)

    @property
    def left(self) -> int:
        """By Holm's rule, the testable among which alpha is split now."""
        return self.family - self.rejected

    @property
    def looks(self) -> Sequence[int]:
        """Fresh pairs at each look; none where there is nothing to confirm."""
        return looks(self.family, self.alpha) if self.family else ()

    @property
    def undecided(self) -> list[Hypothesis]:
        """What needs more pairs."""
        return [hypothesis for hypothesis in self.screened if hypothesis not in self.decided]

    def rejected_fixed(self, level: float) -> dict[Hypothesis, Comparison]:
        """Return the fixed samples that are rejected at a level and were not before."""
        return {
            hypothesis: _compare_fixed(fixed, level)
            for hypothesis, (fixed, p_value) in self.testable.items()
            if hypothesis not in self.decided and p_value <= level
        }

    def worded(self, comparison: Comparison) -> Comparison:
        """Say what the level of a comparison promises."""
        kind: Kind = "error rate with others" if self.testable else "error rate"
        facts = {"alpha": 100 * self.alpha, "screened": len(self.screened), "asked": self.hypotheses}
        return replace(comparison, promise=state(kind, **facts, others=len(self.testable)))


def _course(evidence: Evidence, seen: Mapping[Hypothesis, _Seen]) -> _Course:
    """Go through a build from the screen to the last look that is complete."""
    course = _Course(alpha=evidence.alpha, hypotheses=len(evidence.hypotheses))
    for hypothesis in evidence.hypotheses:
        observations = seen[hypothesis].screen[:SCREEN_PAIRS]
        if len(observations) == SCREEN_PAIRS and _is_suspect(hypothesis, observations):
            course.screened.append(hypothesis)
    for fixed in evidence.fixed_samples:
        found = _compare_fixed(fixed, course.alpha)
        if _is_testable(fixed, found, course.alpha):
            p_value = found.p_value if found.outcome == "regressed" else None
            course.testable[fixed.hypothesis] = fixed, 1.0 if p_value is None else p_value
        else:
            course.decided[fixed.hypothesis] = found
    for pairs, share in zip(course.looks, SHARES, strict=False):  # without a family there are no looks
        _look(course, seen, pairs, share)
    return course


def _look(course: _Course, seen: Mapping[Hypothesis, _Seen], pairs: int, share: float) -> None:
    """Take a look: step down by Holm's rule until nothing more is rejected, then see what else is decided."""
    ready = {
        hypothesis: seen[hypothesis].confirm[:pairs]
        for hypothesis in course.undecided
        if len(seen[hypothesis].confirm) >= pairs
    }
    for hypothesis, observations in ready.items():
        if not _never_varies(hypothesis, observations) and not all(map(is_ratio, observations)):
            course.decided[hypothesis] = uncompared(hypothesis.margin, "not comparable", _NO_RATIO)
    found: dict[Hypothesis, Comparison] = {}
    while course.left:
        level = course.alpha / course.left
        found = {
            hypothesis: _compare_fresh(hypothesis, observations, share * level)
            for hypothesis, observations in ready.items()
            if hypothesis not in course.decided
        }
        rejected = {hypothesis: one for hypothesis, one in found.items() if one.outcome == "regressed"}
        rejected |= course.rejected_fixed(level)
        course.decided.update((hypothesis, course.worded(one)) for hypothesis, one in rejected.items())
        course.rejected += len(rejected)
        if not rejected:
            break
    for hypothesis, one in found.items():
        if hypothesis not in course.decided:
            course.latest[hypothesis] = pairs, course.worded(one)
            if one.outcome != "inconclusive":
                course.decided[hypothesis] = course.worded(one)


def _is_suspect(hypothesis: Hypothesis, observations: Sequence[Observation]) -> bool:
    """Say whether the screen leaves it open that a change for the worse exceeds the margin.

    It has to look like one, and not to lie within the margin in every single pair: of a change beyond it that happens
    to one in 64 at most. Also a value that never varies may follow the coin, as one that depends on who starts first.
    """
    if _never_varies(hypothesis, observations):
        return _exact(hypothesis, observations).outcome == "regressed"
    if not all(map(is_ratio, observations)):
        return False
    sign = 1 if hypothesis.better == "lower" else -1
    values = [sign * pair_value(one) for one in observations]
    baseline = median(median(one.baseline) for one in observations)
    margin = max(hypothesis.margin.size, relative(hypothesis.margin.floor, baseline))
    return signed_rank_p(values) <= SCREEN_P and max(values) >= math.log1p(margin)


def _never_varies(hypothesis: Hypothesis, observations: Sequence[Observation]) -> bool:
    """Say whether a metric of the user's own has one value on each side: a count."""
    return hypothesis.margin.metric not in METRICS and _is_constant(*_sides(observations))


def _cleared(hypothesis: Hypothesis, observations: Sequence[Observation]) -> Comparison:
    """Return the comparison of a hypothesis that needs no confirmation."""
    return _screened(hypothesis, observations, "equal pairs" if _never_varies(hypothesis, observations) else "screen")


def _exact(hypothesis: Hypothesis, observations: Sequence[Observation]) -> Comparison:
    """Compare values that never vary exactly."""
    exact = compare_exact(_metric(hypothesis), *_sides(observations), hypothesis.margin)
    return replace(exact, pairs=len(observations))


def _compare_fresh(hypothesis: Hypothesis, observations: Sequence[Observation], level: float) -> Comparison:
    """Compare a hypothesis by fresh pairs, which are all that may fail it."""
    if not _never_varies(hypothesis, observations):
        return compare_observations(hypothesis, observations, level)
    method = state("equal fresh pairs", pairs=len(observations))
    return _signed(replace(_exact(hypothesis, observations), method=method), len(observations), level)


def _signed(exact: Comparison, pairs: int, level: float) -> Comparison:
    """Test what all of so many pairs show alike: that none of them points the other way, as a coin would have it."""
    if exact.outcome not in ("regressed", "improved"):  # whatever the coin did
        return exact
    p_value = 2.0**-pairs if exact.outcome == "regressed" else 1.0
    return replace(exact, p_value=p_value, outcome=exact.outcome if 2.0**-pairs <= level else "inconclusive")


def _screened(hypothesis: Hypothesis, observations: Sequence[Observation], method: Kind) -> Comparison:
    """Return the comparison of a hypothesis by the pairs of its screen."""
    if _never_varies(hypothesis, observations):
        return replace(_exact(hypothesis, observations), method=state(method, pairs=len(observations)))
    if not all(map(is_ratio, observations)):
        return uncompared(hypothesis.margin, "not comparable", _NO_RATIO)
    found = compare_observations(hypothesis, observations, _SCREEN_LEVEL)
    return replace(found, method=state(method, pairs=len(observations)))


def _is_settled(course: _Course, seen: _Seen, hypothesis: Hypothesis) -> bool:
    """Whether no further value of a hypothesis is waited for: it is decided, cleared, or at its last look."""
    if hypothesis in course.decided:
        return True
    if hypothesis in course.screened:
        return course.latest.get(hypothesis, (0, None))[0] == course.looks[-1]
    return len(seen.screen) >= SCREEN_PAIRS


def _undecided(evidence: Evidence, course: _Course, seen: _Seen, hypothesis: Hypothesis) -> Comparison:
    """Return the comparison of a hypothesis that no look has decided: of its last complete look, or of its screen."""
    if len(seen.screen) >= SCREEN_PAIRS and hypothesis not in course.screened:
        return _cleared(hypothesis, seen.screen[:SCREEN_PAIRS])
    pairs, found = course.latest.get(hypothesis, (0, None))
    if found and pairs == course.looks[-1]:
        return found
    if found is None:
        found = _screened(hypothesis, seen.screen[:SCREEN_PAIRS], "unconfirmed screen")
        if found.outcome == "not comparable":
            return found
        found = replace(found, outcome="inconclusive", p_value=None)  # the same pairs have chosen it
    needed = next((look for look in course.looks if look > pairs), 0) if hypothesis in course.screened else SCREEN_PAIRS
    missing = needed - len(seen.confirm if hypothesis in course.screened else seen.screen)
    return replace(found, cause=evidence.stopped or state("pairs missing", missing=missing))


def _after_further_pairs(
    evidence: Evidence, hypothesis: Hypothesis, before: Comparison, further: Sequence[Observation]
) -> Comparison:
    """Return what is known of a hypothesis after further pairs, which can show equivalence and fail nothing."""
    if not evidence.until_equivalent or before.outcome != "inconclusive":
        return before
    found = look_for_equivalence(hypothesis, further) or before
    if found.outcome in ("equivalent", "improved"):
        return found
    cause = evidence.stopped or before.cause
    return replace(found, outcome="inconclusive", p_value=None, cause=cause, promise=before.promise)


def _is_testable(fixed: FixedSample, found: Comparison, alpha: float) -> bool:
    """Say whether a fixed sample can be rejected by chance at all, whatever else is rejected."""
    if found.p_value is None:
        return False
    units = len(fixed.candidate)
    if fixed.per == "example":
        units = sum(old != new for old, new in zip(fixed.baseline, fixed.candidate, strict=True))
        if fixed.hypothesis.margin.size:
            return units > 0
    return 2.0**-units <= alpha  # the smallest p-value, of signs that all point the same way


def _compare_fixed(fixed: FixedSample, level: float) -> Comparison:
    """Compare what no pair measures."""
    hypothesis, sides = fixed.hypothesis, (fixed.baseline, fixed.candidate)
    if fixed.per == "example":
        return compare_accuracy(*sides, hypothesis.margin, level)
    found = compare_exact(_metric(hypothesis), *sides, hypothesis.margin)
    counts = {"baseline": len(fixed.baseline), "candidate": len(fixed.candidate)}
    constant, pairs = _is_constant(*sides), min(map(len, sides))
    if fixed.per == "fresh process" and 2.0**-pairs <= level:
        if constant:
            return _signed(replace(found, method=state("equal processes", per=fixed.per, **counts)), pairs, level)
        return compare_processes(hypothesis, *sides, level)
    if fixed.per == "fresh process" and (found.outcome == "regressed" or not constant):
        # Too few to fail anything; they may still show that nothing is worse.
        outcome: ComparisonOutcome = "inconclusive" if found.outcome == "regressed" else found.outcome
        return replace(found, outcome=outcome, method=state("screened values", per=fixed.per, **counts))
    return replace(found, method=state("equal values", per=fixed.per, **counts))


def _is_constant(*sides: Sequence[float]) -> bool:
    return all(len(set(side)) == 1 for side in sides)


def _sides(observations: Sequence[Observation]) -> tuple[list[float], list[float]]:
    """Return every value of the baseline, and every value of the candidate."""
    return (
        [value for one in observations for value in one.baseline],
        [value for one in observations for value in one.candidate],
    )


def _metric(hypothesis: Hypothesis) -> Metric:
    return metric_of(hypothesis.margin.metric, hypothesis.better)


def _seen(evidence: Evidence) -> dict[Hypothesis, _Seen]:
    """Sort what the pairs observed by hypothesis."""
    keys = {hypothesis.key: _Seen() for hypothesis in evidence.hypotheses}
    for pair in evidence.pairs:
        for one in pair.observations:
            seen = keys.get(one.key)
            if seen is not None and pair.stage != "rehearsal":
                stages = {"screen": seen.screen, "confirm": seen.confirm, "equivalence": seen.further}
                stages[pair.stage].append(one)
    return dict(zip(evidence.hypotheses, keys.values(), strict=True))


def _step(stage: Stage, lacking: Mapping[Hypothesis, int]) -> Step:
    waiting = tuple(hypothesis for hypothesis, count in lacking.items() if count > 0)
    return Step(stage=stage, hypotheses=waiting, pairs=max(lacking.values()))
