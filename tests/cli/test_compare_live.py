"""`hwperf compare` with real processes: what cannot be decided has its own exit code, and threads reach both sides."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from fakes.sums_server import serving
from onnx import TensorProto, helper, numpy_helper

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.output import FAILED, INCONCLUSIVE, OK
from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.model_worker import subject_of
from pytest_hwperf.host.worker_protocol import ModelSpec
from pytest_hwperf.stats.timetable import BlockPlan

pytestmark = pytest.mark.live

QUICK = BlockPlan(doubles=2, calls=10, block_s=0.002, warm_blocks=3)

# Every other process of the one is slower than the other's, and every other one quicker.
MODELS = """
import os, pathlib, time
import pytest
from fakes import simulated_time

simulated_time.begin(pytest.MonkeyPatch())
assert not {"COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"} & set(os.environ)
STARTS = pathlib.Path("starts")
units = 0


def steady(X):
    simulated_time.spend(250)
    return X[:, 0]


def settling(X):  # in the processes of rehearsal and screen quicker and slower by turns
    global units
    if not units:
        starts = int(STARTS.read_text()) if STARTS.exists() else 0
        STARTS.write_text(str(starts + 1))
        units = (240, 260)[starts % 2] if starts < 7 else 250
    simulated_time.spend(units)
    return X[:, 0]


def changing(X):
    global units
    if not units:
        starts = int(STARTS.read_text()) if STARTS.exists() else 0
        STARTS.write_text(str(starts + 1))
        units = (125, 500)[starts % 2]
    simulated_time.spend(units)
    return X[:, 0]


def endless(X):
    time.sleep(600)
"""


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[ModelSpec]:
    """Take short turns; return what both sides of each comparison were sent."""
    reported: list[ModelSpec] = []

    def noted(**given: Any) -> Conductor:
        reported.extend(command.model for command in given["commands"].values())
        return Conductor(**given, plan=QUICK)

    monkeypatch.setattr("pytest_hwperf.gate.models.Conductor", noted)
    monkeypatch.chdir(tmp_path)
    return reported


@pytest.fixture
def models(tmp_path: Path, commands: list[ModelSpec], fakes_in_reach: None) -> None:  # noqa: ARG001 - they run here
    """The models in the current folder, and rows for them."""
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    np.save(tmp_path / "rows.npy", np.ones((8, 3)))


@pytest.mark.usefixtures("models")
def test_what_differs_from_process_to_process_is_inconclusive(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"):
        monkeypatch.setenv(name, "")  # neither reaches a model
    monkeypatch.setattr("pytest_hwperf.stats.sequence.LOOKS", {2: 0.25})  # two further pairs
    assert INCONCLUSIVE == main(["compare", "models:steady", "models:changing", "--data=rows.npy", "--margin=10%"])
    out = " ".join(capsys.readouterr().out.split())
    assert "INCONCLUSIVE latency p50 " in out
    assert "2 fresh pairs" in out


@pytest.mark.usefixtures("models")
def test_equal_models_are_measured_until_they_are_known_to_be_equal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The screen alone is too noisy to say so: it takes 6 pairs, and then 8 further ones are looked at."""
    assert OK == main(["compare", "models:steady", "models:settling", "--data=rows.npy"])
    out = capsys.readouterr().out
    assert "14 pairs of fresh processes" in out
    assert "EQUIVALENT  latency p50 " in out


@pytest.mark.usefixtures("models")
def test_a_model_that_never_answers_is_cut_off_at_the_time_limit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert USAGE == main(["compare", "models:steady", "models:endless", "--data=rows.npy", "--time=4"])
    text = capsys.readouterr().err
    assert "the time of 4 s was up before models:steady and models:endless had been measured once: " in text
    assert re.search(r"was cut off when the time was up .*; at least \d+ s are needed, give more time", text)


def test_both_models_run_with_the_threads_that_were_asked_for(tmp_path: Path, commands: list[ModelSpec]) -> None:
    weights = numpy_helper.from_array(np.full((16, 2), 0.5, dtype=np.float32), "w")
    rows, scores = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, n]) for name, n in (("x", 16), ("y", 2))
    )
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "one", [rows], [scores], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    np.save(tmp_path / "rows.npy", np.ones((8, 16), dtype=np.float32))
    assert OK == main(["compare", "m.onnx", "m.onnx", "--data=rows.npy", "--margin=400%", "--threads=2"])
    assert [2, 2] == [spec.threads for spec in commands]
    np.savez(tmp_path / "rows.npz", X=np.ones((8, 16), dtype=np.float32))
    here = ModelSpec(model="m.onnx", data="rows.npz", batch_size=1, threads=2, test="compare", label="")
    assert "2" == subject_of(here).conditions["threads"]


@pytest.mark.runtime
@pytest.mark.usefixtures("commands")
def test_requests_that_fail_are_a_reason_against_a_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One address refuses every other request; a first one is sent again."""
    pytest.importorskip("httpx", reason="needs the extra http")
    np.save(tmp_path / "rows.npy", np.ones((8, 3)))
    with serving() as address:
        sides = [f"{address}/predict", f"{address}/busy"]
        assert FAILED == main(["compare", *sides, "--data=rows.npy", "--margin=400%", "--json=all.json"])
    assert re.match(r"no-go: \d+ of \d+ requests failed .*, of OLD 0 of", " ".join(capsys.readouterr().out.split()))
    assert '"kind":"address"' in (tmp_path / "all.json").read_text(encoding="utf-8")
