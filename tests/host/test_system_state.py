"""The state of the system, as psutil and /sys report it."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fakes.hosts import cpu_times, refuse, settle_in, swap_memory

from pytest_hwperf.host.disturbance import MachineCpuTime, SystemState, load_average, machine_cpu_time
from pytest_hwperf.host.disturbance import read_system_state as read


class MacTimes(NamedTuple):
    """What psutil returns on macOS."""

    user: float = 1.0
    nice: float = 2.0
    system: float = 3.0
    idle: float = 4.0


def test_what_is_reported_is_read(tmp_path: Path) -> None:
    """30 of 1000 ticks were stolen; 1500 kB of 1024 bytes are in use."""
    found = read(
        settle_in(tmp_path),
        load=lambda: (3.5, 1.0, 0.5),
        cpu_times=lambda: cpu_times(user=0.5, system=0.2, idle=9.0, steal=0.3),
        swap=lambda: swap_memory(total=2_048_000, used=1_536_000),
    )
    assert found.steal_share == pytest.approx(0.03)
    assert replace(found, steal_share=None) == SystemState(
        load_1min=3.5, steal_share=None, swap_bytes=2_048_000, swap_used_bytes=1_536_000, huge_pages="always"
    )


def test_what_is_not_reported_is_unknown(tmp_path: Path) -> None:
    found = read(tmp_path, load=refuse, cpu_times=refuse, swap=refuse)
    assert found == SystemState(
        load_1min=None, steal_share=None, swap_bytes=None, swap_used_bytes=None, huge_pages=None
    )


def test_states_are_reported_apart() -> None:
    """User, nice, system and both kinds of interrupt are work; guest time is within user time."""
    spent = cpu_times(
        user=1, nice=2, system=3, idle=400, iowait=500, irq=6, softirq=7, steal=800, guest=1, guest_nice=1
    )
    assert machine_cpu_time(lambda: spent) == MachineCpuTime(busy_s=19, stolen_s=800, total_s=1719)


def test_a_system_that_counts_no_steal_has_none(tmp_path: Path) -> None:
    """Unknown is not 0: macOS and Windows have no such state."""
    assert machine_cpu_time(MacTimes) == MachineCpuTime(busy_s=6.0, stolen_s=None, total_s=10.0)
    assert read(tmp_path, cpu_times=MacTimes).steal_share is None


def test_psutils_warning_about_pages_it_cannot_count_is_no_error(tmp_path: Path) -> None:
    def warned() -> Any:
        warnings.warn("'sin' and 'sout' swap memory stats couldn't be determined", RuntimeWarning, stacklevel=2)
        return swap_memory(total=1000, used=0)

    assert read(tmp_path, swap=warned).swap_bytes == 1000


@pytest.mark.parametrize("chosen", ["madvise", "never"])
def test_the_chosen_way_of_huge_pages_stands_in_brackets(tmp_path: Path, chosen: str) -> None:
    text = "always madvise never".replace(chosen, f"[{chosen}]")
    assert chosen == read(settle_in(tmp_path, {"sys/kernel/mm/transparent_hugepage/enabled": text})).huge_pages


def test_this_machine_is_read() -> None:
    """Seconds only grow."""
    once, again, load = machine_cpu_time(), machine_cpu_time(), load_average()
    assert once is not None
    assert again is not None
    assert again.total_s >= once.total_s > 0
    assert load is not None
