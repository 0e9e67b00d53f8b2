"""A pytest process that is one side of a pair: the shell around `duet.turns`."""

import os
from collections.abc import Generator, Mapping
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pytest

from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.pairs.turns import Position, Turns
from pytest_hwperf.plugin.state import MARKERS, OWN_MARGINS, RUNS, is_measured
from pytest_hwperf.trees.isolation import loaded_files

if TYPE_CHECKING:
    from pytest_hwperf.core.records import Run
    from pytest_hwperf.measure.subjects import Subject

PLANT = "HWPERF_PLANT"  # share of work that a self-check adds to the candidate's calls, to see it found
_LONGEST_REASON = 500  # characters of a failure that cross the line

_MADE: "pytest.StashKey[int]" = pytest.StashKey()  # measurements that a test has made so far


class Summoned:
    """Runs the tests that its conductor selects, and takes turns with the other side at every measurement."""

    def __init__(self, order: WorkerTask) -> None:
        """Greet the conductor.

        Raises:
            WorkerError: it is gone.
        """
        self._turns = Turns.connect(order)
        self._plant = float(os.environ.get(PLANT) or 0) if order.label == "candidate" else 0.0
        self._errors: dict[str, str] = {}  # file that cannot be collected → why
        self._outcome: dict[str, Any] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep why a file could not be collected: its tests will be missing on this side."""
        if report.failed:
            self._errors[report.nodeid] = _last_words(report)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that the conductor selects, in its order; their ids never stand on a command line."""
        known = {item.nodeid: item for item in items if is_measured(item)}
        items[:] = [known[node] for node in self._turns.chosen(list(known), self._errors) if node in known]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Say what the test came to when it is over."""
        self._outcome = {"outcome": "passed", "reason": ""}
        result = yield
        self._turns.send("tested", node=item.nodeid, recorded=_recorded(item), **self._outcome)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the first phase that did not pass."""
        if not report.passed and self._outcome["outcome"] == "passed":
            self._outcome = {"outcome": report.outcome, "reason": _last_words(report)}

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Tell which files the tested code was loaded from, and leave."""
        self._turns.bye(loaded_files())

    def perform(self, item: pytest.Item, subject: "Subject", label: str) -> "Run":
        """Take turns at a measurement; the run that the body gets is that of a single call."""
        from pytest_hwperf.measure.pair_target import PairTarget
        from pytest_hwperf.measure.sampling import Stream, collection_held, refuse_coroutine
        from pytest_hwperf.plugin.measurement import of_one_call
        from pytest_hwperf.plugin.session import session_state

        index = item.stash.get(_MADE, 0)
        item.stash[_MADE] = index + 1
        loaded = subject.load()
        with loaded.scope():
            stream = Stream(loaded.function, loaded.inputs)
            before = perf_counter()
            result = stream.once()
            seconds = perf_counter() - before
            refuse_coroutine(result)
            facts = {"conditions": dict(subject.conditions), "scenario": subject.scenario}
            with collection_held():
                here = Position(node=item.nodeid, index=index, label=label)
                asked = _asked(item, subject)
                on_turn = PairTarget(asked, loaded, stream, lambda: session_state(item.config).energy, self._plant)
                self._turns.serve(here, facts, on_turn)
        return of_one_call(item, subject, label, result, seconds)


def _asked(item: pytest.Item, subject: "Subject") -> "Subject":
    """Leave out the session apart that tells the arena's peaks, unless a margin names them."""
    from pytest_hwperf.measure.pair_target import ARENA

    named = {margin.metric for margin in item.stash[MARKERS].named}
    return subject if named.intersection(ARENA) else replace(subject, arena=None)


def _recorded(item: pytest.Item) -> Mapping[str, Any]:
    """Return the metrics that the test recorded itself, with what is needed to compare them."""
    sizes = {margin.metric: margin.size for margin in item.stash.get(OWN_MARGINS, [])}
    return {
        sample.metric: {
            "value": sample.values[0],
            "better": run.directions[sample.metric],
            "margin": sizes[sample.metric],
            "label": run.label,
        }
        for run in item.stash.get(RUNS, [])
        for sample in run.samples
        if sample.metric in sizes
    }


def _last_words(report: pytest.CollectReport | pytest.TestReport) -> str:
    """Return the line that says what went wrong."""
    if isinstance(report.longrepr, tuple):  # a skip: file, line, reason
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    lines = [line for line in text.splitlines() if line.strip()]
    shown = lines[0] if crash is not None and lines else lines[-1] if lines else "no reason given"
    return str(shown)[:_LONGEST_REASON]
