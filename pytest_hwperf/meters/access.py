"""How this machine, its boards and this process are looked at: one record, of which a test replaces any part."""

import ctypes
import os
import platform
import random
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_hwperf.host.clocks import seconds_suspended
from pytest_hwperf.host.files import read_at
from pytest_hwperf.host.machine import read_processor
from pytest_hwperf.meters.counter_check import Check, check_counters
from pytest_hwperf.meters.nvml_library import Library, make_context, open_library

_PERF_EVENT_OPEN = 298  # its number on x86-64; elsewhere the number is another call's
_CLOEXEC = 8  # PERF_FLAG_FD_CLOEXEC
_ANY_PROCESS = -1
_NO_GROUP = -1
# The first published layout of struct perf_event_attr: type, size, config, sample_period, sample_type, read_format,
# flags, wakeup_events, bp_type, config1.
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The two system calls that read a RAPL zone; a test replaces them to fail as a kernel does."""

    open: Callable[[str, int], int] = os.open
    pread: Callable[[int, int, int], bytes] = read_at

    def text(self, path: str) -> str:
        descriptor = self.open(path, os.O_RDONLY)
        try:
            return self.pread(descriptor, 64, 0).decode("ascii", "replace").strip()
        finally:
            os.close(descriptor)


SYSTEM = Files()


def attributes(kind: int, config: int, read_format: int = 0, flags: int = 0) -> bytes:
    """Return the 64 bytes of perf_event_attr for a counter of PMU `kind` that counts `config` from now on.

    The power PMU refuses the flags that exclude the kernel or the user.
    """
    return _ATTRIBUTES.pack(kind, _ATTRIBUTES.size, config, 0, 0, read_format, flags, 0, 0, 0)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How the machine, its boards and this process are looked at."""

    root: str = "/"  # parent of sys, proc and the marks of container runtimes
    system: str = field(default_factory=platform.system)
    architecture: str = field(default_factory=platform.machine)
    files: Files = SYSTEM
    open_event: Callable[[int, int, int], int] = open_event  # PMU, event and CPU → descriptor
    read_event: Callable[[int, int], bytes] = os.read  # descriptor and bytes wanted
    check: Check = check_counters  # of opened counters
    bindings: Any = None  # the module `pynvml`; None imports it
    make_context: Callable[[], None] = make_context  # on the first GPU
    modules: Mapping[str, Any] = field(default_factory=lambda: sys.modules)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    pid: int = field(default_factory=os.getpid)
    clock: Callable[[], float] = time.monotonic
    suspended: Callable[[], float] = seconds_suspended
    pause: Callable[[float], None] = time.sleep
    draw: Callable[[], float] = random.random  # from 0.0 to 1.0
    wait: Callable[[threading.Event, float], bool] = threading.Event.wait

    @property
    def flags(self) -> frozenset[str]:
        """The processor's flags: `hypervisor` in a virtual machine, `sgx` where energy is reported with noise."""
        return frozenset(read_processor(self.root).get("flags", "").split())

    def library(self) -> Library:
        return open_library(self.bindings)
