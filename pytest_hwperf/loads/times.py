"""When the calls of a load were due, issued and ended, noted as it runs; and the wait until a call is due."""

import threading
from array import array
from time import perf_counter, sleep

from pytest_hwperf.core.loads import Served

_LATE_S = 0.0002  # a sleep may end so much late, on an idle machine


class Times:
    """When the calls of a load were due, issued and ended; several threads note at once."""

    def __init__(self) -> None:
        """Begin without calls."""
        self.failed = 0
        self.error: Exception | None = None  # the first
        self._times = dict[int, tuple[float, float, float]]()  # by the number of the call
        self._lock = threading.Lock()

    def served(self) -> Served:
        """Return what is known now, in the order in which the calls were due."""
        with self._lock:
            noted = [self._times[number] for number in sorted(self._times)]
            due, issued, ended = (array("d", [times[column] for times in noted]) for column in range(3))
            return Served(due=due, issued=issued, ended=ended, failed=self.failed)

    def note(self, number: int, due: float, issued: float, ended: float) -> None:
        """Keep the times of a call that succeeded, in s since the beginning of the load."""
        with self._lock:
            self._times[number] = (due, issued, ended)

    @property
    def made(self) -> int:
        """Calls that are over."""
        return len(self._times) + self.failed

    def note_failure(self, error: Exception) -> None:
        """Count a call that failed."""
        with self._lock:
            self.failed += 1
            self.error = self.error or error


def wait_until(moment: float) -> None:
    """Sleep, and at the end only let others run: a plain loop would hold the interpreter's lock, which calls need."""
    while (left := moment - perf_counter()) > 0:
        sleep(max(0.0, left - _LATE_S))
