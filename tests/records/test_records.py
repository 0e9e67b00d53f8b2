"""What the records themselves can answer."""

from typing import Any

import pytest
from fakes.records import comparison_verdict, estimate, figure, machine, onnx_judgement, run, sample

from pytest_hwperf.records.messages import said, state
from pytest_hwperf.records.metrics import METRICS, Metric
from pytest_hwperf.records.run import RUN_COLUMNS, replace
from pytest_hwperf.records.verdict import Comparison, Margin, uncompared


def test_a_fingerprint_depends_on_every_stable_field_and_on_no_order() -> None:
    here, forth, back = machine(), {"numpy": "2.1", "scipy": "1.11"}, {"scipy": "1.11", "numpy": "2.1"}
    changes: dict[str, Any] = {
        "cpu_model": "other", "architecture": "aarch64", "cores": 8, "memory_gb": 32, "system": "other",
        "python": "other", "libraries": {}, "threads": {},
    }  # fmt: skip
    others = [replace(here, **{name: value}).fingerprint for name, value in changes.items()]
    assert 9 == len({here.fingerprint, *others})
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
    assert (latency, None) == (own.sample("latency"), own.sample("energy"))
    assert own.metric("latency") is METRICS["latency"]
    assert own.metric("rouge_l") == Metric(name="rouge_l", unit="1", better="higher", exact=False)
    with pytest.raises(KeyError, match="rouge_l"):
        run().metric("rouge_l")


def test_a_run_knows_whether_files_had_changed() -> None:
    assert ["4f2c1e9", "4f2c1e9+changes"] == [replace(run(), changed=it).shown_revision for it in (False, True)]


def test_a_run_as_a_table_has_a_row_for_each_value_and_each_reason() -> None:
    """In the units of exports. What was not measured has no number: neither 0 nor the reading of another metric."""
    samples = (sample(values=[0.002, 0.003]), sample("memory", [4e6], per="fresh process"), sample("rouge_l", []))
    frame = run(label="one\n", samples=samples, unmeasured={"energy": "no counter"}).to_frame()
    assert [*RUN_COLUMNS, "metric", "unit", "value", "per", "source", "reason"] == [*frame.columns]
    assert ["latency", "latency", "memory", "rouge_l", "energy"] == [*frame["metric"]]
    assert ["ms", "ms", "mb", "1", "mj"] == [*frame["unit"]]
    assert [2.0, 3.0, 4.0] == pytest.approx([*frame["value"].dropna()])
    assert [False] * 3 + [True] * 2 == [*frame["value"].isna()]
    assert ["", "", "", "no reading", "no counter"] == [*frame["reason"]]
    assert {r"one\n"} == {*frame["label"]}


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


def test_the_candidate_of_a_comparison_is_the_baseline_with_the_change() -> None:
    """In points; relative to the size of the baseline, whatever its sign; unknown without one or a change."""
    cases = [("latency", 0.5, 0.25), ("accuracy", 0.75, -0.25), ("own", -2.0, 0.5), ("latency", None, 0.25)]
    unchanged = replace(compared("memory", 0.0, 0.0), change=None)
    assert [0.625, 0.5, -1.0, None] == [compared(*case).candidate for case in cases]
    assert (None, True) == (unchanged.candidate, unchanged.is_of(figure()))


MARGINS = [
    ("latency", 0.005, 0.02, "2 %"),
    ("memory", 73_600.0, 1e6 / 73_600, "1 MB"),  # the floor, of which 1,360 % would be said
    ("memory", 50e6, 0.02, "1 MB"),
    ("memory", 500e6, 0.01, "1 %"),
    ("latency", 0.005, 1.5, "7.5 ms"),
    ("own", 0.4, 1.5, "×2.5"),
    ("latency", None, 1.5, "×2.5"),
    ("accuracy", 0.9, 0.005, "0.5 pp"),
]


def test_a_margin_that_is_an_amount_is_said_as_one_and_a_change_in_its_unit() -> None:
    shown = [replace(compared(metric, base, 0.0), margin=margin).allowed for metric, base, margin, _ in MARGINS]
    assert [words for *_, words in MARGINS] == shown
    assert "+2.0 %" == compared("latency", 1.0, 0.02).shift
    assert "" == replace(compared("latency", 1.0, 0.02), change=None).shift


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
