"""Powercap trees as the kernel lays them out, and files that answer what a test wants."""

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_hwperf.meters.access import Access, Files
from pytest_hwperf.meters.counter_check import CounterCheck
from pytest_hwperf.meters.counters import CounterMeter, Counters
from pytest_hwperf.meters.rapl import powercap_counters
from pytest_hwperf.meters.sources import Zone

INTEL_RANGE = 262143328850  # 0xffffffff counts of 61035 nJ, in µJ
DRAM_RANGE = 65712999613  # of 15300 nJ
AMD_RANGE = 65532610987  # of 15258 nJ

Layout = Mapping[str, tuple[str, int, int]]  # zone id → name, energy_uj, max_energy_range_uj

CLIENT: Layout = {
    "intel-rapl:0": ("package-0", 240422366267, INTEL_RANGE),
    "intel-rapl:0:0": ("core", 118821284256, INTEL_RANGE),
    "intel-rapl:0:1": ("uncore", 1263211, INTEL_RANGE),
    "intel-rapl:1": ("psys", 101230055321, INTEL_RANGE),
    "intel-rapl-mmio:0": ("package-0", 240422366267, INTEL_RANGE),
}
PLAIN_CLIENT: Layout = {zone: CLIENT[zone] for zone in ("intel-rapl:0", "intel-rapl:0:0", "intel-rapl:0:1")}
SOCKETS: Layout = {
    "intel-rapl:0": ("package-3", 226618687799, INTEL_RANGE),
    "intel-rapl:0:0": ("dram", 60279115781, DRAM_RANGE),
    "intel-rapl:1": ("package-2", 181795825861, INTEL_RANGE),
    "intel-rapl:1:0": ("dram", 58966008642, DRAM_RANGE),
    "intel-rapl:2": ("package-1", 35231629289, INTEL_RANGE),
    "intel-rapl:2:0": ("dram", 32651449214, DRAM_RANGE),
    "intel-rapl:3": ("package-0", 143013545932, INTEL_RANGE),
    "intel-rapl:3:0": ("dram", 26530978739, DRAM_RANGE),
}
AMD: Layout = {
    "intel-rapl:0": ("package-0", 64930873566, AMD_RANGE),
    "intel-rapl:0:0": ("core", 31041919121, AMD_RANGE),
}
# Two dies in one package and eleven zones at the top, so that the last is called `a`.
DIES: Layout = {
    **{f"intel-rapl:{n}": (f"package-{n // 2}-die-{n % 2}", 1000 + n, INTEL_RANGE) for n in range(10)},
    "intel-rapl:a": ("package-5", 77, INTEL_RANGE),
    "intel-rapl:a:0": ("dram", 5, DRAM_RANGE),
    "intel-rapl:a:1": ("core", 66, INTEL_RANGE),
}
# Newer servers show the same registers a third way only.
TPMI: Layout = {
    "intel-rapl-tpmi:0": ("package-0", 400, INTEL_RANGE),
    "intel-rapl-tpmi:0:0": ("dram", 30, DRAM_RANGE),
    "intel-rapl-tpmi:1": ("package-1", 5000, INTEL_RANGE),
}
# The first socket has both backends, the second only the later one.
HALF_MIRRORED: Layout = {
    "intel-rapl:0": ("package-0", 11, INTEL_RANGE),
    "intel-rapl:0:0": ("dram", 3, DRAM_RANGE),
    "intel-rapl-mmio:0": ("package-0", 11, INTEL_RANGE),
    "intel-rapl-mmio:0:0": ("dram", 3, DRAM_RANGE),
    "intel-rapl-mmio:1": ("package-1", 700, INTEL_RANGE),
    "intel-rapl-mmio:1:0": ("dram", 90, DRAM_RANGE),
}
AMD_SOCKETS: Layout = {
    "intel-rapl:0": ("package-0", 64930873566, AMD_RANGE),
    "intel-rapl:0:0": ("core", 31041919121, AMD_RANGE),
    "intel-rapl:1": ("package-1", 4930873566, AMD_RANGE),
    "intel-rapl:1:0": ("core", 1041919121, AMD_RANGE),
}
# A platform counter in steps of 1 J beside a package.
COARSE_PSYS: Layout = {
    "intel-rapl:0": ("package-0", 8_000_000, INTEL_RANGE),
    "intel-rapl:1": ("psys", 9_000_000, 4294967295000000),
}
AT_REST: tuple[tuple[str, Layout, int], ...] = (
    ("client", CLIENT, 240422366267),
    ("sockets", SOCKETS, 765087241257),
    ("amd", AMD, 64930873566),
    ("plain client", PLAIN_CLIENT, 240422366267),
    ("dies", DIES, sum(range(1000, 1010)) + 77 + 5),
    ("tpmi", TPMI, 5430),
    ("half mirrored", HALF_MIRRORED, 804),
    ("amd sockets", AMD_SOCKETS, 69861747132),
    ("coarse psys", COARSE_PSYS, 8_000_000),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One machine's `sys` under a temporary root."""

    root: Path

    @property
    def nested(self) -> Path:
        """The folder whose zones lie in one another."""
        return self.root / "sys/devices/virtual/powercap"

    @property
    def flat(self) -> Path:
        """The folder of links, one per zone and control type."""
        return self.root / "sys/class/powercap"

    def zone(self, name: str) -> Path:
        """The folder of a zone, as `intel-rapl:0:1`."""
        return self.nested / _inside(name)

    def advance(self, name: str, uj: int) -> None:
        """Let the counter of a zone grow, and start again at 0 above its range."""
        file = self.zone(name) / "energy_uj"
        modulus = int((self.zone(name) / "max_energy_range_uj").read_text()) + 1
        file.write_text(f"{(int(file.read_text()) + uj) % modulus}\n")


def plant(root: Path, layout: Layout) -> Tree:
    """Build the tree of `layout` under `root`, with the relative links of sysfs."""
    tree = Tree(root=root)
    tree.flat.mkdir(parents=True)
    for zone in sorted(layout):
        name, energy_uj, max_uj = layout[zone]
        folder = tree.zone(zone)
        control = tree.nested / zone.partition(":")[0]
        if not control.exists():
            _write(control, {"enabled": "1"})
            (control / "subsystem").symlink_to("../../../../class/powercap")
            _link(tree, control)
        files = {"name": name, "energy_uj": energy_uj, "max_energy_range_uj": max_uj, "enabled": "1", "uevent": ""}
        if zone.count(":") == 1:
            files |= {"constraint_0_name": "long_term", "constraint_0_max_power_uw": 95000000}
        _write(folder, files)
        _link(tree, folder)
    return tree


def describe_processor(root: Path, flags: str, *, mark: str = "") -> None:
    """Write `proc/cpuinfo` with these flags, and the mark of a container runtime."""
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: {flags}\n\n")
    if mark:
        (root / mark).parent.mkdir(exist_ok=True)
        (root / mark).touch()


def bare_metal(root: Path, *, flags: str = "fpu sse2", **parts: Any) -> Access:
    """The machine under `root`: Linux on its own processor, whose counters move every millisecond."""
    describe_processor(root, flags)
    usual: dict[str, Any] = {"architecture": "x86_64", "check": calm}
    return Access(root=str(root), system="Linux", **(usual | parts))


def refusing(number: int, *endings: str) -> Files:
    """Files that answer an errno where the path ends so: root reads 0400 files, so a mode would refuse nothing.

    As in the kernel a permission is refused when the file is opened, anything else when it is read.
    """
    at_open = number in (errno.EACCES, errno.EPERM)
    silent: dict[int, bool] = {}

    def opener(path: str, flags: int) -> int:
        refused = path.endswith(endings)
        if refused and at_open:
            raise OSError(number, os.strerror(number), path)
        descriptor = os.open(path, flags)
        silent[descriptor] = refused
        return descriptor

    def reader(descriptor: int, count: int, offset: int) -> bytes:
        if silent[descriptor]:
            raise OSError(number, os.strerror(number))
        return os.pread(descriptor, count, offset)

    return Files(open=opener, pread=reader)


class Answers:
    """A `pread` that fails, or answers an odd text, from the moment it is asked to."""

    def __init__(self) -> None:
        self.errno: int | None = None
        self.text: bytes | None = None

    def __call__(self, descriptor: int, count: int, offset: int) -> bytes:
        if self.errno is not None:
            raise OSError(self.errno, os.strerror(self.errno))
        return os.pread(descriptor, count, offset) if self.text is None else self.text


class Played:
    """A `pread` of many counters, each with its own range, that grow by what a test says."""

    def __init__(self, zones: Sequence[Zone], values: Sequence[int]) -> None:
        self.zones = {zone.path: zone for zone in zones}
        self.values = dict(zip(self.zones, values, strict=True))
        self.paths: dict[int, str] = {}

    def open(self, path: str, flags: int) -> int:
        descriptor = os.open(os.devnull, flags)
        self.paths[descriptor] = path.removesuffix("/energy_uj")
        return descriptor

    def pread(self, descriptor: int, _count: int, _offset: int) -> bytes:
        return b"%d\n" % self.values[self.paths[descriptor]]

    def grow(self, path: str, uj: int) -> None:
        self.values[path] = (self.values[path] + uj) % ((self.zones[path].max_uj or 0) + 1)


def calm(_counters: Counters) -> CounterCheck:
    """Stand for a look at counters that move every millisecond: those of a planted tree stand still."""
    return CounterCheck(tick_s=0.001, spins=0)


def meter_on(zones: Sequence[Zone], files: Files, clock: Callable[[], float]) -> CounterMeter:
    """A meter of these zones as an opened one would be, without a look at the machine."""
    held = powercap_counters(zones, files)
    return CounterMeter(
        counters=held, kind="rapl", tick_s=0.001, shortest_window_s=0.5, clock=clock, suspended=lambda: 0.0
    )


def recording(paths: list[str]) -> Callable[[str, int], int]:
    """An `open` that keeps every path it was asked for."""

    def opener(path: str, flags: int) -> int:
        paths.append(path)
        return os.open(path, flags)

    return opener


def _inside(zone: str) -> str:
    """`intel-rapl:0:1` → `intel-rapl/intel-rapl:0/intel-rapl:0:1`."""
    parts = zone.split(":")
    return "/".join(":".join(parts[: depth + 1]) for depth in range(len(parts)))


def _link(tree: Tree, folder: Path) -> None:
    inside = folder.relative_to(tree.nested)
    (tree.flat / folder.name).symlink_to(f"../../devices/virtual/powercap/{inside}")


def _write(folder: Path, files: Mapping[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(f"{content}\n")
