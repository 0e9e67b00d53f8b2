"""Samples from raw readings, and why a metric is unmeasured."""

import mmap
import platform
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import median

from pytest_hwperf.host.memory import COUNTED, EXACT, resolution
from pytest_hwperf.host.worker_protocol import WorkerResult
from pytest_hwperf.measure.items import ItemTimes
from pytest_hwperf.measure.plan import FEWEST_WINDOWS
from pytest_hwperf.measure.sampling import RawSamples, Window
from pytest_hwperf.measure.worker_tasks import GROWTH
from pytest_hwperf.records.contracts import CountingMeter, Meter
from pytest_hwperf.records.messages import Remark, Statement, said, state
from pytest_hwperf.records.metrics import METRICS, Spread
from pytest_hwperf.records.run import Reading, Sample, Values, replace
from pytest_hwperf.records.units import show_interval, show_number
from pytest_hwperf.stats.figures.leaks import Growth, growth, is_leak, least
from pytest_hwperf.stats.service.loads import why_drifting

CLOCK = "perf_counter"

_DEPENDENT = "items of one call depend on each other: the interval is that of independent ones, and too narrow"

_OURS = 0.90  # share of the machine's busy CPU time from which on its energy is this process's
_IDLE_AGREES = 0.05  # largest relative difference of two idle powers that are averaged


def samples_of(
    measured: RawSamples, meters: Sequence[Meter], *, rows: int | None, cores: int, warnings: Sequence[Remark] = ()
) -> tuple[tuple[Sample, ...], dict[str, Statement]]:
    timings = (*warnings, *measured.warnings, *filter(None, [why_drifting(measured.latency_s)]))
    first = _timed("first_call", array("d", [measured.first_call_s]), "call")
    found = [_latency(measured, timings), first, *_throughputs(measured, rows, timings), *_parts(measured, timings)]
    unmeasured = dict[str, Statement]()
    for position, meter in enumerate(meters):
        refusals = [w.readings[position].reason for w in measured.windows if w.readings[position].value is None]
        if refusals:  # an error in one window voids the sample: the others would be biased
            unmeasured[meter.metric] = said(refusals[0])
        elif isinstance(meter, CountingMeter) and len(measured.windows) < FEWEST_WINDOWS:
            fitted = {"windows": len(measured.windows), "shortest_s": meter.shortest_window_s}
            unmeasured[meter.metric] = state("few windows", needed=FEWEST_WINDOWS, **fitted)
        else:
            found.extend(_counted(measured, meter, position, rows=rows, cores=cores))
    return tuple(found), unmeasured


def _latency(measured: RawSamples, warnings: tuple[Remark, ...]) -> Sample:
    size = measured.calls_per_value
    if size > 1:
        which = (
            "a round's iterations share one value" if measured.in_rounds else "calls under 20 µs are timed in batches"
        )
        warnings = (*warnings, f"{which}: percentiles are of batch means, not of calls")
    return _timed("latency", measured.latency_s, "call" if size == 1 else f"batch of {size} calls", warnings)


def _parts(measured: RawSamples, warnings: tuple[Remark, ...]) -> Iterator[Sample]:
    """Yield what is known of the parts of a call: the items of its stream, and its time by the length of its rows."""
    yield from item_samples(measured.items, warnings)
    windows = [window for window in measured.windows if window.items]
    if windows:
        rates = array("d", (window.items / window.wall_s for window in windows))
        weights = _weights([window.items for window in windows])
        yield _timed("item_throughput", rates, "window", warnings, weights)
    if measured.length_s:
        yield _timed("latency_per_length", measured.length_s, "call", warnings)


def _timed(
    metric: str, values: Values, per: str, warnings: tuple[Remark, ...] = (), weights: Values | None = None
) -> Sample:
    return Sample(metric=metric, values=array("d", values), per=per, source=CLOCK, warnings=warnings, weights=weights)


def item_samples(items: ItemTimes | None, warnings: tuple[Remark, ...]) -> Iterator[Sample]:
    """Yield the time to the first item of a stream, and from each item to the next; nothing of other calls."""
    if items is None:
        return
    if items.first_s:
        yield _timed("first_item", items.first_s, "call", warnings)
    if items.item_s:
        yield _timed("item", items.item_s, "item", (*warnings, _DEPENDENT))


def _throughputs(measured: RawSamples, rows: int | None, warnings: tuple[Remark, ...]) -> list[Sample]:
    """Completed calls over wall time, window by window."""
    rates = array("d", (window.calls / window.wall_s for window in measured.windows))
    one = _timed("throughput", rates, "window", warnings, _weights([window.calls for window in measured.windows]))
    if rows is None:
        return [one]
    return [one, replace(one, metric="sample_throughput", values=array("d", (rate * rows for rate in rates)))]


def _weights(sizes: Sequence[float]) -> Values | None:
    """Return what each window counts in a mean; None where all count alike."""
    return None if min(sizes) == max(sizes) else array("d", sizes)


def _counted(measured: RawSamples, meter: Meter, position: int, *, rows: int | None, cores: int) -> list[Sample]:
    """Divide what a meter counted in each window, by call, row or core second as its metrics say.

    Where a call has one row, both are the same, and are reported once.
    """
    totals = [(w, w.readings[position].value) for w in measured.windows]
    warnings: tuple[Remark, ...] = (*meter.warnings, *_exactness(measured, meter, position))
    calls = _weights([window.calls for window in measured.windows])
    # Utilisation is a share of time: where windows differ in their calls, each counts by its length.
    weights = (calls, None if calls is None else array("d", [window.wall_s for window in measured.windows]))
    found = dict[Spread, Sample]()
    for metric in METRICS.values():
        over: Spread = "call" if metric.spread == "row" and rows in (None, 1) else metric.spread
        if meter.metric in (metric.name, metric.counter) and over not in found:
            spread = partial(_spread, over, rows=rows or 1, cores=cores)
            values = array("d", (spread(total, window) for window, total in totals if total is not None))
            found[over] = Sample(
                metric=metric.name,
                values=values,
                per="window",
                source=meter.source,
                estimated=meter.covers == "estimate",
                warnings=warnings,
                weights=weights[over in ("core second", "nothing")],
            )
    return list(found.values())


def _spread(over: Spread, total: float, window: Window, *, rows: int, cores: int) -> float:
    if over == "nothing":
        return total
    if over == "core second":
        return total / (window.wall_s * cores)
    return total / window.calls / (rows if over == "row" else 1)


def _exactness(measured: RawSamples, meter: Meter, position: int) -> Iterator[Statement]:
    """Yield warnings: the largest error by a counter's steps, and whether other processes' work is in it."""
    if not isinstance(meter, CountingMeter):
        return
    window_s = min(window.wall_s for window in measured.windows)
    yield state("step", shortest_s=window_s, bound=100 * meter.tick_s / window_s, tick_s=meter.tick_s)
    shares = [share for w in measured.windows if (share := w.readings[position].share) is not None]
    if shares and median(shares) < _OURS:
        yield state("shared", share=median(shares))


def net_energy(
    measured: RawSamples, energy: Sample, idle_w: Sequence[Reading], *, rows: int | None
) -> tuple[list[Sample], dict[str, Statement]]:
    """Subtract the power of the idle machine from an energy sample."""
    powers = [reading.value for reading in idle_w if reading.value is not None]
    if len(powers) < len(idle_w):
        reasons = dict.fromkeys(reading.reason for reading in idle_w if reading.value is None)
        return [], {"energy_net": state("no idle power", why="; ".join(reasons))}
    least, most = min(powers), max(powers)
    if most - least > _IDLE_AGREES * most:
        return [], {"energy_net": state("idle power moved", least=show_number(least), most=show_number(most))}
    idle = sum(powers) / len(powers)
    seconds = (window.wall_s / (window.calls * (rows or 1)) for window in measured.windows)
    values = array("d", (joules - idle * s for joules, s in zip(energy.values, seconds, strict=True)))
    note = state("idle machine", watts=idle)
    return [replace(energy, metric="energy_net", values=values, warnings=(*energy.warnings, note))], {}


Found = tuple[list[Sample], dict[str, Statement]]

_PEAK, _LEAK = "memory", "memory_leak"
_PER = "fresh process"
_PINNED = ", allocator pinned" if platform.libc_ver()[0] == "glibc" else ""  # whose variable does it


def cold_samples(metrics: Sequence[str], results: Sequence[WorkerResult]) -> Found:
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
