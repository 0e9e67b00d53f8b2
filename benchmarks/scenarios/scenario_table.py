"""Every scenario on every model and data set, measured by the plugin itself: a table, and how it agrees with ratios.

    pip install ".[lightgbm,litert,openvino,torch,xgboost]" onnxmltools
    python -m benchmarks scenario_table --folder table

The folder keeps trained models and the report of each test, so that a run that was interrupted goes on.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.projects import ROOT
from benchmarks.scenarios.scenario_models import IMAGES, KEPT, MODELS, SETS
from pytest_hwperf.records.units import show

BATCHES = (1, 32, 256)
_TORCH = ("torch_fp32", "torch_compile", "torch_int8")
_ONNX = ("onnx_fp32", "onnx_int8_dynamic", "onnx_int8_static", "openvino_fp32", "openvino_bf16")
_TEST = """
import os
import pytest
from benchmarks.scenarios import scenario_models as models

DATA, MODEL = os.environ["TABLE_DATA"], os.environ["TABLE_MODEL"]


@pytest.fixture(scope="module")
def hwperf_model():
    return models.model(DATA, MODEL)


@pytest.fixture(scope="module")
def hwperf_data():
    X, _, tested, labels = models.rows(DATA)
    return {"X": tested, "y": labels, "X_calibration": X[:512]}


@pytest.mark.hwbudget(memory_max_mb=100_000, latency_p50_ms=100_000)
@pytest.mark.hwscenarios(*os.environ["TABLE_SCENARIOS"].split())
@pytest.mark.parametrize("batch", [int(size) for size in os.environ["TABLE_BATCHES"].split()])
def test_model(hwperf, scenario, batch):
    hwperf(scenario, batch_size=batch)
"""
# (model, numerator, denominator, batch) → how many times as fast, from other measurements of 50 columns on 2 cores.
_EXPECTED = {
    ("logistic", "sklearn_fp32", "onnx_fp32", 1): 11.0,
    ("logistic", "sklearn_fp32", "onnx_fp32", 256): 6.3,
    ("scaled logistic", "sklearn_fp32", "onnx_fp32", 1): 38.0,
    ("scaled logistic", "sklearn_fp32", "onnx_fp32", 256): 6.5,
    ("mlp 64", "sklearn_fp32", "onnx_fp32", 1): 25.0,
    ("mlp 64", "sklearn_fp32", "onnx_fp32", 256): 7.8,
    ("mlp 512x512", "sklearn_fp32", "onnx_fp32", 1): 10.0,
    ("mlp 512x512", "sklearn_fp32", "onnx_fp32", 256): 2.4,
    ("mlp 512x512", "onnx_fp32", "onnx_int8_dynamic", 1): 1.6,
    ("mlp 512x512", "onnx_fp32", "onnx_int8_dynamic", 256): 2.6,
    ("mlp 512x512", "onnx_fp32", "onnx_int8_static", 1): 1.5,
    ("mlp 512x512", "onnx_fp32", "onnx_int8_static", 256): 2.4,
    ("mlp 64", "onnx_fp32", "onnx_int8_dynamic", 1): 0.83,
    ("mlp 64", "onnx_fp32", "onnx_int8_dynamic", 256): 1.02,
}
_MARGIN = 0.02  # of two medians that are told apart
_LONGEST = 90  # characters of a reason
_HEAD = ("data", "model", "scenario", "outcome", "p50 of a call", "rows/s", "memory", "accuracy", "flips", "size")


def main() -> None:
    """Measure what the folder does not have yet, and print the table."""
    asked = _arguments()
    asked.folder.mkdir(parents=True, exist_ok=True)
    (asked.folder / "test_table.py").write_text(_TEST, encoding="utf-8")
    reports = {}
    for data, model in _chosen(asked.data, asked.models):
        reports[data, model] = _report(asked.folder.resolve(), data, model, asked.seconds)
        print(f"{data}, {model}: done", file=sys.stderr, flush=True)
    rows = [row for (data, model), report in reports.items() for row in _rows(data, model, report)]
    print(tables.markdown(_HEAD, rows), *_ratios(reports), sep="\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="models and reports; what is there is not repeated")
    parser.add_argument("--data", nargs="*", choices=SETS, default=SETS)
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--seconds", type=float, default=1.0, help="longest sampling of each point (default: 1)")
    return parser.parse_args()


def _chosen(data: Sequence[str], models: Sequence[str]) -> Iterator[tuple[str, str]]:
    for one in data:
        yield from ((one, model) for model in models if model != "torch cnn" or one == IMAGES)


def _scenarios(model: str) -> Sequence[str]:
    native = {"xgboost 100": ["xgboost_native"], "lightgbm 100": ["lightgbm_native"]}.get(model, [])
    return [*_TORCH, *_ONNX] if model == "torch cnn" else ["sklearn_fp32", *native, *_ONNX]


def _report(folder: Path, data: str, model: str, seconds: float) -> Any:
    """Run the test of one model under every scenario, unless the folder has its report."""
    file = folder / f"{data} {model}.json".replace(" ", "_")
    if not file.exists():
        settings = {
            "TABLE_DATA": data,
            "TABLE_MODEL": model,
            "TABLE_SCENARIOS": " ".join(_scenarios(model)),
            KEPT: str(folder),
        }
        settings |= {"TABLE_BATCHES": " ".join(map(str, BATCHES)), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_table.py"]
        options = [f"--hwperf-report={file}", f"--hwperf-sample-time={seconds}", "--hwperf-energy=off"]
        done = subprocess.run(
            [*command, *options],
            cwd=folder,
            env={**os.environ, **settings},
            check=False,
            capture_output=True,
            text=True,
        )
        if not file.exists():
            sys.exit(f"{data}, {model}: pytest ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(file.read_text(encoding="utf-8"))["report"]


def _rows(data: str, model: str, report: Mapping[str, Any]) -> Iterator[list[str]]:
    points = _points(report)
    for scenario in _scenarios(model):
        found = [points.get((scenario, batch), {}) for batch in BATCHES]
        first = found[0]
        if not any(found):
            yield [data, model, scenario, _reason(report, scenario), *["–"] * 6]
            continue
        by_batch = [
            " / ".join(_shown(figures.get(key), unit) for figures in found)
            for key, unit in (("latency p50", "s"), ("sample_throughput mean", "1/s"), ("memory p50", "B"))
        ]
        exact = [_shown(first.get(key), "1") for key in ("accuracy mean", "flip_rate mean")]
        outcome = _outcome(scenario, report, points)
        yield [data, model, scenario, outcome, *by_batch, *exact, _shown(first.get("model_size p50"), "B")]


def _outcome(scenario: str, report: Mapping[str, Any], points: Mapping[tuple[str, int], Mapping[str, float]]) -> str:
    """Say the precision that was verified, and where INT8 is slower than FP32 in the same runtime."""
    runs = [one["run"] for one in report["judgements"] if one["run"]["scenario"] == scenario]
    precision = str(runs[0]["conditions"]["precision"])
    if not scenario.startswith("onnx_int8"):
        return precision
    medians = [
        [points[name, batch]["latency p50"] for name in (scenario, "onnx_fp32")]
        for batch in BATCHES
        if (scenario, batch) in points and ("onnx_fp32", batch) in points
    ]
    slower = [str(batch) for batch, (mine, its) in zip(BATCHES, medians, strict=False) if mine > its * (1 + _MARGIN)]
    return f"{precision}, slower than FP32 at {', '.join(slower)}" if slower else precision


def _points(report: Mapping[str, Any]) -> dict[tuple[str, int], dict[str, float]]:
    """Return (scenario, batch size) → metric and statistic → value in base units."""
    return {
        (one["run"]["scenario"], int(one["run"]["conditions"]["batch_size"])): {
            f"{figure['metric']} {figure['statistic']}": figure["estimate"]["value"] for figure in one["figures"]
        }
        for one in report["judgements"]
    }


def _reason(report: Mapping[str, Any], scenario: str) -> str:
    causes = [skip["cause"] for skip in report["skips"] if skip["scenario"] == scenario]
    if not causes:
        return "not measured, without a reason"
    cause = causes[0]
    text = f"{cause['kind']}: {', '.join(map(str, cause['texts'].values()))}".replace("|", "/")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _shown(value: float | None, unit: str) -> str:
    return "–" if value is None else show(value, unit)


def _ratios(reports: Mapping[tuple[str, str], Any]) -> Iterator[str]:
    """Say how many times as fast one scenario is as another, beside what was measured elsewhere."""
    for (model, slow, fast, batch), expected in _EXPECTED.items():
        report = reports.get(("synthetic", model))
        points = _points(report) if report else {}
        both = [points[scenario, batch]["latency p50"] for scenario in (slow, fast) if (scenario, batch) in points]
        if len(both) == 2:  # noqa: PLR2004 - neither was skipped
            ratio = both[0] / both[1]
            yield f"{model}, batch {batch}: {fast} is {ratio:.2f} times as fast as {slow}; expected about {expected}"
