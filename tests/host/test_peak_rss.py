"""What each system tells of this process's memory."""

import mmap
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.resident import Process

from pytest_hwperf.host.memory import EXACT, Resident, resident, resolution
from pytest_hwperf.records.errors import MeasurementError

LATE = "the kernel's own count of resident pages is exact within"
_UNPRIVILEGED = """
import os, sys
sys.path[:0] = {path!r}
from pytest_hwperf.meters.memory import MemoryMeter
os.setgid(65534)
os.setuid(65534)   # from here on the process may not be traced, and its /proc files are root's
meter = MemoryMeter()
assert meter.reason == "", meter.reason
meter.enter("call")
kept = bytearray(b"1") * (64 << 20)
print(meter.source, meter.peak(), meter.retained("call"), meter.peak_rss.held.clear(), sep="|")
"""


def test_the_present_size_is_read_from_the_page_tables(tmp_path: Path) -> None:
    """The running count lags behind them: 900 kB where there are 960."""
    process = Process(tmp_path, exact=True)
    process.show(peak_kb=5000, now_kb=900, exact_kb=960)
    held = resident("linux", tmp_path)
    assert (960 * 1024, EXACT) == held.now()
    assert 5000 * 1024 == held.high()


def test_where_the_page_tables_may_not_be_walked_the_running_count_does(tmp_path: Path) -> None:
    Process(tmp_path).show(peak_kb=5000, now_kb=900)
    assert (900 * 1024, "VmRSS") == resident("linux", tmp_path).now()


def test_a_peak_is_at_least_what_is_held_now(tmp_path: Path) -> None:
    """The mark is made from the running count, which is late."""
    process = Process(tmp_path, exact=True)
    process.show(peak_kb=1000, now_kb=1000, exact_kb=1064)
    assert 1064 * 1024 == resident("linux", tmp_path).high()


def test_five_is_what_clears_the_peak(tmp_path: Path) -> None:
    """Other numbers clear referenced bits and leave the peak."""
    Process(tmp_path)
    held = resident("linux", tmp_path)
    assert "" == held.clear()
    assert "5" == (tmp_path / "clear_refs").read_text()
    assert "VmHWM after clear_refs" == held.source
    assert [LATE] == [warning[: len(LATE)] for warning in held.warnings]


def test_a_kernel_that_refuses_to_clear_says_so(tmp_path: Path) -> None:
    Process(tmp_path, resets=False)
    held = resident("linux", tmp_path)
    assert "the kernel does not reset peaks here (Is a directory)" == held.clear()
    assert "VmHWM, never cleared" == held.source
    assert f"{held.clear()}: a peak is reported if it is the highest so far" in held.warnings


def test_fields_stand_behind_many_groups(tmp_path: Path) -> None:
    """A user of a thousand groups makes the file longer than a page."""
    Process(tmp_path)
    status = tmp_path / "status"
    status.write_text(f"Name:\tpython\nGroups:\t{' '.join(map(str, range(100_000, 101_000)))}\n{status.read_text()}")
    assert 1000 * 1024 == resident("linux", tmp_path).high()


def test_what_a_system_does_not_tell_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"status cannot be read \(No such file or directory\)"):
        resident("linux", tmp_path)
    Process(tmp_path)
    status = tmp_path / "status"
    status.write_text(status.read_text().replace("VmHWM", "Vm"))
    with pytest.raises(MeasurementError, match="the kernel gives no VmHWM: memory cannot be measured here"):
        resident("linux", tmp_path)
    with pytest.raises(MeasurementError, match="on Linux, macOS and Windows, not on sunos5"):
        resident("sunos5")


class Foreign:
    """`resource` as macOS has it, whose unit is bytes, and psutil as it is on macOS and Windows."""

    def __init__(self, held: int, *, stays: bool = True) -> None:
        self.held, self.began = held, resident().now()[0] if stays else None

    def __call__(self, name: str) -> Any:
        modules: dict[str, Any] = {
            "psutil": SimpleNamespace(Process=lambda: SimpleNamespace(memory_info=self.memory)),
            "resource": SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda _: SimpleNamespace(ru_maxrss=8_000_000)),
        }
        return modules[name]

    def memory(self) -> SimpleNamespace:
        """Tell what is held, with what this process has taken since, if that stays where it is."""
        more = 0 if self.began is None else resident().now()[0] - self.began
        return SimpleNamespace(rss=self.held + more, peak_wset=9_000_000)


def test_where_a_mark_is_never_reset_memory_is_filled_up_to_it() -> None:
    """Bytes on both systems: on Linux the same field of getrusage is in KiB."""
    unseen, all_held = "Windows does not tell what child processes that have ended held", list[Resident]()
    for platform, source, high, size, warnings in (
        ("darwin", "ru_maxrss, filled before", 8_000_000, "resident size", ()),
        ("win32", "peak_wset, filled before", 9_000_000, "working set", (unseen,)),
    ):
        all_held.append(held := resident(platform, load=Foreign(5_000_000)))  # what the first has filled stays
        assert (source, high) == (held.source, held.high())
        now, shown = held.now()
        assert size == shown
        assert now == pytest.approx(5_000_000, abs=400_000)
        before = resident().now()[0]
        assert "" == held.clear()
        assert high - 5_000_000 == pytest.approx(resident().now()[0] - before, abs=400_000)
        assert (warnings, True) == (held.warnings, held.fills)


def test_a_peak_that_cannot_be_filled_up_to_is_not_reset() -> None:
    """Too much would be taken, or what is taken is compressed or swapped out at once."""
    assert resident("darwin", load=Foreign(-2_000_000_000)).clear().endswith("to fill memory up to it takes 2.01 GB")
    assert resident("darwin", load=Foreign(5_000_000, stays=False)).clear().endswith("does not stay there")


def test_a_peak_is_exact_within_what_the_cpus_keep_to_themselves() -> None:
    """max(32, 2 x CPUs) pages on each CPU."""
    assert [pages * mmap.PAGESIZE for pages in (32, 512, 8192)] == [resolution(cpus) for cpus in (1, 16, 64)]


@pytest.mark.live
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="becomes another user, on Linux")
def test_a_hardened_process_is_measured_without_clearing() -> None:
    """The kernel refuses clear_refs to a process that may not be traced; its peak of 64 MiB is reported."""
    code = _UNPRIVILEGED.format(path=sys.path)
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    source, peak, retained, refusal = ended.stdout.strip().split("|")
    assert "VmHWM, never cleared" == source
    assert [64, 64] == pytest.approx([int(peak) / 2**20, int(retained) / 2**20], abs=0.5)
    assert "the kernel does not reset peaks here (Permission denied)" == refusal
