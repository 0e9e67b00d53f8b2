"""Which parts of a fresh process the code under test takes: its imports, fixtures, the test's body and calls."""

import inspect
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from pytest_hwperf.host.source_files import is_of_this_package, is_own, own_code, watch_imports
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, decode_task
from pytest_hwperf.measure.startup import FIXTURES, Startup
from pytest_hwperf.plugin.session import session_of
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.units import show

_STARTUP = pytest.StashKey["_Parts"]()
_TRAINING = frozenset({"fit", "fit_transform", "fit_predict", "partial_fit", "backward", "train_on_batch"})
_DEEPEST = 4  # calls of functions below a fixture
_AROUND_ALL = ("pytest_cmdline_main", "pytest_runtestloop", "pytest_runtest_protocol")  # hooks that run whole tests
REMEDY = "train it once, save it to a file and load that file in the fixture"


def watch(config: pytest.Config, environment: Mapping[str, str]) -> None:
    """Begin to attribute memory or time, if the task of this process takes either; before any code of the tree."""
    try:
        role = decode_task(environment[ENVIRONMENT]).role
    except WorkerError:  # said when pytest is configured
        return
    if role in ("memory", "cold"):
        config.stash[_STARTUP] = parts = _Parts(config, measures_memory=role == "memory")
        config.pluginmanager.register(parts, "hwperf-startup")


def startup_of(config: pytest.Config) -> "_Parts":
    """Return what this process attributes."""
    return config.stash[_STARTUP]


class _Parts:
    """Attributes fixtures and bodies; the imports attribute themselves."""

    def __init__(self, config: pytest.Config, *, measures_memory: bool) -> None:
        from pytest_hwperf.meters.memory import MemoryMeter

        self.probe = MemoryMeter()
        self._is_own = own_code(config.rootpath)
        self.startup = Startup(self._is_own, self.probe.enter if measures_memory else None)
        watch_imports(self.startup.importing)

    def pytest_plugin_registered(self, plugin: object, manager: pytest.PytestPluginManager) -> None:
        """Attribute the hooks of a `conftest.py` and of own plugins: a model may be loaded in `pytest_configure`."""
        file = getattr(inspect.getmodule(plugin), "__file__", None)  # of an object, that of its class
        if not file or is_of_this_package(file) or not self._is_own(file):
            return
        for caller in manager.get_hookcallers(plugin) or ():
            for hook in caller.get_hookimpls() if caller.name not in _AROUND_ALL else ():
                if hook.plugin is plugin and not (hook.wrapper or hook.hookwrapper):
                    hook.function = self._attributed(hook.function)  # type: ignore[misc] # pluggy asks it of nothing else

    def _attributed(self, function: Callable[..., object]) -> Callable[..., object]:
        def attributed(*arguments: object) -> object:
            with self.startup.part(FIXTURES):
                return function(*arguments)

        return attributed

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Share the one high-water mark with the windows of the user."""
        shared = session_of(session.config)
        shared.startup = self.startup
        if self.probe.peak_rss is not None:
            shared.peak_rss = self.probe.peak_rss

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        if str(getattr(fixturedef.func, "__module__", "")).startswith("pytest_hwperf."):
            with self.startup.part(""):
                return (yield)
        if trains(fixturedef.func):  # without its time, so that all processes note the same
            self.startup.notes.append(f"the fixture {fixturedef.argname} trains a model: {REMEDY}")
        with self.startup.part(FIXTURES):
            return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        with self.startup.part(FIXTURES):
            return (yield)


def say_what_trains(item: pytest.Item, processes: int) -> None:
    """Say before the first fresh process which fixtures of a test train for long, once for each of them."""
    from pytest_hwperf.plugin.progress import line_of

    trained = session_of(item.config).trained
    for name in trained.keys() & {*getattr(item, "fixturenames", ())}:
        line_of(item.config).say(
            f"hwperf: {item.nodeid}: the fixture {name} trained for {show(trained.pop(name), 's')}, and trains again "
            f"in each of {processes} fresh processes: {REMEDY}"
        )


def trained_by(items: Sequence[pytest.Item]) -> list[str]:
    """Return the fixtures of tests that train, as far as their code shows it before they run."""
    found = set[str]()
    for item in items:
        manager = item.config.pluginmanager.getplugin("funcmanage")  # pytest's own, of all fixtures
        for name in getattr(item, "fixturenames", ()):
            defined = manager.getfixturedefs(name, item)
            if defined and trains(defined[-1].func):
                found.add(name)
    return sorted(found)


def trains(function: Callable[..., object], deepest: int = _DEEPEST) -> bool:
    """Whether a function trains a model, by the names that it and the functions below it use."""
    plain = inspect.unwrap(function)
    plain = getattr(plain, "__func__", plain)  # of a fixture in a class
    if not isinstance(plain, FunctionType):
        return False
    names = plain.__code__.co_names
    if not _TRAINING.isdisjoint(names):
        return True
    return deepest > 0 and any(trains(one, deepest - 1) for one in _named(plain))


def _named(function: FunctionType) -> Iterator[FunctionType]:
    """Yield the user's functions that a function names, by themselves or in a module that it names."""
    names = function.__code__.co_names
    found = [function.__globals__[name] for name in names if name in function.__globals__]
    for one in found:
        inside = [vars(one).get(name) for name in names] if isinstance(one, ModuleType) else [one]
        yield from (target for target in inside if isinstance(target, FunctionType) and _is_own(target))


def _is_own(function: FunctionType) -> bool:
    file = Path(function.__code__.co_filename)
    return is_own(str(file), Path(file.anchor))
