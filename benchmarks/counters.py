"""RAPL through the whole plugin on live files: a process writes counters of known power, pytest reads them.

From the root of the repository: `python -m benchmarks.counters --windows 100`.
For each layout of powercap zones it prints the power that the plugin read and how many windows kept their stated bound.
The counters start again at 0 in the middle.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
WATTS = 20.0
WRAP_AFTER_S = 2.0
# layout → zone → name, unit in nJ, watts; only packages and their memory belong to the sum
LAYOUTS: Mapping[str, Mapping[str, tuple[str, int, float]]] = {
    "client": {
        "intel-rapl:0": ("package-0", 61035, 20.0),
        "intel-rapl:0:0": ("core", 61035, 9.0),
        "intel-rapl:0:1": ("uncore", 61035, 1.0),
        "intel-rapl:1": ("psys", 61035, 31.0),
        "intel-rapl-mmio:0": ("package-0", 61035, 20.0),
    },
    "four sockets": {
        zone: (name, unit, watts)
        for n in range(4)
        for zone, name, unit, watts in (
            (f"intel-rapl:{n}", f"package-{3 - n}", 61035, 4.0),
            (f"intel-rapl:{n}:0", "dram", 15300, 1.0),
        )
    },
    "AMD": {"intel-rapl:0": ("package-0", 15258, 20.0), "intel-rapl:0:0": ("core", 15258, 8.0)},
    "dies": {
        "intel-rapl:9": ("package-0-die-0", 61035, 12.0),
        "intel-rapl:a": ("package-0-die-1", 61035, 8.0),
    },
    "MMIO only": {"intel-rapl-mmio:0": ("package-0", 61035, 20.0)},
}
TEST = """
import json, time
from contextlib import ExitStack

def test_it(energy_meter):
    open_windows, readings = [], []
    for _ in range({windows}):
        stack = ExitStack()
        readings.append(stack.enter_context(energy_meter.window()))
        open_windows.append(stack)
        if len(open_windows) > 10:
            open_windows.pop(0).close()
        time.sleep(0.06)
    time.sleep(0.6)
    for stack in open_windows:
        stack.close()
    with open({out!r}, "w") as file:
        json.dump([(r.joules, r.window_s, r.bound, r.reason) for r in readings], file)
"""


def plant(root: Path, layout: Mapping[str, tuple[str, int, float]]) -> list[dict[str, object]]:
    """Build the tree, and return what the writer has to write."""
    told = list[dict[str, object]]()
    for zone, (name, unit_nj, watts) in layout.items():
        parts = zone.split(":")
        folder = root / "/".join(":".join(parts[: depth + 1]) for depth in range(len(parts)))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "name").write_text(f"{name}\n")
        (folder / "max_energy_range_uj").write_text(f"{(2**32 - 1) * unit_nj // 1000}\n")
        start = 2**32 - int(WRAP_AFTER_S * watts / (unit_nj * 1e-9))
        (folder / "energy_uj").write_text(f"{start * unit_nj // 1000}\n")
        told.append({"file": str(folder / "energy_uj"), "unit_nj": unit_nj, "watts": watts, "start": start})
    return told


def write(zones: str) -> None:
    """Advance the counters every millisecond, each by one write of a fixed width: no reader sees half a number."""
    told = json.loads(zones)
    files = [(os.open(zone["file"], os.O_WRONLY), zone) for zone in told]
    begun = time.monotonic()
    while True:
        seconds = time.monotonic() - begun
        for descriptor, zone in files:
            count = (zone["start"] + int(seconds * zone["watts"] / (zone["unit_nj"] * 1e-9))) % 2**32
            os.pwrite(descriptor, f"{count * zone['unit_nj'] // 1000:>20d}\n".encode(), 0)
        time.sleep(max(0.0, 0.001 - (time.monotonic() - begun - seconds)))


def measure(layout: Mapping[str, tuple[str, int, float]], windows: int) -> list[tuple[float | None, float, float, str]]:
    """Return joules, seconds, bound and reason of each window."""
    with tempfile.TemporaryDirectory(prefix="hwperf-counters-") as place:
        folder = Path(place)
        told = plant(folder / "powercap", layout)
        out = folder / "readings.json"
        (folder / "test_it.py").write_text(TEST.format(windows=windows, out=str(out)))
        writer = subprocess.Popen([sys.executable, "-m", "benchmarks.counters", "--write", json.dumps(told)], cwd=ROOT)
        try:
            subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--hwperf-energy=rapl", str(folder)],
                env={**os.environ, "HWPERF_POWERCAP_ROOT": str(folder / "powercap")},
                cwd=folder,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        finally:
            writer.kill()
            writer.wait()
        found: list[tuple[float | None, float, float, str]] = json.loads(out.read_text())
        return found


def main() -> None:
    """Measure every layout and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=100)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(options.write)
    print("| layout | windows | W least | W median | W most | bound | kept |\n|---|---|---|---|---|---|---|")
    for name, layout in LAYOUTS.items():
        found = measure(layout, options.windows)
        bad = [reason for joules, _, _, reason in found if joules is None]
        if bad:
            print(f"| {name} | {len(found)} | {len(bad)} refused: {bad[0]} |")
            continue
        watts = [joules / seconds for joules, seconds, _, _ in found if joules is not None]
        kept = sum(abs(w / WATTS - 1) <= bound for w, (_, _, bound, _) in zip(watts, found, strict=True))
        bound = median(bound for _, _, bound, _ in found)
        shown = f"{min(watts):.2f} | {median(watts):.2f} | {max(watts):.2f} | {bound:.2%} | {kept}"
        print(f"| {name} | {len(found)} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
