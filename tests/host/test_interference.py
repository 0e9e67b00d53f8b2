"""What is noted of a measurement's surroundings, and what is warned of."""

from pathlib import Path
from typing import Any

import pytest
from fakes.hosts import settle_in

from pytest_hwperf.host.disturbance import Interference, MachineCpuTime, Snapshot, Throttling, snapshot

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


@pytest.mark.parametrize("name", CASES)
def test_what_happened_between_two_snapshots_is_noted_and_much_of_it_is_warned_of(name: str) -> None:
    before, after, noted, warned = CASES[name]
    context, warnings = watch(before, after)
    assert NOTED | noted == context
    assert ((warned,) if warned else ()) == warnings


@pytest.mark.parametrize("cpu", [MachineCpuTime(20.0, None, 104.0), None])
def test_what_the_system_does_not_tell_has_no_entry(cpu: MachineCpuTime | None) -> None:
    """Unknown is not 0 %."""
    assert ({"involuntary_switches": "4"}, ()) == watch({}, {"cpu": cpu, "load": None})


def test_a_machine_that_shows_everything_is_read(tmp_path: Path) -> None:
    root = settle_in(tmp_path)
    read = snapshot(root, [root / "sys/fs/cgroup/jobs/one", root / "sys/fs/cgroup/jobs"])
    assert (Throttling(7, 0.25), 7, 3.4e9) == (read.throttling, read.heat, read.hz)


def test_this_machine_can_be_watched() -> None:
    context, _ = Interference().end()
    assert int(context["involuntary_switches"]) >= 0
