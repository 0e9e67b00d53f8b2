"""CPU time and instructions of this process."""

import errno
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fakes.power_pmu import tell_paranoia

from pytest_hwperf.meters.process import USER_INSTRUCTIONS, CpuTimeMeter, InstructionMeter, instruction_meter
from pytest_hwperf.records.errors import MeterUnavailable
from pytest_hwperf.records.run import Reading

if TYPE_CHECKING:
    from pytest_hwperf.records.contracts import Meter

_SPIN = "import time\nwhile time.process_time() < 0.1: pass"


def test_a_window_counts_what_was_added() -> None:
    """And windows may nest: 1.5 s and 1 s of the same counter that went from 2 to 3.5."""
    seconds = iter([2.0, 2.5, 3.5, 3.5])
    meter: Meter = CpuTimeMeter(lambda: next(seconds), children=float)
    outer = meter.start()
    inner = meter.start()
    assert (1.0, 1.5) == (meter.end(inner).value, meter.end(outer).value)
    meter.close()


def test_looking_for_children_is_no_work_of_the_calls() -> None:
    """It takes 0.5 s at each end here, and the calls between take 1 s."""
    spent = 0.0

    def work(seconds: float) -> float:
        nonlocal spent
        spent += seconds
        return 0.0

    meter = CpuTimeMeter(lambda: spent, children=lambda: work(0.5))
    started = meter.start()
    work(1.0)
    assert 1.0 == meter.end(started).value


def test_a_child_counts_once_it_was_waited_for() -> None:
    """It spins for 0.1 s of its own CPU time."""
    meter = CpuTimeMeter()
    started = meter.start()
    subprocess.run([sys.executable, "-S", "-c", _SPIN], check=True)
    assert (meter.end(started).value or 0.0) >= 0.1


def test_a_child_counts_while_it_lives() -> None:
    """In ticks of the kernel: a pool's workers end long after the window."""
    meter = CpuTimeMeter()
    started = meter.start()
    spin = [sys.executable, "-S", "-c", f"{_SPIN}\nprint(flush=True)\ninput()"]
    with subprocess.Popen(spin, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        counted = meter.end(started).value or 0.0
        child.communicate(b"\n")
    assert counted >= 0.08


THREADS = (17, 21)


@pytest.fixture
def root(tmp_path: Path) -> str:
    for thread in THREADS:
        (tmp_path / "proc/self/task" / str(thread)).mkdir(parents=True)
    return str(tmp_path)


class Counters:
    """A counter of each thread, in descriptors of its own; what it reads is what a test has set."""

    def __init__(self, refusals: dict[int, int] | None = None) -> None:
        self.refusals = refusals or {}
        self.opened = dict[int, int]()  # descriptor → thread
        self.counts = dict[int, tuple[int, int, int]]()  # thread → value, enabled, running

    def open(self, thread: int) -> int:
        if number := self.refusals.get(thread):
            raise OSError(number, os.strerror(number))
        descriptor = os.open(os.devnull, os.O_RDONLY)
        self.opened[descriptor] = thread
        return descriptor

    def read(self, descriptor: int, size: int) -> bytes:
        assert size == 24
        return struct.pack("=QQQ", *self.counts[self.opened[descriptor]])


def opened(root: str, counters: Counters) -> InstructionMeter:
    return instruction_meter(root, counters.open, "x86_64")


def reading(before: dict[int, tuple[int, int, int]], after: dict[int, tuple[int, int, int]]) -> Reading:
    counters = Counters()
    descriptors = [counters.open(thread) for thread in before]
    meter = InstructionMeter(descriptors, counters.read)
    counters.counts = before
    started = meter.start()
    counters.counts = after
    found = meter.end(started)
    meter.close()
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    return found


def test_instructions_of_all_threads_are_added_up() -> None:
    before = {17: (1000, 50, 50), 21: (10, 40, 40)}
    after = {17: (1700, 90, 90), 21: (310, 80, 80)}
    assert Reading(value=1000.0) == reading(before, after)


def test_a_counter_that_was_lent_to_others_gives_no_value() -> None:
    """The kernel would scale it up: that is an estimate. 20 of 80 ns are missing."""
    found = reading({17: (0, 0, 0), 21: (0, 0, 0)}, {17: (500, 40, 20), 21: (500, 40, 40)})
    assert (None, "others used the counter for 25 % of the window") == (found.value, found.reason)


def test_every_thread_is_opened_and_one_that_has_ended_left_out(root: str) -> None:
    counters = Counters({17: errno.ESRCH})
    meter = opened(root, counters)
    assert [21] == [*counters.opened.values()]
    meter.close()


def test_without_proc_this_process_is_opened(tmp_path: Path) -> None:
    counters = Counters()
    opened(str(tmp_path), counters).close()
    assert [0] == [*counters.opened.values()]


def test_user_space_is_counted_with_what_threads_start() -> None:
    """Generic hardware event 1; inherit, exclude_kernel and exclude_hv are bits 1, 5 and 6; both times are read."""
    kind, size, config, _, _, read_format, flags, *rest = struct.unpack("=IIQQQQQIIQ", USER_INSTRUCTIONS)
    assert (0, 64, 1, 3, 0b1100010, [0, 0, 0]) == (kind, size, config, read_format, flags, rest)


REFUSALS = (
    (errno.ENOENT, "", "this machine has no counter of instructions (No such file or directory): hypervisors"),
    (errno.EOPNOTSUPP, "", "this machine has no counter of instructions"),
    (errno.EACCES, "4", "perf events are forbidden (perf_event_paranoid is 4): sudo sysctl"),
    (errno.EPERM, "", "perf events are forbidden here, as in many containers"),
    (errno.EPERM, "none", "perf events are forbidden here, as in many containers"),
)


def test_why_there_is_no_counter_is_said(root: str) -> None:
    """And what was opened before is closed."""
    for number, level, why in REFUSALS:
        tell_paranoia(Path(root), level)
        counters = Counters({21: number})
        with pytest.raises(MeterUnavailable) as refused:
            opened(root, counters)
        assert str(refused.value).startswith(why)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(next(iter(counters.opened)))


def test_other_machines_have_other_calls(root: str) -> None:
    with pytest.raises(MeterUnavailable, match="x86-64 only"):
        instruction_meter(root, Counters().open, "aarch64")


def test_where_all_threads_have_ended_nothing_is_counted(root: str) -> None:
    with pytest.raises(MeterUnavailable, match="no thread of this process"):
        opened(root, Counters(dict.fromkeys(THREADS, errno.ESRCH)))


def test_this_kernel_answers_one_way_or_the_other() -> None:
    """The real call: a count of work, or a reason."""
    try:
        meter = instruction_meter()
    except MeterUnavailable as reason:
        assert str(reason)  # noqa: PT017 - both ways are right
        return
    started = meter.start()
    sum(range(100_000))
    found = meter.end(started)
    meter.close()
    assert found.value is None or found.value > 100_000
