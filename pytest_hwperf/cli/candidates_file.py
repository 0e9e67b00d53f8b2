"""Candidates of `hwperf tradeoffs`: measurements of a report, or rows of a CSV that others have written."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pytest_hwperf.cli.report_file import read_report
from pytest_hwperf.core.candidates import candidates_of, distinct, rows_of_call, without_parameters
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.metrics import METRICS
from pytest_hwperf.core.records import Estimate, Judgement, Key
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.structs import LARGEST
from pytest_hwperf.core.tradeoffs import Candidate
from pytest_hwperf.core.units import EXPORT_UNITS, exported_name
from pytest_hwperf.host.files import read_file

_LARGEST_FILE = 1 << 24  # bytes
_MOST_ROWS = 2000  # each is compared with each
_NAMES = ("scenario", "label", "test")  # columns that name a candidate where it has no column "name"
_ENDINGS = ("_ci_low", "_ci_high")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Candidates, and the measurements that they were made of."""

    candidates: Mapping[str, Sequence[Candidate]]  # of each test
    judgements: Sequence[Judgement] = ()  # none of a CSV
    partial: bool = False  # the run has not come to its end


def measured_in(report: Report) -> Measured:
    """Take the candidates of each test from a report."""
    found = candidates_of(report.judgements)
    return Measured(candidates=found, judgements=report.judgements, partial=report.partial)


def read_candidates(file: str) -> Measured:
    """Read candidates, those of one test together.

    Raises:
        UsageProblem: no such file, another form, or nothing that was measured.
    """
    if Path(file).suffix == ".csv":
        return Measured(candidates={test: distinct(found) for test, found in _of_rows(file).items()})
    report = read_report(file)
    if not report.judgements:
        raise UsageProblem(f"{file} has no measurement")
    return measured_in(report)


def _of_rows(file: str) -> dict[str, list[Candidate]]:
    rows = _rows(file)
    known = [name for name in (rows[0] if rows else ()) if name in _columns()]
    if not known:
        raise UsageProblem(
            f"{file} has no row, or no column of a metric: name columns as stat_benchmark_summary.csv does, such as "
            "scenario, latency_p50_ms, accuracy_mean, memory_p50_mb"
        )
    found: dict[str, list[Candidate]] = {}
    for number, row in enumerate(rows, 2):
        found.setdefault(without_parameters(row.get("test") or ""), []).append(_of_row(file, number, row, known))
    return found


def _rows(file: str) -> list[dict[str, str | None]]:
    """Read the rows of a table.

    Raises:
        UsageProblem: it cannot be read, has a column twice, or a row with more cells than there are columns.
    """
    try:
        text = read_file(Path(file), _LARGEST_FILE).decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""))
        columns, rows = reader.fieldnames or (), list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageProblem(f"{file} cannot be read as CSV ({getattr(error, 'strerror', error)})") from error
    if len({*columns}) < len(columns):
        raise UsageProblem(f"{file}: a column stands there twice; give each once")
    longer = next((number for number, row in enumerate(rows, 2) if None in row), 0)
    if longer:
        raise UsageProblem(f"{file}, line {longer}: more cells than there are columns")
    if len(rows) > _MOST_ROWS:
        raise UsageProblem(f"{file} has {len(rows)} rows; {_MOST_ROWS} are the most that are compared")
    return rows


@lru_cache
def _columns() -> Mapping[str, tuple[Key, float]]:
    """Return the columns of exports, each with what it is of and how many of it make a base unit."""
    return {
        exported_name(f"{metric.name}_{statistic}", metric.unit): (
            (metric.name, statistic),
            EXPORT_UNITS[metric.unit][1],
        )
        for metric in METRICS.values()
        for statistic in metric.statistics
    }


def _of_row(file: str, number: int, row: Mapping[str, str | None], known: Iterable[str]) -> Candidate:
    columns = _columns()
    values = {columns[name][0]: found for name in known if (found := _estimate(file, number, row, name))}
    kind, price = row.get("machine_kind") or "", _number(file, number, "price_per_hour", row)
    name = row.get("name") or ", ".join(dict.fromkeys(row[one] or "" for one in _NAMES if row.get(one)))
    conditions = dict(_pairs(row.get("conditions") or ""))
    rows = conditions.get("batch_size", "")
    name = name or f"row {number}"
    return Candidate(
        name=f"{name} on {kind}" if kind and not name.endswith(f" on {kind}") else name,
        kind=kind,
        price_per_hour=price,
        values=values,
        rows=rows_of_call(rows),
        conditions=conditions,
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
    if value > 1 and (METRICS[metric].binary or any(budget.share for budget in METRICS[metric].budgets)):
        raise UsageProblem(f"{file}, line {number}: {name}={row[name]} is a share between 0 and 1, such as 0.85")
    ends = [None if end is None else end / factor for end in (low, high)]
    return Estimate(value=value / factor, low=ends[0], high=ends[1], confidence=0.0, n=0, method="as in the file")


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
