"""CPU seconds of a window."""

import subprocess
import sys
from typing import TYPE_CHECKING

from pytest_hwperf.host.clocks import cpu_seconds
from pytest_hwperf.meters.process import CpuTimeMeter

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


def test_cpu_time_never_goes_back() -> None:
    readings = [cpu_seconds() for _ in range(100)]
    assert sorted(readings) == readings
