"""Runs of pytest within a test.

Such a run drops the modules that it was first to import. The plugin's lazy parts are imported here, before, so that
every run sees one and the same copy of each.
"""

import numpy as np  # noqa: F401 - see above
import onnx  # noqa: F401 - see above: its C++ half aborts the process when it is loaded twice
import onnxruntime.quantization  # noqa: F401 - see above
import pandas as pd  # noqa: F401 - see above
import pytest
import scipy.special  # noqa: F401 - see above
import skl2onnx  # noqa: F401 - see above
import sklearn.ensemble  # noqa: F401 - see above

import pytest_hwperf.cli
import pytest_hwperf.meters.energy_window
import pytest_hwperf.meters.memory_window
import pytest_hwperf.plugin.finishing
import pytest_hwperf.plugin.judging
import pytest_hwperf.plugin.measuring
import pytest_hwperf.plugin.obeying
import pytest_hwperf.stores.json_files  # noqa: F401 - see above


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an inner run not take itself for a worker of the outer one."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "HWPERF_WORKER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")  # nothing is cut in the short summary
