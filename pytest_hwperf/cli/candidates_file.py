"""Candidates of `hwperf tradeoffs`: measurements of a report, or rows of a CSV that others have written."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pytest_hwperf.cli.report_file import read_report
from pytest_hwperf.core.budgets import nearest
from pytest_hwperf.core.candidates import by_test, candidates_of, distinct, rows_of_call
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.estimates import pressure_of
from pytest_hwperf.core.metrics import ENERGY, MEDIAN_LATENCY, MEMORY_PRESSURE, METRICS, metric_of, stage_metric
from pytest_hwperf.core.recommendations import STAGES
from pytest_hwperf.core.records import Estimate, Key
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.rivals import ACCURACY, MEMORY, Candidate, scaled
from pytest_hwperf.core.structs import LARGEST
from pytest_hwperf.core.units import EXPORT_UNITS, exported_name
from pytest_hwperf.host.files import read_file

_LARGEST_FILE = 1 << 24  # bytes
_MOST_ROWS = 2000  # each is compared with each
_MOST_COLUMNS = 2000  # the nearest name of each unknown one is looked for
_NAMES = ("model", "scenario", "label", "test")  # columns that name a candidate where it has no column "name"
_ENDINGS = ("_ci_low", "_ci_high")
_BESIDE = (*_ENDINGS, "_reason", "_n", "_per", "_source")  # what stands behind the name of a figure
_OTHERS = (  # columns of our own tables that name no figure
    *("name", "conditions", "machine_kind", "price_per_hour", "precision", "machine", "cpu_model", "batch_size"),
    *("threads", "load", "reference", "score", "score_low", "score_high", "composite", "pareto", "rank_reason"),
    *("revision", "started_at", "memory_bandwidth_gb_per_s", "memory_bandwidth_reason"),
)
_PER_SAMPLE, _PROXY = "latency_ms_per_sample_mean", "energy_mj_proxy"
_MEAN_LATENCY, _RATE, _PRESSURE = ("latency", "mean"), ("sample_throughput", "mean"), (MEMORY_PRESSURE, "p50")
_OF_OTHERS: Mapping[str, tuple[Key, float]] = {  # names that other tools have for the same
    _PER_SAMPLE: (MEDIAN_LATENCY, 1e3),  # the only latency that such tables have
    "latency_ms": (MEDIAN_LATENCY, 1e3),
    "accuracy": (ACCURACY, 1.0),
    "memory_mb": (MEMORY, 1e-6),
    "throughput_samples_per_sec": (_RATE, 1.0),
    "energy_mj": ((ENERGY, "mean"), 1e3),
    _PROXY: ((ENERGY, "mean"), 1e3),  # an estimate: no dimension
    "cpu_utilization": (("cpu_utilisation", "mean"), 1.0),
    "memory_pressure_index": (_PRESSURE, 1.0),
    **{f"{stage}_ms": ((stage_metric(stage), "p50"), 1e3) for stage in STAGES},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Candidates of each test."""

    candidates: Mapping[str, Sequence[Candidate]]
    remarks: Sequence[str] = ()
    partial: bool = False  # the run has not come to its end


def measured_in(report: Report) -> Measured:
    """Take the candidates of each test from a report."""
    return Measured(candidates=candidates_of(report.judgements), partial=report.partial)


def read_candidates(file: str) -> Measured:
    """Read candidates, those of one test together."""
    if Path(file).suffix == ".csv":
        candidates = {test: distinct(found) for test, found in _of_rows(file).items()}
        return Measured(candidates=candidates, remarks=[*misspelt(file)])
    report = read_report(file)
    if not report.judgements:
        raise UsageProblem(f"{file} has no measurement")
    return measured_in(report)


def _of_rows(file: str) -> dict[str, list[Candidate]]:
    rows = _rows(file)
    names = list(rows[0] if rows else ())
    known = [name for name in names if name in _columns()]
    if not known:
        hints = "".join(f" {name!r}:{hint}" for name in names if (hint := nearest(name, _columns())))
        raise UsageProblem(
            f"{file} has no row, or no column of a metric: name columns as stat_benchmark_summary.csv does, such as "
            f"scenario, latency_p50_ms, accuracy_mean, memory_p50_mb.{hints}"
        )
    return by_test([_of_row(file, number, row, known) for number, row in enumerate(rows, 2)], lambda one: one)


def _rows(file: str) -> list[dict[str, str | None]]:
    """Read the rows of a table."""
    try:
        text = read_file(Path(file), _LARGEST_FILE).decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""))
        columns, rows = reader.fieldnames or (), list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageProblem(f"{file} cannot be read as CSV ({getattr(error, 'strerror', error)})") from error
    if len(columns) > _MOST_COLUMNS:
        raise UsageProblem(f"{file} has {len(columns)} columns; {_MOST_COLUMNS} are the most that are read")
    if len({*columns}) < len(columns):
        raise UsageProblem(f"{file}: a column stands there twice; give each once")
    longer = next((number for number, row in enumerate(rows, 2) if None in row), 0)
    if longer:
        raise UsageProblem(f"{file}, line {longer}: more cells than there are columns")
    if len(rows) > _MOST_ROWS:
        raise UsageProblem(f"{file} has {len(rows)} rows; {_MOST_ROWS} are the most that are compared")
    return rows


def misspelt(file: str) -> Iterator[str]:
    """Yield a remark for each column that is not read, and looks like one that is."""
    known = {*_columns(), *(f"{name}{ending}" for name in _columns() for ending in _BESIDE), *_NAMES, *_OTHERS}
    for name in _rows(file)[0]:
        if name not in known and (hint := nearest(name, _columns())):
            yield f"{file}: the column {name!r} is not read.{hint}"


@lru_cache
def _columns() -> Mapping[str, tuple[Key, float]]:
    """Return the columns of exports and of others, each with what it is of and how many of it make a base unit."""
    keys = [(metric.name, statistic) for metric in METRICS.values() for statistic in metric.statistics]
    keys += [(stage_metric(name), "p50") for name in STAGES]
    units = {key: metric_of(key[0]).unit for key in keys}
    own = {exported_name("_".join(key), unit): (key, EXPORT_UNITS[unit][1]) for key, unit in units.items()}
    return {**_OF_OTHERS, **own}


def _of_row(file: str, number: int, row: Mapping[str, str | None], known: Iterable[str]) -> Candidate:
    columns = _columns()
    found = {name: one for name in known if (one := _estimate(file, number, row, name))}
    values = {columns[name][0]: one for name, one in found.items() if name not in (_PER_SAMPLE, _PROXY)}
    kind, price = row.get("machine_kind") or "", _number(file, number, "price_per_hour", row)
    name = row.get("name") or ", ".join(dict.fromkeys(row[one] or "" for one in _NAMES if row.get(one)))
    conditions = dict(_pairs(row.get("conditions") or ""))
    conditions |= {"precision": precision} if (precision := row.get("precision")) else {}
    rows = conditions.get("batch_size", "")
    if whole := found.get(_PER_SAMPLE):
        values = {key: scaled(whole, rows_of_call(rows)) for key in (_MEAN_LATENCY, MEDIAN_LATENCY)} | values
    if (held := values.get(MEMORY)) and (done := values.get(_RATE)) and done.value:
        values.setdefault(_PRESSURE, pressure_of(held, done))
    name = name or f"row {number}"
    return Candidate(
        name=f"{name} on {kind}" if kind and not name.endswith(f" on {kind}") else name,
        test=row.get("test") or "",
        label=row.get("label") or "",
        scenario=row.get("scenario") or "",
        kind=kind,
        price_per_hour=price,
        values=values,
        guesses={columns[_PROXY][0]: found[_PROXY]} if _PROXY in found else {},
        rows=rows_of_call(rows),
        conditions=conditions,
        as_trained="load" in conditions and "form" not in conditions,  # a table of others does not say: no load
    )


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(";"):
        name, equals, value = part.strip().partition("=")
        if equals:
            yield name, value


def _estimate(file: str, number: int, row: Mapping[str, str | None], name: str) -> Estimate | None:
    """Return the value of one cell with its interval; None where the cell is empty."""
    (metric, _), factor = _columns()[name]
    value, low, high = (_number(file, number, f"{name}{ending}", row) for ending in ("", *_ENDINGS))
    if value is None:
        return None
    if (low is not None and low > value) or (high is not None and high < value):
        raise UsageProblem(f"{file}, line {number}: {name} lies outside of {name}_ci_low .. {name}_ci_high")
    if value > 1 and (_is_share(metric)):
        raise UsageProblem(f"{file}, line {number}: {name}={row[name]} is a share between 0 and 1, such as 0.85")
    ends = [None if end is None else end / factor for end in (low, high)]
    return Estimate(value=value / factor, low=ends[0], high=ends[1], confidence=0.0, n=0, method="as in the file")


def _is_share(metric: str) -> bool:
    known = metric_of(metric)
    return known.binary or known.spread == "core second" or any(budget.share for budget in known.budgets)


def _number(file: str, number: int, name: str, row: Mapping[str, str | None]) -> float | None:
    text = row.get(name)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= LARGEST:
        raise UsageProblem(
            f"{file}, line {number}: {name}={text} is no number of at least 0; leave out what is not known"
        )
    return value
