"""Memory and cold start, measured inside a fresh process from its first module on, apart from what else it does.

Standard library only, since imports would be measured.
"""

import gc
import importlib
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import pairwise
from time import perf_counter_ns
from types import ModuleType
from typing import Literal, Protocol

from pytest_hwperf.host.fakes import fakes_aside, fakes_in_place
from pytest_hwperf.host.memory import give_back_free
from pytest_hwperf.host.source_files import is_of_this_package
from pytest_hwperf.host.tracing import untraced, why_untimed
from pytest_hwperf.host.worker_protocol import WorkerResult
from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.records.metrics import BOARD_MEMORY, METRICS, taken_by

# Parts of what a test takes. What is nobody's part, as the work of pytest, of its plugins and of this package, is "".
Part = Literal["", "third-party imports", "own imports", "fixtures", "load", "first call", "later calls"]
THIRD_PARTY: Part = "third-party imports"
OWN: Part = "own imports"
FIXTURES: Part = "fixtures"  # and the body of the test, up to its measurement
LOAD: Part = "load"
FIRST: Part = "first call"
LATER: Part = "later calls"


class Startup:
    """Says whose turn it is, from before the first module of the code under test is imported."""

    def __init__(
        self,
        is_own: Callable[[str], bool],
        enter: Callable[[str], None] | None = None,
        clock_ns: Callable[[], int] = perf_counter_ns,
        loaded: Mapping[str, object] = sys.modules,
    ) -> None:
        """Tell `enter` what is counted from now on, such as a meter: a part, "" for nothing."""
        self.spent_ns = Counter[str]()
        self.notes = list[str]()  # what has to be known of it
        self._is_own, self._enter = is_own, enter
        self._part: Part = ""
        self._parts: list[Part] = [""]  # the present one and those around it
        self._threads = {threading.get_ident()}
        self.clock_ns, self._last = clock_ns, clock_ns()
        self._before = frozenset(loaded)
        # Past any __getattr__, which might import.
        files = {name: vars(one).get("__file__") for name, one in [*loaded.items()] if isinstance(one, ModuleType)}
        self._own_before = [name for name, file in files.items() if isinstance(file, str) and self._owner(file) == OWN]

    @contextmanager
    def part(self, part: Part) -> Iterator[None]:
        """Attribute what the block takes to `part`."""
        self._threads.add(threading.get_ident())
        self._switch(part)
        self._parts.append(part)
        try:
            yield
        finally:
            self._parts.pop()
            self._switch(self._parts[-1])

    def importing(self, file: str) -> AbstractContextManager[None]:
        """Attribute the import of a module to its owner; what pytest imports for itself is nobody's.

        A thread that imports while the process is about something else takes its turn from nobody.
        """
        if not file or threading.get_ident() not in self._threads:
            return nullcontext()
        owner = self._owner(file)
        return self.part("" if owner == THIRD_PARTY and not self._parts[-1] else owner)

    def use(self, clock_ns: Callable[[], int]) -> None:
        """Read another clock from now on, such as one that stands still between calls."""
        self._switch(self._part)
        self.clock_ns, self._last = clock_ns, clock_ns()

    def missed(self, imports: Sequence[str] = ()) -> list[str]:
        """Return the modules under test, and those of `imports`, that were there before anything was attributed."""
        return [*self._own_before, *(name for name in imports if name in self._before)]

    def _owner(self, file: str) -> Part:
        if is_of_this_package(file):
            return ""
        return OWN if self._is_own(file) else THIRD_PARTY

    def _switch(self, part: Part) -> None:
        now = self.clock_ns()
        self.spent_ns[self._part] += now - self._last
        if self._enter is not None and part != self._part:
            with fakes_aside():  # those that a fixture has just made, or code that is imported
                self._enter("" if part == THIRD_PARTY else part)
        self._part, self._last = part, now


GROWTH = "held_after_call"  # series of the role `memory`: B held after each call, warm-up left out

_STEADY_CALLS = 5  # from the second call on; more do not change a peak
_SECOND = 1_000_000_000  # ns
# More calls, over which growth is measured: many of a quick one, of a slow one no more than a slope takes.
_CALLS, _FEWEST_CALLS = (60, 20), 10
_USUAL_NS, _LONGEST_NS = _SECOND, 30 * _SECOND

_ABOVE = "above third-party imports"
_PEAKS: Mapping[str, tuple[Part, ...]] = {
    "memory": (),  # all of them
    "memory_import": (OWN,),
    "memory_fixtures": (FIXTURES,),
    "memory_call": (FIRST, LATER),
    "memory_first_call": (FIRST,),
}
_STARTS: Mapping[str, Part] = {
    "cold_import": THIRD_PARTY,
    "cold_own_import": OWN,
    "cold_fixtures": FIXTURES,
    "cold_load": LOAD,
    "cold_first_call": FIRST,
}

Load = Callable[[], Callable[[], object]]


class MemoryProbe(Protocol):
    """A memory meter of this process, which attributes what it counts to the parts of its startup."""

    reason: str  # why memory is unknown, "" where it is known
    source: str  # what peaks are read from
    warnings: tuple[str, ...]

    def peak(self, *parts: str) -> int:
        """Bytes of the peak of some parts, or of all; raises MeasurementError where it cannot be read."""

    def retained(self, *parts: str) -> int:
        """Bytes that parts hold now."""

    def now(self) -> tuple[int, str]:
        """Bytes held now, and what they were read from."""


class BoardProbe(Protocol):
    """A meter of the memory that this process takes on GPUs."""

    def begin(self) -> None: ...
    def note(self) -> None: ...
    def peak(self) -> tuple[int, str] | None:
        """Bytes of the peak above what `begin` found, and what they are from; None where no GPU is used."""


def measure_memory(
    imports: Sequence[str],
    load: Load,
    startup: Startup,
    probe: MemoryProbe,
    *,
    growing: bool = True,
    boards: BoardProbe | None = None,
) -> WorkerResult:
    """Load and call; return the peak of all parts of this process, and of each.

    `memory` counts what the code under test has taken since its first import: modules, fixtures, the test's body, load
    and calls. What third-party modules take when they are imported counts nowhere. `memory_call` is the part of load
    and calls: the larger of `memory_first_call` and `memory_steady`, the peak from the second call on;
    `memory_retained` is what they still hold after six calls. Ten to sixty more calls are made where there is time;
    the series holds the bytes after each of them, where `growing` asks for it. What `boards` find is `gpu_memory`;
    nothing where no GPU is used.
    """
    if reason := _untimed() or probe.reason:
        asked = [metric for metric in taken_by("memory") if boards or not METRICS[metric].of_gpu]
        return WorkerResult(values={}, reasons=dict.fromkeys(asked, reason), notes=[], runs=[])
    with startup.part(FIRST):
        _import(imports, startup)
        call = _watched(load, boards) if boards else load()
        call()
    values, reasons = dict[str, float](), dict[str, str]()
    with startup.part(LATER):
        call_ns = _steady(call, startup.clock_ns)
        values["memory_retained"] = probe.retained(FIRST, LATER)
        give_back_free()
        series = _more(call, probe, startup.clock_ns, calls := _calls_after(call_ns), growing=growing)
    for metric, parts in _PEAKS.items():
        _note(metric, partial(probe.peak, *parts), values, reasons)
    _note("memory_steady", lambda: probe.retained(FIRST) + probe.peak(LATER), values, reasons)
    if not series:
        needed_s, most_s = _FEWEST_CALLS * call_ns / _SECOND, _LONGEST_NS // _SECOND
        why = f"growth takes {_FEWEST_CALLS} calls after warm-up, {needed_s:.0f} s at this pace; it may take {most_s} s"
        reasons["memory_leak"] = why if growing else "growth was not asked for"
    held_in = probe.now()[1]
    sources = {**dict.fromkeys(values, probe.source), "memory_retained": held_in, "memory_leak": held_in}
    sources |= dict.fromkeys(("memory", "memory_import", "memory_fixtures"), f"{probe.source}, {_ABOVE}")
    _note_boards(boards, values, reasons, sources)
    notes = [*probe.warnings, f"peaks of {1 + _STEADY_CALLS + calls} calls", *_missed(startup, imports), *startup.notes]
    return WorkerResult(values=values, reasons=reasons, notes=notes, runs=[], sources=sources, series={GROWTH: series})


def _import(imports: Sequence[str], startup: Startup) -> None:
    with startup.part(THIRD_PARTY):
        for module in imports:
            importlib.import_module(module)


def _missed(startup: Startup, imports: Sequence[str]) -> list[str]:
    """Name the modules whose import was over before anything could be attributed."""
    known = ", ".join(startup.missed(imports))
    return [f"already imported before the measurement, so not part of it: {known}"] if known else []


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


def _steady(call: Callable[[], object], clock_ns: Callable[[], int]) -> int:
    """Make the calls after the first one; return the median in ns."""
    instants = [clock_ns()]
    for _ in range(_STEADY_CALLS):
        call()
        instants.append(clock_ns())
    return sorted(after - before for before, after in pairwise(instants))[_STEADY_CALLS // 2]


def _calls_after(call_ns: int) -> int:
    """Return how many more calls there are time for: by steps, so that the processes to be compared make equally many.

    What grows by the call has another peak after another number of them.
    """
    quick = next((calls for calls in _CALLS if calls * call_ns <= _USUAL_NS), _FEWEST_CALLS)
    return quick if quick * call_ns <= _LONGEST_NS else 0


def measure_cold_start(imports: Sequence[str], load: Load, startup: Startup) -> WorkerResult:
    """Import the runtime, load the model and call once; return what each part has taken since the first own import.

    The page cache is warm. `cold_warm_call`, the median of the five calls that follow, is the part that stays;
    `cold_start`, the sum of all others, leaves it out.
    """
    if reason := _untimed():
        return WorkerResult(values={}, reasons=dict.fromkeys(taken_by("cold"), reason), notes=[], runs=[])
    return untraced(partial(_start_cold, imports, load, startup))


def _start_cold(imports: Sequence[str], load: Load, startup: Startup) -> WorkerResult:
    with startup.part(LOAD):
        _import(imports, startup)
        call = load()
    with fakes_in_place(), startup.part(FIRST):
        call()
    warm = list[int]()
    for _ in range(_STEADY_CALLS):
        before = startup.spent_ns[LATER]
        with fakes_in_place(), startup.part(LATER):
            call()
        warm.append(startup.spent_ns[LATER] - before)
    values = {metric: startup.spent_ns[part] / _SECOND for metric, part in _STARTS.items()}
    values["cold_start"] = sum(values.values())
    values["cold_warm_call"] = sorted(warm)[_STEADY_CALLS // 2] / _SECOND
    notes = [*_missed(startup, imports), *startup.notes]
    return WorkerResult(values=values, reasons={}, notes=notes, runs=[])


def _untimed() -> str:
    """Return why nothing can be measured in this process, "" where something can."""
    return str(why_untimed() or "")


def _note(metric: str, read: Callable[[], int], values: dict[str, float], reasons: dict[str, str]) -> None:
    try:
        values[metric] = float(read())
    except MeasurementError as error:
        reasons[metric] = str(error)


def _more(
    call: Callable[[], object], probe: MemoryProbe, clock_ns: Callable[[], int], calls: int, *, growing: bool
) -> list[float]:
    """Make so many more calls; return what is held after each of them, as far as there is time to read it.

    Cycles of objects are garbage until the collector runs, which is not at every call: it is run before each reading,
    on all generations. What `gc.freeze` hides from it is never given back, though a later call may replace it.
    """
    readings: list[float] = []
    began = clock_ns()
    for _ in range(calls):
        call()
        if growing and (len(readings) < _FEWEST_CALLS or clock_ns() - began <= _USUAL_NS):
            gc.collect()
            readings.append(float(probe.now()[0]))
    return readings
