"""Tables and summaries of trade-offs: every column is defined, every gap has its reason, ties are said."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import records as fake

from pytest_hwperf.cli.inputs import read_candidates
from pytest_hwperf.records.messages import said
from pytest_hwperf.records.profiles import OperatorProfile, Work
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.reports import csv_files, plots, tradeoff_files
from pytest_hwperf.stats.causes.roofline import roofline_of
from pytest_hwperf.stats.choice.tradeoffs import measured_together

ROOT = Path(__file__).parents[2]
TRADEOFFS, DASHBOARD = "hardware_tradeoffs.csv", "benchmark_dashboard.csv"
COMPARED, BEST = "hardware_tradeoffs_summary.json", "benchmark_summary.json"
FIGURES = {"latency": "p50", "accuracy": "mean", "memory": "p50"}


def judgement(scenario: str, **values: float) -> Judgement:
    """Return a measurement whose intervals reach 1 % to both sides."""
    run = fake.run(test=f"{fake.TEST}[{scenario}]", scenario=scenario)
    return Judgement(
        run=replace(run, conditions={"batch_size": "1"}),
        figures=tuple(
            fake.figure(metric, FIGURES[metric], fake.estimate(value, value * 0.99, value * 1.01, 100))
            for metric, value in values.items()
        ),
        verdicts=(),
    )


def report(*judgements: Judgement) -> Report:
    return replace(fake.report(), judgements=judgements, skips=())


FAST = judgement("onnx_fp32", latency=0.001, accuracy=0.90, memory=20e6)
SLOW = judgement("sklearn_fp32", latency=0.004, accuracy=0.90, memory=10e6)
DOMINATED = judgement("onnx_int8", latency=0.008, accuracy=0.80, memory=30e6)
CHOICE = report(FAST, SLOW, DOMINATED)


def table(of: Report, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(tradeoff_files.render(of)[name].decode())))


def entries(of: Report, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(tradeoff_files.render(of)[name], parse_constant=pytest.fail)["tests"]
    return found


def test_files_are_written_as_agreed(golden: Callable[[str, bytes], None]) -> None:
    files = tradeoff_files.render(fake.report())
    for name in (TRADEOFFS, COMPARED, DASHBOARD, BEST):
        golden(f"{name.rpartition('.')[2]}/{name}", files[name])


def test_scores_are_relative_to_onnx_runtime() -> None:
    """Weights 0.4, 0.2, 0.2 of 0.8; (1 ÷ 4)^¼ × (20 ÷ 10)^¼ = 0.5^¼ = 0.8409."""
    first, second, third = table(CHOICE, TRADEOFFS)
    assert ("onnx_fp32", "100", "yes") == (first["reference"], first["score"], first["pareto"])
    assert 84.09 == pytest.approx(float(second["score"]), abs=0.005)
    assert float(second["score_low"]) < float(second["score"]) < float(second["score_high"])
    assert ("yes", "no") == (second["pareto"], third["pareto"])
    assert {"energy is left out: not measured for every scenario"} == {
        row["rank_reason"] for row in (first, second, third)
    }


def test_who_is_best_at_what_with_ties() -> None:
    (found,) = entries(CHOICE, BEST)
    nobody: dict[str, object] = {"inconclusive": [], "reason": None}
    assert {"names": ["onnx_fp32"], "value": 1.0, "unit": "ms per row", **nobody} == found["lowest_latency"]
    assert {"names": ["sklearn_fp32"], "value": 10.0, "unit": "mb", **nobody} == found["lowest_memory"]
    assert (None, "not measured for every scenario") == (
        found["lowest_energy"]["names"],
        found["lowest_energy"]["reason"],
    )


def test_what_is_inconclusive_is_named_apart() -> None:
    """Two processes of one model would differ by as much; their memory is shown to be the same."""
    (found,) = entries(report(FAST, judgement("sklearn_fp32", latency=0.00101, accuracy=0.90, memory=20e6)), BEST)
    assert (["onnx_fp32"], ["sklearn_fp32"]) == (
        found["lowest_latency"]["names"],
        found["lowest_latency"]["inconclusive"],
    )
    assert ["onnx_fp32", "sklearn_fp32"] == found["lowest_memory"]["names"]
    assert ["sklearn_fp32"] == found["best_composite"]["inconclusive"]


def test_nothing_in_common_is_said() -> None:
    other = judgement("sklearn_fp32", memory=10e6)
    only = judgement("onnx_fp32", latency=0.001)
    (compared,) = entries(report(only, other), COMPARED)
    (row, _) = table(report(only, other), TRADEOFFS)
    assert (None, "nothing was measured for every scenario") == (compared["ranking"], compared["reason"])
    assert compared["left_out"]["latency"] == {"not_measured_for": ["sklearn_fp32"]}
    assert ("", "", "") == (row["score"], row["composite"], row["pareto"])
    assert row["rank_reason"].startswith("nothing was measured for every scenario; ")


def test_a_value_of_zero_has_no_ratio() -> None:
    rows = table(report(FAST, judgement("onnx_int8", latency=0.001, accuracy=0.0, memory=20e6)), TRADEOFFS)
    assert ["", "a value of 0 has no ratio"] == [rows[1]["score"], rows[1]["rank_reason"].partition(";")[0]]


@pytest.mark.parametrize("name", [TRADEOFFS, DASHBOARD])
def test_an_empty_figure_has_its_reason_and_an_estimate_is_none(name: str) -> None:
    for row in table(fake.report(), name):
        for figure in [one.removesuffix("_reason") for one in row if one.endswith(("_ms_reason", "_mj_reason"))]:
            whole = all(row[f"{figure}{end}"] for end in ("", "_ci_low", "_ci_high"))
            assert whole == (row[f"{figure}_reason"] == "")
    estimated = next(row for row in table(fake.report(), name) if row["scenario"] == "onnx_fp32")
    assert ("", "only estimated, by estimate:cpu-time") == (
        estimated["energy_mean_mj"],
        estimated["energy_mean_mj_reason"],
    )


def test_a_memory_bandwidth_says_what_it_leaves_out() -> None:
    """1 kB in 1 ms are 1 MB/s; what a tree ensemble holds is not counted, and scikit-learn shows no operators."""
    trees = Work(flops=None, moved_bytes=1e3, nodes=1, uncounted={"TreeEnsembleClassifier": 1})
    shown = replace(FAST, run=replace(FAST.run, roofline=roofline_of(trees, 1e-3, None, 1)))
    withheld = OperatorProfile(source="", calls=0, latency_s=1e-3, coverage=0.0, withheld=said("shows no operators"))
    unseen = replace(SLOW, run=replace(SLOW.run, operators=withheld))
    cells = [
        (row["memory_bandwidth_gb_per_s"], row["memory_bandwidth_reason"])
        for row in table(report(shown, unseen, DOMINATED), TRADEOFFS)
    ]
    assert cells == [
        ("0.001", "at least: not counted are TreeEnsembleClassifier"),
        ("", "the work of its runtime is not counted"),
        ("", "counted with --hwperf-operators"),
    ]


def test_the_dashboard_counts_outcomes_and_names_the_tightest_budget() -> None:
    """A limit of 5 ms is missed by 7.9 ms: 2.9 ÷ 5 = 0.58 beyond it."""
    row = table(fake.report(), DASHBOARD)[0]
    assert ("latency_p95_ms", "5") == (row["tightest_budget"], row["tightest_limit"])
    assert -0.58 == pytest.approx(float(row["tightest_headroom"]))
    assert ("1", "1", "regressed") == (row["regressed"], row["failed"], row["worst"])
    assert 0.048 == pytest.approx(float(row["latency_p50_change"]))


def test_the_table_is_read_by_hwperf_tradeoffs(tmp_path: Path) -> None:
    file = tmp_path / TRADEOFFS
    file.write_bytes(tradeoff_files.render(CHOICE)[TRADEOFFS])
    found = read_candidates(str(file)).candidates
    (before,) = measured_together(CHOICE.judgements)
    (again,) = found.values()
    assert [one.name for one in before.candidates] == [one.name for one in again]
    for one, other in zip(before.candidates, again, strict=True):
        assert {key: pytest.approx(found.value) for key, found in one.values.items()} == {
            key: found.value for key, found in other.values.items()
        }


def pages() -> Iterator[tuple[str, set[str]]]:
    """Yield each table of the page with the words in its first columns."""
    text = (ROOT / "docs" / "artifacts.md").read_text(encoding="utf-8")
    common = text[: text.index("\n## ")]
    shared = {*re.findall(r"`([^`]+)`", common)}
    for part in text.split("\n## ")[1:]:
        cells = [line.split("|")[1] for line in part.splitlines() if line.startswith("| ")]
        yield part.partition("\n")[0].strip(), shared | {*re.findall(r"`([^`]+)`", " ".join(cells))}


def test_every_column_is_defined() -> None:
    """A figure is defined by its name, what stands behind its name by its ending."""
    defined = dict(pages())
    for name, content in {**csv_files.render(fake.report()), **tradeoff_files.render(fake.report())}.items():
        if name.endswith(".csv"):
            known = defined[name] | (defined[TRADEOFFS] if name == DASHBOARD else set())
            ends = tuple(one for one in known if one.startswith("_"))
            columns = content.partition(b"\n")[0].decode().split(",")
            figures = {one for one in columns if f"{one}_reason" in columns}
            told = {f"{figure}{end}" for figure in figures for end in ends}
            if name == "stat_benchmark_summary.csv":  # any figure of any metric: the page gives an example
                told |= figures
            assert set() == {*columns} - known - told, name


@pytest.mark.parametrize("name", [COMPARED, BEST])
def test_every_field_is_defined(name: str) -> None:
    fields = {key for test in entries(CHOICE, name) for key in test}
    inner = {
        key for test in entries(CHOICE, name) for value in test.values() if isinstance(value, dict) for key in value
    }
    inner -= {"accuracy", "latency", "memory", "energy"}
    text = (ROOT / "docs" / "artifacts.md").read_text(encoding="utf-8").partition(f"\n## {name}")[2]
    assert all(f"`{field}`" in text.partition("\n## ")[0] for field in fields | inner)


@pytest.mark.runtime
def test_a_picture_is_drawn_where_there_is_a_choice() -> None:
    pytest.importorskip("matplotlib", reason="pictures need pytest-hwperf[plot]")
    assert plots.render_tradeoffs(CHOICE)["benchmark_tradeoff.png"].startswith(b"\x89PNG")


@pytest.mark.runtime
def test_the_picture_fills_what_the_table_calls_pareto(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is dominated on the plane that is drawn, and better in memory, which is not."""
    figure = pytest.importorskip("matplotlib.figure", reason="pictures need pytest-hwperf[plot]").Figure
    drawn: list[Any] = []
    monkeypatch.setattr(figure, "savefig", lambda self, *_, **__: drawn.append(self))
    small = judgement("sklearn_fp32", latency=0.004, accuracy=0.80, memory=10e6)
    plots.render_tradeoffs(report(FAST, small, DOMINATED))
    filled = {
        line.get_xdata()[0]: line.get_mfc() != "white" for line in drawn[0].axes[0].lines[::1] if line.get_ms() == 7
    }
    assert {0.001: True, 0.004: True, 0.008: False} == filled
    assert ["yes", "yes", "no"] == [row["pareto"] for row in table(report(FAST, small, DOMINATED), TRADEOFFS)]


@pytest.mark.runtime
def test_the_names_in_the_picture_cover_no_other_and_stay_within(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = pytest.importorskip("matplotlib.figure", reason="pictures need pytest-hwperf[plot]").Figure
    drawn: list[Any] = []
    monkeypatch.setattr(figure, "savefig", lambda self, *_, **__: drawn.append(self))
    names = ["onnx_fp32", "torch_fp32_no_mkldnn", "torch_fp32_channels_last", "torch_compile_reduce_overhead"]
    all_as_right = [judgement(name, latency=0.001 * k, accuracy=0.9) for k, name in enumerate(names, 1)]
    plots.render_tradeoffs(report(*all_as_right))
    (axes,) = drawn[0].axes
    boxes = [text.get_window_extent() for text in axes.texts]
    assert sorted(names) == sorted(text.get_text() for text in axes.texts)
    assert not [1 for place, one in enumerate(boxes) for other in boxes[:place] if one.overlaps(other)]
    assert axes.bbox.x0 <= min(box.x0 for box in boxes)
    assert max(box.x1 for box in boxes) <= axes.bbox.x1


def test_alone_there_is_nothing_to_draw() -> None:
    assert not plots.render_tradeoffs(report(FAST))
    assert not plots.render_tradeoffs(report(judgement("a", memory=1.0), judgement("b", memory=2.0)))
