"""Processes that write to a store at once, and end at any moment; every acknowledged run is counted."""

import itertools
import os
import random
import select
import signal
import time
from collections.abc import Sequence
from typing import Any

from fakes import records as fake

from pytest_hwperf.stores.json_files import JsonStore
from pytest_hwperf.stores.sql.store import SqlStore

MANY = 10**6  # more runs than any writer saves


def store_at(location: str) -> Any:
    """Open a store at a folder, or at the URL of a database."""
    return SqlStore(location) if "://" in location else JsonStore(location, keep=MANY)


class Writer:
    """A process that saves runs N·10^6, N·10^6 + 1, … of one test, and reports each that was acknowledged."""

    def __init__(self, location: str, number: int, saves: int) -> None:
        """Fork it; it begins at once and ends after so many saves, or never where that is 0."""
        self._reading, writing = os.pipe()
        self._process = os.fork()
        if not self._process:
            try:
                store = store_at(location)
                for median in itertools.islice(itertools.count(number * MANY), saves or None):
                    (answer,) = store.save("main", [fake.session(median_s=float(median))])
                    os.write(writing, f"{answer if isinstance(answer, Exception) else median}\n".encode())
            finally:
                os._exit(0)
        os.close(writing)

    def has_saved(self, within_s: float) -> bool:
        """Whether one of its runs was acknowledged."""
        return bool(select.select([self._reading], [], [], within_s)[0])

    def end(self, *, kill: bool) -> list[int]:
        """Kill it, or wait for it; return what it has reported.

        Raises:
            ValueError: it has reported a problem instead.
        """
        if kill:
            os.kill(self._process, signal.SIGKILL)
        with os.fdopen(self._reading) as reports:
            lines = reports.read().splitlines()
        os.waitpid(self._process, 0)
        return [int(line) for line in lines]


def saved_together(location: str, writers: int, saves: int) -> list[int]:
    """Let processes save at once; return what they have reported."""
    started = [Writer(location, number, saves) for number in range(1, writers + 1)]
    return [median for one in started for median in one.end(kill=False)]


def killed_writers(location: str, kills: int, *, longest_s: float = 0.3) -> str:
    """Kill two writers at random moments, again and again, the last of them once it has saved; say what was found.

    The store is there before, and what it imports is loaded, so that most of the time is spent saving.
    """
    reported, store = list[int](), store_at(location)
    store.check("main", writing=True)
    getattr(store, "close", lambda: None)()
    for number in range(1, kills + 1):
        pair = [Writer(location, 2 * number + place, 0) for place in (0, 1)]
        time.sleep(random.uniform(0, longest_s))
        assert number < kills or pair[-1].has_saved(within_s=60)
        reported += [median for one in pair for median in one.end(kill=True)]
    return lost(location, reported, most=len(reported) + 2 * kills)


def killed_servers(server: Any, location: str, kills: int, *, longest_s: float = 2.0) -> str:
    """Kill the server at random moments while two processes write; they wait for its return."""
    pair = [Writer(location, 10**5 + place, 0) for place in (0, 1)]
    assert all(one.has_saved(within_s=60) for one in pair)
    for _ in range(kills):
        time.sleep(random.uniform(0.05, longest_s))
        server.stop(signal.SIGKILL)
        server.start()
    time.sleep(longest_s)
    reported = [median for one in pair for median in one.end(kill=True)]
    return lost(location, reported, most=len(reported) + 2)


def lost(location: str, reported: Sequence[int], *, most: int) -> str:
    """Say how many runs are there of those that were reported.

    Raises:
        AssertionError: one is missing, is there twice, or more are there than can be.
    """
    store = store_at(location)
    found = [int(one.figures[0].estimate.value) for runs in store.histories("main", held=False) for one in runs]
    getattr(store, "close", lambda: None)()
    missing = {*reported} - {*found}
    assert not missing, f"lost: {sorted(missing)}"
    assert len(found) == len({*found}), "a run is there twice"
    assert len(found) <= most, f"{len(found)} runs, where {most} can be"
    return f"{len(reported)} acknowledged, none lost, {len(found) - len(reported)} more there"
