"""What a fresh process notes of itself: what its parts take, and what it uses of a change."""

import importlib
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_hwperf.checkout.revision import Revision, revision_of
from pytest_hwperf.host.files import read_file
from pytest_hwperf.host.import_order import ImportOrder
from pytest_hwperf.host.source_files import (
    is_of_this_package,
    modules_before_pytest,
    own_code,
    tree_around,
    watch_imports,
)
from pytest_hwperf.host.usage import Recorder
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, decode_task
from pytest_hwperf.measure.worker_tasks import FIXTURES, Startup
from pytest_hwperf.plugin.session.state import session_of
from pytest_hwperf.plugin.session.training import REMEDY, trains
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.errors import SerialisationError, WorkerError
from pytest_hwperf.stats.causes.changed_code import Usage, Watch

_STARTUP = pytest.StashKey["_Parts"]()
_RECORDER = pytest.StashKey[Recorder]()
_ORDER = pytest.StashKey[ImportOrder]()
_LARGEST = 50_000_000  # bytes of a list of what has changed
_FIXTURE = "fixture"  # before the name of one that serves several tests; no id of a test begins so
_AROUND_ALL = ("pytest_cmdline_main", "pytest_runtestloop", "pytest_runtest_protocol")  # hooks that run whole tests


def watch(config: pytest.Config, environment: Mapping[str, str]) -> None:
    """Begin to attribute memory or time, and to watch what the task names; before any code of the tree."""
    try:
        task = decode_task(environment[ENVIRONMENT])
    except WorkerError:  # said when pytest is configured
        return
    if task.watch:
        try:
            recorder = Recorder(from_json(Watch, read_file(Path(task.watch), _LARGEST)))
        except (SerialisationError, OSError) as error:
            raise pytest.UsageError(f"what is to be watched cannot be read: {error}") from error
        config.stash[_RECORDER] = recorder
        # git is asked before: afterwards it would be a process that opens files
        config.pluginmanager.register(_Contexts(recorder, revision_of(config.rootpath)), "hwperf-affected")
        recorder.begin()
    if task.role == "pair":  # before code of the tree runs, so that one parent can import it for both sides
        importlib.import_module("pytest_hwperf.plugin.worker.roles")
        importlib.import_module("pytest_hwperf.measure.pair_target")
    if task.role in ("memory", "cold"):
        config.stash[_STARTUP] = parts = _Parts(config, measures_memory=task.role == "memory")
        config.pluginmanager.register(parts, "hwperf-startup")


def watch_order(config: pytest.Config) -> None:
    """Note which modules are imported before code of the tree has an effect: hooks count, and tests at the latest."""
    order = config.stash[_ORDER] = ImportOrder(tree_around(config.rootpath))

    def before(name: str, implementations: Sequence[Any], _: Mapping[str, Any]) -> None:
        if name == "pytest_runtest_protocol":
            order.end("tests run")
        for one in implementations if not order.why else ():
            order.calls(one.function, f"{name}() runs")
        if order.why:
            undo()

    undo = config.pluginmanager.add_hookcall_monitoring(before, lambda *_: None)


def imported_first(config: pytest.Config) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the modules that are the same in a process that has run nothing of the tree, and which it has imported.

    None if nobody watched.
    """
    if _ORDER not in config.stash:
        return {}, {}
    order = config.stash[_ORDER]
    found = order.of(modules_before_pytest())
    return found, order.asked(found)


def startup_of(config: pytest.Config) -> "_Parts":
    return config.stash[_STARTUP]


def usage_of(config: pytest.Config) -> Usage | None:
    recorder = config.stash.get(_RECORDER, None)
    return recorder.usage() if recorder else None


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


class _Contexts:
    """Says whose turn it is: a test, a fixture of several, a file of tests while it is collected, or nobody."""

    def __init__(self, recorder: Recorder, revision: Revision) -> None:
        self._recorder = recorder
        self._revision = revision

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        session_of(session.config).revision = self._revision

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        if not isinstance(collector, pytest.Module | pytest.Class):  # a folder: what it imports serves many files
            return (yield)
        before = self._recorder.enter(collector.nodeid)
        try:
            return (yield)
        finally:
            self._recorder.enter(before)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        name, base = fixturedef.argname, fixturedef.baseid
        context = f"{_FIXTURE} {name} of {base}"
        before = self._recorder.enter(context)
        try:
            return (yield)
        finally:
            self._recorder.enter(before)
            items = (one for one in request.session.items if one.nodeid.startswith(base))
            users = [one.nodeid for one in items if name in getattr(one, "fixturenames", ())]
            self._recorder.share(context, [before, *users])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before = self._recorder.enter(item.nodeid)
        try:
            return (yield)
        finally:
            self._recorder.enter(before)
