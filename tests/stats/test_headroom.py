"""Which limit is nearest, and what is left of it."""

import math

import pytest
from fakes import records as fake

from pytest_hwperf.records.verdict import Budget, Judgement, Verdict
from pytest_hwperf.stats.advice import tightest


def judgement(**limits: float) -> Judgement:
    """Return 8 ms and an accuracy of 0.9, judged by limits."""
    keywords = {
        "latency_p95_ms": ("latency", "p95"),
        "accuracy_min": ("accuracy", "mean"),
        "energy": ("energy", "mean"),
    }
    budgets = [
        Budget(keyword=name, metric=keywords[name][0], statistic=keywords[name][1], limit=limit)
        for name, limit in limits.items()
    ]
    figures = tuple(
        fake.figure(metric, statistic, fake.estimate(value, None, None, 1))
        for metric, statistic, value in (("latency", "p95", 0.008), ("accuracy", "mean", 0.9))
    )
    verdicts = tuple(Verdict(subject=one, outcome="passed", reason="", fails=False) for one in budgets)
    return Judgement(run=fake.run(), figures=figures, verdicts=verdicts)


@pytest.mark.parametrize(
    ("limits", "keyword", "share"),
    [
        ({"latency_p95_ms": 0.010}, "latency_p95_ms", 0.2),
        ({"latency_p95_ms": 0.010, "accuracy_min": 0.85}, "accuracy_min", 0.05 / 0.85),
        ({"latency_p95_ms": 0.005, "accuracy_min": 0.85}, "latency_p95_ms", -0.6),
        ({"accuracy_min": 0.0}, "accuracy_min", math.inf),
        ({"latency_p95_ms": 0.0}, "latency_p95_ms", -math.inf),
    ],
)
def test_the_least_share_of_a_limit_counts(limits: dict[str, float], keyword: str, share: float) -> None:
    found = tightest(judgement(**limits))
    assert found is not None
    assert keyword == found.budget.keyword
    assert share == pytest.approx(found.share)


@pytest.mark.parametrize("limits", [{}, {"energy": 1.0}], ids=["none", "unmeasured"])
def test_without_a_value_or_a_share_there_is_none(limits: dict[str, float]) -> None:
    assert tightest(judgement(**limits)) is None


def test_comparisons_have_no_head_room() -> None:
    assert tightest(fake.plain_judgement()) is None
