"""`hwperf compare` with real processes: exit codes, threads, the current folder, and nothing that stays behind."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import onnx
import pytest
from fakes import repeated_pairs
from fakes.commands import Told
from fakes.onnx_models import save_onnx
from fakes.processes import left_in, processes_in
from fakes.sums_server import serving
from onnx import TensorProto, helper, numpy_helper

from pytest_hwperf.cli import INTERRUPTED, USAGE, main
from pytest_hwperf.cli.doctor_noise import listen
from pytest_hwperf.cli.output import FAILED, OK
from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.models.worker import subject_of
from pytest_hwperf.host.worker_protocol import ModelSpec
from pytest_hwperf.stats.pairs.timetable import BlockPlan

pytestmark = pytest.mark.live

QUICK = BlockPlan(doubles=2, calls=10, block_s=0.002, warm_blocks=3)

MODELS = """
import os, time

assert not {"COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"} & set(os.environ)


def steady(X):
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

    monkeypatch.setattr("pytest_hwperf.gate.models.compare.Conductor", noted)
    monkeypatch.chdir(tmp_path)
    return reported


@pytest.mark.usefixtures("commands")
def test_a_model_that_never_answers_is_cut_off_at_the_time_limit(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    for name in ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"):
        monkeypatch.setenv(name, "")  # neither reaches a model
    Path("models.py").write_text(MODELS, encoding="utf-8")
    np.save("rows.npy", np.ones((8, 3)))
    text = told(USAGE, "compare", "models:steady", "models:endless", "--data=rows.npy", "--time=4").err
    assert "the time of 4 s was up before models:steady and models:endless had been measured once: " in text
    assert re.search(r"was cut off when the time was up .*; at least \d+ s are needed, give more time", text)


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


SHADOWED = ("numpy", "statistics", "onnxruntime", "importlib_metadata", "heapq", "random", "decimal", "typing")


@pytest.fixture
def trap(tmp_path: Path, commands: list[ModelSpec], monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: ARG001 - short turns
    """The current folder, with modules of well-known names that leave a file when they are imported."""
    folder = tmp_path / "models"
    folder.mkdir()
    for name in SHADOWED:
        code = f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r})\nraise SystemExit('shadowed')\n"
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


def test_two_files_are_compared_without_the_folder(
    trap: Path, commands: list[ModelSpec], monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    """With the threads that were asked for; one pair counts as often as is asked."""
    monkeypatch.setattr(Conductor, "conduct", repeated_pairs.conduct)
    weights = np.full((16, 2), 0.5)
    save_onnx(trap / "m.onnx", [("MatMul", ["x", "w"], "y")], {"x": 16}, {"y": 2}, w=weights)
    np.save(trap / "rows.npy", np.ones((8, 16), dtype=np.float32))
    out = told(OK, "compare", "m.onnx", "m.onnx", "--data=rows.npy", "--margin=400%", "--threads=2").out
    assert "m.onnx (NEW) against m.onnx (OLD): " in out
    assert [2, 2] == [spec.threads for spec in commands]
    assert not (trap.parent / "imported").exists()
    np.savez("rows.npz", X=np.ones((8, 16), dtype=np.float32))
    here = ModelSpec(model="m.onnx", data="rows.npz", batch_size=1, threads=2, test="compare", label="")
    assert "2" == subject_of(here).conditions["threads"]


def test_the_built_in_model_is_measured_without_the_folder(trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One round of pairs: the time is up whenever its clock is read again after them.

    However noisy the machine: a pair is completed, and its values are ratios of like to like. It stands for six of the
    screen, and for eight that confirm where noise has put it beyond the margin.
    """
    readings = count()
    monkeypatch.setattr(Conductor, "conduct", repeated_pairs.conduct)
    monkeypatch.setattr(
        "pytest_hwperf.gate.models.compare.monotonic", lambda: monotonic() + 1000 * (next(readings) > 2)
    )
    noise = listen(600.0)
    assert "" == noise.reason
    assert noise.pairs in (6, 6 + 8)
    assert noise.latency_s is not None
    assert all(-0.9 < difference < 9 for difference in noise.differences)
    assert not (trap.parent / "imported").exists()


def test_the_doctor_examines_without_the_folder(trap: Path) -> None:
    """The command as it is installed, in a process of its own; its pairs are those of the test above."""
    command = Path(sys.executable).with_name("hwperf")
    done = subprocess.run([command, "doctor", "--seconds=0"], capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    assert not (trap.parent / "imported").exists()


# Both sides say that they are at it, start a process of their own, and never give an answer.
ENDLESS = """
import os, pathlib, subprocess, sys, time


def endless(X):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    pathlib.Path(f"pid-{os.getpid()}").touch()
    time.sleep(3600)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder in which all processes work."""
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "models.py").write_text(ENDLESS, encoding="utf-8")
    np.savez(folder / "data.npz", X=np.ones((4, 2), dtype=np.float32))
    return folder


@pytest.fixture
def comparison(place: Path, temporary: Path) -> Iterator["subprocess.Popen[str]"]:
    """A comparison both of whose sides hang."""
    command = ["compare", "models:endless", "models:endless", "--data", "data.npz"]
    with subprocess.Popen(
        [sys.executable, "-m", "pytest_hwperf.cli", *command],
        cwd=place, env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
    ) as process:  # fmt: skip
        for _ in range(600):
            if list(place.glob("pid-*")) or process.poll() is not None:
                break
            time.sleep(0.1)
        yield process
        process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_comparison_leaves_nothing_behind(
    comparison: "subprocess.Popen[str]", place: Path, temporary: Path, number: signal.Signals
) -> None:
    comparison.send_signal(number)
    output, _ = comparison.communicate(timeout=30)
    assert (INTERRUPTED, ["hwperf: interrupted"]) == (comparison.returncode, output.splitlines()[-1:])
    assert [] == left_in(place)
    assert [] == list(temporary.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("state", ["running", "stopped"])
def test_the_sides_of_a_killed_comparison_end(comparison: "subprocess.Popen[str]", place: Path, state: str) -> None:
    """With what they have started; its folder is removed by whoever makes one next."""
    if state == "stopped":
        for side in place.glob("pid-*"):
            os.kill(int(side.name.removeprefix("pid-")), signal.SIGSTOP)
    assert [] != processes_in(place)
    comparison.kill()
    comparison.wait(30)
    assert [] == left_in(place)


def save_classifier(name: str, *, counts_from: int | None) -> str:
    """Write a linear classifier of three classes that gives probabilities, or labels counted from a number."""
    weights = np.array([[2, -1, 0], [0, 1.5, -1], [-1, 0, 2], [0.5, 0.5, -1]], np.float32)
    nodes = [helper.make_node("MatMul", ["X", "W"], ["s"]), helper.make_node("Softmax", ["s"], ["p"], axis=1)]
    tensors = [numpy_helper.from_array(weights, "W")]
    output = helper.make_tensor_value_info("p", TensorProto.FLOAT, ["N", 3])
    if counts_from is not None:
        nodes.append(helper.make_node("ArgMax", ["p"], ["a"], axis=1, keepdims=0))
        nodes.append(helper.make_node("Add", ["a", "first"], ["label"]))
        tensors.append(numpy_helper.from_array(np.array(counts_from, np.int64), "first"))
        output = helper.make_tensor_value_info("label", TensorProto.INT64, ["N"])
    port = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["N", 4])
    graph = helper.make_graph(nodes, "g", [port], [output], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), name)
    return name


@pytest.mark.usefixtures("commands")
def test_labels_and_positions_of_the_same_weights_are_compared_in_one_vocabulary(
    monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    """One side gives labels 1..3, the other probabilities: nobody but the user knows that these are the same."""
    monkeypatch.setattr(Conductor, "conduct", repeated_pairs.conduct)
    sides = [save_classifier("old.onnx", counts_from=1), save_classifier("new.onnx", counts_from=None)]
    X = np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)
    weights = np.array([[2, -1, 0], [0, 1.5, -1], [-1, 0, 2], [0.5, 0.5, -1]], np.float32)
    labels = (X @ weights).argmax(axis=1) + 1
    np.savez("rows.npz", X=X, y=labels)
    asked = ["compare", *sides, "--data=rows.npz", "--margin=400%"]
    text = " ".join(told(USAGE, *asked).err.split())
    assert "new.onnx cannot be measured: the model gives positions 0..2 of its columns, and y_true holds the la" in text
    assert text.endswith("or hwperf compare --classes=1,2,3")
    out = told(OK, *asked, "--classes=1,2,3").out
    assert "accuracy: equal on 400 of 400 examples" in " ".join(out.split())


@pytest.mark.usefixtures("commands")
def test_a_batch_size_that_a_graph_does_not_take_is_refused_with_the_one_that_it_takes(told: Told) -> None:
    """Its input takes any number of rows, and a Reshape behind it a single one."""
    nodes = [helper.make_node("Reshape", ["X", "shape"], ["r"]), helper.make_node("MatMul", ["r", "W"], ["s"])]
    tensors = [numpy_helper.from_array(np.eye(4, 3, dtype=np.float32), "W")]
    tensors.append(numpy_helper.from_array(np.array([1, 4]), "shape"))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", n]) for name, n in (("X", 4), ("s", 3))]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "one.onnx")
    np.save("rows.npy", np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32))
    text = " ".join(told(USAGE, "compare", "one.onnx", "one.onnx", "--data=rows.npy", "--batch-size=8").err.split())
    assert "one.onnx takes batches of 1 row and no others: give batch_size=1 (hwperf compare: --batch-size=1)" in text
