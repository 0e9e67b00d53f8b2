"""Energy of processor packages and their memory, from the `power` PMU of Linux perf.

The registers are those of RAPL; who may not read powercap may have been given the right to count events.
"""

import ctypes
import errno
import math
import os
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_hwperf.meters.counter_check import Check, check_counters, open_checked, processor_meter
from pytest_hwperf.meters.counters import CounterMeter, DescriptorCounters, Register, errno_name, refusal_warnings
from pytest_hwperf.meters.powercap import SystemAccess
from pytest_hwperf.records.errors import MeterUnavailable

FOLDER = "sys/bus/event_source/devices/power"
PACKAGE = "energy-pkg"
# Package and memory, as RAPL is summed: cores and graphics lie inside a package, psys includes packages.
_NAMES = {PACKAGE: "pkg", "energy-ram": "ram"}
_CONFIG = re.compile(r"event=(0x[0-9a-fA-F]+|\d+)")

_PERF_EVENT_OPEN = 298  # its number on x86-64; elsewhere the number is another call's
_CLOEXEC = 8  # PERF_FLAG_FD_CLOEXEC
_ANY_PROCESS = -1
_NO_GROUP = -1
# The first published layout of struct perf_event_attr: type, size, config, sample_period, sample_type, read_format,
# flags, wakeup_events, bp_type, config1. All but the first three stay 0: a plain counter that runs from now on. The
# power PMU refuses the flags that exclude the kernel or the user.
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One counter of one package."""

    register: Register
    kind: int  # the number of the PMU
    config: int  # the number of the event
    cpu: int  # which stands for its package


def find_events(root: str) -> tuple[Event, ...]:
    """Return package and memory of every package, by package; () where there is no such PMU."""
    folder = Path(root, FOLDER)
    if not folder.is_dir():
        return ()
    kind = _number(folder / "type")
    cpus = _cpus(folder / "cpumask")
    described = {name: _described(folder / "events" / name) for name in _NAMES if (folder / "events" / name).exists()}
    if PACKAGE not in described:
        raise MeterUnavailable(f"The power PMU has no event {PACKAGE}, and its others are no substitute.")
    return tuple(
        Event(register=_register(name, cpu, joules), kind=kind, config=config, cpu=cpu)
        for cpu in cpus
        for name, (config, joules) in described.items()
    )


def parse_cpus(text: str) -> tuple[int, ...]:
    """Return the numbers of a kernel's CPU list: `0,18` or `0-1`; () for an empty one."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return tuple(cpus)


def attributes(kind: int, config: int) -> bytes:
    """Return the 64 bytes of perf_event_attr for a counter of PMU `kind` that counts `config`."""
    return _ATTRIBUTES.pack(kind, _ATTRIBUTES.size, config, 0, 0, 0, 0, 0, 0, 0)


def open_event(kind: int, config: int, cpu: int) -> int:
    """Open a counter of everything that happens on `cpu`; return its descriptor, from which 8 bytes are read."""
    return perf_event_open(attributes(kind, config), _ANY_PROCESS, cpu)


def perf_event_open(described: bytes, process: int, cpu: int) -> int:
    """Open an event; return its descriptor."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    pointed = ctypes.create_string_buffer(described, len(described))
    arguments = (_PERF_EVENT_OPEN, ctypes.addressof(pointed), process, cpu, _NO_GROUP, _CLOEXEC)
    descriptor = int(call(*map(ctypes.c_long, arguments)))
    if descriptor < 0:
        number = ctypes.get_errno()
        where = f"on CPU {cpu}" if process == _ANY_PROCESS else f"of thread {process}"
        raise OSError(number, os.strerror(number), f"perf_event_open {where}")
    return descriptor


def _register(name: str, cpu: int, joules: float) -> Register:
    # The kernel widens the counter to 64 bits, which last for centuries. An idle package draws power, memory may not.
    return Register(id=f"{name} of CPU {cpu}", name=_NAMES[name], joules=joules, last=None, never_idle=name == PACKAGE)


def _described(event: Path) -> tuple[int, float]:
    """Return the number of an event and the joules of one count."""
    text = _text(event)
    match = _CONFIG.fullmatch(text)
    if not match:
        raise MeterUnavailable(f"{event} holds {text!r}: event=0x02 or the like was expected.")
    unit = _text(event.with_name(f"{event.name}.unit"))
    if unit != "Joules":
        raise MeterUnavailable(f"{event}.unit holds {unit!r}: only Joules are understood.")
    scale = event.with_name(f"{event.name}.scale")
    text = _text(scale)
    try:
        joules = float(text)
    except ValueError:
        joules = math.nan
    if not 0 < joules < math.inf:
        raise MeterUnavailable(f"{scale} holds {text!r}: the joules of one count were expected.")
    return int(match[1], 0), joules


def _cpus(path: Path) -> tuple[int, ...]:
    text = _text(path)
    try:
        cpus = parse_cpus(text)
    except ValueError:
        cpus = ()
    if not cpus:
        raise MeterUnavailable(f"{path} holds {text!r}: a list of CPUs was expected, one for each package.")
    return cpus


def _number(path: Path) -> int:
    text = _text(path)
    if not text.isdecimal():
        raise MeterUnavailable(f"{path} holds {text!r}: the number of the PMU was expected.")
    return int(text)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise MeterUnavailable(f"{path} cannot be read: {error.strerror}.") from error


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
