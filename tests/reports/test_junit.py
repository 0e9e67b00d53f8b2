"""JUnit's properties: flat pairs of text, each number in the unit that its name ends with."""

import pytest
from fakes import records as fake

from pytest_hwperf.core.metrics import METRICS
from pytest_hwperf.core.records import Judgement
from pytest_hwperf.core.units import EXPORT_UNITS
from pytest_hwperf.reports.junit import properties


def test_figures_and_outcomes_are_pairs_of_text() -> None:
    """1.18 ms; the label tells several measurements of one test apart."""
    assert [
        ("hwperf.long text.latency_p50_ms", "1.180"),
        ("hwperf.long text.latency_p50_ms.n", "1"),
        ("hwperf.long text.latency_p50_ms.source", "perf_counter"),
        ("hwperf.long text.comparison.latency_p50", "no baseline"),
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
    numbers = [name for name, text in found.items() if text.replace(".", "", 1).isdigit() and not name.endswith(".n")]

    assert len(judgement.figures) == len(numbers)
    for name in numbers:
        metric = next(metric for metric in METRICS if name.startswith(f"{prefix}{metric}_"))
        assert name.endswith(EXPORT_UNITS[METRICS[metric].unit][0])
        assert int(found[f"{name}.n"]) > 0
        assert found[f"{name}.source"] in {figure.source for figure in judgement.figures if figure.metric == metric}


def test_an_estimate_is_named_as_one() -> None:
    """0.00031 J are 0.31 mJ."""
    found = dict(properties(fake.onnx_judgement()))

    assert ("0.3100", "30", "estimate:cpu-time") == tuple(
        found[f"hwperf.energy_estimate_mean_mj{end}"] for end in ("", ".n", ".source")
    )
