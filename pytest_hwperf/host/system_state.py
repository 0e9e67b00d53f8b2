"""The state of the whole system that timings and memory depend on: load, CPU time, swap and huge pages."""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pytest_hwperf.host.files import read_text

# Idle, waiting for disks, and what a hypervisor took are not work; guest time is a part of user time already.
_BUSY = ("user", "nice", "system", "irq", "softirq", "interrupt", "dpc")
_GUEST = ("guest", "guest_nice")
_CHOSEN = re.compile(r"\[(\w+)\]")


class MachineCpuTime(NamedTuple):
    """Seconds of all CPUs since the system started, in steps of 10 ms."""

    busy_s: float
    stolen_s: float | None  # that the host of a virtual machine gave to others; None where it is not counted
    total_s: float  # of all states


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemState:
    """What the system reports; None where it does not."""

    load_1min: float | None  # running processes, mean of the last minute, of the whole machine
    steal_share: float | None  # of all CPU time since the start that the host gave to others
    swap_bytes: int | None  # of swap
    swap_used_bytes: int | None
    huge_pages: str | None  # transparent ones: "always", "madvise" or "never"


def _psutil(name: str) -> Any:
    """Call a function of psutil."""
    import psutil

    return getattr(psutil, name)()


_LOAD: Callable[[], tuple[float, ...]] = partial(_psutil, "getloadavg")
_CPU_TIMES: Callable[[], Any] = partial(_psutil, "cpu_times")
_SWAP: Callable[[], Any] = partial(_psutil, "swap_memory")


def machine_cpu_time(read: Callable[[], Any] = _CPU_TIMES) -> MachineCpuTime | None:
    """Return the CPU time of the whole machine, None where the system does not report it."""
    try:
        seconds = read()._asdict()
    except OSError:
        return None
    return MachineCpuTime(
        busy_s=sum(seconds.get(state, 0.0) for state in _BUSY),
        stolen_s=seconds.get("steal"),
        total_s=sum(spent for state, spent in seconds.items() if state not in _GUEST),
    )


def busy_cpu_seconds() -> float | None:
    """Return the seconds that all CPUs have worked, None where the system does not report them."""
    spent = machine_cpu_time()
    return None if spent is None else spent.busy_s


def load_average(read: Callable[[], tuple[float, ...]] = _LOAD) -> float | None:
    """Return the mean number of running processes over the last minute, None where the system does not report it."""
    try:
        return read()[0]
    except OSError:
        return None


def read_system_state(
    root: str | Path = "/",
    *,
    load: Callable[[], tuple[float, ...]] = _LOAD,
    cpu_times: Callable[[], Any] = _CPU_TIMES,
    swap: Callable[[], Any] = _SWAP,
) -> SystemState:
    """Return the present state; nothing is waited for. `root` is the parent of /sys, the others are psutil's functions.

    Source: Linux, Documentation/admin-guide/mm/transhuge.rst.
    """
    spent = machine_cpu_time(cpu_times)
    total, used = _swap(swap)
    chosen = _CHOSEN.search(read_text(Path(root, "sys/kernel/mm/transparent_hugepage/enabled")))
    return SystemState(
        load_1min=load_average(load),
        steal_share=spent.stolen_s / spent.total_s if spent and spent.stolen_s is not None and spent.total_s else None,
        swap_bytes=total,
        swap_used_bytes=used,
        huge_pages=chosen[1] if chosen else None,
    )


def _swap(read: Callable[[], Any]) -> tuple[int | None, int | None]:
    try:
        with warnings.catch_warnings(action="ignore"):  # of psutil, that pages swapped in and out are not counted here
            swap = read()
    except OSError:
        return None, None
    return swap.total, swap.used
