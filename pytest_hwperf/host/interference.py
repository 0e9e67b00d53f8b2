"""What disturbed a measurement: others' work, a quota, heat. It explains noise and corrects nothing."""

import os
import resource
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from pytest_hwperf.core.statements import Statement, state
from pytest_hwperf.host.clock_rate import current_hz, throttle_events
from pytest_hwperf.host.throttling import Stops, stops_of

_STEAL = 8  # position in the `cpu` line of /proc/stat, counted from the word `cpu`: see proc(5)
_HIGH_STEAL = 0.02  # share of all CPU time that the host gave to others
_HIGH_LOAD = 1.5  # running processes per core
_SWITCHES_PER_S = 50.0  # involuntary; one busy thread on 2 cores: 5 alone, 120 beside three busy neighbours
_RATE_LOSS = 0.10  # of the clock rate, from before to after; a rise may be that of a processor waking up
_GIGA = 1e9


class Snapshot(NamedTuple):
    """Counters at one moment."""

    switches: int  # involuntary context switches of the measuring thread
    steal: int | None  # ticks, None where the kernel tells none
    total: int | None  # ticks of all states and CPUs
    load: float | None  # mean of running processes over the last minute
    wall_s: float
    stops: Stops | None = None  # by a quota of CPU time, None where no group counts them
    throttles: int | None = None  # counts of all CPUs that were slowed down for heat
    hz: float | None = None  # of the CPU that ran fastest at this moment


class Interference:
    """Compares two snapshots around a measurement."""

    def __init__(self, read: Callable[[], Snapshot] | None = None, cores: int | None = None) -> None:
        """Take the first snapshot now, by `read` of this machine unless another is given."""
        self._read = read or snapshot
        self._cores = cores or os.cpu_count() or 1
        self._before = self._read()

    def end(self) -> tuple[dict[str, str], tuple[Statement, ...]]:
        """Take the second snapshot; return what to note in a run's context, and warnings where it was much."""
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
        steal = _steal(before, after)
        if steal is not None:
            context["steal"] = f"{steal:.1%}"
            if steal > _HIGH_STEAL:
                warnings.append(state("steal", share=steal))
        noted, warned = _held_back(before, after)
        return {**context, **noted}, (*warnings, *warned)


def snapshot(root: str | Path = "/", groups: Iterable[Path] = ()) -> Snapshot:
    """Read this machine's counters; what the system does not tell is None.

    Args:
        root: above proc and sys.
        groups: folders of the control groups that this process belongs to, whose quotas may stop it.
    """
    steal, total = ticks(Path(root, "proc/stat"))
    return Snapshot(
        switches=resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)).ru_nivcsw,
        steal=steal,
        total=total,
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        wall_s=monotonic(),
        stops=stops_of(groups),
        throttles=throttle_events(root),
        hz=current_hz(root),
    )


def _held_back(before: Snapshot, after: Snapshot) -> tuple[dict[str, str], list[Statement]]:
    """Return what slowed the processor or stopped this process, as context and warnings."""
    context, warnings = dict[str, str](), list[Statement]()
    if before.stops is not None and after.stops is not None:
        periods, seconds = after.stops.periods - before.stops.periods, after.stops.seconds - before.stops.seconds
        context["quota_stops"] = str(periods)
        if periods > 0:
            warnings.append(state("quota", periods=periods, seconds=seconds))
    if before.throttles is not None and after.throttles is not None:
        rises = after.throttles - before.throttles
        context["heat_throttles"] = str(rises)
        if rises > 0:
            warnings.append(state("heat", rises=rises))
    if before.hz and after.hz:
        context["clock_rate"] = f"{before.hz / _GIGA:.2f} .. {after.hz / _GIGA:.2f} GHz"
        if after.hz < before.hz * (1 - _RATE_LOSS):
            warnings.append(state("clock rate", before=before.hz / _GIGA, after=after.hz / _GIGA))
    return context, warnings


def _steal(before: Snapshot, after: Snapshot) -> float | None:
    if before.steal is None or after.steal is None or before.total is None or after.total is None:
        return None
    ticks = after.total - before.total
    return (after.steal - before.steal) / ticks if ticks > 0 else 0.0


def ticks(stat: Path) -> tuple[int | None, int | None]:
    """Return the ticks stolen and of all states, by the first line of /proc/stat; None where it tells none."""
    try:
        words = stat.read_text(encoding="ascii").partition("\n")[0].split()
    except OSError:  # no Linux: the context simply has no entry, which is what None says
        return None, None
    counts = [int(word) for word in words[1 : _STEAL + 1]]  # guest ticks are part of user ticks already
    return (counts[_STEAL - 1], sum(counts)) if len(counts) == _STEAL else (None, None)
