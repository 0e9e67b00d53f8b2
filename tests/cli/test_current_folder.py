"""Files of the current folder are not imported by a command that was not asked for them."""

import subprocess
import sys
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from pytest_hwperf.cli import main
from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.models import CompareSettings, compare_with_itself
from pytest_hwperf.gate.targets import MODEL, rows
from pytest_hwperf.stats.timetable import BlockPlan

pytestmark = pytest.mark.live

QUICK = BlockPlan(doubles=2, calls=10, block_s=0.002, warm_blocks=3)
SHADOWED = ("numpy", "statistics", "onnxruntime", "importlib_metadata", "heapq", "random", "decimal", "typing")


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with modules of well-known names that leave a file when they are imported."""
    folder = tmp_path / "models"
    folder.mkdir()
    for name in SHADOWED:
        code = f"open({str(tmp_path / 'imported')!r}, 'a').write({name!r})\nraise SystemExit('shadowed')\n"
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr("pytest_hwperf.gate.models.Conductor", partial(Conductor, plan=QUICK))
    monkeypatch.chdir(folder)
    return folder


def save_model(path: Path) -> None:
    row, double = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", [row], [double])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def test_two_files_are_compared_without_the_folder(trap: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_model(trap / "m.onnx")
    np.save(trap / "rows.npy", np.ones((8, 1), dtype=np.float32))
    main(["compare", "m.onnx", "m.onnx", "--data=rows.npy", "--margin=400%"])
    assert "m.onnx (NEW) against m.onnx (OLD): " in capsys.readouterr().out
    assert not (trap.parent / "imported").exists()


def test_the_built_in_model_is_measured_without_the_folder(trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One round of pairs: the time is up whenever its clock is read again after them."""
    readings = count()
    monkeypatch.setattr("pytest_hwperf.gate.models.monotonic", lambda: monotonic() + 1000 * (next(readings) > 2))
    found = compare_with_itself(MODEL, rows(), CompareSettings(batch_size=64))
    assert found.changes
    assert not found.lost
    assert not (trap.parent / "imported").exists()


def test_the_doctor_examines_without_the_folder(trap: Path) -> None:
    """The command as it is installed, in a process of its own."""
    command = Path(sys.executable).with_name("hwperf")
    done = subprocess.run([command, "doctor", "--seconds=1"], capture_output=True, text=True, check=False)
    assert 0 == done.returncode
    assert all(line.startswith("equal processes take turns: ") for line in done.stderr.splitlines())
    assert not (trap.parent / "imported").exists()


def test_a_function_is_found_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That is what was asked for."""
    monkeypatch.setattr("pytest_hwperf.gate.models.Conductor", partial(Conductor, plan=QUICK))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text("def first(X):\n    return X[:, 0]\n", encoding="utf-8")
    np.save(tmp_path / "rows.npy", np.ones((8, 1)))
    main(["compare", "models:first", "models:first", "--data=rows.npy", "--margin=400%"])
    assert "models:first (NEW) against models:first (OLD): " in capsys.readouterr().out
