"""Counters of NVIDIA boards: their own of energy, or their instant power added up by the trapezoid rule."""

import threading
import time
from collections.abc import Callable, Sequence

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.core.units import show
from pytest_hwperf.meters.energy.counters import Register
from pytest_hwperf.meters.gpu.nvml_library import Board, Library

EVERY_S = 0.02  # sensors give a new value every 20 to 100 ms
_GAP_S = 0.25  # longer without a value, what lies between is a guess
_MILLI, _MICRO = 1e-3, 1e-6  # J of one count


class EnergyCounters:
    """Counts of mJ, kept by the driver; the open `library` is closed with them."""

    def __init__(self, library: Library, boards: Sequence[Board]) -> None:
        self.registers = tuple(_register(board, _MILLI) for board in boards)
        self._library = library
        self._boards = tuple(boards)

    def read(self) -> tuple[int, ...]:
        """Return the millijoules of every board since its driver was loaded."""
        return tuple(map(self._library.millijoules, self._boards))

    def close(self) -> None:
        """Close the library; closing twice does nothing."""
        self._library.close()


def _register(board: Board, joules: float) -> Register:
    """Return the register of a board's counter, which stands still only where it is broken."""
    return Register(id=str(board), name=str(board.index), joules=joules, last=None, never_idle=True)


class PowerCounters:
    """Counts of µJ since the first reading, updated by a thread that starts with it.

    The open `library` is closed with them.
    """

    def __init__(
        self,
        library: Library,
        boards: Sequence[Board],
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        self.registers = tuple(_register(board, _MICRO) for board in boards)
        self._library = library
        self._boards = tuple(boards)
        self._clock = clock
        self._wait = wait
        self._lock = threading.Lock()
        self._joules = [0.0] * len(self._boards)
        self._last: tuple[float, tuple[float, ...]] | None = None  # time of the last powers, in s and W
        self._broken = ""  # why energy has been missed since the last reading
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def read(self) -> tuple[int, ...]:
        """Return the microjoules of every board."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._attend, name="hwperf-board-power", daemon=True)
                self._thread.start()
            self._add()
            broken, self._broken = self._broken, ""
            if broken:
                raise MeasurementError(broken)
            return tuple(int(joules / _MICRO) for joules in self._joules)

    def close(self) -> None:
        """End the thread and close the library; closing twice does nothing."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._library.close()

    def _attend(self) -> None:
        while not self._wait(self._ended, EVERY_S):
            with self._lock:
                self._add()

    def _add(self) -> None:
        """Add the energy since the last powers; an error or a gap is reported by the next reading."""
        before_s = self._clock()
        try:
            watts = tuple(map(self._library.watts, self._boards))
        except MeasurementError as error:
            self._broken, self._last = str(error), None
            return
        at_s = (before_s + self._clock()) / 2
        if self._last is not None:
            last_s, last_w = self._last
            for position, (earlier, later) in enumerate(zip(last_w, watts, strict=True)):
                self._joules[position] += (earlier + later) / 2 * (at_s - last_s)
            if at_s - last_s > _GAP_S:
                self._broken = f"the power of the boards was not read for {show(at_s - last_s, 's')}"
        self._last = (at_s, watts)
