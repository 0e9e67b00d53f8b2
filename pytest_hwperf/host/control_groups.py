"""Linux control groups of this process: their limits, and how often a quota of CPU time has throttled them.

Source: cgroups(7); cgroup v2 and v1; Linux, Documentation/scheduler/sched-bwc.rst.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pytest_hwperf.host.files import read_text

_NO_LIMIT = 2**60  # bytes; version 1 writes the largest number of whole pages


class Throttling(NamedTuple):
    """Counters of all groups together, since each was made."""

    periods: int  # in which a group had used up its quota
    seconds: float  # for which its CPUs then stood still, added up over CPUs


def control_groups(root: str | Path = "/", controller: str = "cpu") -> Iterator[Path]:
    """Yield the folders of the process's control groups and of all their parents, whether or not they exist.

    Version 1 mounts each controller in a folder of its own.
    """
    mounts = Path(root) / "sys/fs/cgroup"
    for line in read_text(Path(root) / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        places = [mounts / controllers, mounts / controller] if controllers else [mounts, mounts / "unified"]
        # In a container the path may be the host's: then only the top exists, and it is the container's own group.
        inner = Path(group.lstrip("/"))
        for place in dict.fromkeys(places):
            for folder in (inner, *inner.parents):
                yield place / folder


def cpu_quota(root: str | Path = "/") -> float | None:
    """Return the CPU time that the tightest control group grants, in cores; None where none has a limit.

    Source: cgroup v2 cpu.max, cgroup v1 cpu.cfs_quota_us and cpu.cfs_period_us.
    """
    return min((quota for group in control_groups(root) for quota in _quotas(group)), default=None)


def memory_limit(root: str | Path = "/") -> int | None:
    """Return the bytes that the tightest control group grants; None where none has a limit.

    Source: cgroup v2 memory.max, cgroup v1 memory.limit_in_bytes, which has a number near 2^63 for no limit.
    """
    texts = (
        read_text(group / name)
        for group in control_groups(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
    )
    return min((int(text) for text in texts if text.isdecimal() and int(text) < _NO_LIMIT), default=None)


def read_throttling(groups: Iterable[Path]) -> Throttling | None:
    """Add up the throttling of `groups`; None where none counts it: no quota was ever set, or the system hides it."""
    folders = dict.fromkeys(group.resolve() for group in groups)  # `cpu` may be a link to `cpu,cpuacct`
    found = [one for folder in folders if (one := _throttling(folder)) is not None]
    return Throttling(sum(one.periods for one in found), sum(one.seconds for one in found)) if found else None


def _quotas(group: Path) -> Iterator[float]:
    """Yield the cores that one control group grants, nothing where it has no limit (`max`, or -1 in version 1)."""
    words = read_text(group / "cpu.max").split()
    if not words:  # version 1 keeps the two numbers in two files
        words = [read_text(group / name) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    if all(word.isdecimal() and int(word) for word in words):
        quota, period = map(int, words)
        yield quota / period


def _throttling(group: Path) -> Throttling | None:
    lines = read_text(group / "cpu.stat").splitlines()
    fields = {name: int(count) for name, _, count in (line.partition(" ") for line in lines) if count.isdecimal()}
    if "nr_throttled" not in fields:
        return None
    # Version 2 counts microseconds, version 1 nanoseconds.
    seconds = fields.get("throttled_usec", 0) / 1e6 + fields.get("throttled_time", 0) / 1e9
    return Throttling(fields["nr_throttled"], seconds)
