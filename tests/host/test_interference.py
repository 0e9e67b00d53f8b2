"""What is noted of a measurement's session_state, and what is warned of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakes.hosts import settle_in

from pytest_hwperf.host.interference import Interference, Snapshot, snapshot
from pytest_hwperf.host.throttling import Stops

QUIET = Snapshot(switches=10, steal=100, total=10_000, load=0.5, wall_s=50.0)
_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Case:
    """A second snapshot, `_SECONDS` after the quiet one."""

    switches: int = 14
    steal: int | None = 100
    total: int | None = 10_400
    load: float | None = 0.5
    seconds: float = _SECONDS

    def reader(self) -> Callable[[], Snapshot]:
        after = Snapshot(
            switches=self.switches,
            steal=self.steal,
            total=self.total,
            load=self.load,
            wall_s=QUIET.wall_s + self.seconds,
        )
        return iter([QUIET, after]).__next__


def worded(watch: Interference) -> tuple[dict[str, str], tuple[str, ...]]:
    context, warnings = watch.end()
    return context, tuple(map(str, warnings))


def watch(case: Case) -> tuple[dict[str, str], tuple[str, ...]]:
    return worded(Interference(case.reader(), cores=2))


def test_a_quiet_machine_is_noted_without_a_warning() -> None:
    """4 switches; none of 400 ticks stolen."""
    assert ({"involuntary_switches": "4", "load_1min": "0.50", "steal": "0.0%"}, ()) == watch(Case())


def test_a_host_that_took_time_is_warned_of() -> None:
    """20 of 400 ticks are 5 %."""
    context, warnings = watch(Case(steal=120))

    assert "5.0%" == context["steal"]
    assert ("the host took 5% of the CPU time for others (steal)",) == warnings


def test_preemption_is_warned_of() -> None:
    """400 switches in 2 s."""
    assert ("preempted 200 times a second: other work wanted the same cores",) == watch(Case(switches=410))[1]


def test_load_is_warned_of_by_the_cores_there_are() -> None:
    """1.5 running processes per core are the limit: 3 on these 2."""
    assert () == watch(Case(load=3.0))[1]
    assert ("load 3.1 on 2 cores: other work disturbed the timings",) == watch(Case(load=3.1))[1]


@pytest.mark.parametrize("case", [Case(steal=None), Case(total=None)])
def test_a_system_that_tells_no_steal_has_no_entry(case: Case) -> None:
    """Unknown is not 0 %."""
    assert ({"involuntary_switches": "4", "load_1min": "0.50"}, ()) == watch(case)


def test_a_system_that_tells_no_load_has_no_entry() -> None:
    assert "load_1min" not in watch(Case(load=None))[0]


def test_a_measurement_of_no_length_divides_by_nothing() -> None:
    """No tick and no second has passed."""
    context, warnings = watch(Case(total=10_000, seconds=0.0))

    assert ("0.0%", ()) == (context["steal"], warnings)


def test_ticks_are_read_by_their_place(tmp_path: Path) -> None:
    """User, nice, system, idle, iowait, irq, softirq, steal make 36; guest ticks are within user's."""
    read = snapshot(settle_in(tmp_path, {"proc/stat": "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1"}))

    assert (8, 36) == (read.steal, read.total)


@pytest.mark.parametrize("text", [None, "cpu  1 2 3 4\n", ""])
def test_a_stat_that_is_absent_or_old_tells_no_ticks(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        settle_in(tmp_path, {"proc/stat": text})
    read = snapshot(tmp_path)

    assert (None, None) == (read.steal, read.total)


def held_back(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Watch a machine whose processor or quota did something, and that was quiet otherwise."""
    moments = [QUIET._replace(**before), QUIET._replace(wall_s=QUIET.wall_s + _SECONDS, **after)]
    return worded(Interference(iter(moments).__next__, cores=2))


def test_a_quota_that_stopped_the_process_is_warned_of() -> None:
    """Three periods and 0.12 s since the first snapshot."""
    context, warnings = held_back({"stops": Stops(7, 0.25)}, {"stops": Stops(10, 0.37)})

    assert "3" == context["quota_stops"]
    assert (
        (
            "the control group's quota of CPU time stopped its processes in 3 periods, 120 ms of CPU time in all: use "
            "fewer threads, or raise the quota"
        ),
    ) == warnings


def test_stops_of_earlier_are_no_matter() -> None:
    context, warnings = held_back({"stops": Stops(7, 0.25)}, {"stops": Stops(7, 0.25)})

    assert ("0", ()) == (context["quota_stops"], warnings)


def test_heat_is_warned_of_when_its_counters_rise() -> None:
    context, warnings = held_back({"throttles": 7}, {"throttles": 9})

    assert "2" == context["heat_throttles"]
    assert ("the processor was slowed down for heat or power: its counters rose by 2",) == warnings
    assert () == held_back({"throttles": 7}, {"throttles": 7})[1]


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
def test_what_is_told_at_one_end_only_is_not_noted(known: str) -> None:
    """A group or a CPU may come or go."""
    told = {"stops": Stops(1, 0.1), "throttles": 1, "hz": 1e9}
    context, warnings = held_back(told if known == "before" else {}, told if known == "after" else {})

    assert {"involuntary_switches", "load_1min", "steal"} == context.keys()
    assert () == warnings


def test_a_machine_that_shows_everything_is_read(tmp_path: Path) -> None:
    root = settle_in(tmp_path)
    read = snapshot(root, [root / "sys/fs/cgroup/jobs/one", root / "sys/fs/cgroup/jobs"])

    assert (Stops(7, 0.25), 7, 3.4e9) == (read.stops, read.throttles, read.hz)


def test_this_machine_can_be_watched() -> None:
    context, _ = Interference().end()

    assert int(context["involuntary_switches"]) >= 0
