"""Where the time of a call goes in functions of Python: the stack is sampled while calls are made.

That happens in a process of its own, never where time is taken, and the same calls are timed there without it, so that
its cost is known.
"""

import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.machinery import SourceFileLoader
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_NEWLOCALS
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter, perf_counter_ns, thread_time, thread_time_ns
from types import CodeType, FrameType

from pytest_hwperf.host.source_files import is_of_this_package, is_own, loaded_modules, relative, tree_around
from pytest_hwperf.host.ticks import IN_MAIN_THREAD, SAMPLED_BY, ticking
from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.profiles import SampledCalls, SampledFunction
from pytest_hwperf.records.text import visible
from pytest_hwperf.stats.causes.changed_code import UNREADABLE, digest_of

_LONGEST_NAME = 200  # characters
_DEEPEST = 100  # frames that are kept of a stack, the outermost
# Comprehensions are frames of their own in some versions of Python only.
_WITHIN = ("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>")
_MADE = "compiled at run time"  # in place of a file
_AROUND = {"_pytest", "pluggy"}  # packages that call what is measured
_TRACER = {("site-packages", "coverage"), ("dist-packages", "coverage")}  # it is called at any frame, also at ours
_is_of_this_package = cache(is_of_this_package)


class _Reader(SourceFileLoader):
    """Reads compiled code where it is kept already, and keeps none."""

    def set_data(self, path: str, data: object, *, _mode: int = 0) -> None:
        """Write nothing into the user's tree."""


class FrameNames:
    """Names of frames in one tree: `Model.predict (src/model.py)`."""

    def __init__(self, root: Path) -> None:
        self.lines: dict[str, int] = {}  # frame → line on which its function begins
        self.own: set[str] = set()  # frames of the user's own code
        self._digests = defaultdict[str, set[str]](set)  # frame of the user's own code → digests of all that have it
        tree = tree_around(root)  # the tests may have a root of their own within it
        self._is_own = cache(lambda file: is_own(file, tree))
        self._relative = cache(lambda file: relative(file, root))

    def frame(self, function: CodeType) -> str:
        """Return the name of a frame; no character of it separates frames."""
        is_made = not function.co_filename or function.co_filename.startswith("<")  # such as "<string>"
        shown = self._shown(function, _MADE if is_made else self._relative(function.co_filename))
        self.lines.setdefault(shown, 0 if is_made else function.co_firstlineno)
        if not is_made and self._is_own(function.co_filename):
            self.own.add(shown)
            self._digests[shown].add(_digest_of(function))
        return shown

    def _shown(self, function: CodeType, file: str) -> str:
        return visible(f"{function.co_qualname[:_LONGEST_NAME]} ({file[-_LONGEST_NAME:]})").replace(";", ",")

    def codes(self) -> dict[str, str]:
        """Return the digest of all functions of the user's modules, also of those that no call of this side reaches.

        Several of one name, such as lambdas, have one together; where not all of them are known, they have none.
        """
        whole = defaultdict[str, set[str]](set)
        for file in sorted({*loaded_modules().values()}):
            if file.endswith(".py") and self._is_own(file):
                for code in _functions_in(file):
                    whole[self._shown(code, self._relative(file))].add(_digest_of(code))
        part = {frame: digests for frame, digests in self._digests.items() if frame not in whole and len(digests) == 1}
        found = {frame: " ".join(sorted(digests)) for frame, digests in (part | whole).items()}
        return {one: found[one] for one in sorted(found, key=lambda one: one not in self.lines)}  # called ones first

    def path(self, stack: Sequence[CodeType]) -> tuple[str, ...]:
        """Return the frames of a stack from the measured callable inwards: none of this package and of pytest.

        A function that calls itself is there once.
        """
        named: list[str] = []
        for function in _measured(stack):
            if named and _is_within(function):
                continue
            frame = self.frame(function)
            if not named or named[-1] != frame:
                named.append(frame)
        return tuple(named[:_DEEPEST])


def _functions_in(file: str) -> Iterator[CodeType]:
    """Yield the code of all functions of a module; of a file that is another one since its import, maybe none."""
    waiting = list[CodeType | None]()
    with suppress(OSError, ImportError, *UNREADABLE), warnings.catch_warnings(action="ignore"):
        waiting.append(_Reader("", file).get_code(""))
    for code in filter(None, waiting):  # which grows meanwhile
        waiting += (one for one in code.co_consts if isinstance(one, CodeType))
        if code.co_flags & CO_NEWLOCALS and not _is_within(code):  # neither a module nor a class
            yield code


@cache
def _digest_of(function: CodeType) -> str:
    """Return the digests of a function and of the comprehensions in it, whose time counts to it."""
    within = (one for one in function.co_consts if isinstance(one, CodeType) and _is_within(one))
    return "".join([digest_of(function), *map(_digest_of, within)])


def is_measured(function: CodeType) -> bool:
    """Whether a function is part of what is measured, as far as its file tells: a frame, and not part of one."""
    return not (_is_within(function) or _is_of_this_package(function.co_filename) or _leads(function))


def _measured(stack: Sequence[CodeType]) -> Iterator[CodeType]:
    """Yield the frames below the last one of this package, without those that only lead to the call."""
    own = max((place for place, one in enumerate(stack) if _is_of_this_package(one.co_filename)), default=None)
    if own is None:
        return
    leading = True
    for function in stack[own + 1 :]:
        leading = leading and _leads(function)
        if not leading:
            yield function


def _is_within(function: CodeType) -> bool:
    """Whether a frame counts to the one that it is called from."""
    return function.co_qualname.rpartition(".")[2] in _WITHIN


def _leads(function: CodeType) -> bool:
    """Whether a frame lies between this package and what is measured: one of pytest's, or of a tracer."""
    parts = Path(function.co_filename).parts
    return parts[-3:-1] in _TRACER or not _AROUND.isdisjoint(parts)


_RESUMED = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR  # each of their items looks like a call


def count_functions(
    work: Callable[[], object], calls: int, within: CodeType | None = None
) -> dict[CodeType, float | None]:
    """Return how often each function is called in one call; None where it cannot be told."""
    seen, is_inside = Counter[CodeType](), within is None

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal is_inside
        if event == "call" and is_inside:
            seen[frame.f_code] += 1
        if frame.f_code is within and event in {"call", "return"}:
            is_inside = event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return {code: None if code.co_flags & _RESUMED else count / calls for code, count in seen.items()}


_DEEPEST_SAMPLED = 500  # frames of a stack that are looked at, the innermost


class Samples:
    """What was sampled: stacks, the outermost function first, each with its seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.seconds: dict[tuple[CodeType, ...], float] = {}
        self.count = 0
        self.is_over = False  # from then on nothing is a sample
        self._clock, self._last = clock, clock()

    def take(self, frame: FrameType | None) -> None:
        """Note the stack of a frame for the time since the last sample; what this takes itself is nobody's."""
        if self.is_over:
            return
        stack = list[CodeType]()
        now = self._clock()
        while frame is not None and len(stack) < _DEEPEST_SAMPLED:
            stack.append(frame.f_code)
            frame = frame.f_back
        key = tuple(reversed(stack))
        self.seconds[key] = self.seconds.get(key, 0.0) + now - self._last
        self.count += 1
        self._last = self._clock()


@contextmanager
def sampling(interval_s: float, clock: Callable[[], float] = perf_counter) -> Iterator[Samples]:
    """Sample the main thread within the block, every `interval_s` on average."""
    samples = Samples(clock)
    with ticking(interval_s, samples.take, clock):
        yield samples


_INTERVAL_S = 0.0005
_BLOCK_NS = 5_000_000
_COUNTED = 2  # calls in which functions are counted
_ROUNDS = 5  # in each of which calls are made without the profiler, then with it: a machine changes its speed
_PLAIN = 0.5  # of the time: in which calls are made without the profiler
_TRIED_S = 0.05  # by each of two clocks
_COMPUTES = 0.8  # of the wall time: what takes less CPU time waits for something
_LEAST_SHARE = 0.0005  # of a call: about one sample; less counts to the frame that it is in
_MOST_FUNCTIONS, _MOST_CODES = 2000, 20_000

Batch = Callable[[int, Callable[[], int]], int]  # makes that many calls; returns the ns of all by that clock


def sample_functions(batch: Batch, root: Path, seconds: float, within: CodeType | None = None) -> SampledCalls:
    """Profile calls for some seconds, after they were counted and timed without a profiler.

    Calls that compute are timed by the CPU time of this thread: other work of the machine takes none of it.
    """
    if sys.getprofile() is not None:
        raise MeasurementError(f"another profiler watches the process: {sys.getprofile()!r}")
    names = FrameNames(root)
    counted = count_functions(lambda: batch(_COUNTED, perf_counter_ns), _COUNTED, within)
    computes, size = _computes(batch)
    clock_ns = thread_time_ns if computes else perf_counter_ns
    clock = thread_time if computes and IN_MAIN_THREAD else perf_counter
    plain, slowed, sessions = list[float](), list[float](), list[Samples]()
    for _ in range(_ROUNDS):
        taken_ns, size = _timed(batch, clock_ns, seconds * _PLAIN / _ROUNDS, size)
        plain += taken_ns
        with sampling(_INTERVAL_S, clock) as samples:
            taken_ns, _ = _timed(batch, clock_ns, seconds / _ROUNDS, size)
            samples.is_over = True  # leaving the block is no call
        sessions.append(samples)
        slowed += taken_ns
    stacks = _stacks(sessions, names, within)
    total = sum(stacks.values())
    if not total:
        raise MeasurementError(str(state("not sampled")))
    kept = folded(stacks, _LEAST_SHARE * total)
    return SampledCalls(
        source=SAMPLED_BY.format(milliseconds=_INTERVAL_S * 1000),
        stacks={";".join(path): taken / total * _undisturbed(slowed) * 1e-9 for path, taken in kept.items()},
        functions=_functions(names, counted),
        codes=dict(islice(names.codes().items(), _MOST_CODES)),
        call_s=_undisturbed(slowed) * 1e-9,
        plain_s=_undisturbed(plain) * 1e-9,
        samples=sum(one.count for one in sessions),
    )


def _computes(batch: Batch) -> tuple[bool, int]:
    """Say whether calls take about as much CPU time as they last undisturbed, and how many fill a block."""
    lasted, size = _timed(batch, perf_counter_ns, _TRIED_S, 1)
    computed, size = _timed(batch, thread_time_ns, _TRIED_S, size)
    return median(computed) >= _COMPUTES * min(lasted), size


def _timed(batch: Batch, clock_ns: Callable[[], int], seconds: float, size: int) -> tuple[list[float], int]:
    """Make blocks of calls for some seconds, longer ones while they are short; return ns of a call in each, and a size.

    Blocks are short, so that other work of the machine is in few of them.
    """
    began, taken = perf_counter_ns(), list[float]()
    while not taken or perf_counter_ns() - began < seconds * 1e9:
        started = perf_counter_ns()
        taken.append(batch(size, clock_ns) / size)
        if perf_counter_ns() - started < _BLOCK_NS / 2:  # with what is done between its calls
            size *= 2
    return taken, size


def _undisturbed(blocks: Sequence[float]) -> float:
    """Return the lower quartile: other work only makes blocks longer."""
    return sorted(blocks)[len(blocks) // 4]


def _stacks(sessions: Sequence[Samples], names: FrameNames, within: CodeType | None) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for stack, seconds in (item for one in sessions for item in one.seconds.items()):
        path = names.path(stack) if within is None or within in stack else ()
        if path:
            found[path] = found.get(path, 0.0) + seconds
    return found


def folded(stacks: Mapping[tuple[str, ...], float], least: float) -> dict[tuple[str, ...], float]:
    """Return stacks of which those that hold less than `least` count to the frame that they are in."""
    kept = dict(stacks)
    for depth in range(max(map(len, stacks), default=0), 1, -1):
        for path in [path for path in kept if len(path) == depth and kept[path] < least]:
            kept[path[:-1]] = kept.get(path[:-1], 0.0) + kept.pop(path)
    return kept


def _functions(names: FrameNames, counted: Mapping[CodeType, float | None]) -> dict[str, SampledFunction]:
    """Return what is known of each function that was sampled or counted."""
    calls = {names.frame(one): count for one, count in counted.items() if is_measured(one)}
    return {
        frame: SampledFunction(line=line, own=frame in names.own, calls=calls.get(frame))
        for frame, line in islice(names.lines.items(), _MOST_FUNCTIONS)
    }
