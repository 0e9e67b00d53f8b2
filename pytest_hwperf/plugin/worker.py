"""A fresh pytest process that another one has asked for a single test: the shell around `duet.worker`."""

import importlib
import os
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_hwperf.host.worker_protocol import ENVIRONMENT, WorkerResult, WorkerTask, decode_task
from pytest_hwperf.measure.isolated import measure_cold_start, measure_memory, reply
from pytest_hwperf.plugin.state import OBEYING, RUNS

if TYPE_CHECKING:
    from pytest_hwperf.core.records import Run
    from pytest_hwperf.measure.subjects import Subject
    from pytest_hwperf.plugin.pair_worker import Summoned


_ANSWERED = "the fresh process has answered"
_MEMRAY = "memray_manager"  # the name under which pytest-memray registers what watches every test


def obeying(config: pytest.Config) -> "Obeying | Summoned":
    """Read the order from the environment, and become what it asks for.

    Raises:
        pytest.UsageError: the variable holds something else, or nobody waits for this process any more.
    """
    from pytest_hwperf.core.errors import WorkerError

    try:
        order = decode_task(os.environ[ENVIRONMENT])
        # A process that this test starts is not a worker itself.
        del os.environ[ENVIRONMENT]
        if order.role == "pair":
            from pytest_hwperf.plugin.pair_worker import Summoned

            config.stash[OBEYING] = Summoned(order)
        else:
            config.stash[OBEYING] = Obeying(order)
    except WorkerError as error:
        raise pytest.UsageError(str(error)) from error
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    return config.stash[OBEYING]


class Obeying:
    """Runs the one test of its order, does at its measurement what its role asks, and answers."""

    def __init__(self, order: WorkerTask) -> None:
        """Obey `order`."""
        self._order = order
        self._answered = False

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Let no other profiler watch this process: its own memory would be weighed, and two cannot share one."""
        plugins = session.config.pluginmanager
        if plugins.hasplugin(_MEMRAY):
            plugins.unregister(name=_MEMRAY)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the one test; its node id never stands on a command line, where odd ones would break."""
        items[:] = [item for item in items if item.nodeid == self._order.node]

    def perform(self, item: pytest.Item, subject: "Subject", label: str) -> "Run":
        """Do with a measurement what the role asks: another measurement of the test is called just once.

        Who has answered skips what is left of the test. `pytest.exit` would draw its whole traceback first, which takes
        half a second, and a body's `except Exception` catches it.
        """
        if self._order.role == "run":
            from pytest_hwperf.plugin.measurement import measure

            return measure(item, subject, label)
        if self._answered:  # a body or a plugin went on all the same: a second answer would be one of a warm process
            pytest.skip(_ANSWERED)
        if label != self._order.label:
            from pytest_hwperf.plugin.measurement import once

            return once(item, subject, label)
        reply(self._observe(item.config, subject), self._order.answer)
        self._answered = True
        pytest.skip(_ANSWERED)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """WorkerResult a repeated measurement when the body has passed: what it recorded belongs to it."""
        result = yield
        if self._order.role == "run":
            runs = item.stash.get(RUNS, [])
            reply(WorkerResult(values={}, reasons={}, notes=[], runs=runs), self._order.answer)
        return result

    def _observe(self, config: pytest.Config, subject: "Subject") -> WorkerResult:
        if self._order.role == "cold":
            return measure_cold_start(subject.imports, _loader(subject))
        if self._order.role == "sites":
            return self._sites(config, subject)
        from pytest_hwperf.meters.memory.peak_rss import MemoryMeter
        from pytest_hwperf.plugin.session import session_state

        probe = MemoryMeter(opening=lambda: session_state(config).peak_rss)
        return measure_memory(subject.imports, _loader(subject), probe, growing=self._order.role == "memory")

    def _sites(self, config: pytest.Config, subject: "Subject") -> WorkerResult:
        from pytest_hwperf.core.errors import MeasurementError
        from pytest_hwperf.meters.memory.allocation_sites import allocation_sites_of

        for module in subject.imports:
            importlib.import_module(module)
        load = _loader(subject)

        def work() -> None:
            call = load()
            call()
            call()

        try:
            sites = allocation_sites_of(work, config.rootpath, Path(f"{self._order.answer}.memray"))
        except MeasurementError as error:
            return WorkerResult(values={}, reasons={"sites": str(error)}, notes=[], runs=[])
        return WorkerResult(values={}, reasons={}, notes=[], runs=[], sites=tuple(sites))


def _end_with(parent: int) -> None:
    """End this process when the asking one has been killed: nobody is left to take the answer."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _loader(subject: "Subject") -> Callable[[], Callable[[], object]]:
    """Return what loads the subject and gives its call, thread limits held."""

    def load() -> Callable[[], object]:
        loaded = subject.load_one()

        def call() -> object:
            with loaded.scope():
                return loaded.function() if loaded.inputs is None else loaded.function(loaded.inputs[0])

        return call

    return load
