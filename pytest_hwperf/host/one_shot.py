"""Fresh processes with one task each: memory, cold starts, allocation sites and repeated measurements."""

import math
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from time import monotonic, perf_counter, sleep

from pytest_hwperf.host import workdirs
from pytest_hwperf.host.files import read_file, read_text, replace_file
from pytest_hwperf.host.interruption import uninterrupted
from pytest_hwperf.host.launch import Command, Launched, launch
from pytest_hwperf.host.worker_protocol import WorkerResult, WorkerTask, decode_result
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.run import replace

NUMBERS_ARE_UNIQUE = os.name == "posix"  # whether `numbers` gives none twice
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


_REPLY = "result.json"
_LAST_WORD_S = 10.0  # of an interrupted process
_LARGEST_REPLY = 1 << 28  # bytes; ten million recorded values fit
# Freed blocks from 64 KiB on go back to the system, so that repeated peaks agree; it makes large allocations five
# times slower, so it is set where memory is measured and never where time is taken.
_PINNED_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "65536"}

Given = tuple[Command, WorkerTask, Path]  # of a process: how it is started, what it does, and a folder of its own


def launched(given: Sequence[Given]) -> Iterator[Launched]:
    """Start a process of its own for each of these."""
    for command, task, place in given:
        yield launch(command, task, place, _PINNED_ALLOCATOR if task.role == "memory" else {})


def ask(
    task: WorkerTask,
    commands: Sequence[Command],
    *,
    at_once: int = 1,
    until: float = math.inf,
    answered: Callable[[int, float], None] = lambda _answers, _seconds: None,
    start: Callable[[Sequence[Given]], Iterable[Launched]] = launched,
) -> list[WorkerResult]:
    """Carry out one task in a fresh process of each command, `at_once` side by side; return the results in order."""
    with workdirs.workdir() as folder:
        results: list[WorkerResult] = []
        for first in range(0, len(commands), at_once):
            given, began = list[Given](), monotonic()
            for number, command in enumerate(commands[first : first + at_once], first):
                place = folder / str(number)
                place.mkdir()
                given.append((command, replace(task, reply_to=str(place / _REPLY)), place))
            results.extend(_ask_group(given, until, start))
            answered(len(results), monotonic() - began)
        return results


def _ask_group(
    given: Sequence[Given], until: float, start: Callable[[Sequence[Given]], Iterable[Launched]]
) -> list[WorkerResult]:
    started, began = list[Launched](), monotonic()
    try:
        with uninterrupted():
            started.extend(start(given))  # where one cannot be started, those before it are ended
        if given[0][1].role == "load":
            return _share(started, given, until)
        ends = [min(began + command.deadline_s, until) for command, _, _ in given]
        return [_wait(worker, one, began, end) for worker, one, end in zip(started, given, ends, strict=True)]
    finally:
        for worker in started:
            worker.end()


def _share(started: Sequence[Launched], given: Sequence[Given], until: float) -> list[WorkerResult]:
    """Let processes begin their shares of a load together; where this one is interrupted, they tell what they have."""
    begin_together(started, [place for _, _, place in given], min(monotonic() + given[0][0].deadline_s, until))
    began = monotonic()
    try:
        return [_wait(worker, one, began, until) for worker, one in zip(started, given, strict=True)]
    except KeyboardInterrupt:
        for worker in started:
            worker.interrupt()
        limit = monotonic() + _LAST_WORD_S
        return [_wait(worker, one, began, limit) for worker, one in zip(started, given, strict=True)]


def _wait(worker: Launched, given: Given, began: float, until: float) -> WorkerResult:
    reply = Path(given[1].reply_to)
    try:
        ending = f"ended with code {worker.process.wait(max(0.0, until - monotonic()))} and gave no answer"
    except subprocess.TimeoutExpired:
        ending = f"gave no answer within {max(0.0, until - began):.3g} s"
    if not reply.exists():
        raise WorkerError(f"a fresh process {ending}.", log=worker.log_tail())
    try:
        return decode_result(read_file(reply, _LARGEST_REPLY))  # whole, whatever it still does
    except OSError as error:
        raise WorkerError(f"the answer of a fresh process cannot be read: {error}", log=worker.log_tail()) from error
