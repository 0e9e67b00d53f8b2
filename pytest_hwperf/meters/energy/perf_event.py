"""The system call perf_event_open(2) on x86-64, for counters of a whole CPU."""

import ctypes
import os
import struct

_PERF_EVENT_OPEN = 298  # its number on x86-64; elsewhere the number is another call's
_CLOEXEC = 8  # PERF_FLAG_FD_CLOEXEC
_ANY_PROCESS = -1
_NO_GROUP = -1
# The first published layout of struct perf_event_attr: type, size, config, sample_period, sample_type, read_format,
# flags, wakeup_events, bp_type, config1. All but the first three stay 0: a plain counter that runs from now on. The
# power PMU refuses the flags that exclude the kernel or the user.
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")


def attributes(kind: int, config: int) -> bytes:
    """Return the 64 bytes of perf_event_attr for a counter of PMU `kind` that counts `config`."""
    return _ATTRIBUTES.pack(kind, _ATTRIBUTES.size, config, 0, 0, 0, 0, 0, 0, 0)


def open_event(kind: int, config: int, cpu: int) -> int:
    """Open a counter of everything that happens on `cpu`; return its descriptor, from which 8 bytes are read.

    Args:
        kind: the number of the PMU, as its file `type` tells.
        config: the number of the event.
        cpu: the CPU that stands for a package.

    Raises:
        OSError: of any errno; EACCES and EPERM without the right to, EPERM or ENOSYS where a container forbids it.
    """
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    pointed = ctypes.create_string_buffer(attributes(kind, config), _ATTRIBUTES.size)
    arguments = (_PERF_EVENT_OPEN, ctypes.addressof(pointed), _ANY_PROCESS, cpu, _NO_GROUP, _CLOEXEC)
    descriptor = int(call(*map(ctypes.c_long, arguments)))
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"perf_event_open on CPU {cpu}")
    return descriptor
