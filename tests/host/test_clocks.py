"""Clocks of this machine, and the CPU time and memory of threads and children."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count, repeat
from pathlib import Path
from queue import Queue
from threading import Thread, get_native_id
from types import SimpleNamespace

import pytest
from fakes.hosts import settle_in

from pytest_hwperf.host import clocks
from pytest_hwperf.host.clocks import (
    clock_of_thread,
    clock_source,
    cpu_ns,
    cpu_ns_since,
    cpu_seconds_of_living,
    cpu_time_step,
    observe_clock,
    seconds_suspended,
    shares_of_threads,
    threads_here,
    touched_by_children,
)


def ticking(step: int, every: int = 1) -> Callable[[], int]:
    """A clock that moves by `step` at each reading, or at every so-many-th."""
    readings = count()
    return lambda: next(readings) // every * step


def test_a_coarse_clock_costs_what_its_readings_cost_on_average() -> None:
    """It moves by 1 µs at every twentieth reading: 50 ns each, though most gaps are 0."""
    seen = observe_clock(ticking(1000, every=20))
    assert 1e-6 == pytest.approx(seen.step_s)
    assert 50e-9 == pytest.approx(seen.cost_s, rel=0.01)


def test_a_clock_that_stands_still_has_no_step() -> None:
    assert observe_clock(lambda: 7).step_s is None


def test_cpu_time_grows_by_its_smallest_step() -> None:
    """Steps of 2 and 3 µs, each shown for three readings."""
    readings = count()

    def grown() -> float:
        steps, rest = divmod(next(readings) // 3, 2)
        return 5e-6 * steps + 2e-6 * rest

    assert 2e-6 == cpu_time_step(grown)


def test_cpu_time_that_never_grows_has_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_hwperf.host.clocks._MOST_SPINS", 1000)
    assert cpu_time_step(lambda: 1.0) is None


def test_the_kernel_names_its_clock_or_does_not(tmp_path: Path) -> None:
    assert clock_source(tmp_path) is None
    for text, source in (("tsc", "tsc"), ("", None)):
        settle_in(tmp_path, {"sys/devices/system/clocksource/clocksource0/current_clocksource": text})
        assert source == clock_source(tmp_path)


def test_this_machine_has_a_clock_that_moves() -> None:
    seen, step_s = observe_clock(), cpu_time_step()
    assert seen.step_s is not None
    assert seen.step_s > 0
    assert seen.cost_s > 0
    assert step_s is not None
    assert step_s > 0


MS = 1_000_000


class Kernel:
    """It counts what a thread computes once the clock of that is read, which takes the reader 1 ms; one has ended."""

    def __init__(self) -> None:
        self.uncounted, self.counted, self.reader = {7: 0, 8: 0}, 0, 0

    def clock_gettime_ns(self, clock: int) -> int:
        if clock == clock_of_thread(9):
            raise OSError(errno.EINVAL, "Invalid argument")
        self.reader += MS
        self.counted += self.uncounted.pop(next(one for one in self.uncounted if clock_of_thread(one) == clock), 0)
        return 0

    def thread_time_ns(self) -> int:
        return self.reader

    def process_time_ns(self) -> int:
        return self.counted + self.reader


def test_what_threads_compute_right_now_is_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In both windows, and what asking for it costs is in neither."""
    for thread in (7, 8, 9):
        (tmp_path / str(thread)).mkdir()
    kernel = Kernel()
    monkeypatch.setattr(clocks, "_THREADS", tmp_path)
    monkeypatch.setattr(clocks, "time", kernel)
    kernel.uncounted = {7: 5 * MS, 8: 2 * MS}
    began = cpu_ns()
    assert 7 * MS + 2 * MS == began
    kernel.uncounted = {7: 3 * MS, 8: 4 * MS}
    assert 7 * MS == cpu_ns_since(began)


@pytest.mark.skipif(not threads_here(), reason="this system does not list threads")
def test_a_thread_has_a_clock_by_its_id() -> None:
    before, here = time.thread_time_ns(), clock_of_thread(get_native_id())
    assert before < time.clock_gettime_ns(here) < time.thread_time_ns()


def test_one_thread_has_all_of_its_own_work() -> None:
    assert max(shares_of_threads(lambda: sum(range(1000)))) > 0.8


@pytest.fixture
def other() -> Iterator[Queue[int]]:
    """Jobs of a thread of about a millisecond each; 0 ends it."""
    jobs = Queue[int]()

    def work() -> None:
        while True:
            if goes_on := jobs.get():
                sum(range(100_000))
            jobs.task_done()
            if not goes_on:
                return

    thread = Thread(target=work)
    thread.start()
    yield jobs
    jobs.put(0)
    thread.join()


def _calls(jobs: Queue[int], *, with_other: Iterable[object]) -> Callable[[], object]:
    """Make a call that lets the other thread work where `with_other` says so, and not once that has ended."""
    told = iter(with_other)

    def call() -> object:
        if next(told, False):
            jobs.put(1)
            jobs.join()
        return sum(range(10_000))

    return call


def test_a_thread_that_computes_for_a_while_is_of_something_else(other: Queue[int]) -> None:
    shares = sorted(shares_of_threads(_calls(other, with_other=[True] * 5)))
    assert shares[-1] > 0.1  # of the time, of which a busy machine takes a part
    assert shares[-2] < 0.05


def test_a_thread_that_computes_each_time_is_seen(other: Queue[int]) -> None:
    """In every call, since a machine that stands still for a moment lets a look end after the first."""
    shares = sorted(shares_of_threads(_calls(other, with_other=repeat(object()))))
    assert shares[-2] > 0.0


def test_where_threads_are_not_told_apart_there_is_no_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "_THREADS", tmp_path)
    assert () == shares_of_threads(lambda: None)


_TAKES = "kept = bytearray(b'1') * (32 << 20)\nfor _ in range(10**6): pass\nprint(flush=True)\ninput()"


def test_memory_and_cpu_time_of_a_child_are_seen_while_it_lives_and_its_memory_afterwards() -> None:
    before, idle_s = touched_by_children(), cpu_seconds_of_living()
    with subprocess.Popen([sys.executable, "-c", _TAKES], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        alive = touched_by_children() - before
        assert cpu_seconds_of_living() > idle_s
        child.communicate(b"\n")
    assert alive > 2 << 20  # a huge page costs one fault
    assert touched_by_children() - before >= alive


def test_descendants_count_whatever_their_names_are(tmp_path: Path) -> None:
    """A child with 100 faults and 2 ticks, and its own with 10 and 30 ticks; the last one has ended meanwhile."""
    for process, name, faults, ticks, children in (("7", "a) R 1 (b", 100, 2, "8 9"), ("8", "c", 10, 30, "")):
        (tmp_path / process / "task" / process).mkdir(parents=True)
        (tmp_path / process / "task" / process / "children").write_text(children)
        fields = ["S", *["0"] * 6, str(faults), "0", "0", "0", str(ticks), "0", "0", "0"]
        (tmp_path / process / "stat").write_text(f"{process} ({name}) {' '.join(fields)}\n")
    (tmp_path / "self" / "task" / "1").mkdir(parents=True)
    (tmp_path / "self" / "task" / "1" / "children").write_text("7")
    assert 32 / os.sysconf("SC_CLK_TCK") == pytest.approx(cpu_seconds_of_living(tmp_path))


def test_this_machine_tells_how_long_it_slept() -> None:
    assert 0.0 <= round(seconds_suspended(), 2)


def test_a_system_without_that_clock_never_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_hwperf.host.clocks.sys", SimpleNamespace(platform="darwin"))
    assert 0.0 == seconds_suspended()
