"""What commands are given: rows, requirements, reports and candidates, in files from anyone, and runs of pytest."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

from pytest_hwperf.cli.tables import read_table
from pytest_hwperf.host.files import read_file, read_given
from pytest_hwperf.host.launch import run_to_end
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.records.codec import R, from_file
from pytest_hwperf.records.errors import SerialisationError, UsageProblem
from pytest_hwperf.records.markers import nearest, nearest_or_all, parse_budgets
from pytest_hwperf.records.metrics import ENERGY, MEDIAN_LATENCY, MEMORY_PRESSURE, METRICS, metric_of, stage_metric
from pytest_hwperf.records.report import Report, ReportFile
from pytest_hwperf.records.run import Estimate, Key
from pytest_hwperf.records.structs import LARGEST
from pytest_hwperf.records.units import EXPORT_UNITS, exported_name
from pytest_hwperf.records.verdict import Budget
from pytest_hwperf.stats.choice.advice import STAGES
from pytest_hwperf.stats.choice.candidates import (
    ACCURACY,
    MEMORY,
    Candidate,
    by_test,
    candidates_of,
    distinct,
    rows_of_call,
)
from pytest_hwperf.stats.figures.estimates import pressure_of

_LARGEST_ROWS = 2_000_000_000  # bytes, packed and unpacked
_FORMS = "give an .npz with X and perhaps y, an .npy, or a .csv"


def read_data(file: str, target: str | None) -> tuple[Any, Any | None]:
    """Read rows and labels; nothing in the file is unpickled."""
    import numpy as np

    path = Path(file)
    if path.suffix != ".csv" and target is not None:
        raise UsageProblem("--target names a column of a .csv; an .npz holds the labels as y")
    content = BytesIO(read_given(path, _LARGEST_ROWS, _FORMS, name=f"--data={file}"))
    try:
        X, y = read_table(file, content, target) if path.suffix == ".csv" else _read_arrays(content, path.suffix)
    except UsageProblem:
        raise
    except Exception as error:  # damaged files make numpy, zipfile and zlib raise a dozen unrelated kinds
        raise UsageProblem(f"--data={file}: {_FORMS} ({str(error) or type(error).__name__})") from error
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
    return X, y


def _read_arrays(content: BytesIO, suffix: str) -> tuple[Any, Any | None]:
    import numpy as np

    if is_zipfile(content):
        with ZipFile(content) as packed:
            if sum(one.file_size for one in packed.infolist()) > _LARGEST_ROWS:  # no more is unpacked than is said here
                raise ValueError(f"larger than {_LARGEST_ROWS / 1e6:g} MB")
    content.seek(0)
    found = np.load(content, allow_pickle=False)
    if suffix == ".npy":
        return found, None
    with found as arrays:
        return arrays["X"], arrays.get("y")


_LARGEST_REQUIREMENTS = 1 << 16  # bytes
_KEY = "requirements"  # below which limits may stand, which tables of others begin with
_EXAMPLE = "a line for each limit, such as latency_p95_ms: 100"


def read_requirements(file: str) -> tuple[Budget, ...]:
    """Read limits, one a line."""
    import yaml

    given = f"--requirements={file}"
    try:
        content = read_given(file, _LARGEST_REQUIREMENTS, f"give {_EXAMPLE}", name=given)
        # Nothing is made of it: aliases stay what they are.
        node = yaml.compose(content.decode("utf-8"), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageProblem(f"{given} is no YAML ({error}): give {_EXAMPLE}") from error
    entries = node.value if isinstance(node, yaml.MappingNode) else []
    below = [of for name, of in entries if name.value == _KEY]
    if not below and len(entries) == 1 and isinstance(entries[0][1], yaml.MappingNode):
        name = str(entries[0][0].value)
        raise UsageProblem(f"{given}: unknown keyword {name!r}.{nearest_or_all(name, [_KEY])}")
    if below and len(entries) > 1:
        raise UsageProblem(f"{given}: a name stands beside requirements: put every limit below it")
    node = below[0] if below else node
    if not isinstance(node, yaml.MappingNode) or not node.value:
        raise UsageProblem(f"{given} has no limits: give {_EXAMPLE}")
    if not all(isinstance(name, yaml.ScalarNode) for name, _ in node.value):  # whose text could be exponentially long
        raise UsageProblem(f"{given}: a list or mapping stands where a name should be: give {_EXAMPLE}")
    limits = {name.value: _limit(limit.value) for name, limit in node.value}
    if len(limits) < len(node.value):
        raise UsageProblem(f"{given}: a name stands there twice; give each once")
    try:
        return parse_budgets(limits)
    except UsageProblem as problem:
        told = str(problem).replace("hwbudget(", "(")
        raise UsageProblem(f"{given}:\n{told}") from problem


def _limit(value: object) -> object:
    """Return a number; the text where it is none."""
    if not isinstance(value, str):
        return "a list or mapping"
    try:
        return float(value)
    except ValueError:
        return value


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


_LAST_WORDS = 2000  # characters of what pytest has said


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session of pytest that has ended."""

    code: int
    report: Report | None  # None: it has written none
    output: str  # the end of it

    def needed(self) -> Report:
        """Return the report; say what pytest has said where there is none."""
        if self.report is None:
            raise UsageProblem(f"pytest ended with code {self.code} and wrote no report:\n{self.output}")
        return self.report


def run_pytest(
    arguments: Sequence[str], *, directory: Path | None = None, environment: Mapping[str, str] | None = None
) -> Session:
    """Run pytest on measured tests alone, and read its report."""
    with workdir() as folder:
        file = folder / "report.json"
        command = ["-m", "pytest", "-q", "--hwperf-only", *arguments, f"--hwperf-report={file}"]
        done = run_to_end(command, directory=directory, environment=environment)
        output = (done.stdout + done.stderr)[-_LAST_WORDS:]
        return Session(code=done.returncode, report=read_report(str(file)) if file.exists() else None, output=output)


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
_MOST_BUSY = 1.5  # of a processor: two clocks measure its share, which can be a little above 1
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
    found = by_test(report.judgements, [one.run for one in report.judgements])
    return CandidateGroups(candidates={test: candidates_of(of) for test, of in found.items()}, partial=report.partial)


def read_candidates(file: str) -> CandidateGroups:
    """Read candidates, those of one test together; a column that looks like one that is read is remarked upon."""
    if Path(file).suffix != ".csv":
        report = read_report(file)
        if not report.judgements:
            raise UsageProblem(f"{file} has no measurement")
        return measured_in(report)
    rows, columns = _rows(file), _columns()
    names = list(rows[0] if rows else ())
    hints = {name: hint for name in names if name not in columns and (hint := nearest(name, columns))}
    known = [name for name in names if name in columns]
    if not known:
        raise UsageProblem(
            f"{file} has no row, or no column of a metric: name columns as stat_benchmark_summary.csv does, such as "
            "scenario, latency_p50_ms, accuracy_mean, memory_p50_mb."
            + "".join(f" {name!r}:{hint}" for name, hint in hints.items())
        )
    found = [_of_row(file, number, row, known) for number, row in enumerate(rows, 2)]
    read = {*(f"{name}{ending}" for name in columns for ending in _BESIDE), *_NAMES, *_OTHERS}
    return CandidateGroups(
        candidates={test: distinct(of) for test, of in by_test(found, found).items()},
        remarks=[f"{file}: the column {name!r} is not read.{hint}" for name, hint in hints.items() if name not in read],
    )


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
    if longer := next((number for number, row in enumerate(rows, 2) if None in row), 0):
        raise UsageProblem(f"{file}, line {longer}: more cells than there are columns")
    if len(rows) > _MOST_ROWS:
        raise UsageProblem(f"{file} has {len(rows)} rows; {_MOST_ROWS} are the most that are compared")
    return rows


@lru_cache
def _columns() -> Mapping[str, tuple[Key, float]]:
    """Return the columns of exports and of others, each with what it is of and how many of it make a base unit."""
    keys = [(metric.name, statistic) for metric in METRICS.values() for statistic in metric.statistics]
    keys += [(stage_metric(name), "p50") for name in STAGES]
    units = {key: metric_of(key[0]).unit for key in keys}
    own = {exported_name("_".join(key), unit): (key, EXPORT_UNITS[unit][1]) for key, unit in units.items()}
    return {**_OF_OTHERS, **own}


def _of_row(file: str, number: int, row: Mapping[str, str | None], known: Sequence[str]) -> Candidate:
    columns, line = _columns(), f"{file}, line {number}"
    found = {name: one for name in known if (one := _estimate(line, row, name))}
    values = {columns[name][0]: one for name, one in found.items() if name not in (_PER_SAMPLE, _PROXY)}
    kind, parts = row.get("machine_kind") or "", (row.get("conditions") or "").split(";")
    name = row.get("name") or ", ".join(dict.fromkeys(row[one] or "" for one in _NAMES if row.get(one)))
    name = name or f"row {number}"
    conditions = dict(part.strip().split("=", 1) for part in parts if "=" in part)
    conditions |= {"precision": precision} if (precision := row.get("precision")) else {}
    rows = rows_of_call(conditions.get("batch_size", ""))
    if whole := found.get(_PER_SAMPLE):
        values = {key: whole.mapped(lambda one: one * rows) for key in (_MEAN_LATENCY, MEDIAN_LATENCY)} | values
    if (held := values.get(MEMORY)) and (done := values.get(_RATE)) and done.value:
        values.setdefault(_PRESSURE, pressure_of(held, done))
    return Candidate(
        name=f"{name} on {kind}" if kind and not name.endswith(f" on {kind}") else name,
        test=row.get("test") or "",
        label=row.get("label") or "",
        scenario=row.get("scenario") or "",
        kind=kind,
        price_per_hour=_number(line, "price_per_hour", row),
        values=values,
        guesses={columns[_PROXY][0]: found[_PROXY]} if _PROXY in found else {},
        rows=rows,
        conditions=conditions,
        as_trained="load" in conditions and "form" not in conditions,  # a table of others does not say: no load
    )


def _estimate(line: str, row: Mapping[str, str | None], name: str) -> Estimate | None:
    """Return the value of one cell with its interval; None where the cell is empty."""
    key, factor = _columns()[name]
    of = metric_of(key[0])
    value, low, high = (_number(line, f"{name}{ending}", row) for ending in ("", *_ENDINGS))
    if value is None:
        return None
    if (low is not None and low > value) or (high is not None and high < value):
        raise UsageProblem(f"{line}: {name} lies outside of {name}_ci_low .. {name}_ci_high")
    is_share = of.binary or of.spread == "core second" or any(budget.share for budget in of.budgets)
    if is_share and value > (_MOST_BUSY if of.spread == "core second" else 1):
        raise UsageProblem(f"{line}: {name}={row[name]} is a share between 0 and 1, such as 0.85")
    low, high = (None if end is None else end / factor for end in (low, high))
    return Estimate(value=value / factor, low=low, high=high, confidence=0.0, n=0, method="as in the file")


def _number(line: str, name: str, row: Mapping[str, str | None]) -> float | None:
    text = row.get(name)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= LARGEST:
        raise UsageProblem(f"{line}: {name}={text} is no number of at least 0; leave out what is not known")
    return value
