"""How often a quota of CPU time has stopped this process's control groups.

Source: cgroup v2 and v1, cpu.stat; Linux, Documentation/scheduler/sched-bwc.rst.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Stops(NamedTuple):
    """Counters of all groups together, since each was made."""

    periods: int  # in which a group had used up its share
    seconds: float  # for which its CPUs then stood still, all of them added up


def stops_of(groups: Iterable[Path]) -> Stops | None:
    """Add up the groups that count stops; None where none does: no quota was ever set, or the system hides it.

    Args:
        groups: folders of the groups that this process belongs to.
    """
    folders = dict.fromkeys(group.resolve() for group in groups)  # `cpu` may be a link to `cpu,cpuacct`
    found = [stops for folder in folders if (stops := _stops(folder)) is not None]
    return Stops(sum(one.periods for one in found), sum(one.seconds for one in found)) if found else None


def _stops(group: Path) -> Stops | None:
    try:
        lines = (group / "cpu.stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    fields = {name: int(count) for name, _, count in (line.partition(" ") for line in lines) if count.isdecimal()}
    if "nr_throttled" not in fields:
        return None
    # Version 2 counts microseconds, version 1 nanoseconds.
    seconds = fields.get("throttled_usec", 0) / 1e6 + fields.get("throttled_time", 0) / 1e9
    return Stops(fields["nr_throttled"], seconds)
