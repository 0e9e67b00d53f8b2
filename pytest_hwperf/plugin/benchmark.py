"""The fixture `benchmark` of pytest-benchmark, for suites that are measured by this plugin as they stand."""

import json
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import pytest

from pytest_hwperf.host.fakes import fakes_aside
from pytest_hwperf.measure.rounds import Rounds, arguments_of, refuse_used_up
from pytest_hwperf.plugin.benchmark_markers import MEANT
from pytest_hwperf.plugin.hwperf import Hwperf
from pytest_hwperf.plugin.session import BENCHMARK_MARKS, BODY_ENDED, is_benchmark_body, node_of, session_of, test_of
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.run import Run, Sample, replace
from pytest_hwperf.stats.sweeps import Stats

_MISSING = object()


class Metadata:
    """`benchmark.stats`: the statistics by name, as items or under `stats`, and what the test is called."""

    def __init__(self, described: "Benchmark", data: Sequence[float]) -> None:
        self.stats = Stats(data)
        self.name, self.fullname, self.group = described.name, described.fullname, described.group
        self.param, self.params, self.extra_info = described.param, described.params, described.extra_info

    def __getitem__(self, name: str) -> Any:
        found = self.get(name, _MISSING)
        if found is _MISSING:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self.stats, name, getattr(self, name, default))


GROUP, EXTRA_INFO = "benchmark_group", "benchmark_extra_info"  # in the context of a run; the latter as JSON


class Benchmark:
    """Measures one call of a test; the verdicts follow when the test's body has passed."""

    def __init__(self, item: pytest.Item, hwperf: Hwperf) -> None:
        marker = next(filter(None, map(item.get_closest_marker, BENCHMARK_MARKS)), None)
        given: Mapping[str, Any] = marker.kwargs if marker else {}
        callspec = getattr(item, "callspec", None)
        self.name, self.fullname, self.group = item.name, node_of(item), given.get("group")
        self.param = callspec.id if callspec else None
        self.params = callspec.params if callspec else None
        self.extra_info: dict[str, Any] = {}
        self.disabled = session_of(item.config).settings.disable
        self._item, self._hwperf = item, hwperf
        self._idle = [name for name in given if name not in MEANT]
        self._run: Run | None = None
        test_of(item).max_time_s = float(given.get("max_time", 0))
        test_of(item).gc = "off" if given.get("disable_gc") else ""
        item.stash[_BENCHMARK] = self

    @property
    def enabled(self) -> bool:
        """Whether anything is measured; else the function is called once."""
        return not self.disabled

    @property
    def stats(self) -> Metadata | None:
        """Statistics of the calls; None before the measurement, and where nothing is measured.

        In a process of a pair, which has the time of its first call only, the body ends here.
        """
        if self._run is None or self.disabled:
            return None
        if session_of(self._item.config).takes_turns:
            pytest.skip(BODY_ENDED)
        latency = self._run.sample("latency")
        return None if latency is None else Metadata(self, latency.values)

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Measure `function(*args, **kwargs)`; return the value of its first call. Usable as a decorator too."""
        __tracebackhide__ = True
        self._check(function)
        self._run = self._hwperf(partial(function, *args, **kwargs) if args or kwargs else function)
        return self._run.result

    def pedantic(  # noqa: PLR0913, PLR0917 - the interface of pytest-benchmark
        self,
        target: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        setup: Callable[[], Any] | None = None,
        teardown: Callable[..., Any] | None = None,
        rounds: int = 1,
        warmup_rounds: int = 0,
        iterations: int = 1,
    ) -> Any:
        """Measure exactly so many rounds of so many calls; return the value of the first call.

        In the pairs of a gate as many calls are made as the comparison takes, each with its setup and teardown, and the
        body of the test ends there with them.
        """
        __tracebackhide__ = True
        for name, number in (("iterations", iterations), ("rounds", rounds)):
            _check_number(name, number, 1)
        _check_number("warmup_rounds", warmup_rounds, 0)
        if iterations > 1 and setup is not None:
            raise ValueError(f"pedantic(iterations={iterations}, setup=…): a setup prepares one call: iterations=1")
        self._check(target)
        if setup is None:
            refuse_used_up(args, kwargs or {})
        asked = Rounds(
            prepare=partial(arguments_of, tuple(args), dict(kwargs or {}), setup or _nothing),
            teardown=teardown,
            interrupts=setup is not None or teardown is not None,
            rounds=rounds,
            warmup_rounds=warmup_rounds,
            iterations=iterations,
        )
        self._run = self._hwperf.in_rounds(target, asked)
        if session_of(self._item.config).takes_turns:
            pytest.skip(BODY_ENDED)
        return self._run.result

    def weave(self, target: object, **kwargs: object) -> NoReturn:
        del kwargs
        raise UsageProblem(
            f"benchmark.weave({target!r}): nothing is woven into other code here: call benchmark(function, ...) with "
            "the function itself"
        )

    patch = weave

    def finish(self) -> None:
        """Add group, extra information and what has no meaning here to the run of the test."""
        runs = test_of(self._item).runs
        run = runs.get("")  # a benchmark has no label
        if run is not None:
            said = {} if self.group is None else {GROUP: str(self.group)}
            if self.extra_info:
                said[EXTRA_INFO] = json.dumps(_with_names(self.extra_info), default=str)
            samples = tuple(map(self._noted, run.samples)) if self._idle else run.samples
            runs[run.label] = replace(run, context={**run.context, **said}, samples=samples)

    def _noted(self, sample: Sample) -> Sample:
        if sample.metric != "latency":
            return sample
        note = f"no effect here: {', '.join(self._idle)} of the marker benchmark"
        return replace(sample, warnings=(*sample.warnings, note))

    def _check(self, target: object) -> None:
        if self._run is not None:
            raise UsageProblem("the fixture benchmark measures one call of a test: make a test of each, or use hwperf")
        if not callable(target):
            raise UsageProblem(f"benchmark({target!r}): give a function and its arguments, not what it returns")


_BENCHMARK: pytest.StashKey[Benchmark] = pytest.StashKey()


def _with_names(info: object) -> object:
    """Return what JSON can hold: it names everything by text."""
    return {str(name): _with_names(value) for name, value in info.items()} if isinstance(info, dict) else info


def _nothing() -> None:
    """Prepare nothing."""


def _check_number(name: str, given: object, least: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise ValueError(f"pedantic({name}={given!r}): a whole number from {least} on")


_THEIRS = ("pytest_benchmark.plugin", "pytest_codspeed.plugin")
_MARKER = (
    "(group=…, max_time=…, disable_gc=…, ...): settings of the fixture benchmark; without the fixture, the test "
    "is measured. Those without a meaning to pytest-hwperf are named in the report."
)
# Options of pytest-benchmark: that of this plugin which does the same.
_SAME = {"benchmark_skip": "hwperf_skip", "benchmark_only": "hwperf_only", "benchmark_disable": "hwperf_disable"}
_UNDERSTOOD = frozenset({"--benchmark-skip", "--benchmark-only", "--benchmark-disable", "--benchmark-enable"})


def replace_pytest_benchmark(config: pytest.Config) -> None:
    """Register this module, and keep pytest-benchmark and pytest-codspeed from working, whose options stay known."""
    plugins = config.pluginmanager
    for name, plugin in plugins.list_name_plugin():
        if getattr(plugin, "__name__", "") in _THEIRS:
            plugins.set_blocked(name)
    asked = {theirs for theirs in _SAME if config.getoption(theirs, default=False)}
    if config.getoption("benchmark_enable", default=False):  # takes back what the configuration file says
        asked.discard("benchmark_disable")
    for theirs in asked:
        setattr(config.option, _SAME[theirs], True)
    if not plugins.has_plugin("hwperf-benchmark"):
        plugins.register(sys.modules[__name__], "hwperf-benchmark")


def pytest_configure(config: pytest.Config) -> None:
    for name in BENCHMARK_MARKS:
        config.addinivalue_line("markers", name + _MARKER)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the options of pytest-benchmark that were given and do nothing now."""
    words = [str(word).partition("=")[0] for word in (*config.getini("addopts"), *config.invocation_params.args)]
    idle = dict.fromkeys(word for word in words if word.startswith("--benchmark-") and word not in _UNDERSTOOD)
    return f"hwperf: no effect with --hwperf-benchmark: {', '.join(idle)}" if idle else None


@pytest.fixture
def benchmark(request: pytest.FixtureRequest, hwperf: Hwperf) -> Benchmark:
    """Measure with the interface of pytest-benchmark: `benchmark(f, *args)`, `.pedantic(...)` or `@benchmark`."""
    return Benchmark(request.node, hwperf)


@pytest.fixture
def codspeed_benchmark(benchmark: Benchmark) -> Benchmark:
    """Measure as the fixture benchmark does, under its other name in pytest-codspeed."""
    return benchmark


@pytest.fixture
def benchmark_weave(benchmark: Benchmark) -> Callable[..., Any]:
    """Weaving, which is refused: measure by benchmark(function, ...)."""
    return benchmark.weave


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Add to the run of a test what its body has set on the fixture, or what its marker says of the body."""
    if is_benchmark_body(item):
        Benchmark(item, Hwperf(item))
    result = yield
    if _BENCHMARK in item.stash:
        with fakes_aside():
            item.stash[_BENCHMARK].finish()
    return result
