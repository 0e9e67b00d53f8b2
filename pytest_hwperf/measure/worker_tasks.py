"""Memory and cold start, measured inside a fresh process; standard library only, since imports would be measured."""

import gc
import importlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from time import perf_counter_ns
from typing import Protocol

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.core.metrics import BOARD_MEMORY, METRICS, taken_by
from pytest_hwperf.core.statements import state
from pytest_hwperf.host.tracing import lasting_tracers, untraced
from pytest_hwperf.host.worker_protocol import WorkerResult

GROWTH = "held_after_call"  # series of the role `memory`: B held after each call, warm-up left out

_STEADY_CALLS = 5  # from the second call on; more do not change a peak
_SECOND = 1_000_000_000  # ns
# Calls over which growth is measured: many of a quick one, of a slow one no more than a slope takes.
_MOST_CALLS, _FEWEST_CALLS = 60, 10
_USUAL_NS, _LONGEST_NS = _SECOND, 30 * _SECOND

Load = Callable[[], Callable[[], object]]


class MemoryProbe(Protocol):
    """A memory meter of this process."""

    @property
    def source(self) -> str:
        """What peaks are read from."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about peaks."""

    def idle(self) -> str:
        """Note what the idle process holds; return why it cannot be done, "" where it can."""

    def reset(self) -> str:
        """Forget the peak so far and keep the idle value; return why it cannot be done, "" where it can."""

    def peak(self) -> int:
        """Bytes of the peak above the idle process; raises MeasurementError where it cannot be read."""

    def retained(self) -> int:
        """Bytes held now above the idle process."""

    def now(self) -> tuple[int, str]:
        """Bytes held now, and what they were read from."""


class BoardProbe(Protocol):
    """A meter of the memory that this process takes on GPUs."""

    def begin(self) -> None:
        """Note what is held before the load."""

    def note(self) -> None:
        """Read what is held now."""

    def peak(self) -> tuple[int, str] | None:
        """Bytes of the peak above that, and what they are from; None where no GPU is used; raises MeasurementError."""


def measure_memory(
    imports: Sequence[str],
    load: Load,
    probe: MemoryProbe,
    clock_ns: Callable[[], int] = perf_counter_ns,
    *,
    growing: bool = True,
    boards: BoardProbe | None = None,
) -> WorkerResult:
    """Load and call; return peaks above the idle process, which has imported the runtime and loaded nothing.

    `memory_first_call` is the peak of load and first call, `memory_steady` that of the calls after it, `memory` the
    larger of both, `memory_retained` what is still held afterwards. Where peaks cannot be reset there is no
    `memory_steady`. The series holds the bytes after each of at least ten more calls, where `growing` asks for it.
    What `boards` find is `gpu_memory`; nothing where no GPU is used.
    """
    for module in imports:
        importlib.import_module(module)
    if reason := _traced() or probe.idle():
        asked = [metric for metric in taken_by("memory") if boards or not METRICS[metric].of_gpu]
        return WorkerResult(values={}, reasons=dict.fromkeys(asked, reason), notes=[], runs=[])
    call = _watched(load, boards) if boards else load()
    call()
    values, reasons = dict[str, float](), dict[str, str]()
    _note("memory_first_call", probe.peak, values, reasons)
    call_ns = _steady(call, probe, clock_ns, values, reasons)
    values["memory_retained"] = probe.retained()
    series = _growth(call, probe, clock_ns) if growing and call_ns * _FEWEST_CALLS <= _LONGEST_NS else []
    if len(series) < _FEWEST_CALLS:
        needed_s, most_s = _FEWEST_CALLS * call_ns / _SECOND, _LONGEST_NS // _SECOND
        reasons["memory_leak"] = (
            f"growth takes {_FEWEST_CALLS} calls after warm-up, {needed_s:.0f} s at this pace; it may take {most_s} s"
        )
    held_in = probe.now()[1]
    sources = {**dict.fromkeys(values, probe.source), "memory_retained": held_in, "memory_leak": held_in}
    _note_boards(boards, values, reasons, sources)
    return WorkerResult(
        values=values, reasons=reasons, notes=[*probe.warnings], runs=[], sources=sources, series={GROWTH: series}
    )


def _watched(load: Load, boards: BoardProbe) -> Callable[[], object]:
    """Load; return what calls, after which the boards are read each time."""
    boards.begin()
    call = load()
    boards.note()

    def noted() -> object:
        value = call()
        boards.note()
        return value

    return noted


def _note_boards(
    boards: BoardProbe | None, values: dict[str, float], reasons: dict[str, str], sources: dict[str, str]
) -> None:
    try:
        found = boards.peak() if boards else None
    except MeasurementError as error:
        reasons[BOARD_MEMORY] = str(error)
        return
    if found is not None:
        values[BOARD_MEMORY], sources[BOARD_MEMORY] = float(found[0]), found[1]


def _steady(
    call: Callable[[], object],
    probe: MemoryProbe,
    clock_ns: Callable[[], int],
    values: dict[str, float],
    reasons: dict[str, str],
) -> int:
    """Note the peak of the calls after the first one, and the larger of both; return the median call in ns."""
    refusal = probe.reset()
    instants = [clock_ns()]
    for _ in range(_STEADY_CALLS):
        call()
        instants.append(clock_ns())
    _note("memory_steady", probe.peak, values, reasons)
    if "memory_steady" in values:  # what was not reset is the peak of everything
        values["memory"] = max(values["memory_steady"], values.get("memory_first_call", 0.0))
    else:
        reasons["memory"] = reasons["memory_steady"]
    if refusal:
        values.pop("memory_steady", None)
        reasons["memory_steady"] = refusal
    return sorted(after - before for before, after in pairwise(instants))[_STEADY_CALLS // 2]


def measure_cold_start(
    imports: Sequence[str], load: Load, clock_ns: Callable[[], int] = perf_counter_ns
) -> WorkerResult:
    """Import the runtime, load the model and call once, each timed separately; the page cache is warm.

    `cold_warm_call`, the median of the five calls that follow, is the part that stays; `cold_start` leaves it out.
    """
    if reason := _traced():
        return WorkerResult(values={}, reasons=dict.fromkeys(taken_by("cold"), reason), notes=[], runs=[])
    return untraced(partial(_start_cold, imports, load, clock_ns))


def _start_cold(imports: Sequence[str], load: Load, clock_ns: Callable[[], int]) -> WorkerResult:
    known = [module for module in imports if module in sys.modules]
    instants = [clock_ns()]
    for module in imports:
        importlib.import_module(module)
    instants.append(clock_ns())
    call = load()
    instants.append(clock_ns())
    for _ in range(1 + _STEADY_CALLS):
        call()
        instants.append(clock_ns())
    spans = [(end - start) / _SECOND for start, end in pairwise(instants)]
    values = dict(zip(("cold_import", "cold_load", "cold_first_call"), spans, strict=False))
    values["cold_warm_call"] = sorted(spans[-_STEADY_CALLS:])[_STEADY_CALLS // 2]
    values["cold_start"] = (instants[-1 - _STEADY_CALLS] - instants[0]) / _SECOND
    notes = [f"already imported before the cold start, so not part of it: {', '.join(known)}"] if known else []
    return WorkerResult(values=values, reasons={}, notes=notes, runs=[])


def _traced() -> str:
    """Return why nothing can be measured in this process, "" where nothing observes it."""
    seen = lasting_tracers()
    return str(state("traced", by=", ".join(seen))) if seen else ""


def _note(metric: str, read: Callable[[], int], values: dict[str, float], reasons: dict[str, str]) -> None:
    try:
        values[metric] = float(read())
    except MeasurementError as error:
        reasons[metric] = str(error)


def _growth(call: Callable[[], object], probe: MemoryProbe, clock_ns: Callable[[], int]) -> list[float]:
    """Return what is held after each of at least ten calls, unless they take half a minute.

    Cycles of objects are garbage until the collector runs, which is not at every call: it is run before each reading,
    on all generations. What `gc.freeze` hides from it is never given back, though a later call may replace it.
    """
    readings: list[float] = []
    began = clock_ns()
    while len(readings) < _MOST_CALLS:
        call()
        gc.collect()
        readings.append(float(probe.now()[0]))
        spent = clock_ns() - began
        if spent > (_USUAL_NS if len(readings) >= _FEWEST_CALLS else _LONGEST_NS):
            break
    return readings
