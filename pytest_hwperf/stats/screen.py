"""The screen of a build: which hypotheses are asked again with fresh pairs, and what is said of the others."""

import math
from collections.abc import Sequence
from statistics import median
from typing import Final

from pytest_hwperf.records.evidence import Hypothesis, Observation
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.units import relative
from pytest_hwperf.records.verdict import Comparison, uncompared
from pytest_hwperf.stats.exact import compare_exact
from pytest_hwperf.stats.paired import compare_observations, is_constant, is_ratio, measured_metric, pair_value, signed
from pytest_hwperf.stats.ranks import signed_rank_p

SCREEN_PAIRS: Final = 6
FIRST_PAIRS: Final = 3  # of a screen, which show a change far beyond the margin
SCREEN_P = 0.11  # at a margin of 0: a rank sum of 17 of 21
FAR: Final = 1.5  # times the margin: a change that the first pairs show for certain
NO_RATIO = state("no ratio")


def is_suspect(hypothesis: Hypothesis, screen: Sequence[Observation]) -> bool:
    """Say whether the screen leaves it open that a change for the worse exceeds the margin.

    It has to look like one, and not to lie within the margin in every single pair: of a change beyond it that happens
    to one in 64 at most. Where the first three pairs are all far beyond it, no further ones are waited for. Also a
    value that never varies may follow the coin, as one that depends on who starts first.
    """
    observations, first = screen[:SCREEN_PAIRS], screen[:FIRST_PAIRS]
    if len(first) == FIRST_PAIRS and not never_varies(hypothesis, first) and all(map(is_ratio, first)):
        values, margin = _worsened(hypothesis, first)
        if min(values) > math.log1p(margin) + math.log(FAR):  # whatever later ones show
            return True
    if len(observations) < SCREEN_PAIRS:
        return False
    if never_varies(hypothesis, observations):
        return _exact(hypothesis, observations).outcome == "regressed"
    if not all(map(is_ratio, observations)):
        return False
    values, margin = _worsened(hypothesis, observations)
    return signed_rank_p(values) <= SCREEN_P and max(values) >= math.log1p(margin)


def _worsened(hypothesis: Hypothesis, observations: Sequence[Observation]) -> tuple[list[float], float]:
    """Return the changes for the worse, as log ratios, and the margin, relative."""
    sign = 1 if hypothesis.better == "lower" else -1
    baseline = median(median(one.baseline) for one in observations)
    margin = max(hypothesis.margin.size, relative(hypothesis.margin.floor, baseline))
    return [sign * pair_value(one) for one in observations], margin


def never_varies(hypothesis: Hypothesis, observations: Sequence[Observation]) -> bool:
    """Say whether a metric of the user's own has one value on each side: a count."""
    return hypothesis.margin.metric not in METRICS and is_constant(*_sides(observations))


def _exact(hypothesis: Hypothesis, observations: Sequence[Observation]) -> Comparison:
    exact = compare_exact(measured_metric(hypothesis), *_sides(observations), hypothesis.margin)
    return replace(exact, pairs=len(observations))


def compare_fresh(hypothesis: Hypothesis, observations: Sequence[Observation], level: float) -> Comparison:
    """Compare a hypothesis by fresh pairs, which are all that may fail it."""
    if not never_varies(hypothesis, observations):
        return compare_observations(hypothesis, observations, level)
    method = state("equal fresh pairs", pairs=len(observations))
    return signed(replace(_exact(hypothesis, observations), method=method), len(observations), level)


def screened(hypothesis: Hypothesis, observations: Sequence[Observation], method: str) -> Comparison:
    pairs = len(observations)
    if never_varies(hypothesis, observations):
        return replace(_exact(hypothesis, observations), method=state(method, pairs=pairs))
    if not all(map(is_ratio, observations)):
        return uncompared(hypothesis.margin, "not comparable", NO_RATIO)
    found = compare_observations(hypothesis, observations, 2.0**-pairs)  # from the smallest to the largest
    return replace(found, method=state(method, pairs=pairs))


def _sides(observations: Sequence[Observation]) -> tuple[list[float], list[float]]:
    return (
        [value for one in observations for value in one.baseline],
        [value for one in observations for value in one.candidate],
    )
