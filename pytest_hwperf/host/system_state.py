"""The state of the whole system that timings and memory depend on, as Linux tells it under /proc and /sys."""

import re
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf.host.interference import ticks

_CHOSEN = re.compile(r"\[(\w+)\]")
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemState:
    """What is told; None where nothing is."""

    load_1min: float | None  # running processes, mean of the last minute, of the whole machine
    steal: float | None  # share of all CPU time since the start that the host gave to others
    swap_bytes: int | None  # of swap
    swap_used_bytes: int | None
    huge_pages: str | None  # transparent ones: "always", "madvise" or "never"


def read_system_state(root: str | Path = "/") -> SystemState:
    """Return what is told under `root`; nothing is waited for.

    Source: proc(5) for stat, loadavg and meminfo; Documentation/admin-guide/mm/transhuge.rst.
    """
    place = Path(root)
    stolen, all_ticks = ticks(place / "proc/stat")
    total, free = (_meminfo(place, name) for name in ("SwapTotal", "SwapFree"))
    chosen = _CHOSEN.search(_text(place / "sys/kernel/mm/transparent_hugepage/enabled"))
    load = _text(place / "proc/loadavg").split()
    return SystemState(
        load_1min=float(load[0]) if load else None,
        steal=stolen / all_ticks if stolen is not None and all_ticks else None,
        swap_bytes=total,
        swap_used_bytes=None if total is None or free is None else total - free,
        huge_pages=chosen[1] if chosen else None,
    )


def _meminfo(root: Path, name: str) -> int | None:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * _KIB
    return None


def _text(file: Path) -> str:
    """Read a small system file; "" where the system has none."""
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
