"""Reports in the formats of other programs: what was measured, in their units, and nothing that was not."""

import csv
import io
import json
from collections.abc import Callable

import pytest
from fakes import records as fake

from pytest_hwperf import __version__
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.units import EXPORT_UNITS
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.reports import exports
from pytest_hwperf.reports.exports import Exported, measures_of, properties

HOSTILE = '=cmd|"/c calc"!A1\u202e\x1b[2J<script>'
EVERY = [
    pytest.param(exports.render_pytest_benchmark, "pytest_benchmark.json", id="pytest-benchmark"),
    pytest.param(exports.render_bencher, "bencher.json", id="bencher"),
    pytest.param(exports.render_action_benchmark, "github_action_benchmark.json", id="github-action-benchmark"),
    pytest.param(exports.render_otava, "otava.csv", id="otava"),
]


def with_readings(*values: float, per: str = "call") -> Report:
    run = fake.run(test="tests/test_text.py::test_tokenise", samples=(fake.sample("latency", values, per=per),))
    return replace(fake.report(), judgements=(replace(fake.plain_judgement(), run=run),))


@pytest.mark.parametrize(("render", "name"), EVERY)
def test_each_format_is_written_as_agreed(
    render: Callable[[Report], Exported], name: str, golden: Callable[[str, bytes], None]
) -> None:
    content = render(fake.report()).content.replace(f'"pytest-hwperf {__version__}"'.encode(), b'"pytest-hwperf"')
    golden(f"exports/{name}", content)


@pytest.mark.parametrize(("render", "name"), EVERY)
def test_no_format_obeys_a_test_id(render: Callable[[Report], Exported], name: str) -> None:
    judgement = fake.sklearn_judgement()
    hostile = replace(judgement, run=replace(judgement.run, test=HOSTILE, label=""))
    machine = replace(fake.machine(), architecture=f"{HOSTILE}\udc80")
    whole = replace(fake.report(), judgements=(hostile,), machine=machine, revision=f"{HOSTILE}\udc80")
    content = render(replace(whole, started_at=f"{HOSTILE}\udc80")).content
    assert not set("\u202e\x1b") & set(content.decode())
    if name.endswith(".csv"):
        header, row = csv.reader(io.StringIO(content.decode()))
        assert len(header) == len(row)
        assert not [cell for cell in (*header, *row) if cell.startswith(("=", "+", "-", "@"))]
    else:
        json.loads(content)


def test_a_batch_of_calls_is_a_round_of_iterations_and_a_group_is_kept() -> None:
    report = with_readings(0.1, 0.2, per="batch of 16 calls")
    (judgement,) = report.judgements
    run = replace(judgement.run, context={"benchmark_group": "sums\x1b"})
    exported = exports.render_pytest_benchmark(replace(report, judgements=(replace(judgement, run=run),)))
    (benchmark,) = json.loads(exported.content)["benchmarks"]
    assert ("sums\\x1b", 16) == (benchmark["group"], benchmark["stats"]["iterations"])


OTHER = fake.run(samples=(fake.sample("throughput", [9.0]),), unmeasured={"latency": "the test failed"})


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (with_readings(0.1), "a deviation needs 2 readings of the latency"),
        (with_readings(0.0, 0.0), "is 0: calls per"),
        (
            replace(fake.report(), judgements=(Judgement(run=OTHER, figures=(), verdicts=()),)),
            f"{fake.TEST}: no latency was measured: the test failed",
        ),
    ],
)
def test_what_has_no_such_statistics_is_left_out_with_the_reason(report: Report, reason: str) -> None:
    exported = exports.render_pytest_benchmark(report)
    assert not exported.benchmarks
    assert reason in exported.left_out[0]


def test_statistics_are_those_that_pytest_benchmark_computes() -> None:
    stats = pytest.importorskip("pytest_benchmark.stats")
    for n in range(2, 40):
        theirs = stats.Stats()
        values = [((7 * i * i) % 31 + 1) / 1000 for i in range(n)]
        for value in values:
            theirs.update(value)
        (ours,) = json.loads(exports.render_pytest_benchmark(with_readings(*values)).content)["benchmarks"]
        assert ours["stats"] == pytest.approx({**theirs.as_dict(), "iterations": 1})


def test_the_bounds_of_bencher_are_those_that_are_known() -> None:
    """9.8 ms (9.1 .. ?): no upper bound."""
    whole = json.loads(exports.render_bencher(fake.report()).content)
    found = whole[f"{fake.TEST}[sklearn_fp32]"]["latency_p99_ms"]
    assert {"value": pytest.approx(9.8), "lower_value": pytest.approx(9.1)} == found


def test_what_is_too_long_for_bencher_is_left_out() -> None:
    judgement = fake.plain_judgement()
    long = replace(judgement, run=replace(judgement.run, test="t" * 1100))
    exported = exports.render_bencher(replace(fake.report(), judgements=(long, fake.onnx_judgement())))
    assert 1 == exported.benchmarks
    line = exported.left_out[0]
    assert line.endswith("latency_p50_ms: Bencher takes no name as long as that")
    assert 300 > len(line)


def test_one_file_of_the_action_has_one_direction() -> None:
    smaller = exports.render_action_benchmark(fake.report())
    bigger = json.loads(exports.render_action_benchmark(fake.report(), better="higher").content)
    assert smaller.left_out[0] == "3 figures of which higher is better: --as=github-action-benchmark-bigger"
    assert ["throughput_mean", "accuracy_mean", "accuracy_mean"] == [one["name"].rpartition(" ")[2] for one in bigger]
    assert ("158.0 .. 164.0", "1/s") == (bigger[0]["range"], bigger[0]["unit"])


def test_an_estimate_is_named_as_one() -> None:
    names = [one.full_name for one in measures_of(fake.report())]
    assert "energy_estimate_mean_mj" in names
    assert "energy_mean_mj" not in names


def test_what_was_not_measured_is_said() -> None:
    why = f"{fake.TEST}[sklearn_fp32]: energy was not measured: {fake.NO_COUNTER}"
    renderers = (exports.render_bencher, exports.render_action_benchmark, exports.render_otava)
    assert [why] * 3 == [render(fake.report()).left_out[-1] for render in renderers]


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
    """5 ms; +4.8 % (+3.1 .. +6.5) of 6.02 ms with a margin of 2 %; what is open or unmeasured has no entry."""
    found = dict(properties(fake.sklearn_judgement()))
    assert ("failed", "5.000") == tuple(found[f"hwperf.budget.latency_p95{end}"] for end in ("", ".limit_ms"))
    endings = ("", ".baseline_ms", ".change", ".change.ci_low", ".change.ci_high", ".margin", ".scale")
    assert ("regressed", "6.020", "0.04800", "0.03100", "0.06500", "0.02000", "relative") == tuple(
        found[f"hwperf.comparison.latency_p50{end}"] for end in endings
    )
    assert "hwperf.latency_p99_ms.ci_low" in found
    assert "hwperf.latency_p99_ms.ci_high" not in found
    assert [("hwperf.budget.energy_mean", "unmeasured"), ("hwperf.budget.energy_mean.limit_mj", "2.000")] == [
        (name, text) for name, text in found.items() if "energy" in name
    ]
