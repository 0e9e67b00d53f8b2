"""What the records themselves can answer."""

import pytest
from fakes.records import comparison_verdict, estimate, figure, machine, onnx_judgement, run, sample

from pytest_hwperf.records.messages import said, state
from pytest_hwperf.records.metrics import METRICS, Metric
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison, Margin, uncompared


def test_a_fingerprint_depends_on_every_stable_field() -> None:
    here = machine()
    others = [
        replace(here, cpu_model="other"),
        replace(here, architecture="aarch64"),
        replace(here, cores=8),
        replace(here, memory_gb=32),
        replace(here, system="other"),
        replace(here, python="other"),
        replace(here, libraries={}),
        replace(here, threads={}),
    ]
    assert len({here.fingerprint, *(other.fingerprint for other in others)}) == 9


def test_a_fingerprint_does_not_depend_on_the_order_of_libraries() -> None:
    forth, back = {"numpy": "2.1", "scipy": "1.11"}, {"scipy": "1.11", "numpy": "2.1"}
    assert machine(libraries=forth).fingerprint == machine(libraries=back).fingerprint


def test_differences_of_machines_are_named() -> None:
    other = replace(machine(cores=8), libraries={**machine().libraries, "numpy": "2.4"}, threads={})
    assert tuple(map(str, machine().differences(other))) == (
        "cores: 4, 8",
        "numpy: 2.1.0, 2.4",
        "OMP_NUM_THREADS: 1, absent",
    )


def test_a_run_finds_its_samples_and_metrics() -> None:
    latency = sample()
    own = replace(run(samples=(latency,)), directions={"rouge_l": "higher"})
    assert own.sample("latency") is latency
    assert own.sample("energy") is None
    assert own.metric("latency") is METRICS["latency"]
    assert own.metric("rouge_l") == Metric(name="rouge_l", unit="1", better="higher", exact=False)


def test_a_run_knows_whether_files_had_changed() -> None:
    assert ["4f2c1e9", "4f2c1e9+changes"] == [replace(run(), changed=it).shown_revision for it in (False, True)]


def test_a_metric_that_nobody_recorded_is_an_error() -> None:
    with pytest.raises(KeyError, match="rouge_l"):
        run().metric("rouge_l")


def test_a_judgement_knows_its_comparisons_and_whether_it_fails() -> None:
    """Five verdicts, three of them comparisons; one regression fails the whole."""
    judged = onnx_judgement()
    failing = replace(judged, verdicts=(*judged.verdicts, replace(judged.verdicts[0], fails=True)))
    assert [comparison.metric for comparison in judged.comparisons] == ["latency", "accuracy", "energy"]
    assert (judged.fails, failing.fails) == (False, True)


def test_the_result_goes_with_a_run_and_is_no_part_of_it() -> None:
    """It may be anything, such as an array whose comparison has no single answer."""
    plain = run()
    value = [object()]
    measured = replace(plain.with_result(value), label="long")
    assert measured.result is value
    assert plain.result is None
    assert replace(plain, label="long") == measured
    assert repr(replace(plain, label="long")) == repr(measured)


def test_what_cannot_be_compared_keeps_its_question() -> None:
    found = uncompared(Margin(metric="energy", statistic="mean", size=0.05), "not comparable", said("why"))
    assert ("energy", "mean", 0.05, "why", None) == (
        found.metric,
        found.statistic,
        found.margin,
        found.reason,
        found.change,
    )


def compared(metric: str, baseline: float | None, change: float) -> Comparison:
    verdict = comparison_verdict(metric, "p50", "equivalent", (change, change, change), baseline=baseline)
    assert isinstance(verdict.subject, Comparison)
    return verdict.subject


@pytest.mark.parametrize(
    ("metric", "baseline", "change", "candidate"),
    [
        ("latency", 0.5, 0.25, 0.625),
        ("accuracy", 0.75, -0.25, 0.5),  # in points
        ("own", -2.0, 0.5, -1.0),  # relative to the size of the baseline, whatever its sign
        ("latency", None, 0.25, None),
    ],
)
def test_the_candidate_of_a_comparison_is_the_baseline_with_the_change(
    metric: str, baseline: float | None, change: float, candidate: float | None
) -> None:
    assert candidate == compared(metric, baseline, change).candidate


@pytest.mark.parametrize(
    ("metric", "baseline", "margin", "shown"),
    [
        ("latency", 0.005, 0.02, "2 %"),
        ("memory", 73_600.0, 1e6 / 73_600, "1 MB"),  # the floor, of which 1,360 % would be said
        ("memory", 50e6, 0.02, "1 MB"),
        ("memory", 500e6, 0.01, "1 %"),
        ("latency", 0.005, 1.5, "7.5 ms"),
        ("own", 0.4, 1.5, "×2.5"),
        ("latency", None, 1.5, "×2.5"),
        ("accuracy", 0.9, 0.005, "0.5 pp"),
    ],
)
def test_a_margin_that_is_an_amount_is_said_as_one(
    metric: str, baseline: float | None, margin: float, shown: str
) -> None:
    assert shown == replace(compared(metric, baseline, 0.0), margin=margin).allowed


def test_a_change_is_said_with_its_interval() -> None:
    assert "+2.0 %" == compared("latency", 1.0, 0.02).shift
    assert "" == replace(compared("latency", 1.0, 0.02), change=None).shift


def test_without_a_change_there_is_no_candidate() -> None:
    one = replace(compared("memory", 0.0, 0.0), change=None)
    assert one.candidate is None
    assert one.is_of(figure())


def test_a_comparison_knows_whether_it_is_about_a_figure() -> None:
    """0.5 s + 25 % are 0.625 s; with the rounding of a file read back, still; 0.6 s are another process."""
    figures = (figure(at=estimate(value, None, None, 9)) for value in (0.625, 0.625 + 1e-12, 0.6))
    assert [True, True, False] == [compared("latency", 0.5, 0.25).is_of(one) for one in figures]


def test_a_comparison_counts_what_its_method_is_made_of() -> None:
    methods = (
        None,
        state("signed-rank", pairs=8),
        state("mcnemar", examples=300),
        state("historical limit", limit=0.1, sessions=3),
        state("equal values", baseline=1, candidate=1, per="file"),
        state("stored, equal", baseline=3, candidate=3),
    )
    assert ["pair", "pair", "example", "stored run", "file", "value"] == [
        replace(compared("latency", 0.5, 0.25), method=method).per for method in methods
    ]
