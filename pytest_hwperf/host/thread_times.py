"""CPU time of each thread of this process, as Linux reports it: which threads compute while something is called."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_THREADS = Path("/proc/self/task")
_COMPUTED_NS = 20_000_000  # CPU time of all threads that tells which of them compute
_LOOKS = 3
_REST_S, _LONGEST_WAIT_S = 0.02, 2.0
_AT_REST = 0.1  # CPU time of a process at rest, as a share of the time


def shares_of_threads(call: Callable[[], object]) -> tuple[float, ...]:
    """Call until enough CPU time is used, and that three times; return the smallest share of each thread.

    A thread that computes for `call` does so each time; one of something else in this process, such as a thread that
    an earlier test left behind, does not. () where the CPU time of threads is not known.
    """
    if not _times():
        return ()
    _wait_for_rest()
    looks = [_look(call) for _ in range(_LOOKS)]
    return tuple(min(one.get(thread, 0.0) for one in looks) for thread in looks[-1])


def _look(call: Callable[[], object]) -> dict[str, float]:
    """Return the share of each thread."""
    before, enough = _times(), time.process_time_ns() + _COMPUTED_NS
    while time.process_time_ns() < enough:
        call()
    spent = {thread: after - before.get(thread, 0) for thread, after in _times().items()}
    return {thread: one / sum(spent.values()) for thread, one in spent.items()}


def _wait_for_rest() -> None:
    """Let pools that worked before, such as when the model was fitted, stop waiting for more: they spin for a while."""
    until = time.monotonic() + _LONGEST_WAIT_S
    while time.monotonic() < until:
        before = time.process_time_ns()
        time.sleep(_REST_S)
        if time.process_time_ns() - before < _REST_S * 1e9 * _AT_REST:
            return


def _times() -> dict[str, int]:
    """Return the CPU time of each thread in ns, the first number of its schedstat; none where there is no such file."""
    found = {}
    for file in _THREADS.glob("*/schedstat"):
        with suppress(OSError):  # the thread has ended
            found[file.parent.name] = int(file.read_text(encoding="ascii").split()[0])
    return found
