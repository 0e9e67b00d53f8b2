"""The obeying side, on probe and a clock that play back."""

import gc
import subprocess
import sys
from ast import literal_eval
from collections import deque
from collections.abc import Callable, Iterator

import pytest
from fakes.streams import FakeClock, TimedCall

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.measure.worker_tasks import GROWTH, measure_cold_start, measure_memory

MS = 1_000_000  # ns


@pytest.fixture(autouse=True)
def _small_heap() -> Iterator[None]:
    """Let each sweep look at what a test has made, and not at everything that this process has imported."""
    gc.freeze()
    yield
    gc.unfreeze()


class FakeScales:
    """Measures what was put on it; a reset forgets the peak and keeps what still lies there.

    With a refusal of resets, peaks are counted on from the idle process; with one hidden below `hides`, there is none.
    """

    source = "fake peak"
    warnings = ("played back",)

    def __init__(self, refusal: str = "", *, never_reset: str = "", hides: int = 0) -> None:
        self.refusal = refusal
        self.never_reset = never_reset
        self.hides = hides
        self.held = self.high = 0

    def put(self, amount: int) -> None:
        self.held += amount
        self.high = max(self.high, self.held)

    def idle(self) -> str:
        self.high = self.held
        return self.refusal

    def reset(self) -> str:
        if not self.never_reset:
            self.high = self.held
        return self.never_reset

    def peak(self) -> int:
        if self.high <= self.hides:
            raise MeasurementError("hidden")
        return self.high

    def retained(self) -> int:
        return self.held

    def now(self) -> tuple[int, str]:
        return self.held, "fake size"


class Scripted:
    """Loading keeps 40; the first call peaks 25 above it and keeps 5, a later one peaks 10 and keeps `leak`."""

    def __init__(self, probe: FakeScales, leak: int = 0) -> None:
        self.probe = probe
        self.leak = leak
        self.calls = 0

    def load(self) -> Callable[[], object]:
        self.probe.put(40)
        return self.call

    def call(self) -> None:
        peak, kept = (25, 5) if self.calls == 0 else (10, self.leak)
        self.probe.put(peak)
        self.probe.put(kept - peak)
        self.calls += 1


def test_peaks_are_above_the_idle_process_and_apart() -> None:
    probe = FakeScales()
    scripted = Scripted(probe)
    answer = measure_memory([], scripted.load, probe)

    assert answer.values == {
        "memory": 65.0,  # 40 + 25
        "memory_first_call": 65.0,
        "memory_steady": 55.0,  # 45 + 10
        "memory_retained": 45.0,
    }
    assert answer.reasons == {}
    assert answer.notes == ["played back"]
    assert answer.sources == {
        **dict.fromkeys(("memory", "memory_first_call", "memory_steady"), "fake peak"),
        **dict.fromkeys(("memory_retained", "memory_leak"), "fake size"),
    }


class FakeBoards:
    """Memory on a GPU: the most that was put on the scales whenever it was looked at."""

    def __init__(self, probe: FakeScales, refusal: str = "", *, used: bool = True) -> None:
        self.probe = probe
        self.refusal = refusal
        self.used = used
        self.seen: list[int] = []

    def begin(self) -> None:
        self.seen = [self.probe.held]

    def note(self) -> None:
        self.seen.append(self.probe.held)

    def peak(self) -> tuple[int, str] | None:
        if self.refusal:
            raise MeasurementError(self.refusal)
        return (max(self.seen) - self.seen[0], "fake boards") if self.used else None


def test_memory_on_a_gpu_is_looked_at_before_the_load_and_after_each_call() -> None:
    probe = FakeScales()
    boards = FakeBoards(probe)
    answer = measure_memory([], Scripted(probe, leak=3).load, probe, growing=False, boards=boards)

    assert [0, 40, 45, 48, 51, 54, 57, 60] == boards.seen
    assert (60.0, "fake boards") == (answer.values["gpu_memory"], answer.sources["gpu_memory"])


@pytest.mark.parametrize(("refusal", "reasons"), [("not told", {"gpu_memory": "not told"}), ("", {})])
def test_memory_on_a_gpu_is_absent_where_none_is_used_or_told(refusal: str, reasons: dict[str, str]) -> None:
    probe = FakeScales()
    boards = FakeBoards(probe, refusal, used=False)
    answer = measure_memory([], Scripted(probe).load, probe, FakeClock(), boards=boards)

    assert "gpu_memory" not in answer.values
    assert reasons == answer.reasons


def test_what_is_held_is_read_after_each_of_sixty_calls() -> None:
    """One first call, five steady ones, then the series: 45 of the model and 3 of each call since."""
    probe = FakeScales()
    scripted = Scripted(probe, leak=3)
    answer = measure_memory([], scripted.load, probe, FakeClock())

    assert answer.series == {GROWTH: [45.0 + 3 * (5 + call) for call in range(1, 61)]}
    assert answer.values["memory_retained"] == 60.0  # before the series
    assert scripted.calls == 66


@pytest.mark.parametrize(("seconds", "calls"), [(0.05, 21), (0.5, 10), (2.9, 10), (3.1, 0), (4, 0)])
def test_slow_calls_make_a_shorter_series(seconds: float, calls: int) -> None:
    """A second of quick calls, ten of slow ones, and no more than half a minute at all."""
    probe, clock = FakeScales(), FakeClock()
    scripted = Scripted(probe)

    def load() -> Callable[[], object]:
        call = scripted.load()

        def timed() -> None:
            clock.now_ns += int(seconds * 1000 * MS)
            call()

        return timed

    answer = measure_memory([], load, probe, clock)

    assert len(answer.series[GROWTH]) == calls
    pace = f"growth takes 10 calls after warm-up, {10 * seconds:.0f} s at this pace; it may take 30 s"
    assert answer.reasons == ({} if calls >= 10 else {"memory_leak": pace})
    assert scripted.calls == 6 + calls  # what cannot be decided is not waited for


def cycles(probe: FakeScales) -> Callable[[], object]:
    """Return what makes an object that refers to itself and holds some bytes until it is collected."""

    class Node:
        def __init__(self) -> None:
            self.me = self
            probe.put(7)

        def __del__(self) -> None:
            probe.put(-7)

    return Node


def test_garbage_in_cycles_is_swept_before_each_reading() -> None:
    """It waits for the collector, and is no leak: each call leaves a cycle whose end gives back what it took."""
    probe = FakeScales()
    answer = measure_memory([], lambda: cycles(probe), probe, FakeClock())

    assert set(answer.series[GROWTH][1:]) == {answer.series[GROWTH][1]}


def test_a_full_cache_of_cycles_whose_entries_are_replaced_is_level() -> None:
    """They were there before the readings, and are given back like any others."""
    probe = FakeScales()
    make = cycles(probe)

    def load() -> Callable[[], object]:
        kept = deque((make() for _ in range(100)), maxlen=100)
        return lambda: kept.append(make())

    answer = measure_memory([], load, probe, FakeClock())

    assert set(answer.series[GROWTH][1:]) == {answer.series[GROWTH][1]}


def test_growth_that_nobody_asks_for_takes_no_calls() -> None:
    probe = FakeScales()
    scripted = Scripted(probe)
    answer = measure_memory([], scripted.load, probe, FakeClock(), growing=False)

    assert scripted.calls == 6
    assert answer.series == {GROWTH: []}
    assert "memory" in answer.values


def test_scales_that_refuse_give_a_reason_and_no_number() -> None:
    answer = measure_memory([], Scripted(FakeScales()).load, FakeScales("nothing is reported"))

    assert answer.values == {}
    assert set(answer.reasons) == {"memory", "memory_first_call", "memory_steady", "memory_retained", "memory_leak"}
    assert set(answer.reasons.values()) == {"nothing is reported"}


def test_scales_without_a_reset_tell_no_steady_peak() -> None:
    """The highest of all is still the highest of all."""
    probe = FakeScales(never_reset="peaks are not reset here")
    answer = measure_memory([], Scripted(probe).load, probe)

    assert answer.values == {"memory": 65.0, "memory_first_call": 65.0, "memory_retained": 45.0}
    assert answer.reasons == {"memory_steady": "peaks are not reset here"}


def test_a_hidden_peak_is_a_reason_and_no_number() -> None:
    probe = FakeScales(never_reset="peaks are not reset here", hides=100)
    answer = measure_memory([], Scripted(probe).load, probe)

    assert answer.values == {"memory_retained": 45.0}
    assert answer.reasons == {
        "memory": "hidden",
        "memory_first_call": "hidden",
        "memory_steady": "peaks are not reset here",
    }


def test_a_peak_that_shows_only_later_is_reported() -> None:
    """50 hidden at the first call, and a later one rises above it: that is the highest."""
    probe = FakeScales(never_reset="peaks are not reset here", hides=65)
    answer = measure_memory([], Scripted(probe, leak=4).load, probe)

    assert answer.values["memory"] == 45 + 4 * 4 + 10
    assert "hidden" == answer.reasons["memory_first_call"]


def test_a_cold_start_is_timed_in_parts() -> None:
    """Nothing to import, 30 ms of loading, 5 ms of first call; then 3, 1, 4, 1 and 5 ms, whose median is 3."""
    clock = FakeClock()
    call = TimedCall(clock, *(n * MS for n in (5, 3, 1, 4, 1, 5)))

    def load() -> Callable[[], object]:
        clock.now_ns += 30 * MS
        return call

    answer = measure_cold_start([], load, clock)

    assert answer.values == {
        "cold_import": 0.0,
        "cold_load": 0.03,
        "cold_first_call": 0.005,
        "cold_warm_call": 0.003,
        "cold_start": 0.035,
    }
    assert answer.notes == []
    assert call.count == 6


def test_a_module_that_was_there_already_is_named() -> None:
    """Its import costs nothing here: without a word the cold start would look better than it is."""
    answer = measure_cold_start(["json"], lambda: lambda: None, FakeClock())

    assert answer.notes == ["already imported before the cold start, so not part of it: json"]


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
