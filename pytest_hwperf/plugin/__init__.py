"""What every run of pytest loads: options, markers and fixtures; the hooks that measure follow where needed."""

import importlib
import os
from typing import TYPE_CHECKING, Any

import pytest

from pytest_hwperf.host.fakes import fakes_aside
from pytest_hwperf.plugin.session.parsers import register
from pytest_hwperf.plugin.session.settings import OPTIONS, STARTED, Started, read_flag, read_settings

if TYPE_CHECKING:
    from pytest_hwperf.meters.energy_window import EnergyMeter
    from pytest_hwperf.meters.memory import MemoryWindows
    from pytest_hwperf.plugin.fixture.hwperf import Hwperf
    from pytest_hwperf.plugin.fixture.targets import ReadyScenario
    from pytest_hwperf.plugin.session.state import SessionState

_WORKER = "HWPERF_WORKER"  # host.worker_protocol.ENVIRONMENT, which an unused plugin does not load
_WATCHED = "HWPERF_WATCHES_FILES"  # host.opened_files.WATCHES_FILES
_FIXTURES = frozenset({"hwperf", "hwperf_model", "energy_meter", "memory_meter"})
_BENCHMARKS = (
    "benchmark",
    "codspeed_benchmark",
)  # plugin.session.BENCHMARK_MARKS
_MARKERS = {
    "hwbudget": (
        "(latency_p95_ms=100, accuracy_min=0.85, memory_max_mb=10, throughput_min_qps=5000, "
        "energy_budget_mj=2.0, ...): set limits; the closest marker wins for each keyword."
    ),
    "hwregression": '(latency_p50="2%", memory="1%", accuracy="0.5pp", ...): ignore smaller changes from the baseline.',
    "hwscenarios": (
        '("sklearn_fp32", "onnx_fp32", "onnx_int8", ...): run the test once for each scenario, through '
        "the fixture `scenario`."
    ),
    "hwsweep": (
        "(batch_size=[1, 8, 32], threads=[1, 2], latency_p95_ms=10, stop=True, serving_batch=8, rate_sps=500): run the "
        "test once for each combination, and name the best within the limits."
    ),
    "hwload": (
        '(kind="server", qps=200, seconds=2, seed=1, ...): measure under a load: single_stream, multi_stream, '
        "concurrency, offline or server."
    ),
    "hwserial": ": run one version at a time, e.g. for a fixed port, a lock or most of a GPU's memory.",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    register(parser, OPTIONS)


@pytest.hookimpl(tryfirst=True)
@fakes_aside()
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Note how this process was started, and what it uses and opens if it was told to, before code of the tree runs."""
    early_config.stash[STARTED] = Started()
    if _WORKER in os.environ:
        from pytest_hwperf.plugin.worker.watching import watch as watch_task

        watch_task(early_config, os.environ)
    if _WATCHED in os.environ:
        from pytest_hwperf.host.opened_files import watch
        from pytest_hwperf.plugin.session.state import OPENED
        from pytest_hwperf.plugin.worker.watching import watch_order

        early_config.stash[OPENED] = watch()
        watch_order(early_config)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Take the place of pytest-benchmark, if that was asked for, before it is configured."""
    if read_flag(config, "hwperf_benchmark"):
        from pytest_hwperf.plugin.fixture.benchmark import replace_pytest_benchmark

        replace_pytest_benchmark(config)


def pytest_configure(config: pytest.Config) -> None:
    """Register markers and check every setting; load the hooks of a session that measures, if that is known already."""
    for name, usage in _MARKERS.items():
        config.addinivalue_line("markers", name + usage)
    settings = read_settings(config)
    distributed = hasattr(config, "workerinput") or getattr(config.option, "tx", None)
    if settings.change_the_session or distributed or _WORKER in os.environ:
        _session(config)


@fakes_aside()
def _session(config: pytest.Config) -> "SessionState":
    """Load the hooks that measure, unless they are there, and return what all tests share."""
    from pytest_hwperf.plugin.session.state import session_of

    if not config.pluginmanager.has_plugin("hwperf-hooks"):
        # Not the package's attribute of that name: pytester forgets modules, and the old one has another session.
        hooks = importlib.import_module("pytest_hwperf.plugin.hooks")
        config.pluginmanager.register(hooks, "hwperf-hooks")  # pytest then calls its `pytest_configure`
    return session_of(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each scenario that it names, or for each built-in one, and for each point of its sweep."""
    names = metafunc.fixturenames
    if "scenario" in names and "hwperf_model" in names:  # not a user's own fixture of that name
        _session(metafunc.config)
        from pytest_hwperf.plugin.session.markers import scenario_names

        metafunc.parametrize("scenario", scenario_names(metafunc.definition), indirect=True)
    test = metafunc.definition
    if "hwsweep" in test.keywords and test.get_closest_marker("hwsweep"):  # the name of a file may be a keyword too
        _session(metafunc.config)
        from pytest_hwperf.plugin.session.markers import parametrise

        parametrise(metafunc)


@pytest.hookimpl(trylast=True)
@fakes_aside()
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Read the markers of all tests, those included that a conftest has just added; end the session at a bad one."""
    marks = ("hw", *_BENCHMARKS) if read_flag(config, "hwperf_benchmark") else ("hw",)
    if config.pluginmanager.has_plugin("hwperf-hooks") or _concerns(items, marks):
        _session(config)
        from pytest_hwperf.plugin.hooks import check_items

        check_items(config, items)


def _concerns(items: list[pytest.Item], marks: tuple[str, ...]) -> bool:
    """Whether any test uses one of the fixtures that measure, or carries one of the markers, as its class or module.

    Markers are given by the beginnings of their names, so that a misspelt one is found too.
    """
    if not all(_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())) for item in items):
        return True
    parents = {item.parent for item in items if item.parent is not None}
    nodes = [*items, *{node for parent in parents for node in parent.iter_parents()}]  # each of them once
    return any(mark.name.startswith(marks) for node in nodes for mark in node.own_markers)


@pytest.fixture(name="hwperf")  # the module `hwperf` of this package becomes its attribute of that name
@fakes_aside()
def hwperf_fixture(request: pytest.FixtureRequest) -> "Hwperf":
    """Measure: call it with the fixture `scenario`, or with a callable, its arguments and `y_true=`, `batch_size=`."""
    shared = _session(request.config)
    from pytest_hwperf.plugin.fixture.hwperf import Hwperf
    from pytest_hwperf.plugin.session.markers import why_not_judged

    if (why_not := why_not_judged(request.node)) and not shared.settings.disable:
        pytest.fail(why_not, pytrace=False)
    return Hwperf(request.node)


@pytest.fixture
@fakes_aside()
def scenario(request: pytest.FixtureRequest, hwperf_model: Any, hwperf_data: Any) -> "ReadyScenario":
    """Give the model of `hwperf_model` in one runtime, on the data of `hwperf_data`; see the marker `hwscenarios`."""
    from pytest_hwperf.plugin.fixture.targets import ready_scenario
    from pytest_hwperf.records.errors import HwperfError

    if not hasattr(request, "param"):
        pytest.fail(
            "the fixture scenario was asked for by name, where pytest has none to give: the test is run for each "
            "scenario only if scenario is an argument of the test, or of a fixture that is one",
            pytrace=False,
        )
    try:
        return ready_scenario(request.node, request.param, hwperf_model, hwperf_data)
    except HwperfError as error:
        problem = str(error)
    pytest.fail(problem, pytrace=False)  # outside of `except`, so that pytest does not show the same error twice


@pytest.fixture
def _hwperf_point(request: pytest.FixtureRequest) -> Any:
    """The point of a sweep: swept name → value."""
    return request.param


@pytest.fixture(scope="session")
def hwperf_model() -> Any:
    """Override this in conftest.py: return the fitted estimator for the fixture `scenario`."""
    pytest.fail(
        "the fixture scenario needs a model: define a fixture hwperf_model in conftest.py that returns a fitted "
        "estimator",
        pytrace=False,
    )


@pytest.fixture(scope="session")
def hwperf_data() -> Any:
    """Override this in conftest.py: return X, (X, y), (X, y, X_calibration) or a mapping of these."""
    pytest.fail(
        "the fixture scenario needs data: define a fixture hwperf_data in conftest.py that returns (X, y), or "
        "(X, y, X_calibration) for static INT8",
        pytrace=False,
    )


@pytest.fixture
@fakes_aside()
def energy_meter(request: pytest.FixtureRequest) -> "EnergyMeter":
    """Meter the energy of your own block: `with energy_meter.window() as reading: ...`, then `reading.joules`."""
    from pytest_hwperf.meters.energy_window import EnergyMeter

    shared = _session(request.config)
    if shared.settings.disable:
        return EnergyMeter(None, why_none="nothing is measured (--hwperf-disable)")
    return EnergyMeter(shared.energy)


@pytest.fixture
@fakes_aside()
def memory_meter(request: pytest.FixtureRequest) -> "MemoryWindows":
    """Measure the memory of your own block: `with memory_meter.window() as reading: ...`, then `reading.peak_bytes`."""
    from pytest_hwperf.meters.memory import MemoryWindows

    shared = _session(request.config)
    return MemoryWindows(lambda: shared.peak_rss)
