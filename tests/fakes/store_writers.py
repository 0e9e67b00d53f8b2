"""Processes that write to a store at once, and end at any moment; every acknowledged run is counted."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_hwperf.stores import location as package

TESTS = Path(__file__).parents[1]
PACKAGE = Path(package.__file__).parents[2]

# Saves runs WRITER·10^6 + 0, 1, … of one test, and writes the number of each that was acknowledged.
SAVE = """
import itertools, sys
from fakes import records as fake
from pytest_hwperf.stores.json_files import JsonStore
from pytest_hwperf.stores.sql.store import SqlStore

location, writer, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
store = SqlStore(location) if "://" in location else JsonStore(location, keep=10**6)
print("ready", flush=True)
sys.stdin.readline()
for number in range(count) if count else itertools.count():
    median = writer * 10**6 + number
    (answer,) = store.save("main", [fake.session(median_s=float(median))])
    assert isinstance(answer, str), answer
    print(median, flush=True)
"""


class Writer:
    """A process that saves."""

    def __init__(self, location: str, number: int, saves: int, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SAVE, location, str(number), str(saves)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(PACKAGE)]), **environment},
        )  # fmt: skip

    def begin(self) -> None:
        """Wait until it is ready, then let it save."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self, *, kill: bool) -> list[int]:
        """Kill it, or wait for it; return what it has reported."""
        if kill:
            self._process.kill()
        output, _ = self._process.communicate(timeout=300)
        assert kill or self._process.returncode == 0
        return [int(line) for line in output.splitlines() if line]


def saved_together(location: str, writers: int, saves: int, environment: Mapping[str, str]) -> list[int]:
    """Let processes save at once; return what they have reported."""
    started = [Writer(location, number, saves, environment) for number in range(1, writers + 1)]
    for one in started:
        one.begin()
    return [median for one in started for median in one.end(kill=False)]


def killed_writers(location: str, kills: int, server: Any = None, *, longest_s: float = 0.3) -> str:
    """Kill a writer at random moments while another one writes; say what was found."""
    environment, reported = _environment(server), list[int]()
    for number in range(1, kills + 1):
        pair = [Writer(location, 2 * number + place, 0, environment) for place in (0, 1)]
        for one in pair:
            one.begin()
        time.sleep(random.uniform(0, longest_s))
        reported += [median for one in pair for median in one.end(kill=True)]
    return lost(location, reported, environment, most=len(reported) + 2 * kills)


def killed_servers(server: Any, location: str, kills: int, *, longest_s: float = 1.0) -> str:
    """Kill the server at random moments while two processes write; they wait for its return."""
    environment = _environment(server)
    pair = [Writer(location, 10**5 + place, 0, environment) for place in (0, 1)]
    for one in pair:
        one.begin()
    for _ in range(kills):
        time.sleep(random.uniform(0.05, longest_s))
        server.stop(signal.SIGKILL)
        server.start()
    time.sleep(longest_s)
    reported = [median for one in pair for median in one.end(kill=True)]
    return lost(location, reported, environment, most=10**9)


def lost(location: str, reported: Sequence[int], environment: Mapping[str, str], *, most: int) -> str:
    """Say how many runs are there of those that were reported; an error where one is missing or there twice."""
    found = [int(line) for line in stored(location, environment)]
    missing = {*reported} - {*found}
    assert not missing, f"lost: {sorted(missing)}"
    assert len(found) == len({*found}), "a run is there twice"
    assert len(found) <= most, f"{len(found)} runs, where {most} can be"
    return f"{len(reported)} acknowledged, none lost; {len(found) - len(reported)} more that were under way or not said"


def stored(location: str, environment: Mapping[str, str]) -> list[str]:
    """Return the medians that a store has, read by a process of its own."""
    code = (
        "import sys\nfrom pytest_hwperf.stores.json_files import JsonStore\n"
        "from pytest_hwperf.stores.sql.store import SqlStore\n"
        "store = SqlStore(sys.argv[1]) if '://' in sys.argv[1] else JsonStore(sys.argv[1], keep=10**6)\n"
        "for runs in store.histories('main', held=False):\n"
        "    for one in runs:\n"
        "        print(int(one.figures[0].estimate.value))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, location], capture_output=True, text=True, check=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    return done.stdout.split()


def _environment(server: Any) -> dict[str, str]:
    return {} if server is None else {"PGPASSFILE": str(server.passwords)}
