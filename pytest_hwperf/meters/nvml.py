"""Energy of NVIDIA boards, from the counter that their driver keeps, else from their instant power."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pytest_hwperf.host.nvidia import synchronise, uses_cuda
from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.counters import CounterMeter, Counters, HeldCounters, Opening, Register, refusal_warnings
from pytest_hwperf.meters.nvml_library import Board, BoardProcess, Library, boards_of
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable
from pytest_hwperf.records.metrics import BOARD_ENERGY, ENERGY
from pytest_hwperf.records.run import Reading
from pytest_hwperf.records.units import show

EVERY_S = 0.02  # sensors give a new value every 20 to 100 ms
_GAP_S = 0.25  # longer without a value, what lies between is a guess
_MILLI, _MICRO = 1e-3, 1e-6  # J of one count


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


_TICKS = 100  # in a window: an error of one of them is 1 %
_SHORTEST_S = 2.0  # on some boards the sensor sees a quarter of the time (arXiv 2312.02741)
_SLOWEST_TICK_S = 0.1  # counters move every 20 to 100 ms; where it is not seen, the worst is taken


class BoardMeter(CounterMeter):
    """Joules of whole boards over a window, whichever process used them; warns of the other processes that it sees."""

    def watch(self, access: Access, neighbours: Callable[[], Mapping[str, str]]) -> None:
        """Ask for `neighbours`, warnings by process and board, at both ends of each window."""
        self._access, self._neighbours = access, neighbours
        self._own_warnings, self._seen = self.warnings, dict[str, str]()

    def start(self) -> Opening | str:
        """Wait for up to a tick, drawn at random, and read all counters.

        The sensor is read at fixed times: windows that always began at the same phase would err to the same side.
        """
        self._access.pause(self._access.draw() * self.tick_s)
        self._note_neighbours()
        return super().start()

    def end(self, started: Opening | str) -> Reading:
        """Return the joules since `started`, or the reason why there are none."""
        reading = super().end(started)
        self._note_neighbours()
        return reading

    def _note_neighbours(self) -> None:
        self._seen = {**self._neighbours(), **self._seen}
        self.warnings = (*self._own_warnings, *self._seen.values())


def nvml_meter(
    environ: Mapping[str, str],
    *,
    refused: tuple[str, ...] = (),
    access: Access | None = None,
    beside: bool = False,
) -> BoardMeter:
    """Open the boards that this process may use; `refused` is a warning.

    CUDA_VISIBLE_DEVICES in `environ` chooses among the boards. `beside` another source, which counts the processor's
    energy, theirs is a metric of its own.
    """
    access = access or Access()
    library = access.library()
    try:
        boards = boards_of(library, environ)
        warnings = [*refusal_warnings(refused)]
        warnings += [] if beside else ["boards only: the processor's energy is not in it"]
        return _meter(library, boards, warnings, access, BOARD_ENERGY if beside else ENERGY)
    except MeterUnavailable:
        library.close()
        raise


def in_use(environ: Mapping[str, str], *, access: Access | None = None) -> bool:
    """Whether this process uses a board now: PyTorch has begun to, or the driver names this process.

    In a container the driver may know this process by another number; then only PyTorch shows it.
    """
    access = access or Access()
    if uses_cuda(access.modules):
        return True
    try:
        library = access.library()
    except MeterUnavailable:
        return False  # the reason is given where the meter is opened
    try:
        processes = [one for board in boards_of(library, environ) for one in library.processes(board) or ()]
    except MeterUnavailable:
        return False
    finally:
        library.close()
    return any(one.pid == access.pid for one in processes)


def _meter(library: Library, boards: Sequence[Board], notes: list[str], access: Access, metric: str) -> BoardMeter:
    counters, tick_s, reason = _counters(library, boards, access)
    warnings = [*notes, *filter(None, [reason])]
    for board in boards:
        if library.is_split(board):
            warnings.append(
                f"{board} is split by MIG: its energy is the whole board's, that of other instances included"
            )
        if library.processes(board) is None:
            warnings.append(f"{board} does not report which processes use it: its energy is the whole board's")
    meter = BoardMeter(
        counters=counters,
        kind="nvml-power" if reason else "nvml",
        metric=metric,
        covers="boards",
        tick_s=tick_s,
        shortest_window_s=max(_SHORTEST_S, _TICKS * tick_s),
        before_reading=lambda: synchronise(access.modules),
        warnings=tuple(warnings),
        clock=access.clock,
        suspended=access.suspended,
    )
    meter.watch(access, lambda: _neighbours(library, boards, access.pid))
    return meter


def _counters(library: Library, boards: Sequence[Board], access: Access) -> tuple[Counters, float, str]:
    """Return counters of energy where all boards have one, else of power; their tick, and why it is power, or ""."""
    try:
        counting = HeldCounters(
            {_register(board, _MILLI): partial(library.millijoules, board) for board in boards}, library.close
        )
        counting.read()
        seen = access.check(counting)
    except MeasurementError as error:
        why = str(error)
    else:
        if seen.absurd:
            register, watts = seen.absurd[0]
            raise MeterUnavailable(f"{register} reads {watts:.0f} W, which no board draws: its counter is not usable.")
        # An idle board may not have moved: then its tick is not known.
        return counting, _SLOWEST_TICK_S if seen.stuck else seen.tick_s, ""
    try:
        for board in boards:
            library.watts(board)
    except MeasurementError as error:
        raise MeterUnavailable(
            f"Energy: {why}. Power: {error}. Boards before Volta count no energy; measure on another one."
        ) from error
    powers = PowerCounters(library, boards, clock=access.clock, wait=access.wait)
    return powers, _SLOWEST_TICK_S, f"{why} when asked for its energy: its instant power is added up"


def _neighbours(library: Library, boards: Sequence[Board], pid: int) -> dict[str, str]:
    others = ((board, one) for board in boards for one in library.processes(board) or () if one.pid != pid)
    return {
        f"{other.pid} on {board}": (
            f"{board} was shared with process {other.pid} ({_memory(other)}): its energy is the whole board's"
        )
        for board, other in others
    }


def _memory(process: BoardProcess) -> str:
    return "memory not reported" if process.memory is None else show(process.memory, "B")
