"""Memory that is free for more processes, what the largest one so far took, and what the allocator keeps for later."""

import ctypes
import platform
import resource
import sys
from pathlib import Path

_KIB = 1024


def available_bytes(root: Path = Path("/")) -> int | None:
    """Return the memory that new processes can take without swapping, None where the system does not say.

    Limits of a control group are not looked at.

    Args:
        root: of the file system.

    References:
        proc_meminfo(5): MemAvailable, in units of 1024 bytes.
    """
    try:
        lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * _KIB if found else None


def largest_child_bytes() -> int | None:
    """Return the peak RSS of the largest process that this one has started and that has ended, None without any.

    References:
        getrusage(2): ru_maxrss of RUSAGE_CHILDREN, in units of 1024 bytes; on macOS of one byte.
    """
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return (peak if sys.platform == "darwin" else peak * _KIB) or None


def give_back_free() -> None:
    """Give the system what the allocator keeps for later, where it is glibc's: what is taken from now on is then seen.

    Imports leave megabytes behind that are free and still resident. What fits into them does not add to what is held.

    References:
        malloc_trim(3): whole free pages are given back, in the middle of the heap too.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
