"""The fixture `benchmark` of pytest-benchmark, for suites that are measured by this plugin as they stand."""

import sys
from collections.abc import Callable, Generator
from typing import Any

import pytest

from pytest_hwperf.plugin.benchmark import Benchmark, benchmark_of
from pytest_hwperf.plugin.hwperf import Hwperf
from pytest_hwperf.records.budgets import nearest_or_all

_THEIRS = "pytest_benchmark.plugin"
_MARKER = (
    "benchmark(group=…, max_time=…, disable_gc=…, ...): settings of the fixture benchmark; those without a meaning to "
    "pytest-hwperf are named in the report."
)
# Keywords of the marker: whether they mean something here.
_KEYWORDS = {
    "group": True,
    "max_time": True,
    "disable_gc": True,
    "min_rounds": False,
    "min_time": False,
    "precision": False,
    "confidence": False,
    "timer": False,
    "warmup": False,
    "warmup_iterations": False,
    "calibration_precision": False,
    "cprofile": False,
}
# Options of pytest-benchmark: that of this plugin which does the same.
_SAME = {"benchmark_skip": "hwperf_skip", "benchmark_only": "hwperf_only", "benchmark_disable": "hwperf_disable"}
_UNDERSTOOD = frozenset({"--benchmark-skip", "--benchmark-only", "--benchmark-disable", "--benchmark-enable"})


def replace_pytest_benchmark(config: pytest.Config) -> None:
    """Register this module, and keep pytest-benchmark from working, whose options stay known."""
    plugins = config.pluginmanager
    for name, plugin in plugins.list_name_plugin():
        if getattr(plugin, "__name__", "") == _THEIRS:
            plugins.set_blocked(name)
    asked = {theirs for theirs in _SAME if config.getoption(theirs, default=False)}
    if config.getoption("benchmark_enable", default=False):  # takes back what the configuration file says
        asked.discard("benchmark_disable")
    for theirs in asked:
        setattr(config.option, _SAME[theirs], True)
    if not plugins.has_plugin("hwperf-benchmark"):
        plugins.register(sys.modules[__name__], "hwperf-benchmark")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the options of pytest-benchmark that were given and do nothing now."""
    words = [str(word).partition("=")[0] for word in (*config.getini("addopts"), *config.invocation_params.args)]
    idle = dict.fromkeys(word for word in words if word.startswith("--benchmark-") and word not in _UNDERSTOOD)
    return f"hwperf: no effect with --hwperf-benchmark: {', '.join(idle)}" if idle else None


def marker_problems(item: pytest.Item) -> list[str]:
    """Return what is wrong with the markers `benchmark` of a test."""
    found = list[str]()
    for mark in item.iter_markers("benchmark"):
        if mark.args:
            given = ", ".join(map(repr, mark.args))
            found.append(f"benchmark({given}): only keywords are taken, such as benchmark(group='predict')")
        for name in mark.kwargs.keys() - _KEYWORDS.keys():
            found.append(f"benchmark({name}=…): unknown keyword.{nearest_or_all(name, _KEYWORDS)}")
        found.extend(_bad_values(mark))
    return found


def _bad_values(mark: pytest.Mark) -> list[str]:
    seconds = mark.kwargs.get("max_time", 1)
    if isinstance(seconds, int | float) and 0 < seconds <= 3600:  # noqa: PLR2004 - as of --hwperf-sample-time
        return []
    return [f"benchmark(max_time={seconds!r}): a number of seconds above 0 up to 3600, such as 2"]


@pytest.fixture
def benchmark(request: pytest.FixtureRequest, hwperf: Hwperf) -> Benchmark:
    """Measure with the interface of pytest-benchmark: `benchmark(f, *args)`, `.pedantic(...)` or `@benchmark`."""
    marker = request.node.get_closest_marker("benchmark")
    given = dict(marker.kwargs) if marker else {}
    return Benchmark(
        request.node,
        hwperf,
        group=given.get("group"),
        max_time_s=float(given.get("max_time", 0)),
        disable_gc=bool(given.get("disable_gc")),
        idle=[name for name in given if not _KEYWORDS[name]],
    )


@pytest.fixture
def benchmark_weave(benchmark: Benchmark) -> Callable[..., Any]:
    """Weaving, which is refused: measure by benchmark(function, ...)."""
    return benchmark.weave


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Add to the run of a test what its body has set on the fixture."""
    result = yield
    if (used := benchmark_of(item)) is not None:
        used.finish()
    return result
