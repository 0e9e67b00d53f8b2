"""How long and how finely to sample, and the windows that the meters need."""

import gc
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from pytest_hwperf.records.contracts import CountingMeter, Meter

FEWEST_WINDOWS = 5  # of counters that need long ones, whatever the time: fewer give no useful interval
_PATIENCE = 3  # planned lengths of a window after which it is ended


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingLimits:
    """How long and how finely to sample; all durations in seconds."""

    max_time_s: float = 2.0  # cap of the sampling; warm-up may take as much again, half of it at most
    min_time_s: float = 0.25  # a shorter sample sees no scheduler and no clock change
    min_calls: int = 300  # a finite upper 95 % bound of p99 takes 299
    window_s: float = 0.05  # between two meter readings
    block_s: float = 0.01  # one block of the warm-up
    steady_ratio: float = 1.10  # largest over smallest median of three successive steady blocks
    batch_below_s: float = 20e-6  # shorter calls are timed in batches: reading the clock takes 60 ns
    batch_s: float = 100e-6  # one batch
    hold_collector: bool = False  # the garbage collector runs between calls alone; else as the program has set it
    freezes: bool = True  # existing objects are kept from the collector, and garbage is collected before
    single_calls: bool = False  # short calls too are timed one by one for their latency: for its tail
    compiles: bool = False  # the first call compiles: a second one tells how long a call takes

    def brief(self) -> "SamplingLimits":
        """Return the same for calls by which nothing is judged."""
        return replace(self, min_time_s=0.02, min_calls=20, window_s=0.01, block_s=0.003, freezes=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan:
    """Windows that some meters accept."""

    values: int  # timed values of one window
    least_s: float  # a meter refuses shorter windows
    fewest: int  # windows
    planned_s: float  # length of one window
    max_time_s: float
    longest_s: float  # of the sampling, even if the windows are too few then

    @classmethod
    def of(cls, limits: SamplingLimits, value_s: float, meters: Sequence[Meter]) -> "WindowPlan":
        """Plan windows of whole values of `value_s` seconds each, accepted by all `meters`."""
        least_s = max((meter.shortest_window_s for meter in meters), default=0.0)
        window_s = max(limits.window_s, 1.25 * least_s)
        values = max(1, math.ceil(window_s / max(value_s, 1e-9)))
        fewest = FEWEST_WINDOWS if least_s else 2  # one gives no interval of a rate
        return cls(
            values=values,
            least_s=least_s,
            fewest=fewest,
            planned_s=max(window_s, values * value_s),
            max_time_s=limits.max_time_s,
            longest_s=max(limits.max_time_s, 2 * fewest * 1.25 * least_s),
        )

    @property
    def patience_s(self) -> float:
        """Time after which a window is ended."""
        return _PATIENCE * self.planned_s

    def is_over(self, elapsed_s: float, windows: int) -> bool:
        return elapsed_s >= self._until_s(windows)

    def left_s(self, elapsed_s: float, windows: int) -> float:
        """Return the most seconds that are left when another window begins."""
        return max(self._until_s(windows) - elapsed_s, self.planned_s)

    def _until_s(self, windows: int) -> float:
        return self.max_time_s if windows >= self.fewest else self.longest_s

    def watched(self, meters: Sequence[Meter]) -> ExitStack:
        """Keep those counters read regularly that could start again at 0 within a window."""
        with ExitStack() as stack:
            for meter in meters:
                if isinstance(meter, CountingMeter) and self.patience_s > meter.longest_window_s:
                    stack.enter_context(meter.attended())
            return stack.pop_all()


_INTERPRETERS_OWN = 1000  # objects that may be frozen when Python starts: 375 in 3.12


@contextmanager
def collection(*, held: bool, freezes: bool = True, is_frozen: bool = False) -> Iterator[None]:
    """Freeze existing objects, and keep the collector out of timed calls where it is to be held.

    Frozen objects are not scanned, so that a collection costs the same however many objects the session has. To find
    the garbage first takes 30 to 75 ms where pandas and scikit-learn are loaded: calls by which nothing is judged do
    without both, unless the collector is held. If the caller has frozen once what all measurements share
    (`is_frozen`), nothing more is frozen: to count what is frozen takes 10 ms there.
    """
    was_enabled, has_collected = gc.isenabled(), freezes or held
    if has_collected:
        gc.collect()
    # else the user's own freeze would be undone too
    if has_frozen := has_collected and not is_frozen and gc.get_freeze_count() <= _INTERPRETERS_OWN:
        gc.freeze()
    if held:
        gc.disable()
    try:
        yield
    finally:
        if has_frozen:
            gc.unfreeze()
        if was_enabled:
            gc.enable()


def collect_between(*, held: bool) -> None:
    """Collect the garbage of calls during which the collector was held; else it does so by itself, in its own time."""
    if held:
        gc.collect()
