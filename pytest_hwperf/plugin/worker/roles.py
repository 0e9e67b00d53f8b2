"""The worker plugin: a fresh pytest process that carries out one task, in each of its roles.

What measures is imported here, before anything is measured: what an import takes and gives back would be in the way.
"""

import dataclasses
import gc
import importlib
import os
import re
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from pytest_hwperf.checkout.revision import Revision
from pytest_hwperf.gate.models.load import served_by
from pytest_hwperf.gate.pair.channel import Ended, Ready
from pytest_hwperf.gate.pair.turns import Turns
from pytest_hwperf.host.fakes import fakes_aside
from pytest_hwperf.host.launch import is_child_of
from pytest_hwperf.host.module_states import states
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.host.source_files import loaded_files
from pytest_hwperf.host.worker_protocol import (
    ENVIRONMENT,
    SHARES_COMPILED,
    WorkerResult,
    WorkerTask,
    decode_task,
    reply,
)
from pytest_hwperf.measure.subjects import Subject, loader_of
from pytest_hwperf.measure.worker_tasks import Load, measure_cold_start, measure_memory
from pytest_hwperf.plugin.measuring.load import block_under, pace_under, share_of_load
from pytest_hwperf.plugin.measuring.run import call_once, measure_here, run_of_one_call
from pytest_hwperf.plugin.session.state import BODY_ENDED, OPENED, is_measured, is_mere_subtest, session_of, test_of
from pytest_hwperf.plugin.worker.parameters import parameters_of
from pytest_hwperf.plugin.worker.watching import imported_first, startup_of, usage_of
from pytest_hwperf.records.errors import MeasurementError, WorkerError
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.metrics import taken_by
from pytest_hwperf.records.run import Run, replace
from pytest_hwperf.stats.pairs.hypotheses import Facts, Recorded, SideOutcome
from pytest_hwperf.stats.service.loads import share_of_one

_LONGEST_REASON = 500  # characters of a failure that are sent
_OF_ROWS = ("data", "lengths", "batch_size", "load")  # conditions in which two scenarios that are compared agree
_REPLIED = "the fresh process has replied"
_MEMRAY = "memray_manager"  # the name under which pytest-memray registers what watches every test


def worker_of(environment: Mapping[str, str]) -> "OneShotWorker | PairWorker":
    """Read the task of this process, and return what carries it out."""
    try:
        task = decode_task(environment[ENVIRONMENT])
        os.environ.pop(ENVIRONMENT, None)  # a process that this test starts is no worker
        worker = PairWorker(task) if task.role == "pair" else OneShotWorker(task)
    except WorkerError as error:
        raise pytest.UsageError(str(error)) from error
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    return worker


class OneShotWorker:
    """Runs the one test of its task, does at its measurement what its role asks, and replies."""

    def __init__(self, task: WorkerTask) -> None:
        self._task = task
        self._replied = False

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Disable pytest-memray: its own memory would be measured, and two profilers cannot share a process."""
        _disable_memray(session.config)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the one test; its node id is not given on a command line, where unusual ones would break."""
        items[:] = [item for item in items if item.nodeid == self._task.node]

    def measure(self, item: pytest.Item, subject: Subject, label: str) -> Run:
        """Do with a measurement what the role asks: another measurement of the test is called just once.

        What is left of the test is skipped after the reply. `pytest.exit` would draw its whole traceback first, which
        takes half a second, and a body's `except Exception` catches it.
        """
        if self._task.role == "run":
            return measure_here(item, subject, label)
        if self._replied:  # the skip was caught, and a second reply would be that of a warm process
            pytest.skip(_REPLIED)
        if label != self._task.label:
            return call_once(item, subject, label)
        observe = partial(share_of_load, task=self._task) if self._task.role == "load" else self._observe
        with session_of(item.config).own_work():
            reply(observe(item, subject), self._task)
        self._replied = True
        pytest.skip(_REPLIED)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Reply with a repeated measurement when the body has passed: what it recorded belongs to it."""
        result = yield
        if self._task.role == "run" and not test_of(item).failed_subtest:
            with fakes_aside():
                reply(WorkerResult(runs=[*test_of(item).runs.values()]), self._task)
        return result

    def _observe(self, item: pytest.Item, subject: Subject) -> WorkerResult:
        role = self._task.role
        if subject.elsewhere:
            unknown = (*taken_by("memory", "cold", "counts"), "sites", "functions")
            return WorkerResult(reasons=dict.fromkeys(unknown, str(state("elsewhere"))))
        try:
            if role == "instructions":
                return _instructions(subject)
            if role == "operators":
                return _operators(subject)
            if role == "functions":
                return _functions(item, self._task.seconds, subject)
            return self._started(item, subject)
        except MeasurementError as error:
            if role in ("memory", "cold"):
                raise
            return WorkerResult(reasons={role: str(error)})

    def _started(self, item: pytest.Item, subject: Subject) -> WorkerResult:
        under = test_of(item).markers.load
        load = loader_of(subject, partial(served_by, share_of_one(under)) if under else None)
        if self._task.role == "sites":
            return self._sites(item.config, subject.imports, load)
        parts = startup_of(item.config)
        if self._task.role == "cold":
            parts.startup.use(subject.clock_ns)
            return measure_cold_start(subject.imports, load, parts.startup)
        from pytest_hwperf.meters.gpu import GpuMemory

        boards = GpuMemory(by_driver=subject.on_gpu and "torch" not in subject.imports)
        return measure_memory(
            subject.imports, load, parts.startup, parts.probe, growing=self._task.growth, boards=boards
        )

    def _sites(self, config: pytest.Config, imports: Sequence[str], load: Load) -> WorkerResult:
        from pytest_hwperf.meters.memory import allocation_sites_of

        for module in imports:
            importlib.import_module(module)

        def work() -> None:
            call = load()
            call()
            call()

        return WorkerResult(
            sites=tuple(allocation_sites_of(work, config.rootpath, Path(f"{self._task.reply_to}.memray")))
        )


def _instructions(subject: Subject) -> WorkerResult:
    """Make counted calls; the collector is held, which runs after so many objects of any kind."""
    from pytest_hwperf.measure.plan import collection
    from pytest_hwperf.measure.rounds import BETWEEN
    from pytest_hwperf.meters.callgrind import count_calls

    loaded = subject.load_one()
    stream = loaded.stream()
    if stream.is_interrupted:
        raise MeasurementError(BETWEEN)
    with loaded.scope(), collection(held=True):
        stream.first()
        lengths = count_calls(lambda count: stream.batch(count, time.perf_counter_ns))
    return WorkerResult(series={"calls": [float(count) for count in lengths]})


def _operators(subject: Subject) -> WorkerResult:
    if subject.profile is None:
        return WorkerResult(reasons={"operators": "its runtime shows no operators"})
    return WorkerResult(operators=subject.profile())


def _functions(item: pytest.Item, asked_s: float, subject: Subject) -> WorkerResult:
    """Profile the functions of calls that are made one after the other in this thread, for `asked_s` if it is not 0."""
    from pytest_hwperf.measure.functions import sample_functions

    loaded = subject.load()
    stream = loaded.stream()
    with loaded.scope():
        stream.first()
        if test_of(item).markers.load or stream.awaits:
            raise MeasurementError(str(state("awaited" if stream.awaits else "profiled under load")))
        longest = session_of(item.config).settings.sample_time_s / 2  # half as long as a measurement
        seconds, root = min(asked_s or longest, longest), item.config.rootpath
        sampled = sample_functions(stream.batch, root, seconds, stream.caller)
    return WorkerResult(functions=sampled)


class PairWorker:
    """One side of a pair: runs the tests that are selected, and takes turns with the other side at each measurement."""

    def __init__(self, task: WorkerTask) -> None:
        self._turns = Turns.connect(task)
        os.environ[SHARES_COMPILED] = "1"
        self._task = task
        self._errors: dict[str, str] = {}  # file that cannot be collected → why
        self._ended = SideOutcome(outcome="passed")

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Disable pytest-memray, which makes calls several times slower; ask git nothing, since no run here is kept."""
        _disable_memray(session.config)
        session_of(session.config).revision = Revision("")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep why a file could not be collected: its tests will be missing on this side."""
        if report.failed:
            self._errors[report.nodeid] = _last_words(report)

    @pytest.hookimpl(trylast=True)
    @fakes_aside()
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the tests that are selected, in that order; their ids are not given on a command line.

        What was imported and collected lasts as long as this process: no collection before a measurement looks at it.
        """
        asked = (item for item in items if not self._task.called or item.nodeid == self._task.node)
        known = {self._called(item): item for item in asked if is_measured(item)}
        items[:] = [known[node] for node in self._turns.chosen(list(known), self._errors) if node in known]
        if self._task.tells_states:
            self._turns.states = states()
        if config.stash.get(OPENED, None) is None:  # no rehearsal, in which nothing is judged
            gc.collect()
            gc.freeze()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._ended = SideOutcome(outcome="passed")
        result = yield
        ended = replace(self._ended, recorded=_recorded(item), fails_again=test_of(item).fails_again)
        with fakes_aside():
            self._turns.send(Ended(node=self._called(item), ended=ended))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the first phase that did not pass; a body may end when its only measurement has been made.

        A subtest that skips or passes is no phase of the test.
        """
        if is_mere_subtest(report) or (report.skipped and _last_words(report).endswith(BODY_ENDED)):
            return
        if not report.passed and self._ended.outcome == "passed":
            # A plugin may have an outcome of its own: "rerun".
            outcome: Literal["failed", "skipped"] = "skipped" if report.skipped else "failed"
            self._ended = SideOutcome(outcome=outcome, reason=_last_words(report))

    @pytest.hookimpl(trylast=True)
    @fakes_aside()
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send which files the tested code was loaded from, which it has opened, what of it was watched, and end."""
        opened = session.config.stash.get(OPENED, None)
        modules, asked = imported_first(session.config)
        self._turns.bye(loaded_files(), opened.end() if opened else Opened(), usage_of(session.config), modules, asked)

    def _called(self, item: pytest.Item) -> str:
        """Return the name by which both sides know a test: of two measurements, each process has one."""
        return self._task.called or item.nodeid

    def measure(self, item: pytest.Item, subject: Subject, label: str) -> Run:
        """Take turns at a measurement; the run that the body gets is that of a single call."""
        from pytest_hwperf.measure.pair_target import ready_target

        alone = self._task.called
        if alone and label != self._task.label:
            return call_once(item, subject, label)
        test, session = test_of(item), session_of(item.config)
        index, test.measurements = test.measurements, test.measurements + 1
        opened = item.config.stash.get(OPENED, None)  # in a rehearsal
        sizes = subject.sizes()
        with ready_target(
            _asked(item, subject),
            lambda: session.energy,
            self._task.plant,
            hold_collector=subject.conditions.get("gc") == "off",
            freezes=opened is None,
            is_frozen=opened is None,
            under=block_under(test.markers.load),
            pace_s=pace_under(test.markers.load),
        ) as (target, first):
            facts = Facts(
                conditions={name: value for name, value in subject.conditions.items() if not alone or name in _OF_ROWS},
                scenario="" if alone else subject.scenario,
                shapes=subject.shapes,
                parts=first.parts,
                has_operators=subject.profile is not None,
                short_s=test.short_s,
                least_s=session.settings.shortest_s if test.short_s else 0.0,
                parameters=parameters_of(item) if opened else {},
                sizes=sizes,
                first_call_s=test.first_call_s or first.seconds,
            )
            here = Ready(node=self._called(item), index=index, label="" if alone else label, facts=facts)
            self._turns.serve(here, target, target.loaded.loop.thread)
            if opened:
                opened.look()  # what is measured is still open
        return run_of_one_call(item, subject, label, first)


def _disable_memray(config: pytest.Config) -> None:
    if config.pluginmanager.hasplugin(_MEMRAY):
        config.pluginmanager.unregister(name=_MEMRAY)


def _end_with(parent: int, sleep: Callable[[float], object] = time.sleep) -> None:
    while is_child_of(parent):
        sleep(1)
    os._exit(1)


def _asked(item: pytest.Item, subject: Subject) -> Subject:
    """Leave out the separate session that reads the arena's peaks, unless a margin names them."""
    from pytest_hwperf.measure.pair_target import ARENA

    named = {margin.metric for margin in test_of(item).markers.named}
    return subject if named.intersection(ARENA) else dataclasses.replace(subject, arena=None)


def _recorded(item: pytest.Item) -> Mapping[str, Recorded]:
    """Return the metrics that the test recorded itself, with what is needed to compare them."""
    test = test_of(item)
    sizes = {margin.metric: margin.size for margin in test.own_margins}
    return {
        sample.metric: Recorded(
            value=sample.values[0],
            better=run.directions[sample.metric],
            margin=sizes[sample.metric],
            label=run.label,
        )
        for run in test.runs.values()
        for sample in run.samples
        if sample.metric in sizes
    }


_OWN_ERROR = re.compile(r"^pytest_hwperf\.records\.errors\.\w+: ")  # whose sentence needs no name of a class


def _last_words(report: pytest.CollectReport | pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):  # a skip: file, line, reason
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    lines = [line for line in text.splitlines() if line.strip()]
    shown = lines[0] if crash is not None and lines else lines[-1] if lines else "no reason given"
    return _OWN_ERROR.sub("", str(shown))[:_LONGEST_REASON]
