"""Rows and labels that a command is given, read from a file that may be damaged or come from anyone."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

from pytest_hwperf.host.files import read_file, read_given
from pytest_hwperf.records.codec import R, from_file
from pytest_hwperf.records.errors import SerialisationError, UsageProblem
from pytest_hwperf.records.markers import nearest, nearest_or_all, parse_budgets
from pytest_hwperf.records.metrics import ENERGY, MEDIAN_LATENCY, MEMORY_PRESSURE, METRICS, metric_of, stage_metric
from pytest_hwperf.records.report import Report, ReportFile
from pytest_hwperf.records.run import Estimate, Key
from pytest_hwperf.records.structs import LARGEST
from pytest_hwperf.records.units import EXPORT_UNITS, exported_name
from pytest_hwperf.records.verdict import Budget
from pytest_hwperf.stats.candidates import by_test, candidates_of, distinct, rows_of_call
from pytest_hwperf.stats.estimates import pressure_of
from pytest_hwperf.stats.recommendations import STAGES
from pytest_hwperf.stats.rivals import ACCURACY, MEMORY, Candidate, scaled

_LARGEST_ROWS = 2_000_000_000  # bytes, packed and unpacked
_FORMS = "give an .npz with X and perhaps y, an .npy, or a .csv"


def read_data(file: str, target: str | None) -> tuple[Any, Any | None]:
    """Read rows and labels; nothing in the file is unpickled."""
    path = Path(file)
    if path.suffix != ".csv" and target is not None:
        raise UsageProblem("--target names a column of a .csv; an .npz holds the labels as y")
    content = BytesIO(read_given(path, _LARGEST_ROWS, _FORMS, name=f"--data={file}"))
    if path.suffix == ".csv":
        X, y = _read_csv(file, content, target)
    else:
        try:
            X, y = _read_arrays(content, is_one=path.suffix == ".npy")
        except Exception as error:  # damaged files make numpy, zipfile and zlib raise a dozen unrelated kinds
            raise UsageProblem(f"--data={file}: {_FORMS} ({str(error) or type(error).__name__})") from error
    _check(file, X, y)
    return X, y


def _read_arrays(content: BytesIO, *, is_one: bool) -> tuple[Any, Any | None]:
    import numpy as np

    if is_zipfile(content):
        with ZipFile(content) as packed:
            if sum(one.file_size for one in packed.infolist()) > _LARGEST_ROWS:  # no more is unpacked than is said here
                raise ValueError(f"larger than {_LARGEST_ROWS / 1e6:g} MB")
    content.seek(0)
    found = np.load(content, allow_pickle=False)
    if is_one:
        return found, None
    with found as arrays:
        return arrays["X"], arrays.get("y")


def _read_csv(file: str, content: BytesIO, target: str | None) -> tuple[Any, Any | None]:
    import pandas as pd

    try:
        frame = pd.read_csv(content)
    except Exception as error:  # its parser, the decoder and the memory raise unrelated kinds here too
        raise UsageProblem(f"--data={file} is no table: {error}") from error
    if target is None:
        return frame.to_numpy(), None
    if target not in frame:
        raise UsageProblem(f"--target={target!r} is no column of {file}. Allowed: {', '.join(map(str, frame))}")
    y = frame.pop(target).to_numpy()
    return frame.to_numpy(), y.astype(str) if y.dtype == object else y


def _check(file: str, X: Any, y: Any | None) -> None:
    """Refuse rows and labels with which nothing could be measured."""
    import numpy as np

    for name, array in (("X", X), ("y", y)):
        if array is not None and not isinstance(array, np.ndarray):
            raise UsageProblem(f"--data={file}: {name} is no array; save it with numpy.savez")
    if not X.ndim or not len(X):
        raise UsageProblem(f"--data={file}: X has the shape {X.shape}; give at least one row")
    if X.dtype == object:
        raise UsageProblem(f"--data={file}: a column holds text or mixed values; rows are numbers in every column")
    if X.dtype.fields is not None:
        raise UsageProblem(f"--data={file}: X has named fields; give one array of numbers, shape (rows, columns)")
    if y is not None and y.shape[:1] != X.shape[:1]:
        raise UsageProblem(f"--data={file}: {len(X)} rows in X but labels of shape {y.shape}: give one a row")


_LARGEST_REQUIREMENTS = 1 << 16  # bytes
_KEY = "requirements"  # below which limits may stand
_EXAMPLE = "a line for each limit, such as latency_p95_ms: 100"


def read_requirements(file: str) -> tuple[Budget, ...]:
    """Read limits, one a line."""
    import yaml

    try:
        content = read_given(file, _LARGEST_REQUIREMENTS, f"give {_EXAMPLE}", name=f"--requirements={file}")
        # Nothing is made of it: aliases stay what they are.
        node = yaml.compose(content.decode("utf-8"), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageProblem(f"--requirements={file} is no YAML ({error}): give {_EXAMPLE}") from error
    node = _below_requirements(file, node)
    if not isinstance(node, yaml.MappingNode) or not node.value:
        raise UsageProblem(f"--requirements={file} has no limits: give {_EXAMPLE}")
    if not all(isinstance(name, yaml.ScalarNode) for name, _ in node.value):  # whose text could be exponentially long
        raise UsageProblem(f"--requirements={file}: a list or mapping stands where a name should be: give {_EXAMPLE}")
    pairs = list(_named(node))
    if len(dict(pairs)) < len(pairs):
        raise UsageProblem(f"--requirements={file}: a name stands there twice; give each once")
    try:
        return parse_budgets(dict(pairs))
    except UsageProblem as problem:
        told = str(problem).replace("hwbudget(", "(")
        raise UsageProblem(f"--requirements={file}:\n{told}") from problem


def _below_requirements(file: str, node: Any) -> Any:
    """Return what stands below a key `requirements:`, which tables of others begin with; else the node itself."""
    import yaml

    entries = node.value if isinstance(node, yaml.MappingNode) else []
    below = [of for name, of in entries if name.value == _KEY]
    if not below and len(entries) == 1 and isinstance(entries[0][1], yaml.MappingNode):
        name = str(entries[0][0].value)
        raise UsageProblem(f"--requirements={file}: unknown keyword {name!r}.{nearest_or_all(name, [_KEY])}")
    if below and len(entries) > 1:
        raise UsageProblem(f"--requirements={file}: a name stands beside requirements: put every limit below it")
    return below[0] if below else node


def _named(node: Any) -> Iterator[tuple[str, object]]:
    """Yield the names of a mapping, each with its number; with the text where that is none."""
    for name, limit in node.value:
        text = str(limit.value) if isinstance(limit.value, str) else "a list or mapping"
        try:
            number: object = float(text)
        except ValueError:
            number = text
        yield name.value, number


_LARGEST_REPORT = 512 * 2**20  # bytes
_OTHER, _OLDER = (
    "give a file of pytest --hwperf-report=FILE.json",
    "write it again with pytest --hwperf-report=FILE.json",
)


def read_report(path: str) -> Report:
    """Read a file of `pytest --hwperf-report=FILE.json`."""
    return read_own(ReportFile, path, _LARGEST_REPORT, other=_OTHER, older=_OLDER).report


def read_own(cls: type[R], file: str | Path, largest: int, *, other: str, older: str) -> R:
    """Read a file that this program has written: the record of a whole file."""
    content = read_given(file, largest, other)
    try:
        return from_file(cls, content, other=other, older=older)
    except SerialisationError as error:
        raise UsageProblem(f"{file} {error}") from error


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
class CandidateGroups:
    """Candidates of each test."""

    candidates: Mapping[str, Sequence[Candidate]]
    remarks: Sequence[str] = ()
    partial: bool = False  # the run has not come to its end


def measured_in(report: Report) -> CandidateGroups:
    """Take the candidates of each test from a report."""
    return CandidateGroups(candidates=candidates_of(report.judgements), partial=report.partial)


def read_candidates(file: str) -> CandidateGroups:
    """Read candidates, those of one test together."""
    if Path(file).suffix == ".csv":
        candidates = {test: distinct(found) for test, found in _of_rows(file).items()}
        return CandidateGroups(candidates=candidates, remarks=[*misspelt(file)])
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
