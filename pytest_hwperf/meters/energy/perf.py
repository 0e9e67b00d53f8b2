"""Energy of processor packages and their memory, from the `power` PMU of Linux perf.

The registers are those of RAPL; who may not read powercap may have been given the right to count events.
"""

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_hwperf.core.errors import MeterUnavailable
from pytest_hwperf.meters.energy.counter_check import Check, check_counters, open_checked, processor_meter
from pytest_hwperf.meters.energy.counter_meter import CounterMeter, refusal_warnings
from pytest_hwperf.meters.energy.counters import DescriptorCounters, errno_name
from pytest_hwperf.meters.energy.diagnosis import SystemAccess
from pytest_hwperf.meters.energy.power_pmu import Event, find_events, open_event

_BYTES = 8  # of one count
_PARANOID = "proc/sys/kernel/perf_event_paranoid"
_DENIED = (errno.EACCES, errno.EPERM)
_SECCOMP = " It is: then a container's seccomp profile forbids the call; start it with --cap-add PERFMON."


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The two system calls that read an event; a test replaces them to fail as a kernel does."""

    open: Callable[[int, int, int], int] = open_event  # PMU, event and CPU → descriptor
    read: Callable[[int, int], bytes] = os.read  # descriptor and bytes wanted


SYSTEM = Calls()


def perf_counters(events: Sequence[Event], calls: Calls = SYSTEM) -> DescriptorCounters:
    """Open events, which count from now on."""

    def count(descriptor: int) -> int:
        answer = calls.read(descriptor, _BYTES)
        if len(answer) != _BYTES:  # the kernel's end of file: the event is in error
            raise ValueError(f"{len(answer)} bytes, and a count has {_BYTES}")
        return int.from_bytes(answer, "little")

    return DescriptorCounters(
        {event.register: partial(calls.open, event.kind, event.config, event.cpu) for event in events}, count
    )


def perf_meter(
    _environ: Mapping[str, str],
    *,
    refused: tuple[str, ...] = (),
    access: SystemAccess | None = None,
    calls: Calls = SYSTEM,
    check: Check = check_counters,
) -> CounterMeter:
    """Open the energy events of this machine's packages and of the memory attached to them.

    Args:
        refused: why better sources are not used; shown with every figure.
        access: to the machine, this one where None.
        calls: system calls to open and read with.
        check: of the opened counters.

    Raises:
        MeterUnavailable: there are no events or they may not be counted; says why and what to do.
    """
    access = access or SystemAccess()
    if reason := _why_not_here(access):
        raise MeterUnavailable(reason)
    events = find_events(access.root)
    if not events:
        raise MeterUnavailable(_why_no_pmu(access))
    opened = partial(perf_counters, calls=calls)
    try:
        counters, seen, faults = open_checked(events, opened, check, ids_of=lambda event: (event.register.id,))
    except OSError as error:
        raise MeterUnavailable(_why_refused(error, access)) from error
    warnings = [*refusal_warnings(refused), *faults]
    return processor_meter("perf", counters, seen, flags=access.flags, warnings=warnings)


def _why_not_here(access: SystemAccess) -> str:
    if access.system != "Linux":
        return f"The power PMU is a part of Linux, this is {access.system}."
    if access.architecture.lower() not in ("x86_64", "amd64"):
        return f"The power PMU is read on x86-64 only, this processor is {access.architecture}."
    return ""


def _why_no_pmu(access: SystemAccess) -> str:
    if "hypervisor" in access.flags:
        return (
            "The hypervisor of this virtual machine hides the power PMU, and nothing inside the guest can switch it "
            "on. Measure on bare metal."
        )
    return (
        "This kernel offers no power PMU. Load its driver: sudo modprobe rapl (kernels before 5.8: intel_rapl_perf; "
        "AMD from Linux 5.8 on)."
    )


def _why_refused(error: OSError, access: SystemAccess) -> str:
    if error.errno not in _DENIED:
        return f"The power PMU answers {errno_name(error)} when it is opened."
    text = "The power PMU needs CAP_PERFMON or kernel.perf_event_paranoid <= 0 (now {}).{}"
    try:
        paranoid = Path(access.root, _PARANOID).read_text(encoding="ascii").strip()
    except OSError as unreadable:
        return text.format(f"not readable: {unreadable.strerror}", "")
    granted = paranoid.lstrip("-").isdecimal() and int(paranoid) <= 0
    return text.format(paranoid, _SECCOMP if granted else "")
