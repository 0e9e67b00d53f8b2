"""Linux's `power` PMU: its description in sysfs, and events that count what a test lets them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_hwperf.meters.perf import FOLDER

KIND = 23
SCALE = 2.3283064365386963e-10  # J, 2^-32: the kernel scales every register to it
CONFIGS = {"energy-cores": 1, "energy-pkg": 2, "energy-ram": 3, "energy-gpu": 4, "energy-psys": 5}


def plant_pmu(
    root: Path,
    *,
    cpumask: str = "0",
    events: Sequence[str] = ("energy-cores", "energy-pkg", "energy-ram", "energy-psys"),
    scales: Mapping[str, float] | None = None,
) -> Path:
    """Write the PMU's folder under `root` as the kernel does; return it."""
    folder = root / FOLDER
    (folder / "events").mkdir(parents=True)
    (folder / "format").mkdir()
    (folder / "format/event").write_text("config:0-7\n")
    (folder / "type").write_text(f"{KIND}\n")
    (folder / "cpumask").write_text(f"{cpumask}\n")
    for name in events:
        (folder / "events" / name).write_text(f"event=0x{CONFIGS[name]:02x}\n")
        (folder / "events" / f"{name}.scale").write_text(f"{(scales or {}).get(name, SCALE)!r}\n")
        (folder / "events" / f"{name}.unit").write_text("Joules\n")
    return folder


def tell_paranoia(root: Path, text: str) -> None:
    """Write `kernel.perf_event_paranoid`."""
    (root / "proc/sys/kernel").mkdir(parents=True, exist_ok=True)
    (root / "proc/sys/kernel/perf_event_paranoid").write_text(f"{text}\n")


class Pmu:
    """Events keyed by config and CPU; each counts from 0 when it is opened, unless a test sets it on.

    `refusals` are errnos of opening, by config and CPU; `errno` and `answer` are what every reading gives instead.
    """

    def __init__(self) -> None:
        self.counts: dict[tuple[int, int], int] = {}
        self.refusals: dict[tuple[int, int], int] = {}
        self.errno: int | None = None
        self.answer: bytes | None = None
        self.opened: dict[int, tuple[int, int]] = {}
        self.calls: Any = {"open_event": self.open, "read_event": self.read}  # parts of an access

    def open(self, kind: int, config: int, cpu: int) -> int:
        assert KIND == kind
        if number := self.refusals.get((config, cpu)):
            raise OSError(number, os.strerror(number), f"perf_event_open on CPU {cpu}")
        descriptor = os.open(os.devnull, os.O_RDONLY)
        self.opened[descriptor] = (config, cpu)
        self.counts.setdefault((config, cpu), 0)
        return descriptor

    def read(self, descriptor: int, wanted: int) -> bytes:
        os.read(descriptor, wanted)  # a closed one answers EBADF, as it does in the kernel
        if self.errno is not None:
            raise OSError(self.errno, os.strerror(self.errno))
        return self.counts[self.opened[descriptor]].to_bytes(8, "little") if self.answer is None else self.answer

    def draw(self, name: str, joules: float, *, cpu: int = 0, scale: float = SCALE) -> None:
        """Let an event count so many joules on."""
        self.counts[CONFIGS[name], cpu] += round(joules / scale)

    @property
    def held(self) -> list[tuple[int, int]]:
        """Configs and CPUs of the descriptors that are still open."""
        return [event for descriptor, event in self.opened.items() if Path(f"/proc/self/fd/{descriptor}").exists()]
