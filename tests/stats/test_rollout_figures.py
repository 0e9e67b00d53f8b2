"""Figures of both versions: a value of each pair, with the interval of the signed-rank test over the pairs."""

from array import array

import pytest

from pytest_hwperf.records.evidence import Evidence, FixedSample, Hypothesis, Measurement, Observation, Pair
from pytest_hwperf.records.run import Classes, Figure
from pytest_hwperf.records.verdict import Budget, Margin
from pytest_hwperf.stats.hypotheses import SIDES
from pytest_hwperf.stats.rollout import ALWAYS, MEAN, P95, figures_of, taken_for

WORST = ("accuracy_worst_class", "mean")
HERE = Measurement(test="compare", label="")
ACCURACY = Hypothesis(
    measurement=HERE, margin=Margin(metric="accuracy", statistic="mean", size=0.0, scale="absolute"), better="higher"
)


def observed(metric: str, statistic: str, old: list[float], new: list[float]) -> Observation:
    return Observation(
        measurement=HERE, metric=metric, statistic=statistic, baseline=array("d", old), candidate=array("d", new)
    )


def evidence(*pairs: list[Observation]) -> Evidence:
    right = FixedSample(
        hypothesis=ACCURACY,
        per="example",
        baseline=array("d", [1.0] * 90 + [0.0] * 10),
        candidate=array("d", [1.0] * 100),
        classes=Classes(names=("a", "b"), of=array("d", [0.0] * 80 + [1.0] * 20)),
    )
    return Evidence(
        alpha=0.01,
        hypotheses=(),
        fixed_samples=(right,),
        pairs=tuple(
            Pair(number=n, stage="screen", first="baseline", hash_seeds={}, assignments=(), observations=tuple(found))
            for n, found in enumerate(pairs, 1)
        ),
    )


def by_key(found: tuple[Figure, ...]) -> dict[tuple[str, str], Figure]:
    return {one.key: one for one in found}


def test_each_pair_gives_one_value_of_each_side() -> None:
    """Of five values the smallest and largest are bounds at 2^-5, more than 5 % would ask for."""
    pairs = [
        [observed("latency", "p50", [n, n, 9.0], [2 * n] * 3), observed(*MEAN, [4.0], [4.0])]
        for n in (1.0, 1.1, 1.2, 1.3, 1.4)
    ]
    old, new = (by_key(figures_of(evidence(*pairs), side, rows=8)) for side in SIDES)
    p50 = old["latency", "p50"].estimate
    assert pytest.approx((1.19, 1.0, 1.4), rel=0.01) == (p50.value, p50.low, p50.high)
    assert pytest.approx(2 * p50.value) == new["latency", "p50"].estimate.value
    calls, rows = (old[metric, "mean"].estimate for metric in ("throughput", "sample_throughput"))
    assert pytest.approx([0.25, 0.25, 2.0]) == [calls.value, calls.low, rows.value]
    assert (0.9, 1.0) == (old["accuracy", "mean"].estimate.value, new["accuracy", "mean"].estimate.value)
    assert (0.5, "class b, every example") == (old[WORST].estimate.value, old[WORST].source)


def test_few_pairs_have_values_without_intervals() -> None:
    found = by_key(figures_of(evidence([observed(*MEAN, [2.0], [4.0]), observed(*P95, [0.0], [1.0])]), "baseline", 1))
    assert (None, None) == (found[MEAN].estimate.low, found[MEAN].estimate.high)
    assert (None, None) == (found["throughput", "mean"].estimate.low, found["throughput", "mean"].estimate.high)
    assert P95 not in found  # a value of 0 is none


@pytest.mark.parametrize(
    ("budget", "more"),
    [
        (Budget(keyword="latency_p99_ms", metric="latency", statistic="p99", limit=1.0), [("latency", "p99")]),
        (Budget(keyword="latency_p50_ms", metric="latency", statistic="p50", limit=1.0), []),
        (Budget(keyword="latency_max_ms", metric="latency", statistic="max", limit=1.0), []),
        (Budget(keyword="memory_max_mb", metric="memory", statistic="p50", limit=1.0), []),
        (Budget(keyword="cpu_time_max_ms", metric="cpu_time", statistic="mean", limit=1.0), [("cpu_time", "mean")]),
    ],
)
def test_pairs_take_what_requirements_are_about(budget: Budget, more: list[tuple[str, str]]) -> None:
    assert (*ALWAYS, *more) == taken_for([budget])


def test_cpu_time_names_its_clock() -> None:
    found = by_key(figures_of(evidence([observed("cpu_time", "mean", [1.0], [1.0])]), "baseline", 1))
    assert "process_time, in turns" == found["cpu_time", "mean"].source
