"""The obeying side, on probe and a clock that play back."""

import platform
import subprocess
import sys
from ast import literal_eval
from collections import deque
from collections.abc import Callable
from itertools import count
from types import ModuleType

import pytest
from fakes.resident import FakeResident
from fakes.streams import FakeClock, TimedCall

from pytest_hwperf.host.worker_protocol import WorkerResult
from pytest_hwperf.measure.worker_tasks import (
    FIXTURES,
    GROWTH,
    BoardProbe,
    Load,
    Startup,
    measure_cold_start,
    measure_memory,
)
from pytest_hwperf.meters.memory import MemoryMeter, PeakRss
from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.records.metrics import taken_by
from pytest_hwperf.stats.figures.leaks import growth

MS = 1_000_000  # ns


class Process:
    """A fresh process whose memory is played back: 7 MB are nobody's when its startup begins."""

    def __init__(self, *, refusal: str = "", hidden: int = 0) -> None:
        self.held = FakeResident(refusal=refusal)
        self.held.put(hidden)
        self.held.put(7_000_000 - hidden)
        self.children = 0
        self.meter = MemoryMeter(lambda: PeakRss(self.held), lambda: self.children)
        self.clock = FakeClock()
        self.startup = Startup(lambda file: file == "own.py", self.meter.enter, self.clock, loaded={})

    def put(self, amount: int) -> None:
        self.held.put(amount)

    def measure(self, load: Load, *, growing: bool = True, boards: BoardProbe | None = None) -> WorkerResult:
        return measure_memory([], load, self.startup, self.meter, growing=growing, boards=boards)


class Scripted:
    """Loading keeps 40; the first call peaks 25 above it and keeps 5, a later one peaks 10 and keeps `leak`."""

    def __init__(self, process: Process, leak: int = 0) -> None:
        self.process = process
        self.leak = leak
        self.calls = 0

    def load(self) -> Callable[[], object]:
        self.process.put(40)
        return self.call

    def call(self) -> None:
        peak, kept = (25, 5) if self.calls == 0 else (10, self.leak)
        self.process.put(peak)
        self.process.put(kept - peak)
        self.calls += 1


def test_peaks_are_those_of_the_parts_and_of_all() -> None:
    """Own modules keep 3 with 2 in passing, fixtures keep 50 and take 200 in passing, and what others import is 900."""
    process = Process()
    with process.startup.importing("own.py"):
        process.put(5)
        with process.startup.importing("numpy.py"):
            process.put(900)
        process.put(-2)
    process.put(1000)  # pytest's own
    with process.startup.part(FIXTURES):
        process.put(250)
        process.put(-200)
    answer = process.measure(Scripted(process).load)
    assert answer.values == {
        "memory": 253.0,  # while a fixture is made
        "memory_import": 5.0,
        "memory_fixtures": 250.0,
        "memory_call": 65.0,  # 40 + 25
        "memory_first_call": 65.0,
        "memory_steady": 55.0,  # 45 + 10
        "memory_retained": 45.0,
    }
    assert answer.reasons == {}
    assert answer.notes == ["played back", "peaks of 66 calls"]
    above = "fake peak, above third-party imports"
    assert answer.sources == {
        **dict.fromkeys(("memory", "memory_import", "memory_fixtures"), above),
        **dict.fromkeys(("memory_call", "memory_first_call", "memory_steady"), "fake peak"),
        **dict.fromkeys(("memory_retained", "memory_leak"), "fake size"),
    }


def test_a_leak_that_fits_into_free_memory_of_the_allocator_is_seen() -> None:
    """Ten megabytes are free between the blocks that stay; the calls keep less than three."""
    meter, leaked = MemoryMeter(), list[bytearray]()
    if meter.reason or platform.libc_ver()[0] != "glibc":
        pytest.skip("memory is not read here, or its allocator gives nothing back")
    startup = Startup(lambda _: False, meter.enter)
    blocks = [bytearray(50_000) for _ in range(400)]
    staying = blocks[::2]
    del blocks

    answer = measure_memory([], lambda: lambda: leaked.append(bytearray(40_000)), startup, meter)
    assert len(staying) == 200
    assert growth(answer.series[GROWTH]).lasting > 30_000


def test_what_other_code_imports_in_a_call_is_no_part_of_it() -> None:
    process = Process()

    def call() -> None:
        with process.startup.importing("torch.py"):
            process.put(300)
        process.put(20)
        process.put(-20)

    answer = process.measure(lambda: call)
    assert (20, 20) == (answer.values["memory"], answer.values["memory_call"])


@pytest.mark.parametrize(("growing", "readings"), [(True, 60), (False, 0)])
def test_growth_after_the_sixth_call_counts(*, growing: bool, readings: int) -> None:
    """From the 15th call on something is held for good, also where no leak is looked for, as in pairs."""
    process = Process()
    calls = count(1)
    answer = process.measure(lambda: lambda: process.put(50) if next(calls) == 15 else None, growing=growing)
    assert (50, 50) == (answer.values["memory"], answer.values["memory_call"])
    assert readings == len(answer.series[GROWTH])
    assert "peaks of 66 calls" in answer.notes


@pytest.mark.parametrize("first", [True, False])
def test_memory_of_children_is_a_reason_and_no_number(*, first: bool) -> None:
    """Of one that a fixture starts `memory` knows, of one that a call starts all that counts calls does."""
    process = Process()

    def start() -> None:
        process.children = 50_000_000

    if first:
        with process.startup.part(FIXTURES):
            start()
    answer = process.measure(lambda: int if first else start)

    unknown = {"memory", "memory_fixtures"} if first else {"memory", "memory_call", "memory_first_call"}
    assert unknown == {*answer.reasons}
    assert answer.reasons["memory"].startswith("the test starts processes, whose memory is not counted")


def test_a_small_program_that_a_test_starts_hides_no_peak() -> None:
    process = Process()
    with process.startup.part(FIXTURES):
        process.children = 400_000
    answer = process.measure(Scripted(process).load)
    assert 65 == answer.values["memory"]


class FakeBoards:
    """Memory on a GPU: the most that was put on the scales whenever it was looked at."""

    def __init__(self, process: Process, refusal: str = "", *, used: bool = True) -> None:
        self.held = process.held
        self.refusal = refusal
        self.used = used
        self.seen: list[int] = []

    def begin(self) -> None:
        self.seen = [self.held.held]

    def note(self) -> None:
        self.seen.append(self.held.held)

    def peak(self) -> tuple[int, str] | None:
        if self.refusal:
            raise MeasurementError(self.refusal)
        return (max(self.seen) - self.seen[0], "fake boards") if self.used else None


def test_memory_on_a_gpu_is_looked_at_before_the_load_and_after_each_call() -> None:
    process = Process()
    boards = FakeBoards(process)
    process.clock.now_ns = 0
    answer = process.measure(slowed(process, 4, Scripted(process, leak=3).load), boards=boards)
    assert [0, 40, 45, 48, 51, 54, 57, 60] == [amount - 7_000_000 for amount in boards.seen]
    assert (60.0, "fake boards") == (answer.values["gpu_memory"], answer.sources["gpu_memory"])


@pytest.mark.parametrize(("refusal", "reasons"), [("not told", {"gpu_memory": "not told"}), ("", {})])
def test_memory_on_a_gpu_is_absent_where_none_is_used_or_told(refusal: str, reasons: dict[str, str]) -> None:
    process = Process()
    answer = process.measure(Scripted(process).load, boards=FakeBoards(process, refusal, used=False))
    assert "gpu_memory" not in answer.values
    assert reasons == answer.reasons


def test_what_is_held_is_read_after_each_of_sixty_calls() -> None:
    """One first call, five steady ones, then the series: 45 of the model and 3 of each call since."""
    process = Process()
    scripted = Scripted(process, leak=3)
    answer = process.measure(scripted.load)
    assert answer.series == {GROWTH: [7_000_045.0 + 3 * (5 + call) for call in range(1, 61)]}
    assert answer.values["memory_retained"] == 60.0  # before the series
    assert scripted.calls == 66


def slowed(process: Process, seconds: float, load: Load) -> Load:
    """Let each call take so long."""

    def loaded() -> Callable[[], object]:
        call = load()

        def timed() -> None:
            process.clock.now_ns += int(seconds * 1000 * MS)
            call()

        return timed

    return loaded


def test_slow_calls_make_a_shorter_series() -> None:
    """A second of quick calls, ten of slow ones, and no more than half a minute at all: by steps, for both sides."""
    for seconds, calls in ((0.01, 60), (0.02, 20), (0.05, 20), (0.06, 10), (2.9, 10), (3.1, 0), (4, 0)):
        process = Process()
        scripted = Scripted(process)
        answer = process.measure(slowed(process, seconds, scripted.load))
        assert len(answer.series[GROWTH]) == calls
        pace = f"growth takes 10 calls after warm-up, {10 * seconds:.0f} s at this pace; it may take 30 s"
        assert answer.reasons == ({} if calls >= 10 else {"memory_leak": pace})
        assert scripted.calls == 6 + calls  # what cannot be decided is not waited for
        assert f"peaks of {6 + calls} calls" in answer.notes


def cycles(process: Process) -> Callable[[], object]:
    """Return what makes an object that refers to itself and holds some bytes until it is collected."""

    class Node:
        def __init__(self) -> None:
            self.me = self
            process.put(7)

        def __del__(self) -> None:
            process.put(-7)

    return Node


def test_garbage_in_cycles_is_swept_before_each_reading() -> None:
    """It waits for the collector, and is no leak: each call leaves a cycle whose end gives back what it took."""
    process = Process()
    answer = process.measure(lambda: cycles(process))
    assert set(answer.series[GROWTH][1:]) == {answer.series[GROWTH][1]}


def test_a_full_cache_of_cycles_whose_entries_are_replaced_is_level() -> None:
    """They were there before the readings, and are given back like any others."""
    process = Process()
    make = cycles(process)

    def load() -> Callable[[], object]:
        kept = deque((make() for _ in range(100)), maxlen=100)
        return lambda: kept.append(make())

    answer = process.measure(load)
    assert set(answer.series[GROWTH][1:]) == {answer.series[GROWTH][1]}


def test_a_system_without_peaks_gives_a_reason_and_no_number() -> None:
    def refuse() -> PeakRss:
        raise MeasurementError("nothing is reported")

    meter = MemoryMeter(refuse)
    answer = measure_memory([], lambda: int, Startup(lambda _: False, meter.enter), meter)
    assert answer.values == {}
    assert {*taken_by("memory")} - {"gpu_memory"} == {*answer.reasons}
    assert set(answer.reasons.values()) == {"nothing is reported"}


def test_without_resets_a_peak_counts_if_it_is_the_highest_so_far() -> None:
    """100 above what is nobody's lie behind: below them nothing is seen, and above them all is."""
    hidden = Process(refusal="no resets", hidden=7_000_100)
    answer = hidden.measure(Scripted(hidden).load)
    seen = Process(refusal="no resets", hidden=7_000_060)
    high = seen.measure(Scripted(seen).load)
    assert (
        "the peak is at most 100 B: an earlier one of this process hides it, and no resets" == answer.reasons["memory"]
    )
    assert 45 == answer.values["memory_retained"]
    assert (65, 65) == (high.values["memory"], high.values["memory_first_call"])
    assert "memory_steady" in high.reasons


def test_a_cold_start_is_timed_in_parts() -> None:
    """From the first own import on, without what pytest does between; of five warm calls the median is 3 ms."""
    clock = FakeClock()
    startup = Startup(lambda file: file == "own.py", None, clock, loaded={})
    clock.now_ns += 700 * MS
    with startup.importing("own.py"):
        clock.now_ns += 600 * MS
        with startup.importing("numpy.py"):
            clock.now_ns += 90 * MS
    with startup.importing("plugin.py"):
        clock.now_ns += 800 * MS
    with startup.part(FIXTURES):
        clock.now_ns += 40 * MS
    call = TimedCall(clock, *(n * MS for n in (5, 3, 1, 4, 1, 5)))

    def load() -> Callable[[], object]:
        clock.now_ns += 30 * MS
        return call

    answer = measure_cold_start([], load, startup)
    assert answer.values == {
        "cold_import": 0.09,
        "cold_own_import": 0.6,
        "cold_fixtures": 0.04,
        "cold_load": 0.03,
        "cold_first_call": 0.005,
        "cold_warm_call": 0.003,
        "cold_start": 0.765,
    }
    assert answer.notes == []
    assert call.count == 6


def test_modules_that_were_there_already_are_named() -> None:
    """Their import costs nothing here: without a word the start would look better than it is."""
    own, other = ModuleType("own"), ModuleType("other")
    own.__file__, other.__file__ = "own.py", "other.py"
    startup = Startup(lambda file: file == "own.py", None, FakeClock(), loaded={"own": own, "json": other, "x": None})
    answer = measure_cold_start(["json"], lambda: int, startup)
    assert answer.notes == ["already imported before the measurement, so not part of it: own, json"]


def test_a_fresh_process_imports_no_more_than_it_needs_to_reply() -> None:
    """Nothing that a model may import: it would no longer be cold."""
    code = (
        "import sys; import pytest_hwperf.measure.worker_tasks; "
        "print(sorted({n.partition('.')[0] for n in sys.modules} - sys.stdlib_module_names - {'__main__'}))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"pytest_hwperf", "msgspec"} == {*literal_eval(done.stdout)} - {"typing_extensions"}  # msgspec looks for it
