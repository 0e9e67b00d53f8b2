"""The highest rate of calls that is served within a latency: doubled, bisected, and confirmed by a fresh schedule."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_hwperf.core.early_stopping import early_stopping, fewest_calls
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.loads import LONGEST_S, Load, Served, next_rate, why_not_served, why_unsure
from pytest_hwperf.core.records import replace
from pytest_hwperf.core.statements import Statement

_MORE = 1.5  # times the calls that the percentile takes at least


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One rate that was tried."""

    load: Load
    served: Served
    bound_s: float | None  # that the percentile keeps by early stopping
    kept: bool
    confirms: bool  # whether it repeats a rate that was kept, by a fresh schedule
    doubt: Statement | None  # whether the generator, and not what it calls, may have made the latency


@dataclass(slots=True, kw_only=True)
class PeakSearch:
    """A search for the highest rate, a try at a time, so that what was tried is kept where it is interrupted."""

    load: Load  # its rate is the first to be tried
    q: float  # 0.95 for p95
    within_s: float
    run: Callable[[Load], Served]
    tries: list[Try] = field(default_factory=list)

    def search(self) -> Try | None:
        """Return the try that confirms the highest rate, None where none is kept."""
        tried = dict[float, bool]()
        while True:
            while (rate := next_rate(tried, self.load.qps)) is not None:
                tried[rate] = self._tried(rate, confirms=False).kept
            best = max((rate for rate, kept in tried.items() if kept), default=None)
            if best is None:
                return None
            again = self._tried(best, confirms=True)
            if again.kept:
                return again
            tried[best] = False

    def _tried(self, rate: float, *, confirms: bool) -> Try:
        seconds = max(self.load.seconds, _MORE * fewest_calls(self.q) / rate)
        if seconds > LONGEST_S:
            raise UsageProblem(f"nothing is served within {1e3 * self.within_s:g} ms even at {rate:g} calls a second")
        load = replace(self.load, qps=rate, seconds=seconds, seed=self.load.seed + len(self.tries))
        served = self.run(load)
        bound_s = early_stopping(served.latencies, self.q)
        fits = bound_s is not None and bound_s <= self.within_s
        kept = fits and why_not_served(replace(load, within_ms=0.0), served) is None
        doubt = why_unsure(served, self.within_s)
        self.tries.append(Try(load=load, served=served, bound_s=bound_s, kept=kept, confirms=confirms, doubt=doubt))
        return self.tries[-1]
