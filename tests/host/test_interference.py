"""What is noted of a measurement's surroundings, and what is warned of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakes.hosts import settle_in

from pytest_hwperf.host.disturbance import Interference, MachineCpuTime, Snapshot, Throttling, snapshot

QUIET = Snapshot(switches=10, cpu=MachineCpuTime(20.0, 1.0, 100.0), load=0.5, wall_s=50.0)
_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Case:
    """A second snapshot, `_SECONDS` after the quiet one."""

    switches: int = 14
    stolen_s: float | None = 1.0
    total_s: float | None = 104.0  # None: no CPU time is reported
    load: float | None = 0.5
    seconds: float = _SECONDS

    def reader(self) -> Callable[[], Snapshot]:
        cpu = None if self.total_s is None else MachineCpuTime(20.0, self.stolen_s, self.total_s)
        after = Snapshot(switches=self.switches, cpu=cpu, load=self.load, wall_s=QUIET.wall_s + self.seconds)
        return iter([QUIET, after]).__next__


def worded(watch: Interference) -> tuple[dict[str, str], tuple[str, ...]]:
    context, warnings = watch.end()
    return context, tuple(map(str, warnings))


def watch(case: Case) -> tuple[dict[str, str], tuple[str, ...]]:
    return worded(Interference(case.reader(), cores=2))


def test_a_quiet_machine_is_noted_without_a_warning() -> None:
    """4 switches; none of 4 s stolen."""
    assert ({"involuntary_switches": "4", "load_1min": "0.50", "steal": "0.0%"}, ()) == watch(Case())


def test_a_host_that_took_time_is_warned_of() -> None:
    """0.2 of 4 s are 5 %."""
    context, warnings = watch(Case(stolen_s=1.2))
    assert "5.0%" == context["steal"]
    assert ("the host took 5 % of the CPU time for others (steal)",) == warnings


def test_preemption_is_warned_of() -> None:
    """400 switches in 2 s."""
    assert ("preempted 200 times a second: other work wanted the same cores",) == watch(Case(switches=410))[1]


def test_load_is_warned_of_by_the_cores_there_are() -> None:
    """1.5 running processes per core are the limit: 3 on these 2."""
    assert () == watch(Case(load=3.0))[1]
    assert ("load 3.1 on 2 cores: other work disturbed the timings",) == watch(Case(load=3.1))[1]


@pytest.mark.parametrize("case", [Case(stolen_s=None), Case(total_s=None)])
def test_a_system_that_tells_no_steal_has_no_entry(case: Case) -> None:
    """Unknown is not 0 %."""
    assert ({"involuntary_switches": "4", "load_1min": "0.50"}, ()) == watch(case)


def test_a_system_that_tells_no_load_has_no_entry() -> None:
    assert "load_1min" not in watch(Case(load=None))[0]


def test_a_measurement_of_no_length_divides_by_nothing() -> None:
    """Neither CPU time nor wall time has passed."""
    context, warnings = watch(Case(total_s=100.0, seconds=0.0))
    assert ("0.0%", ()) == (context["steal"], warnings)


def held_back(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Watch a machine whose processor or quota did something, and that was quiet otherwise."""
    moments = [QUIET._replace(**before), QUIET._replace(wall_s=QUIET.wall_s + _SECONDS, **after)]
    return worded(Interference(iter(moments).__next__, cores=2))


def test_a_quota_that_stopped_the_process_is_warned_of() -> None:
    """Three periods and 0.12 s since the first snapshot."""
    context, warnings = held_back({"throttling": Throttling(7, 0.25)}, {"throttling": Throttling(10, 0.37)})
    assert "3" == context["quota_stops"]
    assert (
        (
            "the CPU quota of the control group stopped its processes in 3 periods, 120 ms of CPU time in all: use "
            "fewer threads, or raise the quota"
        ),
    ) == warnings


def test_earlier_throttling_does_not_matter() -> None:
    context, warnings = held_back({"throttling": Throttling(7, 0.25)}, {"throttling": Throttling(7, 0.25)})
    assert ("0", ()) == (context["quota_stops"], warnings)


def test_heat_is_warned_of_when_its_counters_rise() -> None:
    context, warnings = held_back({"heat": 7}, {"heat": 9})
    assert "2" == context["heat_throttles"]
    assert ("thermal throttling: its counters rose by 2",) == warnings
    assert () == held_back({"heat": 7}, {"heat": 7})[1]


def test_a_falling_clock_rate_is_warned_of() -> None:
    """By more than a tenth."""
    context, warnings = held_back({"hz": 3.4e9}, {"hz": 2.9e9})
    assert "3.40 .. 2.90 GHz" == context["clock_rate"]
    assert ("the clock rate fell from 3.40 to 2.90 GHz during the measurement",) == warnings
    assert () == held_back({"hz": 3.4e9}, {"hz": 3.1e9})[1]


def test_a_processor_that_woke_up_is_only_noted() -> None:
    context, warnings = held_back({"hz": 0.8e9}, {"hz": 3.4e9})
    assert ("0.80 .. 3.40 GHz", ()) == (context["clock_rate"], warnings)


@pytest.mark.parametrize("known", ["before", "after"])
def test_what_is_reported_at_one_end_only_is_not_noted(known: str) -> None:
    """A group or a CPU may come or go."""
    reported = {"throttling": Throttling(1, 0.1), "heat": 1, "hz": 1e9}
    context, warnings = held_back(reported if known == "before" else {}, reported if known == "after" else {})
    assert {"involuntary_switches", "load_1min", "steal"} == context.keys()
    assert () == warnings


def test_a_machine_that_shows_everything_is_read(tmp_path: Path) -> None:
    root = settle_in(tmp_path)
    read = snapshot(root, [root / "sys/fs/cgroup/jobs/one", root / "sys/fs/cgroup/jobs"])
    assert (Throttling(7, 0.25), 7, 3.4e9) == (read.throttling, read.heat, read.hz)


def test_this_machine_can_be_watched() -> None:
    context, _ = Interference().end()
    assert int(context["involuntary_switches"]) >= 0
