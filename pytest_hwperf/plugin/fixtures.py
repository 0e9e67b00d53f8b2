"""The fixtures, documented for `pytest --fixtures`."""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_hwperf.meters.energy.window import EnergyMeter
    from pytest_hwperf.meters.memory.window import MemoryWindows
    from pytest_hwperf.plugin.hwperf import Hwperf
    from pytest_hwperf.plugin.scenarios import ReadyScenario


@pytest.fixture
def hwperf(request: pytest.FixtureRequest) -> "Hwperf":
    """Measure: call it with the fixture `scenario`, or with a callable, its arguments and `y_true=`, `batch_size=`."""
    from pytest_hwperf.plugin.hwperf import Hwperf

    return Hwperf(request.node)


@pytest.fixture
def scenario(request: pytest.FixtureRequest, hwperf_model: Any, hwperf_data: Any) -> "ReadyScenario":
    """The model of `hwperf_model` in one runtime, on the data of `hwperf_data`; see the marker `hwscenarios`."""
    from pytest_hwperf.core.errors import HwperfError
    from pytest_hwperf.plugin.scenarios import ready_scenario

    try:
        return ready_scenario(request.node, request.param, hwperf_model, hwperf_data)
    except HwperfError as error:
        problem = str(error)
    pytest.fail(problem, pytrace=False)  # outside of `except`, so that pytest does not show the same error twice


@pytest.fixture(scope="session")
def hwperf_model() -> Any:
    """The fitted estimator that the fixture `scenario` measures. Override it in conftest.py."""
    pytest.fail(
        "the fixture scenario needs a model: define a fixture hwperf_model in conftest.py that returns a fitted "
        "estimator",
        pytrace=False,
    )


@pytest.fixture(scope="session")
def hwperf_data() -> Any:
    """The rows that scenarios predict: X, (X, y), (X, y, X_calibration) or a mapping of these. Override it."""
    pytest.fail(
        "the fixture scenario needs data: define a fixture hwperf_data in conftest.py that returns (X, y), or "
        "(X, y, X_calibration) for static INT8",
        pytrace=False,
    )


@pytest.fixture
def energy_meter(request: pytest.FixtureRequest) -> "EnergyMeter":
    """Meter the energy of your own block: `with energy_meter.window() as reading: ...`, then `reading.joules`."""
    from pytest_hwperf.meters.energy.window import EnergyMeter
    from pytest_hwperf.plugin.session import session_of

    shared = session_of(request.config)
    if shared.settings.disable:
        return EnergyMeter(None, why_none="nothing is measured (--hwperf-disable)")
    return EnergyMeter(shared.energy)


@pytest.fixture
def memory_meter(request: pytest.FixtureRequest) -> "MemoryWindows":
    """Measure the memory of your own block: `with memory_meter.window() as reading: ...`, then `reading.peak_bytes`."""
    from pytest_hwperf.meters.memory.window import MemoryWindows
    from pytest_hwperf.plugin.session import session_of

    return MemoryWindows(lambda: session_of(request.config).peak_rss)
