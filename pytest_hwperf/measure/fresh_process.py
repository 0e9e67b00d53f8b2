"""Samples made from the results of fresh processes, one value per process, and the check for leaks."""

import mmap
import platform
from array import array
from collections.abc import Mapping, Sequence
from statistics import median

from pytest_hwperf.core.leaks import Growth, growth, is_leak, least
from pytest_hwperf.core.metrics import METRICS
from pytest_hwperf.core.records import Sample
from pytest_hwperf.core.statements import Remark, Statement, said, state
from pytest_hwperf.core.units import show_interval
from pytest_hwperf.host.peak_rss import COUNTED, EXACT, resolution
from pytest_hwperf.host.worker_protocol import WorkerResult
from pytest_hwperf.measure.worker_tasks import GROWTH

Found = tuple[list[Sample], dict[str, Statement]]

_PEAK, _LEAK = "memory", "memory_leak"
_PER = "fresh process"
_PINNED = ", allocator pinned" if platform.libc_ver()[0] == "glibc" else ""  # whose variable does it


def cold_samples(metrics: Sequence[str], results: Sequence[WorkerResult]) -> Found:
    """Return a sample of each of `metrics`; in seconds."""
    notes = _notes(results)
    source = "perf_counter, from the first own import, page cache warm"
    return [_sample(metric, results, source, notes) for metric in metrics], {}


def memory_samples(metrics: Sequence[str], results: Sequence[WorkerResult], *, limits: Mapping[str, float]) -> Found:
    """Return samples of the `metrics` that every process could measure, in bytes, and metric → reason of the others."""
    reasons = {metric: said(reason) for result in results for metric, reason in result.reasons.items()}
    peaks, limit = _notes(results), limits.get(_LEAK)
    leak: Statement | None = None
    found = []
    if _LEAK not in reasons:
        grown = [growth(result.series[GROWTH]) for result in results]
        source = results[0].sources[_LEAK]
        leak = None if limit is not None else _leak(grown, resolution() if source == COUNTED else 0)
        values = array("d", (one.lasting for one in grown))
        said_of_it = (leak,) if leak else ()
        remarks = (*said_of_it, *(peaks if source != EXACT else ()))
        if inconclusive := _inconclusive(grown, limit):
            reasons[_LEAK] = inconclusive
        else:
            found.append(Sample(metric=_LEAK, values=values, per=_PER, source=f"{source}{_PINNED}", warnings=remarks))
    for metric in metrics:
        if metric not in reasons and metric != _LEAK and all(metric in result.values for result in results):
            source, of_gpu = results[0].sources[metric], METRICS[metric].of_gpu
            notes = () if of_gpu or source == EXACT else peaks
            warnings: tuple[Remark, ...] = (*notes, leak) if leak and metric == _PEAK else notes
            found.append(_sample(metric, results, source if of_gpu else f"{source}{_PINNED}", warnings))
    return sorted(found, key=lambda sample: metrics.index(sample.metric)), reasons


def _inconclusive(grown: Sequence[Growth], limit: float | None) -> Statement | None:
    """Return why growth can be judged neither to keep the limit nor to break it; None where it can.

    Steps that are rarer than the calls of one half leave the lasting growth at 0, as a cache does that fills up.
    """
    if limit is None:
        return None
    lasting, mean = median(one.lasting for one in grown), median(one.mean for one in grown)
    if not lasting <= limit < mean:
        return None
    return state("growth in steps", mean=mean, calls=min(one.calls for one in grown))


def _leak(grown: Sequence[Growth], lag: int) -> Statement | None:
    """Say that a measurement leaks; None where it does not."""
    calls = min(one.calls for one in grown)
    if not is_leak(grown, least(mmap.PAGESIZE, lag, calls)):
        return None
    lasting = [one.lasting for one in grown]
    shown = show_interval(median(lasting), min(lasting), max(lasting), "B")
    return state("leaks", grown=shown, calls=calls, processes=len(grown))


def _sample(metric: str, results: Sequence[WorkerResult], source: str, warnings: tuple[Remark, ...]) -> Sample:
    values = array("d", (result.values[metric] for result in results))
    return Sample(metric=metric, values=values, per=_PER, source=source, warnings=warnings)


def _notes(results: Sequence[WorkerResult]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for result in results for note in result.notes))
