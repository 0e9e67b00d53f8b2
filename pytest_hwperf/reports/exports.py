"""The figures of a report, and the series of a history, as other programs keep them: each number with its unit."""

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pytest_hwperf import __version__
from pytest_hwperf.records import metrics
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, Better
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Estimate, Figure, Run, Sample
from pytest_hwperf.records.structs import Count, Number, Record
from pytest_hwperf.records.text import shortened, visible, visible_json
from pytest_hwperf.records.units import EXPORT_UNITS, counted, exported_name, show_number
from pytest_hwperf.records.verdict import Budget, Judgement
from pytest_hwperf.reports.csv_files import Cells, file_of
from pytest_hwperf.reports.rows import benchmark_of, metric_of
from pytest_hwperf.stats.choice.sweeps import Stats
from pytest_hwperf.stats.stored.history import Series

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
            # Twelve digits drop what the factor of a unit adds: 1.18, not 1.1800000000000002.
            low, high = (None if end is None else float(f"{end * factor:.12g}") for end in (at.low, at.high))
            yield Measure(
                benchmark=benchmark_of(judgement.run),
                name=named(figure),
                full_name=exported_name(named(figure), metric.unit),
                unit=_UNITS[unit],
                better=metric.better,
                value=float(f"{at.value * factor:.12g}"),
                low=low,
                high=high,
                basis=f"{counted(at.n, figure.per)}, {figure.source}",
            )


def unmeasured(report: Report) -> tuple[str, ...]:
    """Say what was to be measured and was not, with the reason: no format has a place for that."""
    return tuple(
        f"{benchmark_of(judgement.run)}: {metric} was not measured: {cause}"
        for judgement in report.judgements
        for metric, cause in judgement.run.unmeasured.items()
    )


def named(figure: Figure) -> str:
    """Name a figure, and an estimate as one: a number that is read alone must not pass for a measured one."""
    return f"{figure.metric}{'_estimate' if figure.estimated else ''}_{figure.statistic}"


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
        entry: dict[str, str | float] = {"name": visible(f"{one.benchmark} {one.name}"), "unit": one.unit}
        entry["value"] = one.value
        if (one.low, one.high) != (None, None):
            low, high = ("?" if end is None else show_number(end, 4) for end in (one.low, one.high))
            entry["range"] = f"{low} .. {high}"
        entries.append({**entry, "extra": visible(one.basis)})
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


_GROUP = "benchmark_group"  # in the context of a run: what the fixture `benchmark` was given
_STATISTICS = (
    "min", "max", "mean", "stddev", "rounds", "median", "iqr", "q1", "q3", "iqr_outliers", "stddev_outliers",
    "outliers", "ld15iqr", "hd15iqr", "ops", "total",
)  # fmt: skip


def render_pytest_benchmark(report: Report) -> Exported:
    """Write every measurement with at least two readings of the latency; the others are left out."""
    found, left_out = [], []
    for judgement in report.judgements:
        run, sample = judgement.run, judgement.run.sample(MEDIAN_LATENCY[0])
        if sample is None:
            why = run.unmeasured.get(MEDIAN_LATENCY[0], "none of its samples is of calls")
            left_out.append(f"{benchmark_of(run)}: no latency was measured: {why}")
        elif len(sample.values) < 2:  # noqa: PLR2004 - a deviation needs as many
            left_out.append(f"{benchmark_of(run)}: a deviation needs 2 readings of the latency")
        elif sum(sample.values) <= 0:
            why = "every reading of the latency is 0: calls per second cannot be said"
            left_out.append(f"{benchmark_of(run)}: {why}")
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
    # A report keeps neither the time of its revision nor a branch.
    commit: dict[str, Any] = {"id": visible(report.revision) or "unversioned", "time": None, "author_time": None}
    whole = {
        "machine_info": machine_info,
        "commit_info": {**commit, "dirty": report.changed, "project": None, "branch": None},
        "benchmarks": found,
        "datetime": visible(report.started_at),
        "version": f"pytest-hwperf {__version__}",
    }
    return Exported(content=_json(whole), benchmarks=len(found), left_out=tuple(left_out))


def _benchmark(run: Run, sample: Sample) -> dict[str, Any]:
    fullname, group = visible(benchmark_of(run)), run.context.get(_GROUP)
    calls = re.match(r"batch of (\d{1,9})(?: |$)", sample.per, re.ASCII)
    stats = Stats(sample.values)
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
        "stats": {**{name: getattr(stats, name) for name in _STATISTICS}, "iterations": int(calls[1]) if calls else 1},
    }


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
        factor, is_budget = EXPORT_UNITS[unit][1], isinstance(subject, Budget)
        name = f"{prefix}{'budget' if is_budget else 'comparison'}.{subject.metric}_{subject.statistic}"
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


# Columns of the Parquet file of a history with their Arrow types; values in base units.
HISTORY_COLUMNS = {
    "test": "string", "label": "string", "machine": "string", "cpu_model": "string", "metric": "string",
    "statistic": "string", "unit": "string", "better": "string", "source": "string", "anchor": "string",
    "started_at": "string", "revision": "string", "changed": "bool_", "accepted": "bool_",
    "value": "float64", "low": "float64", "high": "float64", "confidence": "float64", "n": "int64", "method": "string",
}  # fmt: skip


def history_parquet(tests: Iterable[Sequence[Series]]) -> tuple[bytes, int]:
    """Write a row for each value, a row group for each test; return the file and how many rows it has."""
    import pyarrow as pa
    from pyarrow import parquet as files

    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in HISTORY_COLUMNS.items()])
    content, rows = io.BytesIO(), 0
    with files.ParquetWriter(content, schema) as writer:
        for series in tests:
            found = [row for one in series for row in history_rows(one)]
            rows += len(found)
            if found:
                columns = dict(zip(HISTORY_COLUMNS, map(list, zip(*found, strict=True)), strict=True))
                writer.write_table(pa.table(columns, schema=schema))
    return content.getvalue(), rows


def history_rows(one: Series) -> Iterator[tuple[Any, ...]]:
    """Yield a row of `HISTORY_COLUMNS` for each value of a series."""
    unit, machine = "1" if one.anchor else metrics.metric_of(one.metric, one.better).unit, one.machine
    of_series = (
        one.test, one.label, machine.fingerprint, machine.cpu_model, one.metric, one.statistic, unit, one.better,
        one.source, one.anchor,
    )  # fmt: skip
    shown = tuple(map(visible, of_series))  # lone surrogates are no text for Arrow
    for value in one.values:
        at, run = value.estimate, (visible(value.started_at), visible(value.revision), value.changed, value.accepted)
        yield *shown, *run, at.value, at.low, at.high, at.confidence, at.n, visible(at.method)


def history_otava(series: Sequence[Series]) -> tuple[bytes, tuple[str, ...]]:
    """Write a row for each run of one measurement on one machine, and a column for each statistic.

    Otava takes no empty cell: statistics that a run lacks are left out, and named (https://github.com/apache/otava,
    docs/CSV.md).
    """
    by_run = dict[str, dict[tuple[str, str], float]]()
    for one in series:
        column = f"{one.metric} {one.statistic}, {one.source}" + (f", change from {one.anchor}" if one.anchor else "")
        by_run[column] = {
            (value.started_at, f"{value.revision}+changes" if value.changed else value.revision): value.estimate.value
            for value in one.values
        }
    runs = sorted({run for values in by_run.values() for run in values})
    whole = {name: values for name, values in by_run.items() if values.keys() == {*runs}}
    rows: list[Cells] = [[*run, *(values[run] for values in whole.values())] for run in runs]
    parts = {name: len(values) for name, values in by_run.items() if name not in whole}
    lacking = tuple(f"{name}: only {count} of {len(runs)} runs have it" for name, count in parts.items())
    return file_of(["time", "commit", *whole], rows), lacking
