"""JUnit's properties: flat pairs of text, each number in the unit that its name ends with."""

from fakes import records as fake

from pytest_hwperf.reports.properties import properties


def test_figures_and_outcomes_are_pairs_of_text() -> None:
    """1.18 ms; the label tells several measurements of one test apart."""
    assert [
        ("hwperf.long text.latency_p50_ms", "1.180"),
        ("hwperf.long text.comparison.latency_p50", "no baseline"),
    ] == properties(fake.plain_judgement())


def test_without_a_label_the_name_has_none() -> None:
    """4.2e6 B = 4.2 MB."""
    found = dict(properties(fake.sklearn_judgement()))

    assert ("4.200", "161.0", "0.9667") == tuple(
        found[f"hwperf.{name}"] for name in ("memory_max_mb", "throughput_mean_per_s", "accuracy_mean")
    )
    assert "failed" == found["hwperf.budget.latency_p95"]
