"""Energy of processor packages and their memory, from the `power` PMU of Linux perf.

The registers are those of RAPL; who may not read powercap may have been given the right to count events.
"""

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf.core.errors import MeasurementError, MeterUnavailable
from pytest_hwperf.core.units import show
from pytest_hwperf.meters.energy.counter import CounterMeter, Traits
from pytest_hwperf.meters.energy.counter_ticks import Calibration, calibrate, package_window
from pytest_hwperf.meters.energy.diagnosis import Host
from pytest_hwperf.meters.energy.perf_event import open_event
from pytest_hwperf.meters.energy.power_pmu import Event, find_events
from pytest_hwperf.meters.energy.registers import Counters, Register
from pytest_hwperf.meters.energy.share import Share

Calibrate = Callable[[Counters], Calibration]

_BYTES = 8  # of one count
_PARANOID = "proc/sys/kernel/perf_event_paranoid"
_DENIED = (errno.EACCES, errno.EPERM)
_SECCOMP = " It is: then a container's seccomp profile forbids the call; start it with --cap-add PERFMON."


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The two system calls that read an event, so that a test can let them fail as a kernel does."""

    open: Callable[[int, int, int], int] = open_event  # PMU, event and CPU → descriptor
    read: Callable[[int, int], bytes] = os.read  # descriptor and bytes wanted


SYSTEM = Calls()


class PerfCounters:
    """Opened events, read one after the other.

    Args:
        events: those to add up, as `find_events` returns them.
        calls: system calls to open and read with.

    Raises:
        OSError: one of them cannot be opened; the others are closed again.
    """

    def __init__(self, events: Sequence[Event], calls: Calls = SYSTEM) -> None:
        self.registers = tuple(event.register for event in events)
        self._read = calls.read
        self._descriptors: list[int] = []
        with ExitStack() as opened:
            for event in events:
                descriptor = calls.open(event.kind, event.config, event.cpu)
                opened.callback(os.close, descriptor)
                self._descriptors.append(descriptor)
            self._opened = opened.pop_all()

    def read(self) -> tuple[int, ...]:
        """Return the counts of every event since it was opened.

        Raises:
            MeasurementError: one of them answers an error or no count.
        """
        counts = []
        for register, descriptor in zip(self.registers, self._descriptors, strict=True):
            try:
                answer = self._read(descriptor, _BYTES)
            except OSError as error:
                raise MeasurementError(f"{register} answers {_named(error)}") from error
            if len(answer) != _BYTES:  # the kernel's end of file: the event is in error
                raise MeasurementError(f"{register} answers {len(answer)} bytes, and a count has {_BYTES}")
            counts.append(int.from_bytes(answer, "little"))
        return tuple(counts)

    def close(self) -> None:
        """Close the events; closing twice does nothing."""
        self._opened.close()


def perf_meter(
    _environ: Mapping[str, str],
    *,
    refused: tuple[str, ...] = (),
    host: Host | None = None,
    calls: Calls = SYSTEM,
    calibrated: Calibrate = calibrate,
) -> CounterMeter:
    """Open the energy events of this machine's packages and of the memory beside them.

    Args:
        refused: why better sources are not used; shown with every figure.
        host: the machine to look at, this one where None.
        calls: system calls to open and read with.
        calibrated: watches opened counters.

    Raises:
        MeterUnavailable: there are no events or they may not be counted; says why and what to do.
    """
    host = host or Host()
    if reason := _why_not_here(host):
        raise MeterUnavailable(reason)
    events = find_events(host.root)
    if not events:
        raise MeterUnavailable(_why_no_pmu(host))
    warnings = [f"better source refused: {reason.splitlines()[0]}" for reason in refused]
    counters, seen, left_out = _believable(events, lambda some: _opened(some, host, calls), calibrated)
    try:
        shortest_s, noisy = package_window(seen.tick_s, host.flags)
    except MeterUnavailable:
        counters.close()
        raise
    traits = Traits(
        kind="perf",
        tick_s=seen.tick_s,
        spins=seen.spins,
        shortest_window_s=shortest_s,
        warnings=(*warnings, *noisy, *left_out),
    )
    return CounterMeter(counters, traits, share=Share())


def _believable(
    events: Sequence[Event], opened: Callable[[Sequence[Event]], PerfCounters], calibrated: Calibrate
) -> tuple[PerfCounters, Calibration, tuple[str, ...]]:
    """Watch the events for a moment; open again without those that tell nonsense, and say why they are left out."""
    counters = opened(events)
    seen = _watched(counters, calibrated)
    odd = _odd(seen)
    if not odd:
        return counters, seen, ()
    counters.close()
    left = [event for event in events if event.register not in odd]
    if not any(event.register.restless for event in left):
        raise MeterUnavailable(f"{' '.join(odd.values())} Nothing is left to read.")
    counters = opened(left)
    return counters, _watched(counters, calibrated), tuple(odd.values())


def _opened(events: Sequence[Event], host: Host, calls: Calls) -> PerfCounters:
    try:
        return PerfCounters(events, calls)
    except OSError as error:
        raise MeterUnavailable(_why_refused(error, host)) from error


def _watched(counters: PerfCounters, calibrated: Calibrate) -> Calibration:
    try:
        return calibrated(counters)
    except MeasurementError as error:
        counters.close()
        raise MeterUnavailable(f"The power PMU could be opened and not be read: {error}.") from error


def _odd(seen: Calibration) -> dict[Register, str]:
    """Return the registers that tell nonsense, each with why it is left out."""
    moved = show(seen.seconds, "s")
    return {register: f"{register} did not move in {moved}, so the event is left out." for register in seen.stuck} | {
        register: f"{register} reads {watts:.0f} W, which nothing draws, so the event is left out."
        for register, watts in seen.absurd
    }


def _why_not_here(host: Host) -> str:
    if host.system != "Linux":
        return f"The power PMU is a part of Linux, this is {host.system}."
    if host.architecture.lower() not in ("x86_64", "amd64"):
        return f"The power PMU is read on x86-64 only, this processor is {host.architecture}."
    return ""


def _why_no_pmu(host: Host) -> str:
    if "hypervisor" in host.flags:
        return (
            "The hypervisor of this virtual machine hides the power PMU, and nothing inside the guest can switch it "
            "on. Measure on bare metal."
        )
    return (
        "This kernel offers no power PMU. Load its driver: sudo modprobe rapl (kernels before 5.8: intel_rapl_perf; "
        "AMD from Linux 5.8 on)."
    )


def _why_refused(error: OSError, host: Host) -> str:
    if error.errno not in _DENIED:
        return f"The power PMU answers {_named(error)} when it is opened."
    text = "The power PMU needs CAP_PERFMON or kernel.perf_event_paranoid <= 0 (now {}).{}"
    try:
        paranoid = Path(host.root, _PARANOID).read_text(encoding="ascii").strip()
    except OSError as unreadable:
        return text.format(f"not readable: {unreadable.strerror}", "")
    granted = paranoid.lstrip("-").isdecimal() and int(paranoid) <= 0
    return text.format(paranoid, _SECCOMP if granted else "")


def _named(error: OSError) -> str:
    """Name an errno as a kernel programmer does."""
    return errno.errorcode.get(error.errno or 0, str(error))
