"""Raw readings → samples: what was counted, per what, and why something was not."""

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_hwperf.core.records import Sample

if TYPE_CHECKING:
    from pytest_hwperf.core.contracts import Meter
    from pytest_hwperf.measure.sampling import Measured

CLOCK = "perf_counter"


def samples_of(
    measured: "Measured", meters: Sequence["Meter"], *, rows: int | None, cores: int, warnings: Sequence[str] = ()
) -> tuple[tuple[Sample, ...], dict[str, str]]:
    """Turn one measurement into samples, and name the metrics that could not be measured.

    Args:
        measured: what the sampler returned.
        meters: those it was given, in the same order.
        rows: samples per call; None where a call has no rows that are known.
        cores: allotted to this process, for the utilisation.
        warnings: true of every timing of this run, such as neighbours at work.

    Returns:
        The samples, and metric → reason for each meter that refused a window.
    """
    timings = (*warnings, *measured.warnings)
    found = [_latency(measured, timings), _first_call(measured), *_throughputs(measured, rows, timings)]
    unmeasured = {}
    for position, meter in enumerate(meters):
        refusals = [w.readings[position].reason for w in measured.windows if w.readings[position].value is None]
        if refusals:  # an error in one window voids the sample: the others would tell half the truth
            unmeasured[meter.metric] = refusals[0]
        else:
            found.extend(_counted(measured, meter, position, rows=rows, cores=cores))
    return tuple(found), unmeasured


def _latency(measured: "Measured", warnings: tuple[str, ...]) -> Sample:
    size = measured.calls_per_value
    if size > 1:
        warnings = (*warnings, "calls under 20 µs are timed in batches: percentiles are of batch means, not of calls")
    return Sample(
        metric="latency",
        values=array("d", measured.latency_s),
        per="call" if size == 1 else f"batch of {size} calls",
        source=CLOCK,
        warnings=warnings,
    )


def _first_call(measured: "Measured") -> Sample:
    return Sample(metric="first_call", values=array("d", [measured.first_call_s]), per="call", source=CLOCK)


def _throughputs(measured: "Measured", rows: int | None, warnings: tuple[str, ...]) -> list[Sample]:
    """Completed over wall, window by window; windows hold equally many calls."""
    rates = array("d", (window.calls / window.wall_s for window in measured.windows))
    found = [Sample(metric="throughput", values=rates, per="window", source=CLOCK, warnings=warnings)]
    if rows is not None:
        per_row = array("d", (rate * rows for rate in rates))
        found.append(Sample(metric="sample_throughput", values=per_row, per="window", source=CLOCK, warnings=warnings))
    return found


def _counted(measured: "Measured", meter: "Meter", position: int, *, rows: int | None, cores: int) -> list[Sample]:
    """Spread what a meter counted over the calls of its window; energy over their rows."""
    totals = [(w, w.readings[position].value) for w in measured.windows]
    share = (rows or 1) if meter.metric == "energy" else 1
    values = array("d", (total / (window.calls * share) for window, total in totals if total is not None))
    found = [Sample(metric=meter.metric, values=values, per="window", source=meter.source, warnings=meter.warnings)]
    if meter.metric == "cpu_time":
        use = array("d", (total / (window.wall_s * cores) for window, total in totals if total is not None))
        found.append(Sample(metric="cpu_utilisation", values=use, per="window", source=meter.source))
    return found
