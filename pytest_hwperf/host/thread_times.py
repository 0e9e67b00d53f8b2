"""CPU time and waits of each thread of this process, as Linux reports it: which threads compute during calls."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_THREADS = Path("/proc/self/task")
_COMPUTED_NS = 20_000_000  # CPU time of all threads that tells which of them compute
_LOOKS = 3
_REST_S, _LONGEST_WAIT_S = 0.02, 2.0
_AT_REST = 0.1  # CPU time of a process at rest, as a share of the time


class ThreadTime(NamedTuple):
    """What one thread has spent since it began."""

    computed_ns: int
    waited_ns: int  # ready to compute, while no processor was free


def shares_of_threads(call: Callable[[], object]) -> tuple[float, ...]:
    """Call until enough CPU time is used, and that three times; return the smallest share of each thread.

    A thread that computes for `call` does so each time; one of something else in this process, such as a thread that
    an earlier test left behind, does not. () where the CPU time of threads is not known.
    """
    if not thread_times():
        return ()
    _wait_for_rest()
    looks = [_look(call) for _ in range(_LOOKS)]
    return tuple(min(one.get(thread, 0.0) for one in looks) for thread in looks[-1])


def _look(call: Callable[[], object]) -> dict[str, float]:
    """Return the share of each thread."""
    before, enough = thread_times(), time.process_time_ns() + _COMPUTED_NS
    while time.process_time_ns() < enough:
        call()
    spent = {thread: one.computed_ns for thread, one in times_since(before).items()}
    return {thread: one / sum(spent.values()) for thread, one in spent.items()}


def _wait_for_rest() -> None:
    """Let pools that worked before, such as when the model was fitted, stop waiting for more: they spin for a while."""
    until = time.monotonic() + _LONGEST_WAIT_S
    while time.monotonic() < until:
        before = time.process_time_ns()
        time.sleep(_REST_S)
        if time.process_time_ns() - before < _REST_S * 1e9 * _AT_REST:
            return


def times_since(before: Mapping[str, ThreadTime]) -> dict[str, ThreadTime]:
    """Return what each thread has spent since `before`, which `thread_times` returned."""
    none = ThreadTime(0, 0)
    return {
        thread: ThreadTime(*(now - then for now, then in zip(after, before.get(thread, none), strict=True)))
        for thread, after in thread_times().items()
    }


def thread_times() -> dict[str, ThreadTime]:
    """Return the times of each thread, the first two numbers of its schedstat; {} where there is no such file."""
    found = {}
    for file in _THREADS.glob("*/schedstat"):
        with suppress(OSError):  # the thread has ended
            computed, waited, *_ = file.read_text(encoding="ascii").split()
            found[file.parent.name] = ThreadTime(int(computed), int(waited))
    return found
