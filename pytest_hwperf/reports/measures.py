"""The figures of a report as other programs keep them: one number for each benchmark and name, with its unit."""

from collections.abc import Iterator

from pytest_hwperf.core.metrics import Better
from pytest_hwperf.core.records import Figure, Judgement, Run
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.structs import Count, Number, Record
from pytest_hwperf.core.units import EXPORT_UNITS, counted, exported_name
from pytest_hwperf.reports.cells import metric_of
from pytest_hwperf.reports.order import title_of

_UNITS = {"ms": "ms", "mb": "MB", "mj": "mJ", "mg": "mg", "per_s": "1/s", "": "1"}  # as a person writes them


class Exported(Record, frozen=True, kw_only=True):
    """A report in the format of another program."""

    content: bytes
    benchmarks: Count  # that are in it
    left_out: tuple[str, ...]  # what the format cannot hold, with the reason


class Measure(Record, frozen=True, kw_only=True):
    """One figure, in the units of exports."""

    benchmark: str  # test, label and scenario
    name: str  # without its unit: "latency_p95", "energy_estimate_mean"
    full_name: str  # with its unit: "latency_p95_ms"
    unit: str  # "ms", "MB", "mJ", "1/s", "1"
    better: Better
    value: Number
    low: Number | None  # None: no bound
    high: Number | None
    basis: str  # of how many readings it is made, and what measured it


def measures_of(report: Report) -> tuple[Measure, ...]:
    """Return every figure of every measurement, in the order of the report."""
    return tuple(one for judgement in report.judgements for one in _measures(judgement))


def unmeasured(report: Report) -> tuple[str, ...]:
    """Say what was to be measured and was not, with the reason: no format has a place for that."""
    return tuple(
        f"{benchmark_of(judgement.run)}: {metric} was not measured: {cause}"
        for judgement in report.judgements
        for metric, cause in judgement.run.unmeasured.items()
    )


def benchmark_of(run: Run) -> str:
    """Name a measurement: its test with the label, and the scenario where the test's id does not name it."""
    title = title_of(run)
    return title if run.scenario in title else f"{title} {run.scenario}"


def named(figure: Figure) -> str:
    """Name a figure, and an estimate as one: a number that is read alone must not pass for a measured one."""
    metric = f"{figure.metric}_estimate" if figure.estimated else figure.metric
    return f"{metric}_{figure.statistic}"


def _measures(judgement: Judgement) -> Iterator[Measure]:
    run = judgement.run
    for figure in judgement.figures:
        metric, estimate = metric_of(run, figure.metric), figure.estimate
        unit, factor = EXPORT_UNITS[metric.unit]
        low, high = (None if end is None else _rounded(end * factor) for end in (estimate.low, estimate.high))
        yield Measure(
            benchmark=benchmark_of(run),
            name=named(figure),
            full_name=exported_name(named(figure), metric.unit),
            unit=_UNITS[unit],
            better=metric.better,
            value=_rounded(estimate.value * factor),
            low=low,
            high=high,
            basis=f"{counted(estimate.n, figure.per)}, {figure.source}",
        )


def _rounded(value: float) -> float:
    """Drop what the factor of a unit adds behind the twelfth digit: 1.18, not 1.1800000000000002."""
    return float(f"{value:.12g}")
