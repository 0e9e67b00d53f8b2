"""What the tests of a pair have left beside their times: metrics of their own, and why there is no value of another."""

from array import array
from collections.abc import Iterator, Sequence

from pytest_hwperf.core.evidence import Hypothesis, Measurement, Observation, Pair
from pytest_hwperf.core.hypotheses import SIDES
from pytest_hwperf.core.statements import Statement, said
from pytest_hwperf.pairs.lockstep import PairTrace


def recorded(
    trace: PairTrace, hypotheses: Sequence[Hypothesis], measurements: Sequence[Measurement]
) -> Iterator[Observation]:
    """Yield what the tests of a pair recorded themselves, for hypotheses that ask for it."""
    for hypothesis in hypotheses:
        sides = trace.outcomes.get(hypothesis.measurement.test, {})
        metric = hypothesis.margin.metric
        found = [sides[side].recorded.get(metric) for side in SIDES if side in sides]
        values = [one.value for one in found if one is not None]
        if hypothesis.measurement in measurements and len(values) == len(SIDES):
            yield Observation(
                measurement=hypothesis.measurement,
                metric=metric,
                statistic=hypothesis.margin.statistic,
                baseline=array("d", [values[0]]),
                candidate=array("d", [values[1]]),
            )


def why_silent(pair: Pair, trace: PairTrace, hypothesis: Hypothesis) -> Statement:
    """Say why a hypothesis got no value in this pair."""
    if pair.lost:
        return pair.lost
    test, interleaving = hypothesis.measurement.test, trace.interleavings.get(hypothesis.measurement)
    key = hypothesis.margin.key
    if interleaving is not None and key in interleaving.refused:
        return interleaving.refused[key]
    failures = [f"{side}: {ended.reason}" for side, ended in trace.outcomes.get(test, {}).items() if ended.reason]
    return said("; ".join(failures) or "it was not measured there")
