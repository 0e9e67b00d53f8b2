"""The figures of a report as other programs keep them: one number for each benchmark and name, with its unit."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_hwperf import __version__
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, Better
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Estimate, Figure, Machine, Run, Sample
from pytest_hwperf.records.structs import Count, Number, Record
from pytest_hwperf.records.text import shortened, spreadsheet_cell, visible, visible_json
from pytest_hwperf.records.units import EXPORT_UNITS, counted, exported_name, show_number
from pytest_hwperf.records.verdict import Budget, Comparison, Judgement
from pytest_hwperf.reports.rows import metric_of, title_of
from pytest_hwperf.stats.rounds import Stats

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


_LONGEST_BENCHMARK, _LONGEST_MEASURE = 1024, 64  # characters


def render_bencher(report: Report) -> Exported:
    """Write every figure; a bound that is not known is left out."""
    whole: dict[str, dict[str, dict[str, float]]] = {}
    left_out = [*unmeasured(report)]
    for measure in measures_of(report):
        benchmark = visible(measure.benchmark)
        if len(benchmark) > _LONGEST_BENCHMARK or len(measure.full_name) > _LONGEST_MEASURE:
            left_out.append(f"{shortened(benchmark)} {measure.full_name}: Bencher takes no name as long as that")
        else:
            whole.setdefault(benchmark, {})[visible(measure.full_name)] = _metric(measure)
    content = json.dumps(whole, indent=2, ensure_ascii=False).encode()
    return Exported(content=visible_json(content) + b"\n", benchmarks=len(whole), left_out=tuple(left_out))


def _metric(measure: Measure) -> dict[str, float]:
    found = {"value": measure.value, "lower_value": measure.low, "upper_value": measure.high}
    return {name: value for name, value in found.items() if value is not None}


BIGGER = "github-action-benchmark-bigger"  # the export for `customBiggerIsBetter`


def render_action_benchmark(report: Report, *, better: Better = "lower") -> Exported:
    """Write the figures of one direction."""
    every = measures_of(report)
    kept = [one for one in every if one.better == better]
    others = len(every) - len(kept)
    other = "higher" if better == "lower" else "lower"
    form = BIGGER if better == "lower" else "github-action-benchmark"
    beside = f"{counted(others, 'figure')} of which {other} is better: --as={form}"
    content = json.dumps([_entry(one) for one in kept], indent=2, ensure_ascii=False).encode()
    return Exported(
        content=visible_json(content) + b"\n",
        benchmarks=len({one.benchmark for one in kept}),
        left_out=(*([beside] if others else []), *unmeasured(report)),
    )


def _entry(measure: Measure) -> dict[str, str | float]:
    ends = ["?" if end is None else show_number(end, 4) for end in (measure.low, measure.high)]
    return {
        "name": visible(f"{measure.benchmark} {measure.name}"),
        "unit": measure.unit,
        "value": measure.value,
        **({} if measure.low is None and measure.high is None else {"range": f"{ends[0]} .. {ends[1]}"}),
        "extra": visible(measure.basis),
    }


def render_otava(report: Report) -> Exported:
    """Write a header and one row: Otava looks for changes in the rows of many reports, one below the other."""
    measures = measures_of(report)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["time", "commit", *(spreadsheet_cell(f"{one.benchmark} {one.full_name}") for one in measures)])
    revision = f"{report.revision}+changes" if report.changed else report.revision
    named = spreadsheet_cell(report.started_at), spreadsheet_cell(revision)
    writer.writerow([*named, *(f"{one.value:.12g}" for one in measures)])
    found = len({one.benchmark for one in measures})
    return Exported(content=text.getvalue().encode(), benchmarks=found, left_out=unmeasured(report))


_BATCH = "batch of "  # how a unit of replication of several calls begins
_GROUP = "benchmark_group"  # in the context of a run: what the fixture `benchmark` was given
_STATISTICS = (
    "min", "max", "mean", "stddev", "rounds", "median", "iqr", "q1", "q3", "iqr_outliers", "stddev_outliers",
    "outliers", "ld15iqr", "hd15iqr", "ops", "total",
)  # fmt: skip


def render_pytest_benchmark(report: Report) -> Exported:
    """Write every measurement with at least two readings of the latency; the others are left out."""
    found, left_out = [], []
    for judgement in report.judgements:
        run = judgement.run
        sample = run.sample(MEDIAN_LATENCY[0])
        reason = _why_not(run, sample)
        if sample is None or reason:
            left_out.append(f"{benchmark_of(run)}: {reason}")
        else:
            found.append(_benchmark(run, sample))
    whole = {
        "machine_info": _machine(report.machine),
        "commit_info": _commit(report),
        "benchmarks": found,
        "datetime": visible(report.started_at),
        "version": f"pytest-hwperf {__version__}",
    }
    content = visible_json(json.dumps(whole, indent=2, ensure_ascii=False).encode()) + b"\n"
    return Exported(content=content, benchmarks=len(found), left_out=tuple(left_out))


def _why_not(run: Run, sample: Sample | None) -> str:
    if sample is None:
        return f"no latency was measured: {run.unmeasured.get(MEDIAN_LATENCY[0], 'none of its samples is of calls')}"
    if len(sample.values) < 2:  # noqa: PLR2004 - a deviation needs as many
        return "a deviation needs 2 readings of the latency"
    return "" if sum(sample.values) > 0 else "every reading of the latency is 0: calls per second cannot be said"


def _machine(machine: Machine) -> dict[str, Any]:
    implementation, _, version = machine.python.partition(" ")
    return {
        "machine": visible(machine.architecture),
        "processor": visible(machine.cpu_model),
        "cpu": {"brand_raw": visible(machine.cpu_model), "count": machine.cores},
        "python_implementation": visible(implementation),
        "python_version": visible(version),
        "system": visible(machine.system),
    }


def _commit(report: Report) -> dict[str, Any]:
    """Return the revision; a report keeps neither its time nor a branch."""
    return {
        "id": visible(report.revision) or "unversioned",
        "time": None,
        "author_time": None,
        "dirty": report.changed,
        "project": None,
        "branch": None,
    }


def _benchmark(run: Run, sample: Sample) -> dict[str, Any]:
    fullname, group = visible(benchmark_of(run)), run.context.get(_GROUP)
    return {
        "group": None if group is None else visible(group),
        "name": fullname.rpartition("::")[2] or fullname,
        "fullname": fullname,
        "params": None,
        "param": None,
        "extra_info": {
            "source": visible(sample.source),
            "per": visible(sample.per),
            "conditions": {visible(name): visible(value) for name, value in run.conditions.items()},
            "warnings": [visible(str(one)) for one in sample.warnings],
        },
        "options": {},
        "stats": {**statistics_of(sample.values), "iterations": _iterations(sample.per)},
    }


def _iterations(per: str) -> int:
    count = per.removeprefix(_BATCH).partition(" ")[0] if per.startswith(_BATCH) else "1"
    return int(count) if count.isascii() and count.isdigit() else 1


def statistics_of(values: Sequence[float]) -> dict[str, Any]:
    """Return the statistics of at least two rounds, in s, whose sum is above 0."""
    found = Stats(values)
    return {name: getattr(found, name) for name in _STATISTICS}


_DIGITS = 4
Pair = tuple[str, str]


def properties(judgement: Judgement) -> list[Pair]:
    """Return `hwperf.latency_p95_ms` = `6.31` and the like, and for each verdict its outcome and what it rests on.

    Foreign text in them is made visible: pytest does so for values, but XML with a raw control character in a name is
    none. What is not known has no entry. See docs/artifacts.md for all names.
    """
    run = judgement.run
    prefix = f"hwperf.{run.label}." if run.label else "hwperf."
    found = [(f"{prefix}machine_kind", run.kind)] if run.kind else []
    found += _figures(judgement, prefix)
    for verdict in judgement.verdicts:
        subject = verdict.subject
        kind = "budget" if isinstance(subject, Budget) else "comparison"
        name = f"{prefix}{kind}.{subject.metric}_{subject.statistic}"
        found.append((name, verdict.outcome))
        found += _budget(run, subject, name) if isinstance(subject, Budget) else _comparison(run, subject, name)
    return [(visible(name), visible(text)) for name, text in found]


def _figures(judgement: Judgement, prefix: str) -> Iterator[Pair]:
    run = judgement.run
    for figure in judgement.figures:
        unit = run.metric(figure.metric).unit
        factor = EXPORT_UNITS[unit][1]
        name = prefix + exported_name(named(figure), unit)
        yield name, _number(figure.estimate.value * factor)
        yield from _interval(name, figure.estimate, factor)
        yield f"{name}.n", str(figure.estimate.n)
        yield f"{name}.source", figure.source


def _budget(run: Run, budget: Budget, name: str) -> Iterator[Pair]:
    unit = metric_of(run, budget.metric).unit
    yield exported_name(f"{name}.limit", unit), _number(budget.limit * EXPORT_UNITS[unit][1])


def _comparison(run: Run, comparison: Comparison, name: str) -> Iterator[Pair]:
    unit = metric_of(run, comparison.metric).unit
    if comparison.baseline is not None:
        yield exported_name(f"{name}.baseline", unit), _number(comparison.baseline * EXPORT_UNITS[unit][1])
    if comparison.change is not None:
        yield f"{name}.change", _number(comparison.change.value)
        yield from _interval(f"{name}.change", comparison.change, 1.0)
    if comparison.is_left_out:
        yield f"{name}.pairs", str(comparison.pairs)
        yield f"{name}.reason", comparison.reason
    yield f"{name}.margin", _number(comparison.margin)
    yield f"{name}.scale", comparison.scale


def _interval(name: str, estimate: Estimate, factor: float) -> Iterator[Pair]:
    for end, bound in (("ci_low", estimate.low), ("ci_high", estimate.high)):
        if bound is not None:
            yield f"{name}.{end}", _number(bound * factor)


def _number(value: float) -> str:
    return show_number(value, _DIGITS)
