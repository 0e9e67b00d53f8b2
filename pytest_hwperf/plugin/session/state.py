"""The state of a session and of each test: what the plugin keeps in the stash of pytest's objects."""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pytest

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.text import shortened

if TYPE_CHECKING:
    from pytest_hwperf.checkout.building import Built
    from pytest_hwperf.checkout.revision import Revision
    from pytest_hwperf.gate.result import GateResult
    from pytest_hwperf.host.opened_files import OpenedFiles
    from pytest_hwperf.measure.rounds import FixtureValues
    from pytest_hwperf.measure.subjects import Subject
    from pytest_hwperf.measure.worker_tasks import Startup
    from pytest_hwperf.meters.memory import PeakRss
    from pytest_hwperf.plugin.session.settings import Settings
    from pytest_hwperf.records.contracts import Meter
    from pytest_hwperf.records.evidence import Gate
    from pytest_hwperf.records.markers import Load
    from pytest_hwperf.records.messages import Statement
    from pytest_hwperf.records.report import SweepPoint
    from pytest_hwperf.records.run import Machine, Run
    from pytest_hwperf.records.verdict import Budget, Comparison, Margin, Policy, Skip
    from pytest_hwperf.stores.store import Store


T = TypeVar("T")

BODY_ENDED = "in a process of a pair, what follows its only measurement is not run"  # the reason of a skip
BENCHMARK_MARKS = ("benchmark", "codspeed_benchmark")  # of pytest-benchmark and pytest-codspeed
MARKS = ("hwbudget", "hwregression", "hwscenarios", "hwsweep", "hwload", "hwserial")


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """How the selected tests were divided."""

    selected: int  # tests, of all shards
    selection: str  # digest of their node ids
    measured: int  # of them
    own: int  # that this shard runs


@dataclass(slots=True, kw_only=True)
class Ends:
    """How the tests of a session have ended, by their node ids."""

    over: set[str] = field(default_factory=set)  # to the end of their teardown
    failed: dict[str, None] = field(default_factory=dict)  # for whatever reason
    skipped: dict[str, None] = field(default_factory=dict)  # though the pairs say something of them
    xfailed: set[str] = field(default_factory=set)
    hidden: dict[str, None] = field(default_factory=dict)  # judged, and fail only by verdicts that a new `xfail` hides

    def note(self, report: pytest.TestReport) -> None:
        if is_mere_subtest(report):
            return
        if report.when == "teardown":
            self.over.add(report.nodeid)
        if report.failed:
            self.failed[report.nodeid] = None
        elif report.skipped and hasattr(report, "wasxfail"):
            self.xfailed.add(report.nodeid)
        if report.skipped and hasattr(report, "hwperf"):
            self.skipped[report.nodeid] = None
        if getattr(report, "hwperf_hidden", False):
            self.hidden[report.nodeid] = None


@dataclass(kw_only=True)
class SessionState:
    """What all tests of one process share; each part is made on first use."""

    settings: "Settings"
    root: str  # of the tests
    measure: "Callable[[pytest.Item, Subject, str], Run]"  # of a test, with a label: returns what its body receives
    judges: bool  # whether budgets and comparisons are judged in this process
    takes_turns: bool = False  # whether it is one side of a pair: a body gets the run of its first call then
    started_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    problems: list[str] = field(default_factory=list)  # bad markers, reported together at the end of the collection
    family: int | None = None  # comparisons by example with stored runs, counted when the first one is made
    missed: "list[tuple[SweepPoint, Statement]]" = field(default_factory=list)  # points beyond which sweeps stop
    parted: Division | None = None  # how the tests were divided, where this session is a shard
    gate: "GateResult | None" = None  # what the pairs of baseline and candidate have shown
    unpaired: frozenset[str] = frozenset()  # tests that they leave out, whose baseline is another revision
    trained: dict[str, float] = field(default_factory=dict)  # fixture that trains for long → seconds, until it is said
    startup: "Startup | None" = None  # of a fresh process that attributes what its code takes
    built: "Built | None" = None  # what building the present tree took
    _utilisation: "Meter | None" = None  # of GPUs, once it was asked for

    def own_work(self) -> AbstractContextManager[None]:
        """Attribute what the block takes to this package, and not to the code under test."""
        return nullcontext() if self.startup is None else self.startup.part("")

    @cached_property
    def machine(self) -> "Machine":
        from pytest_hwperf.host.machine import describe_machine

        return describe_machine()

    @property
    def policy(self) -> "Policy":
        from pytest_hwperf.records.verdict import Policy

        return Policy(undecided=self.settings.undecided, strict=self.settings.strict)

    def has_failing_calls(self, test: str, label: str) -> bool:
        """Whether the pairs have shown that calls of a measurement fail, which may end this process too."""
        if self.gate is None:
            return False
        from pytest_hwperf.records.evidence import Measurement

        return bool(self.gate.answers.failing(Measurement(test=test, label=label)))

    @cached_property
    def revision(self) -> "Revision":
        """The revision of the tests' repository, "" where there is none."""
        from pytest_hwperf.checkout.revision import revision_of

        return revision_of(self.root)

    @cached_property
    def revision_date(self) -> str:
        """When its author made that revision, YYYY-MM-DD."""
        from pytest_hwperf.checkout.revision import date_of

        return date_of(self.root, self.revision.commit)

    @cached_property
    def store(self) -> "Store":
        from pytest_hwperf import registry

        store: Store = registry.find("stores", self.settings.store)(self.settings.location)
        return store

    @cached_property
    def peak_rss(self) -> "PeakRss":
        """The peak memory of this process, which all who reset it share."""
        from pytest_hwperf.host.memory import resident
        from pytest_hwperf.meters.memory import PeakRss

        return PeakRss(resident())

    @cached_property
    def energy(self) -> "Meter | None":
        from pytest_hwperf import registry
        from pytest_hwperf.meters.estimate import WATTS_VARIABLE

        given = {WATTS_VARIABLE: self.settings.watts} if self.settings.watts else {}
        return registry.open_energy_meter(self.settings.energy, {**os.environ, **given}, "--hwperf-energy")

    def boards(self) -> "Meter | None":
        """Return a meter of the GPUs that this process uses; None where it uses none."""
        from pytest_hwperf.meters.nvml import in_use
        from pytest_hwperf.records.errors import MeterUnavailable

        if self.settings.energy == "nvml" or not in_use(os.environ):
            return None
        if self.settings.energy != "auto":
            raise MeterUnavailable(f"--hwperf-energy={self.settings.energy} counts no board; auto would")
        return self._boards

    @cached_property
    def _boards(self) -> "Meter":
        from pytest_hwperf.meters.nvml import nvml_meter

        return nvml_meter(os.environ, beside=True)

    def utilisation(self, *, on_gpu: bool) -> "Meter":
        """Return a meter of the utilisation of the GPUs that this process uses."""
        from pytest_hwperf.meters.gpu import utilisation_meter

        if self._utilisation is None:
            self._utilisation = utilisation_meter(os.environ, on_gpu=on_gpu)
        return self._utilisation

    @property
    def coefficients(self) -> dict[str, str]:
        """The watts of an estimate, which every run keeps: its figures mean nothing without; {} of a counter."""
        from pytest_hwperf.meters.estimate import EstimateMeter

        return {"energy_watts": str(self.energy.watts)} if isinstance(self.energy, EstimateMeter) else {}

    @property
    def workers(self) -> int:
        """Test workers that run side by side, this one included."""
        return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))

    def close(self) -> None:
        """Close the meters that were opened; what was never used is not opened for it."""
        for name in ("energy", "_boards", "_utilisation"):
            meter: Meter | None = self.__dict__.get(name)  # where `cached_property` keeps it
            if meter is not None:
                meter.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """What the markers of one test ask for."""

    budgets: tuple["Budget", ...] = ()
    margins: tuple["Margin", ...] = ()  # of everything that is compared, defaults included
    named: tuple["Margin", ...] = ()  # those that the user named: their metrics are measured for them
    own: tuple["Margin", ...] = ()  # of these, the ones that markers name: an option or the ini names them for all
    load: "Load | None" = None  # how calls arrive; None: each when the one before has ended, and nothing waits
    is_serial: bool = False  # whether one side at a time goes through it in pairs
    by_all: bool = False  # whether its body is measured if it can be: by --hwperf-all, or as a benchmark
    left_out: str = ""  # why it is not measured so, "" where it is or that was not asked for
    refusal: str = ""  # why nothing of the test can be measured, which fails it; "" where something can
    point: "SweepPoint | None" = None  # of a sweep, with the limits of its search and the budgets
    stop: bool = False  # whether larger batches than one that misses a limit are skipped

    @property
    def limits(self) -> tuple["Budget", ...]:
        """The budgets, and the limits that choose among the points of a sweep: what has to be measured for both."""
        return self.point.limits if self.point else self.budgets

    def ask_for(self, metric: str) -> bool:
        """Whether there is a budget for `metric`, or for what is made of it, or a margin that the user named."""
        from pytest_hwperf.records.metrics import METRICS

        limited = [one for budget in self.limits for one in (budget.metric, *METRICS[budget.metric].made_of)]
        return metric in {*limited, *(margin.metric for margin in self.named)}


@dataclass(slots=True, kw_only=True)
class TestState:
    """What one try of a test has measured so far."""

    __test__ = False  # no test, though its name begins like one

    markers: Markers = field(default_factory=Markers)
    runs: dict[str, "Run"] = field(default_factory=dict)  # by their labels
    measured: set[str] = field(default_factory=set)  # labels of the runs that a measurement made; others are recorded
    own_margins: list["Margin"] = field(default_factory=list)  # of metrics that the test itself recorded
    compared: list[tuple["Run", tuple["Comparison", ...], "Gate"]] = field(default_factory=list)  # by hwperf.compare
    skips: list["Skip"] = field(default_factory=list)  # scenarios without a form for this model
    result: str = ""  # its part of the report, as JSON; "" before it is judged
    failure: str = ""  # what its verdicts say where they fail it
    measurements: int = 0  # that a process of a pair has made
    max_time_s: float = 0.0  # of a measurement, where a marker says so; 0: that of the session
    gc: str = ""  # "on" or "off", where a marker says so; "": that of the session
    there: "Callable[[Callable[[], object]], object] | None" = None  # calls in the test's thread while another measures
    skipped_point: "SweepPoint | None" = None  # of a sweep, with why it was not measured
    # Seconds of the first call of its body, where --hwperf-all tries whether it can be repeated.
    first_call_s: float = 0.0
    fixtures: "FixtureValues | None" = None  # that its body is called with, where --hwperf-all measures it
    fails_again: bool = False  # whether a later call of its body has failed, where --hwperf-all measures it
    short_s: float = 0.0  # of its call, where that is too short to be compared
    has_failed: bool = False  # whether its body has, where that raises nothing: it is not judged then
    body: Literal["before", "running", "ended"] = "before"  # a report of a running one is that of a subtest
    failed_subtest: bool = False  # whether one has failed, for which pytest fails the test: it is not judged then
    counted: str = ""  # as what pytest's last line counts it beside its outcome
    is_over: bool = False  # whether it has been judged, or cannot be any more

    @property
    def labels(self) -> set[str]:
        """Labels that are taken: each names one measurement or one comparison of models."""
        return self.measured | {run.label for run, _, _ in self.compared}


OPENED: "pytest.StashKey[OpenedFiles]" = pytest.StashKey()  # of a process that notes the files that it opens
_SESSION: pytest.StashKey[SessionState] = pytest.StashKey()
_TEST: pytest.StashKey[TestState] = pytest.StashKey()


def begin_session(config: pytest.Config, state: SessionState) -> None:
    config.stash[_SESSION] = state


def session_of(config: pytest.Config) -> SessionState:
    return config.stash[_SESSION]


def test_of(item: pytest.Item) -> TestState:
    return item.stash.setdefault(_TEST, TestState())


def called_there(item: pytest.Item, call: Callable[[], T]) -> T:
    """Call something in the thread that runs a test, also where a second one measures for it; return its value."""
    there = test_of(item).there
    if there is None:
        return call()
    found = list[T]()
    there(lambda: found.append(call()))
    return found[0]


def begin_try(item: pytest.Item) -> None:
    """Forget what an earlier try of a test has measured: plugins that rerun a test keep the item."""
    item.stash[_TEST] = TestState(markers=test_of(item).markers)


def node_of(item: pytest.Item) -> str:
    """Return the node id of a test, by which every process and every run knows it.

    With `--dist=loadgroup` the workers of pytest-xdist append `@group` to it, from pytest 9 on without effect.
    """
    plain = f"{item.parent.nodeid}::{item.name}" if item.parent else item.nodeid
    grouped = item.get_closest_marker("xdist_group") and item.nodeid.startswith(f"{plain}@")
    return plain if grouped else item.nodeid


SUBTEST = "hwperf_subtest"  # of a report: that of a subtest, which is not how its test has ended unless it failed


def is_mere_subtest(report: pytest.TestReport) -> bool:
    """Whether a report says nothing of how its test has ended: a subtest that fails is one of the test."""
    return hasattr(report, SUBTEST) and not report.failed


def is_measured(item: pytest.Item) -> bool:
    """Whether a test is measured: it uses the fixture `hwperf`, or its body is the call by a budget or --hwperf-all."""
    return is_asked_for(item) or test_of(item).markers.by_all


def is_benchmark_body(item: pytest.Item) -> bool:
    """Whether --hwperf-benchmark makes the body of a test the call: it has the marker, and not the fixture."""
    if not session_of(item.config).settings.benchmark or "hwperf" in getattr(item, "fixturenames", ()):
        return False
    return any(map(item.get_closest_marker, BENCHMARK_MARKS))


def is_asked_for(item: pytest.Item) -> bool:
    return "hwperf" in getattr(item, "fixturenames", ()) or item.get_closest_marker("hwbudget") is not None


@contextmanager
def without_collection() -> Iterator[None]:
    """Hold the garbage collector: a thousand results are a million live objects, scanned over and over for nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


LONGEST_LABEL = 200  # characters; also of the name of a recorded metric


def checked_label(label: object) -> str:
    """Return a label that a test gives, which has to fit into a line and into the name of a stored run."""
    if isinstance(label, str) and label.isprintable() and len(label) <= LONGEST_LABEL:
        return label
    shown = shortened(label) if isinstance(label, str) else repr(label)
    raise UsageProblem(
        f"label={shown}: a label is printable text of at most {LONGEST_LABEL} characters, such as label='batch 32'"
    )


def swept_value(item: pytest.Item, name: str) -> Any:
    point = test_of(item).markers.point
    return point.values.get(name) if point else None
