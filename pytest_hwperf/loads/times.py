"""When the calls of a load were due, issued and ended, noted as it runs; and the wait until a call is due."""

import math
import random
import threading
from array import array
from collections.abc import Iterator, Sequence
from time import perf_counter, sleep

from pytest_hwperf.records.load import Load, Served
from pytest_hwperf.records.messages import Remark, Statement
from pytest_hwperf.records.run import OF_A_LOAD, Sample, Values, replace
from pytest_hwperf.stats.loads import rates, why_degrading, why_not_served, why_slower, why_unsteady, why_unsure

_LATE_S = 0.0002  # a sleep may end so much late, on an idle machine


class Times:
    """When the calls of a load were due, issued and ended; several threads note at once."""

    def __init__(self) -> None:
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


def schedule(load: Load) -> Values:
    """Draw when the calls of an open load are due, in s since its beginning; the same seed draws the same times.

    Gaps of a server load are gamma distributed: of shape 1 they are those of a Poisson process.
    """
    if load.kind == "offline":
        return array("d", [0.0] * load.calls)
    chance, due, now = random.Random(load.seed), array("d"), 0.0  # noqa: S311 - a schedule is no secret
    while (now := now + chance.gammavariate(load.shape, 1 / (load.qps * load.shape))) < load.seconds:
        due.append(now)
        if len(due) == load.most:
            break
    return due


def doubts_of(load: Load, served: Served, within_s: float | None) -> tuple[Statement, ...]:
    """Say what is to be doubted of a load; with most of it no budget passes."""
    late = why_not_served(load, served)
    found = (
        None if late is not None and late.kind == "late calls" else late,  # that is what a budget answers
        why_unsure(served, within_s) or why_slower(served),
        why_unsteady(load, served),
        why_degrading(load, served),
    )
    return tuple(filter(None, found))


def load_samples(
    load: Load, served: Served, source: str, *, rows: int | None, within_s: float | None, warnings: Sequence[Remark]
) -> Iterator[Sample]:
    """Yield latency, throughput and goodput of a load."""
    noted = (*warnings, *doubts_of(load, served, within_s))
    yield Sample(metric="latency", values=served.latencies, per=OF_A_LOAD, source=source, warnings=noted)
    one = _throughput(served, source, tuple(one for one in noted if not _of_generator(one)))
    yield one
    if rows is not None:
        yield replace(one, metric="sample_throughput", values=array("d", (rate * rows for rate in one.values)))
    if within_s is not None:
        good, _ = rates(served, within_s)
        yield Sample(metric="goodput", values=good, per="window", source=source, warnings=noted)


def _of_generator(remark: Remark) -> bool:
    """Whether a remark is about the moment when calls were issued, which changes no rate."""
    return isinstance(remark, Statement) and remark.kind in {"generator late", "generator adds"}


def _throughput(served: Served, source: str, warnings: tuple[Remark, ...]) -> Sample:
    """Completed calls over wall time, window by window; over the whole where a window has none."""
    values, counts = rates(served)
    weights: Values | None = counts
    if not min(counts):
        values, weights = array("d", [len(served.ended) / max(*served.ended, math.ulp(0.0))]), None
    return Sample(metric="throughput", values=values, per="window", source=source, warnings=warnings, weights=weights)
