"""Processes that begin together, and take numbers in turn: through files of a folder that only they know.

Whoever starts them gives each a folder of its own in one that they share. `perf_counter` is the same clock in all
processes of a machine.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic, perf_counter, sleep

from pytest_hwperf.core.errors import WorkerError
from pytest_hwperf.host.files import read_text, replace_file
from pytest_hwperf.host.launch import Launched

_READY, _BEGIN, _NUMBERS = "ready", "begin", "numbers"
_LEAD_S = 0.05  # between the word to begin and the beginning: each process has seen it by then
_LOOK_S = 0.005


def begin_together(processes: Sequence[Launched], places: Sequence[Path], until: float) -> None:
    """Wait until all processes are ready, then let them begin."""
    for process, place in zip(processes, places, strict=True):
        while not (place / _READY).exists():
            for one in processes:
                if (code := one.process.poll()) is not None:
                    raise WorkerError(f"a fresh process ended with code {code} before its load.", log=one.log_tail())
            if monotonic() > until:
                raise WorkerError("a fresh process was not ready for its load in time.", log=process.log_tail())
            sleep(_LOOK_S)
    replace_file(places[0].parent / _BEGIN, repr(perf_counter() + _LEAD_S).encode())


def ready(place: Path) -> float:
    """Say that this process is ready, wait for the others, and return the instant of `perf_counter` to begin at.

    It waits for as long as whoever has started it lets it live.
    """
    replace_file(place / _READY, b"")
    begin = place.parent / _BEGIN
    while not begin.exists():
        sleep(_LOOK_S)
    return float(read_text(begin))


def numbers(place: Path) -> Iterator[int]:
    """Yield numbers from 0, each in one of the processes alone, the next one to whoever asks next.

    A byte is appended to a file; where the descriptor then stands is the number. POSIX makes both one step.
    """
    descriptor = os.open(place.parent / _NUMBERS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        while True:
            os.write(descriptor, b".")
            yield os.lseek(descriptor, 0, os.SEEK_CUR) - 1
    finally:
        os.close(descriptor)
