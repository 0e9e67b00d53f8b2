"""What may disturb a measurement: the state of the system, quotas, the clock rate, and what two snapshots tell."""

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from fakes.hosts import cpu_times, refuse, settle_in, swap_memory

from pytest_hwperf.host.disturbance import (
    ClockRate,
    Interference,
    MachineCpuTime,
    Snapshot,
    SystemState,
    Throttling,
    control_groups,
    cpu_quota,
    current_hz,
    heat_events,
    load_average,
    machine_cpu_time,
    memory_limit,
    read_clock_rate,
    read_throttling,
    snapshot,
)
from pytest_hwperf.host.disturbance import read_system_state as read

QUIET = Snapshot(switches=10, cpu=MachineCpuTime(20.0, 1.0, 100.0), load=0.5, wall_s=50.0)
LATER: dict[str, Any] = {
    "switches": 14,
    "cpu": MachineCpuTime(20.0, 1.0, 104.0),
    "wall_s": 52.0,
}  # 4 s of 2 CPUs
NOTED = {"involuntary_switches": "4", "load_1min": "0.50", "steal": "0.0%"}
QUOTA = (
    "the CPU quota of the control group stopped its processes in 3 periods, 120 ms of CPU time in all: use fewer "
    "threads, or raise the quota"
)

# What is other than on a quiet machine: before and after; what is noted besides, and what is warned of.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str], str]] = {
    "a quiet machine": ({}, {}, {}, ""),
    "a host that took time": (
        {},
        {"cpu": MachineCpuTime(20.0, 1.2, 104.0)},
        {"steal": "5.0%"},
        "the host took 5 % of the CPU time for others (steal)",
    ),
    "400 switches in 2 s": (
        {},
        {"switches": 410},
        {"involuntary_switches": "400"},
        "preempted 200 times a second: other work wanted the same cores",
    ),
    "as much load as the cores bear": ({}, {"load": 3.0}, {"load_1min": "3.00"}, ""),
    "more load": ({}, {"load": 3.1}, {"load_1min": "3.10"}, "load 3.1 on 2 cores: other work disturbed the timings"),
    "no length": ({}, {"cpu": MachineCpuTime(20.0, 1.0, 100.0), "wall_s": 50.0}, {}, ""),
    "a quota": (
        {"throttling": Throttling(7, 0.25)}, {"throttling": Throttling(10, 0.37)}, {"quota_stops": "3"}, QUOTA
    ),
    "a quota that stopped it before": (
        {"throttling": Throttling(7, 0.25)}, {"throttling": Throttling(7, 0.25)}, {"quota_stops": "0"}, ""
    ),
    "heat": ({"heat": 7}, {"heat": 9}, {"heat_throttles": "2"}, "thermal throttling: its counters rose by 2"),
    "heat before": ({"heat": 7}, {"heat": 7}, {"heat_throttles": "0"}, ""),
    "a clock rate that fell": (
        {"hz": 3.4e9},
        {"hz": 2.9e9},
        {"clock_rate": "3.40 .. 2.90 GHz"},
        "the clock rate fell from 3.40 to 2.90 GHz during the measurement",
    ),
    "a clock rate that fell by less": ({"hz": 3.4e9}, {"hz": 3.1e9}, {"clock_rate": "3.40 .. 3.10 GHz"}, ""),
    "a processor that woke up": ({"hz": 0.8e9}, {"hz": 3.4e9}, {"clock_rate": "0.80 .. 3.40 GHz"}, ""),
    "what is reported at the beginning only": ({"throttling": Throttling(1, 0.1), "heat": 1, "hz": 1e9}, {}, {}, ""),
    "what is reported at the end only": ({}, {"throttling": Throttling(1, 0.1), "heat": 1, "hz": 1e9}, {}, ""),
}  # fmt: skip


def watch(before: dict[str, Any], after: dict[str, Any]) -> tuple[dict[str, str], tuple[str, ...]]:
    moments = [QUIET._replace(**before), QUIET._replace(**LATER)._replace(**after)]
    context, warnings = Interference(iter(moments).__next__, cores=2).end()
    return context, tuple(map(str, warnings))


def test_what_happened_between_two_snapshots_is_noted_and_much_of_it_is_warned_of() -> None:
    for name, (before, after, noted, warned) in CASES.items():
        assert (name, NOTED | noted, (warned,) * bool(warned)) == (name, *watch(before, after))


def test_what_the_system_does_not_tell_has_no_entry() -> None:
    """Unknown is not 0 %."""
    for cpu in (MachineCpuTime(20.0, None, 104.0), None):
        assert ({"involuntary_switches": "4"}, ()) == watch({}, {"cpu": cpu, "load": None})


def test_a_machine_that_shows_everything_is_read(tmp_path: Path) -> None:
    root = settle_in(tmp_path)
    read = snapshot(root)
    assert (Throttling(7, 0.25), 7, 3.4e9) == (read.throttling, read.heat, read.hz)


def test_this_machine_can_be_watched() -> None:
    context, _ = Interference().end()
    assert int(context["involuntary_switches"]) >= 0


V2 = "usage_usec 9\nnr_periods 50\nnr_throttled 7\nthrottled_usec 250000\n"
V1 = "nr_periods 50\nnr_throttled 3\nthrottled_time 1500000000\n"


def group(root: Path, name: str, stat: str) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "cpu.stat").write_text(stat)
    return folder


def test_both_versions_are_read_in_seconds_and_added_up_once_for_each_group(tmp_path: Path) -> None:
    """Version 2 counts microseconds, version 1 nanoseconds, and links `cpu` to `cpu,cpuacct`."""
    two, one, link = group(tmp_path, "two", V2), group(tmp_path, "cpu,cpuacct", V1), tmp_path / "cpu"
    link.symlink_to(one)
    assert Throttling(7, 0.25) == read_throttling([two])
    assert Throttling(3, 1.5) == read_throttling([one, link])
    assert Throttling(10, 1.75) == read_throttling([two, one])


def test_groups_that_count_nothing_tell_nothing(tmp_path: Path) -> None:
    """The topmost group has no quota, and a hidden one no file: unknown is not 0."""
    assert read_throttling([group(tmp_path, "top", "usage_usec 9\n"), tmp_path / "hidden"]) is None
    assert read_throttling([]) is None


def test_a_quota_is_reported_as_it_is(tmp_path: Path) -> None:
    """One and a half cores, of the tightest group; None is no quota."""
    assert cpu_quota(tmp_path) is None
    settle_in(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a/b",
            "sys/fs/cgroup/a/cpu.max": "150000 100000",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000",
        },
    )
    assert 1.5 == cpu_quota(tmp_path)


LIMITS: dict[str, tuple[str, dict[str, str], int | None]] = {
    "v2: a group above": ("0::/a/b", {"a/memory.max": "2000", "a/b/memory.max": "max"}, 2000),
    "v2: no limit": ("0::/", {"memory.max": "max"}, None),
    "v1": ("4:memory:/x", {"memory/x/memory.limit_in_bytes": "3000"}, 3000),
    "v1: no limit": ("4:memory:/x\n", {"memory/x/memory.limit_in_bytes": "9223372036854771712"}, None),
    "another controller": ("3:cpu:/x", {"cpu/x/memory.limit_in_bytes": "3000"}, None),
    "not Linux": ("", {}, None),
}


def test_the_tightest_memory_limit_counts(tmp_path: Path) -> None:
    for name, (membership, files, limit) in LIMITS.items():
        named = {f"sys/fs/cgroup/{file}": text for file, text in files.items()}
        root = settle_in(tmp_path / name, {"proc/self/cgroup": membership, **named})
        assert (name, limit) == (name, memory_limit(root))


def test_groups_are_those_of_the_process_and_all_above(tmp_path: Path) -> None:
    settle_in(tmp_path, {"proc/self/cgroup": "0::/a/b"})
    groups = [str(group.relative_to(tmp_path / "sys/fs/cgroup")) for group in control_groups(tmp_path)]
    assert ["a/b", "a", ".", "unified/a/b", "unified/a", "unified"] == groups


CPU = "sys/devices/system/cpu"
NO_TURBO, BOOST = f"{CPU}/intel_pstate/no_turbo", f"{CPU}/cpufreq/boost"
NOTHING = ClockRate(
    governors=(),
    turbo=None,
    turbo_switch="",
    turbo_off="",
    sibling_threads=None,
    clock_rate_hz=None,
    highest_clock_rate_hz=None,
    heat_throttle_count=None,
)


def test_a_laptop_is_read_whole(tmp_path: Path) -> None:
    """The fastest CPU counts; 2 + 0 + 5 throttle events."""
    expected = ClockRate(
        governors=("powersave",),
        turbo=True,
        turbo_switch=f"/{NO_TURBO}",
        turbo_off="1",
        sibling_threads=True,
        clock_rate_hz=3.4e9,
        highest_clock_rate_hz=4.7e9,
        heat_throttle_count=7,
    )
    assert expected == read_clock_rate(settle_in(tmp_path))


def test_what_is_not_shown_is_unknown(tmp_path: Path) -> None:
    """Never 0, off or a guess: neither without a folder, nor in that of a virtual machine, which is bare."""
    assert NOTHING == read_clock_rate(tmp_path)
    (tmp_path / CPU / "cpu0/topology").mkdir(parents=True)
    assert NOTHING == read_clock_rate(tmp_path)


def test_turbo_is_reported_by_either_driver(tmp_path: Path) -> None:
    """One of them says when it is on, the other when it is off."""
    drivers = [(NO_TURBO, "0", True, "1"), (NO_TURBO, "1", False, "1")]
    drivers += [(BOOST, "1", True, "0"), (BOOST, "0", False, "0")]
    for number, (file, text, turbo, off) in enumerate(drivers):
        seen = read_clock_rate(settle_in(tmp_path / str(number), {file: text}))
        assert (turbo, f"/{file}", off) == (seen.turbo, seen.turbo_switch, seen.turbo_off)


def test_different_governors_are_all_named(tmp_path: Path) -> None:
    files = {f"{CPU}/cpu{n}/cpufreq/scaling_governor": name for n, name in enumerate(["schedutil", "performance"])}
    assert ("performance", "schedutil") == read_clock_rate(settle_in(tmp_path, files)).governors


def test_a_driver_that_does_not_know_the_rate_tells_none(tmp_path: Path) -> None:
    settle_in(tmp_path, {f"{CPU}/cpu0/cpufreq/scaling_cur_freq": "<unknown>"})
    assert current_hz(tmp_path) is None


def test_folders_that_are_no_cpu_are_left_out(tmp_path: Path) -> None:
    """`cpufreq` and `cpuidle` lie beside them."""
    settle_in(tmp_path, {f"{CPU}/cpufreq/thermal_throttle/core_throttle_count": "9"})
    assert heat_events(tmp_path) is None


class MacTimes(NamedTuple):
    """What psutil returns on macOS."""

    user: float = 1.0
    nice: float = 2.0
    system: float = 3.0
    idle: float = 4.0


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What psutil tells, which a test replaces."""
    told = SimpleNamespace(PROCFS_PATH="/proc", getloadavg=refuse, cpu_times=refuse, swap_memory=refuse)
    monkeypatch.setitem(sys.modules, "psutil", told)
    return told


def test_what_is_reported_is_read(tmp_path: Path, system: SimpleNamespace) -> None:
    """30 of 1000 ticks were stolen; 1500 kB of 1024 bytes are in use."""
    swapped = swap_memory(total=2_048_000, used=1_536_000)
    spent = cpu_times(user=0.5, system=0.2, idle=9.0, steal=0.3)
    vars(system).update(getloadavg=lambda: (3.5, 1.0, 0.5), cpu_times=lambda: spent, swap_memory=lambda: swapped)
    found = read(settle_in(tmp_path))
    assert found.steal_share == pytest.approx(0.03)
    assert replace(found, steal_share=None) == SystemState(
        load_1min=3.5, steal_share=None, swap_bytes=2_048_000, swap_used_bytes=1_536_000, huge_pages="always"
    )


@pytest.mark.usefixtures("system")
def test_what_is_not_reported_is_unknown(tmp_path: Path) -> None:
    assert read(tmp_path) == SystemState(
        load_1min=None, steal_share=None, swap_bytes=None, swap_used_bytes=None, huge_pages=None
    )


def test_states_are_reported_apart(system: SimpleNamespace) -> None:
    """User, nice, system and both kinds of interrupt are work; guest time is within user time."""
    spent = cpu_times(
        user=1, nice=2, system=3, idle=400, iowait=500, irq=6, softirq=7, steal=800, guest=1, guest_nice=1
    )
    system.cpu_times = lambda: spent
    assert machine_cpu_time() == MachineCpuTime(busy_s=19, stolen_s=800, total_s=1719)


def test_a_system_that_counts_no_steal_has_none(tmp_path: Path, system: SimpleNamespace) -> None:
    """Unknown is not 0: macOS and Windows have no such state."""
    system.cpu_times = MacTimes
    assert machine_cpu_time() == MachineCpuTime(busy_s=6.0, stolen_s=None, total_s=10.0)
    assert read(tmp_path).steal_share is None


def test_psutils_warning_about_pages_it_cannot_count_is_no_error(tmp_path: Path, system: SimpleNamespace) -> None:
    def warned() -> Any:
        warnings.warn("'sin' and 'sout' swap memory stats couldn't be determined", RuntimeWarning, stacklevel=2)
        return swapped

    swapped = type("swapped", (), {"total": 1000, "used": 0})
    system.swap_memory = warned
    assert read(tmp_path).swap_bytes == 1000


def test_this_machine_is_read() -> None:
    """Seconds only grow."""
    once, again, load = machine_cpu_time(), machine_cpu_time(), load_average()
    assert once is not None
    assert again is not None
    assert again.total_s >= once.total_s > 0
    assert load is not None
