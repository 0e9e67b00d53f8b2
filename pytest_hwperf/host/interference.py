"""What disturbed a measurement: other processes, a quota, heat. It explains noise and corrects nothing."""

import os
import resource
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from pytest_hwperf.core.statements import Statement, state
from pytest_hwperf.host.clock_rate import current_hz, heat_events
from pytest_hwperf.host.control_groups import Throttling, read_throttling
from pytest_hwperf.host.system_state import MachineCpuTime, load_average, machine_cpu_time

_HIGH_STEAL = 0.02  # share of all CPU time that the host gave to others
_HIGH_LOAD = 1.5  # running processes per core
_SWITCHES_PER_S = 50.0  # involuntary; one busy thread on 2 cores: 5 alone, 120 with three busy neighbours
_RATE_LOSS = 0.10  # of the clock rate, from before to after; a rise may be that of a processor waking up
_GIGA = 1e9


class Snapshot(NamedTuple):
    """Counters at one moment; None where the system does not report them."""

    switches: int  # involuntary context switches of the measuring thread
    cpu: MachineCpuTime | None
    load: float | None  # mean of running processes over the last minute
    wall_s: float
    throttling: Throttling | None = None  # by a quota of CPU time
    heat: int | None = None  # events of all CPUs that were slowed down for heat
    hz: float | None = None  # of the CPU that ran fastest at this moment


class Interference:
    """Compares two snapshots, taken before and after a measurement."""

    def __init__(self, read: Callable[[], Snapshot] | None = None, cores: int | None = None) -> None:
        """Take the first snapshot now, by `read`, or of this machine where it is None."""
        self._read = read or snapshot
        self._cores = cores or os.cpu_count() or 1
        self._before = self._read()

    def end(self) -> tuple[dict[str, str], tuple[Statement, ...]]:
        """Take the second snapshot; return entries for the run's context, and warnings about what was much."""
        before, after = self._before, self._read()
        seconds = after.wall_s - before.wall_s
        switches = after.switches - before.switches
        context, warnings = {"involuntary_switches": str(switches)}, list[Statement]()
        if seconds > 0 and switches / seconds > _SWITCHES_PER_S:
            warnings.append(state("preempted", times=switches / seconds))
        if after.load is not None:
            context["load_1min"] = f"{after.load:.2f}"
            if after.load > _HIGH_LOAD * self._cores:
                warnings.append(state("load", load=after.load, cores=self._cores))
        steal = _steal(before.cpu, after.cpu)
        if steal is not None:
            context["steal"] = f"{steal:.1%}"
            if steal > _HIGH_STEAL:
                warnings.append(state("steal", share=steal))
        slowed, more = _slowed(before, after)
        return {**context, **slowed}, (*warnings, *more)


def snapshot(root: str | Path = "/", groups: Iterable[Path] = ()) -> Snapshot:
    """Read this machine's counters; `groups` are this process's control groups, whose quotas may throttle it."""
    return Snapshot(
        switches=resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)).ru_nivcsw,
        cpu=machine_cpu_time(),
        load=load_average(),
        wall_s=monotonic(),
        throttling=read_throttling(groups),
        heat=heat_events(root),
        hz=current_hz(root),
    )


def _slowed(before: Snapshot, after: Snapshot) -> tuple[dict[str, str], list[Statement]]:
    """Return what slowed the processor or this process, as context and warnings."""
    context, warnings = dict[str, str](), list[Statement]()
    if before.throttling is not None and after.throttling is not None:
        periods = after.throttling.periods - before.throttling.periods
        seconds = after.throttling.seconds - before.throttling.seconds
        context["quota_stops"] = str(periods)
        if periods > 0:
            warnings.append(state("quota", periods=periods, seconds=seconds))
    if before.heat is not None and after.heat is not None:
        rises = after.heat - before.heat
        context["heat_throttles"] = str(rises)
        if rises > 0:
            warnings.append(state("heat", rises=rises))
    if before.hz and after.hz:
        context["clock_rate"] = f"{before.hz / _GIGA:.2f} .. {after.hz / _GIGA:.2f} GHz"
        if after.hz < before.hz * (1 - _RATE_LOSS):
            warnings.append(state("clock rate", before=before.hz / _GIGA, after=after.hz / _GIGA))
    return context, warnings


def _steal(before: MachineCpuTime | None, after: MachineCpuTime | None) -> float | None:
    if before is None or after is None or before.stolen_s is None or after.stolen_s is None:
        return None
    total_s = after.total_s - before.total_s
    return (after.stolen_s - before.stolen_s) / total_s if total_s > 0 else 0.0
