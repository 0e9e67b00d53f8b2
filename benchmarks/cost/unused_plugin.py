"""What a plugin costs a session that does not use it: CPU time, processes and imported modules."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import arms
from benchmarks.cost.intervals import Middle, Row, answer, answer_about, middle

TARGET_S = 0.003

# Arm → the plugin that is loaded; autoloading is off, so that there is no other. The bare arms load an empty one: an
# option `-p` makes pytest look through the entry points of everything installed (5 ms), which is no plugin's cost, and
# any autoloading session does it anyway. The second bare arm differs in nothing from the first: what it seems to cost
# is the noise of this measurement.
ARMS: Mapping[str, str] = {
    "bare": "overhead_empty",
    "bare again": "overhead_empty",
    "hwperf": "pytest_hwperf.plugin",
    "benchmark": "pytest_benchmark.plugin",
}

# Read by every Python that finds it on its path, before pytest: notes each process that is started, and at exit which
# modules are there. It is kept out of the timed sessions.
_SITE = """\
import atexit, json, os, sys

events = []
names = {"subprocess.Popen", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.system", "os.exec"}
sys.addaudithook(lambda event, args: events.append(event) if event in names else None)

@atexit.register
def write():
    with open(os.path.join(os.environ["OVERHEAD_FOLDER"], f"{os.getpid()}.json"), "w") as file:
        json.dump({"events": list(events), "modules": sorted(sys.modules)}, file)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What one session started and imported, beyond the bare one."""

    processes: int
    third_party: tuple[str, ...]  # top-level names, without the plugin's own package
    own_modules: int
    standard_modules: int


def measure(folder: Path, rounds: int, seed: int) -> list[Row]:
    """Run `rounds` of one empty session of each arm in random order; return the rows of the table."""
    (folder / "test_empty.py").write_text("def test_nothing() -> None:\n    pass\n", encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "overhead_empty.py").write_text("", encoding="utf-8")
    seconds = _seconds(folder, rounds, seed)
    added = {
        arm: middle([took - bare for took, bare in zip(seconds[arm], seconds["bare"], strict=True)]) for arm in ARMS
    }
    bare = _loaded(folder, "bare")
    ours, theirs = (_beyond(_loaded(folder, arm), bare, own) for arm, own in _OWN.items())
    return [
        _time_row(added["hwperf"], added["benchmark"]),
        Row(
            quantity="  seemingly added by nothing (a second bare session): the noise",
            target="",
            hwperf=added["bare again"].show(1e3, "ms"),
            benchmark="",
        ),
        Row(
            quantity="  CPU time of the bare session",
            target="",
            hwperf=middle(seconds["bare"]).show(1e3, "ms", 0),
            benchmark="",
        ),
        Row(
            quantity="processes started by an unused plugin",
            target="0",
            hwperf=str(ours.processes),
            benchmark=str(theirs.processes),
            met=answer(ours.processes, 0),
        ),
        Row(
            quantity="third-party modules it imports",
            target="0",
            hwperf=" ".join((str(len(ours.third_party)), *ours.third_party)),
            benchmark=" ".join((str(len(theirs.third_party)), *theirs.third_party)),
            met=answer(len(ours.third_party), 0),
        ),
        Row(
            quantity="  its own modules and those of the standard library",
            target="",
            hwperf=f"{ours.own_modules} + {ours.standard_modules}",
            benchmark=f"{theirs.own_modules} + {theirs.standard_modules}",
        ),
    ]


_OWN = {"hwperf": "pytest_hwperf", "benchmark": "pytest_benchmark"}


def _time_row(ours: Middle, theirs: Middle) -> Row:
    return Row(
        quantity=f"CPU time added to an empty session, n={ours.n} pairs",
        target="<= 3 ms",
        hwperf=ours.show(1e3, "ms"),
        benchmark=theirs.show(1e3, "ms"),
        met=answer_about(ours, -math.inf, TARGET_S),
    )


def _seconds(folder: Path, rounds: int, seed: int) -> dict[str, list[float]]:
    """Return CPU seconds by arm, round by round; a first round, which writes byte code, is not counted."""
    seconds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for arm in ARMS:
        _session(folder, arm)
    for _, arm in arms.drawn(ARMS, rounds, seed):
        seconds[arm].append(_session(folder, arm))
    return seconds


def _session(folder: Path, arm: str, extra: Mapping[str, str] | None = None) -> float:
    """Run one empty session; return its user and system seconds, processes it has waited for included.

    Byte code is kept, in a folder of its own: where `PYTHONDONTWRITEBYTECODE` is set, every session would rewrite the
    assertions of its plugins again.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        **(extra or {}),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", ARMS[arm], "test_empty.py"],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"the empty session of {arm!r} ended with {process.returncode}: see its message above")
    return usage.ru_utime + usage.ru_stime


def _loaded(folder: Path, arm: str) -> tuple[int, frozenset[str]]:
    """Return how many processes one session starts, and the names of the modules at its end."""
    place = folder / f"loaded {arm}"
    place.mkdir()
    (place / "sitecustomize.py").write_text(_SITE, encoding="utf-8")
    _session(folder, arm, {"PYTHONPATH": str(place), "OVERHEAD_FOLDER": str(place)})
    notes = [json.loads(path.read_text(encoding="utf-8")) for path in place.glob("*.json")]
    modules = max((frozenset(note["modules"]) for note in notes), key=len)
    # subprocess.Popen may itself announce a posix_spawn; those are one process.
    events = [event for note in notes for event in note["events"]]
    popen, spawned = events.count("subprocess.Popen"), events.count("os.posix_spawn")
    return len(events) - min(popen, spawned), modules


def _beyond(loaded: tuple[int, frozenset[str]], bare: tuple[int, frozenset[str]], own: str) -> Loaded:
    """Return what a session has that the bare one has not."""
    modules = {name for name in loaded[1] - bare[1] if name != "sitecustomize"}
    tops = {name.partition(".")[0] for name in modules}
    known = {name.partition(".")[0] for name in bare[1]} | sys.stdlib_module_names | {own}
    return Loaded(
        processes=loaded[0] - bare[0],
        third_party=tuple(sorted(tops - known)),
        own_modules=sum(name.partition(".")[0] == own for name in modules),
        standard_modules=sum(name.partition(".")[0] in sys.stdlib_module_names for name in modules),
    )
