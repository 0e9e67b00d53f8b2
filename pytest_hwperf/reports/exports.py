"""The figures of a report as other programs keep them: one number for each benchmark and name, with its unit."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_hwperf import __version__
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, Better
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Estimate, Figure, Run, Sample
from pytest_hwperf.records.structs import Count, Number, Record
from pytest_hwperf.records.text import shortened, visible, visible_json
from pytest_hwperf.records.units import EXPORT_UNITS, counted, exported_name, show_number
from pytest_hwperf.records.verdict import Budget, Judgement
from pytest_hwperf.reports.csv_files import file_of
from pytest_hwperf.reports.rows import benchmark_of, metric_of
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


def measures_of(report: Report) -> Iterator[Measure]:
    """Yield every figure of every measurement, in the order of the report."""
    for judgement in report.judgements:
        for figure in judgement.figures:
            metric, at = metric_of(judgement.run, figure.metric), figure.estimate
            unit, factor = EXPORT_UNITS[metric.unit]
            low, high = (None if end is None else _rounded(end * factor) for end in (at.low, at.high))
            yield Measure(
                benchmark=benchmark_of(judgement.run),
                name=named(figure),
                full_name=exported_name(named(figure), metric.unit),
                unit=_UNITS[unit],
                better=metric.better,
                value=_rounded(at.value * factor),
                low=low,
                high=high,
                basis=f"{counted(at.n, figure.per)}, {figure.source}",
            )


def _rounded(value: float) -> float:
    """Drop what the factor of a unit adds behind the twelfth digit: 1.18, not 1.1800000000000002."""
    return float(f"{value:.12g}")


def unmeasured(report: Report) -> tuple[str, ...]:
    """Say what was to be measured and was not, with the reason: no format has a place for that."""
    return tuple(
        f"{benchmark_of(judgement.run)}: {metric} was not measured: {cause}"
        for judgement in report.judgements
        for metric, cause in judgement.run.unmeasured.items()
    )


def named(figure: Figure) -> str:
    """Name a figure, and an estimate as one: a number that is read alone must not pass for a measured one."""
    metric = f"{figure.metric}_estimate" if figure.estimated else figure.metric
    return f"{metric}_{figure.statistic}"


def _json(whole: object) -> bytes:
    return visible_json(json.dumps(whole, indent=2, ensure_ascii=False).encode()) + b"\n"


_LONGEST_BENCHMARK, _LONGEST_MEASURE = 1024, 64  # characters


def render_bencher(report: Report) -> Exported:
    """Write every figure; a bound that is not known is left out."""
    whole: dict[str, dict[str, dict[str, float]]] = {}
    left_out = [*unmeasured(report)]
    for one in measures_of(report):
        benchmark = visible(one.benchmark)
        if len(benchmark) > _LONGEST_BENCHMARK or len(one.full_name) > _LONGEST_MEASURE:
            left_out.append(f"{shortened(benchmark)} {one.full_name}: Bencher takes no name as long as that")
            continue
        values = {"value": one.value, "lower_value": one.low, "upper_value": one.high}
        known = {name: value for name, value in values.items() if value is not None}
        whole.setdefault(benchmark, {})[visible(one.full_name)] = known
    return Exported(content=_json(whole), benchmarks=len(whole), left_out=tuple(left_out))


BIGGER = "github-action-benchmark-bigger"  # the export for `customBiggerIsBetter`


def render_action_benchmark(report: Report, *, better: Better = "lower") -> Exported:
    """Write the figures of one direction."""
    every = [*measures_of(report)]
    kept = [one for one in every if one.better == better]
    entries = list[dict[str, str | float]]()
    for one in kept:
        low, high = ("?" if end is None else show_number(end, 4) for end in (one.low, one.high))
        interval: dict[str, str | float] = {} if one.low is None and one.high is None else {"range": f"{low} .. {high}"}
        named_as = visible(f"{one.benchmark} {one.name}")
        entry = {"name": named_as, "unit": one.unit, "value": one.value, **interval, "extra": visible(one.basis)}
        entries.append(entry)
    other, form = ("higher", BIGGER) if better == "lower" else ("lower", "github-action-benchmark")
    others = counted(len(every) - len(kept), "figure")
    beside = [f"{others} of which {other} is better: --as={form}"] if len(kept) < len(every) else []
    benchmarks = len({one.benchmark for one in kept})
    return Exported(content=_json(entries), benchmarks=benchmarks, left_out=(*beside, *unmeasured(report)))


def render_otava(report: Report) -> Exported:
    """Write a header and one row: Otava looks for changes in the rows of many reports, one below the other."""
    measures = [*measures_of(report)]
    columns = ["time", "commit", *(f"{one.benchmark} {one.full_name}" for one in measures)]
    revision = f"{report.revision}+changes" if report.changed else report.revision
    content = file_of(columns, [[report.started_at, revision, *(one.value for one in measures)]])
    return Exported(content=content, benchmarks=len({one.benchmark for one in measures}), left_out=unmeasured(report))


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
    machine, (implementation, _, version) = report.machine, report.machine.python.partition(" ")
    machine_info = {
        "machine": visible(machine.architecture),
        "processor": visible(machine.cpu_model),
        "cpu": {"brand_raw": visible(machine.cpu_model), "count": machine.cores},
        "python_implementation": visible(implementation),
        "python_version": visible(version),
        "system": visible(machine.system),
    }
    revision = visible(report.revision) or "unversioned"  # a report keeps neither its time nor a branch
    commit = {
        "id": revision,
        "time": None,
        "author_time": None,
        "dirty": report.changed,
        "project": None,
        "branch": None,
    }
    whole = {
        "machine_info": machine_info,
        "commit_info": commit,
        "benchmarks": found,
        "datetime": visible(report.started_at),
        "version": f"pytest-hwperf {__version__}",
    }
    return Exported(content=_json(whole), benchmarks=len(found), left_out=tuple(left_out))


def _why_not(run: Run, sample: Sample | None) -> str:
    if sample is None:
        return f"no latency was measured: {run.unmeasured.get(MEDIAN_LATENCY[0], 'none of its samples is of calls')}"
    if len(sample.values) < 2:  # noqa: PLR2004 - a deviation needs as many
        return "a deviation needs 2 readings of the latency"
    return "" if sum(sample.values) > 0 else "every reading of the latency is 0: calls per second cannot be said"


def _benchmark(run: Run, sample: Sample) -> dict[str, Any]:
    fullname, group = visible(benchmark_of(run)), run.context.get(_GROUP)
    calls = sample.per.removeprefix(_BATCH).partition(" ")[0] if sample.per.startswith(_BATCH) else ""
    iterations = int(calls) if calls.isascii() and calls.isdigit() else 1
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
        "stats": {**statistics_of(sample.values), "iterations": iterations},
    }


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
    return [(visible(name), visible(text)) for name, text in _properties(judgement)]


def _properties(judgement: Judgement) -> Iterator[Pair]:
    run = judgement.run
    prefix = f"hwperf.{run.label}." if run.label else "hwperf."
    if run.kind:
        yield f"{prefix}machine_kind", run.kind
    for figure in judgement.figures:
        unit = metric_of(run, figure.metric).unit
        name = prefix + exported_name(named(figure), unit)
        yield from _estimated(name, figure.estimate, EXPORT_UNITS[unit][1])
        yield f"{name}.n", str(figure.estimate.n)
        yield f"{name}.source", figure.source
    for verdict in judgement.verdicts:
        subject = verdict.subject
        unit = metric_of(run, subject.metric).unit
        factor = EXPORT_UNITS[unit][1]
        kind = "budget" if isinstance(subject, Budget) else "comparison"
        name = f"{prefix}{kind}.{subject.metric}_{subject.statistic}"
        yield name, verdict.outcome
        if isinstance(subject, Budget):
            yield exported_name(f"{name}.limit", unit), show_number(subject.limit * factor, _DIGITS)
            continue
        if subject.baseline is not None:
            yield exported_name(f"{name}.baseline", unit), show_number(subject.baseline * factor, _DIGITS)
        if subject.change is not None:
            yield from _estimated(f"{name}.change", subject.change, 1.0)
        if subject.is_left_out:
            yield from ((f"{name}.pairs", str(subject.pairs)), (f"{name}.reason", subject.reason))
        yield f"{name}.margin", show_number(subject.margin, _DIGITS)
        yield f"{name}.scale", subject.scale


def _estimated(name: str, estimate: Estimate, factor: float) -> Iterator[Pair]:
    """Yield a value and the ends of its interval that are known."""
    for ending, value in (("", estimate.value), (".ci_low", estimate.low), (".ci_high", estimate.high)):
        if value is not None:
            yield f"{name}{ending}", show_number(value * factor, _DIGITS)
