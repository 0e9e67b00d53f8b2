"""Runs of pytest within a test.

Such a run drops the modules that it was first to import. The plugin's lazy parts are imported here, before, so that
every run sees one and the same copy of each, and what a test patches is the one that runs.
"""

import importlib
import os
import pkgutil
import subprocess
import sys
from functools import partial

import numpy as np  # noqa: F401 - see above
import onnx  # noqa: F401 - see above: its C++ half aborts the process when it is loaded twice
import onnxruntime.quantization  # noqa: F401 - see above
import pandas as pd  # noqa: F401 - see above
import pytest
import scipy.special  # noqa: F401 - see above
import skl2onnx  # noqa: F401 - see above
import sklearn.ensemble  # noqa: F401 - see above
from fakes.reruns import QUICK

import pytest_hwperf
from pytest_hwperf.gate.conductor import Conductor

for module in pkgutil.walk_packages(pytest_hwperf.__path__, "pytest_hwperf."):
    # The one is a command and no part, the other imports PyTorch's compiler, where there is one.
    if not module.name.endswith((".__main__", ".torch_compiler")):
        importlib.import_module(module.name)


@pytest.fixture(autouse=True, scope="session")
def _rewritten(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let pytest write its byte code of the plugin's modules once: fresh processes, which may not, read it."""
    is_first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    if not is_first or not any(item.get_closest_marker("live") for item in request.session.items):
        return
    folder = tmp_path_factory.mktemp("rewritten")
    names = [name for name in sys.modules if name.partition(".")[0] == "pytest_hwperf"]
    (folder / "conftest.py").write_text("".join(f"import {name}\n" for name in names), encoding="utf-8")
    left_out = ("PYTHONDONTWRITEBYTECODE", "PYTEST_", "COVERAGE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    command = [sys.executable, "-m", "pytest", "--quiet", "--collect-only", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=folder, env=kept, check=False, capture_output=True, text=True)
    assert pytest.ExitCode.NO_TESTS_COLLECTED == done.returncode, done.stdout + done.stderr


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an inner run not take itself for a worker of the outer one."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "HWPERF_WORKER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")  # nothing is cut in the short summary


@pytest.fixture
def quick_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pairs take few and short turns, wherever they are started from, and read the byte code that there is."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE")
    for place in ("gate.preparing", "gate.models.compare"):
        monkeypatch.setattr(f"pytest_hwperf.{place}.Conductor", partial(Conductor, plan=QUICK))
