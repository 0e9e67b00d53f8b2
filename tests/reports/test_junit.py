"""JUnit's properties: flat pairs of text, each number in the unit that its name ends with."""

import pytest
from fakes import records as fake

from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.units import EXPORT_UNITS
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.reports.exports import properties


def test_figures_and_outcomes_are_pairs_of_text() -> None:
    """1.18 ms; the label tells several measurements of one test apart."""
    assert [
        ("hwperf.long text.latency_p50_ms", "1.180"),
        ("hwperf.long text.latency_p50_ms.ci_low", "1.170"),
        ("hwperf.long text.latency_p50_ms.ci_high", "1.200"),
        ("hwperf.long text.latency_p50_ms.n", "1"),
        ("hwperf.long text.latency_p50_ms.source", "perf_counter"),
        ("hwperf.long text.comparison.latency_p50", "no baseline"),
        ("hwperf.long text.comparison.latency_p50.margin", "0.02000"),
        ("hwperf.long text.comparison.latency_p50.scale", "relative"),
    ] == properties(fake.plain_judgement())


def test_without_a_label_the_name_has_none() -> None:
    """4.2e6 B = 4.2 MB."""
    found = dict(properties(fake.sklearn_judgement()))
    assert ("4.200", "161.0", "0.9667") == tuple(
        found[f"hwperf.{name}"] for name in ("memory_max_mb", "throughput_mean_per_s", "accuracy_mean")
    )
    assert "failed" == found["hwperf.budget.latency_p95"]


@pytest.mark.parametrize("judgement", fake.report().judgements, ids=lambda judgement: judgement.run.test)
def test_every_number_has_unit_n_and_source(judgement: Judgement) -> None:
    found = dict(properties(judgement))
    prefix = f"hwperf.{judgement.run.label}." if judgement.run.label else "hwperf."
    numbers = [name for name in found if f"{name}.n" in found]
    assert len(judgement.figures) == len(numbers)
    for name in numbers:
        metric = next(metric for metric in METRICS if name.startswith(f"{prefix}{metric}_"))
        assert name.endswith(EXPORT_UNITS[METRICS[metric].unit][0])
        assert int(found[f"{name}.n"]) > 0
        assert found[f"{name}.source"] in {figure.source for figure in judgement.figures if figure.metric == metric}


def test_a_budget_has_its_limit_and_a_comparison_what_it_rests_on() -> None:
    """5 ms; +4.8 % (+3.1 .. +6.5) of 6.02 ms with a margin of 2 %; an open end has no entry."""
    found = dict(properties(fake.sklearn_judgement()))
    assert ("failed", "5.000") == tuple(found[f"hwperf.budget.latency_p95{end}"] for end in ("", ".limit_ms"))
    endings = ("", ".baseline_ms", ".change", ".change.ci_low", ".change.ci_high", ".margin", ".scale")
    assert ("regressed", "6.020", "0.04800", "0.03100", "0.06500", "0.02000", "relative") == tuple(
        found[f"hwperf.comparison.latency_p50{end}"] for end in endings
    )
    assert "hwperf.latency_p99_ms.ci_low" in found
    assert "hwperf.latency_p99_ms.ci_high" not in found


def test_a_budget_that_is_not_measured_has_its_limit_alone() -> None:
    """2 mJ."""
    found = dict(properties(fake.sklearn_judgement()))
    assert [("hwperf.budget.energy_mean", "unmeasured"), ("hwperf.budget.energy_mean.limit_mj", "2.000")] == [
        (name, text) for name, text in found.items() if "energy" in name
    ]


def test_an_estimate_is_named_as_one() -> None:
    """0.00031 J are 0.31 mJ."""
    found = dict(properties(fake.onnx_judgement()))
    assert ("0.3100", "30", "estimate:cpu-time") == tuple(
        found[f"hwperf.energy_estimate_mean_mj{end}"] for end in ("", ".n", ".source")
    )
