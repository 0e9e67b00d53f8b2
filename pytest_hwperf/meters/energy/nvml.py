"""Energy of NVIDIA boards, from the counter that their driver keeps, else from their instant power."""

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_hwperf.core.errors import MeasurementError, MeterUnavailable
from pytest_hwperf.core.records import Reading
from pytest_hwperf.core.units import show
from pytest_hwperf.meters.energy.board_power import PowerCounters
from pytest_hwperf.meters.energy.counter import CounterMeter, Opening, Traits
from pytest_hwperf.meters.energy.counter_ticks import Calibration, calibrate
from pytest_hwperf.meters.energy.gpu_frameworks import synchronise, uses_cuda
from pytest_hwperf.meters.energy.nvml_library import Board, Library, Tenant
from pytest_hwperf.meters.energy.registers import Counters
from pytest_hwperf.meters.energy.totals import seconds_asleep
from pytest_hwperf.meters.energy.visible_boards import visible_boards

_INSTALL = 'NVIDIA boards are read through nvidia-ml-py, which is not installed: pip install "pytest-hwperf[gpu]".'
_TICKS = 100  # a window holds as many: an error of one of them is 1 %
_SHORTEST_S = 2.0  # on some boards the sensor sees a quarter of the time (arXiv 2312.02741)
_SLOWEST_TICK_S = 0.1  # counters move every 20 to 100 ms; where it is not seen, the worst is taken
_MILLI = 1e-3  # J of one count


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHost:
    """This process and NVIDIA's library as they are looked at; every part can be another's."""

    bindings: Any = None  # the module `pynvml`; None imports it
    modules: Mapping[str, Any] = field(default_factory=lambda: sys.modules)
    pid: int = field(default_factory=os.getpid)
    clock: Callable[[], float] = time.monotonic
    asleep: Callable[[], float] = seconds_asleep
    pause: Callable[[float], None] = time.sleep
    draw: Callable[[], float] = random.random  # from 0.0 to 1.0
    wait: Callable[[threading.Event, float], bool] = threading.Event.wait
    calibrated: Callable[[Counters], Calibration] = calibrate

    def library(self) -> Library:
        """Open NVIDIA's library.

        Raises:
            MeterUnavailable: there is none, or no driver.
        """
        bindings = self.bindings
        if bindings is None:
            try:
                import pynvml
            except ImportError as error:
                raise MeterUnavailable(_INSTALL) from error
            bindings = pynvml
        library = Library(bindings)
        library.open()
        return library


class BoardCounters:
    """The counters of millijoules of some boards.

    Args:
        library: opened; closed with the counters.
        boards: those to add up.
    """

    def __init__(self, library: Library, boards: Sequence[Board]) -> None:
        self.registers = tuple(board.register(_MILLI) for board in boards)
        self._library = library
        self._boards = tuple(boards)

    def read(self) -> tuple[int, ...]:
        """Return the millijoules of every board since its driver was loaded.

        Raises:
            MeasurementError: a board answers an error.
        """
        return tuple(map(self._library.millijoules, self._boards))

    def close(self) -> None:
        """Let go of the library; closing twice does nothing."""
        self._library.close()


class BoardMeter(CounterMeter):
    """Joules of whole boards over a window, whoever used them; names the others that it sees."""

    def __init__(
        self, counters: Counters, traits: Traits, *, neighbours: Callable[[], Mapping[str, str]], host: GpuHost
    ) -> None:
        """Read `counters`, which are closed with the meter.

        Args:
            counters: held open.
            traits: what is known of them.
            neighbours: returns what to warn of for every other process on the boards, by process and board.
            host: gives the clock and the pauses.
        """
        super().__init__(counters, traits, clock=host.clock, asleep=host.asleep)
        self._own_warnings = traits.warnings
        self._neighbours = neighbours
        self._seen: dict[str, str] = {}
        self._host = host

    def start(self) -> Opening | str:
        """Wait for up to a tick, drawn at random, and read all counters.

        The sensor looks at fixed times: windows that always began at the same moment would err to the same side.
        """
        self._host.pause(self._host.draw() * self._traits.tick_s)
        self._look_around()
        opening = super().start()
        # What went wrong before this window has voided those that were open and is no fault of this one.
        return super().start() if isinstance(opening, str) else opening

    def end(self, started: Opening | str) -> Reading:
        """Return the joules since `started`, or the reason why there are none."""
        reading = super().end(started)
        self._look_around()
        return reading

    def _look_around(self) -> None:
        self._seen = {**self._neighbours(), **self._seen}
        self.warnings = (*self._own_warnings, *self._seen.values())


def nvml_meter(
    environ: Mapping[str, str],
    *,
    refused: tuple[str, ...] = (),
    host: GpuHost | None = None,
    beside: bool = False,
) -> BoardMeter:
    """Open the boards that this process may use.

    Args:
        environ: CUDA_VISIBLE_DEVICES chooses among the boards.
        refused: why better sources are not used; shown with every figure.
        host: the process and library to look at, those at hand where None.
        beside: another source counts the processor's energy, so that theirs is a metric of its own.

    Raises:
        MeterUnavailable: no library, driver or board, or boards that tell neither energy nor power; says what to do.
    """
    host = host or GpuHost()
    library = host.library()
    try:
        boards = _visible(library, environ)
        warnings = [f"better source refused: {reason.splitlines()[0]}" for reason in refused]
        warnings += [] if beside else ["boards only: the processor's energy is not in it"]
        return _meter(library, boards, warnings, host, "gpu_energy" if beside else "energy")
    except MeterUnavailable:
        library.close()
        raise


def in_use(environ: Mapping[str, str], *, host: GpuHost | None = None) -> bool:
    """Whether this process uses a board now: PyTorch has begun to, or the driver names this process.

    In a container the driver may know this process by another number; then only PyTorch tells.
    """
    host = host or GpuHost()
    if uses_cuda(host.modules):
        return True
    try:
        library = host.library()
    except MeterUnavailable:
        return False  # whoever asks for the meter is told why
    try:
        tenants = [tenant for board in _visible(library, environ) for tenant in library.tenants(board) or ()]
    except MeterUnavailable:
        return False
    finally:
        library.close()
    return any(tenant.pid == host.pid for tenant in tenants)


def _visible(library: Library, environ: Mapping[str, str]) -> tuple[Board, ...]:
    boards = library.boards()
    if not boards:
        raise MeterUnavailable("NVIDIA's driver shows no board.")
    return visible_boards(boards, environ, library.holder)


def _meter(library: Library, boards: Sequence[Board], warnings: list[str], host: GpuHost, metric: str) -> BoardMeter:
    counters, kind, tick_s, why = _counters(library, boards, host)
    warnings += why
    warnings += [
        f"{board} is split by MIG: its energy is the whole board's, that of other instances included"
        for board in boards
        if library.is_split(board)
    ]
    warnings += [
        f"{board} does not tell which processes use it: its energy is the whole board's"
        for board in boards
        if library.tenants(board) is None
    ]
    traits = Traits(
        kind=kind,
        metric=metric,
        covers="boards",
        tick_s=tick_s,
        shortest_window_s=max(_SHORTEST_S, _TICKS * tick_s),
        before_reading=lambda: synchronise(host.modules),
        warnings=tuple(warnings),
    )
    return BoardMeter(counters, traits, neighbours=lambda: _neighbours(library, boards, host.pid), host=host)


def _counters(library: Library, boards: Sequence[Board], host: GpuHost) -> tuple[Counters, str, float, tuple[str, ...]]:
    """Return counters of energy where all boards have one, else of power, with their kind, tick and what to warn of.

    Raises:
        MeterUnavailable: a board tells neither.
    """
    try:
        counting = BoardCounters(library, boards)
        counting.read()
        seen = host.calibrated(counting)
    except MeasurementError as error:
        why = str(error)
    else:
        if seen.absurd:
            register, watts = seen.absurd[0]
            raise MeterUnavailable(f"{register} reads {watts:.0f} W, which no board draws: its counter is not usable.")
        # An idle board may not have moved: then it is not known how often it does.
        return counting, "nvml", _SLOWEST_TICK_S if seen.stuck else seen.tick_s, ()
    try:
        for board in boards:
            library.watts(board)
    except MeasurementError as error:
        raise MeterUnavailable(
            f"Energy: {why}. Power: {error}. Boards before Volta count no energy; measure on another one."
        ) from error
    powers = PowerCounters(library, boards, clock=host.clock, wait=host.wait)
    return powers, "nvml-power", _SLOWEST_TICK_S, (f"{why} when asked for its energy: its instant power is added up",)


def _neighbours(library: Library, boards: Sequence[Board], pid: int) -> dict[str, str]:
    others = ((board, tenant) for board in boards for tenant in library.tenants(board) or () if tenant.pid != pid)
    return {
        f"{tenant.pid} on {board}": (
            f"{board} was shared with process {tenant.pid} ({_held(tenant)}): its energy is the whole board's"
        )
        for board, tenant in others
    }


def _held(tenant: Tenant) -> str:
    return "memory not told" if tenant.memory is None else show(tenant.memory, "B")
