"""The report as CSV files for spreadsheets and pandas.

`stat_benchmark_runs.csv`: a row for each metric of each run, its values summarised.
`stat_benchmark_summary.csv`: a row for each run; for each figure `<metric>_<statistic>_<unit>` and, behind the same
name, `_ci_low`, `_ci_high`, `_n`, `_per`, `_source` and `_reason`.
`statistical_comparisons.csv`: a row for each comparison; `candidate_value` is `baseline_value` with the `change`, or,
where nothing was compared, the figure of the run; `n` and `source` are its own, `pairs` and `method` those of the
`change`, and `cohens_d_paired` is the mean of the pairs' log ratios over their deviation.

What is missing is empty, never 0 or NaN, and a reason column says why. Times are in ms, sizes in MB (10^6 bytes),
energies in mJ; a column that holds several metrics is in the unit of the column `unit`.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from pytest_hwperf.records.evidence import Measurement, MeasurementKey
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import NO_READING, RUN_COLUMNS, Estimate, Figure, Key, Run, Sample, figure_of
from pytest_hwperf.records.text import spreadsheet_cell
from pytest_hwperf.records.units import EXPORT_UNITS, counted, exported_name
from pytest_hwperf.records.verdict import Comparison, Judgement
from pytest_hwperf.reports.rows import IN_PAIRS, metric_of, sorted_keys
from pytest_hwperf.stats.figures.estimates import estimate, middle
from pytest_hwperf.stats.figures.ranks import Changes, changes_of, cohens_d, decisive

Cell: TypeAlias = str | float | None  # None is missing
Cells: TypeAlias = Sequence[Cell]
TableName = Literal["runs", "summary", "comparisons"]

_NAMES = 4  # columns: test, label, scenario and kind of machine
_NO_EFFECT = "the comparison keeps no standardised effect; see change and its interval"
_NO_DEVIATION = "{} without a deviation; see change and its interval"

_SAMPLE_COLUMNS = ["metric", "unit", "n", "per", "source", "mean", "sd", "min", "median", "max", "reason", "warnings"]
FIGURE_ENDINGS = ("", "_ci_low", "_ci_high", "_n", "_per", "_source", "_reason")
_COMPARISON_COLUMNS = (
    *("metric", "statistic", "unit", "baseline_value", "candidate_value", "n", "source"),
    *("scale", "change", "ci_low", "ci_high", "confidence", "margin", "pairs", "method", "cohens_d_paired"),
    *("cohens_d_paired_reason", "p_value", "detectable", "outcome", "fails", "reason", "warnings"),
)


_FILES: Mapping[TableName, str] = {
    "runs": "stat_benchmark_runs.csv",
    "summary": "stat_benchmark_summary.csv",
    "comparisons": "statistical_comparisons.csv",
}


def render(report: Report) -> dict[str, bytes]:
    """Return the content of each file under its name; files without rows still have their header."""
    return {_FILES[name]: file_of(columns, rows) for name, (columns, rows) in tables_of(report).items()}


def tables_of(report: Report) -> dict[TableName, tuple[Sequence[str], Iterable[Cells]]]:
    """Return the columns and rows of each table."""
    judgements = report.judgements
    keys = sorted_keys(figure.key for judgement in judgements for figure in judgement.figures)
    units = {key: metric_of(judgements[0].run, key[0]).unit for key in keys}  # a metric has one in all runs
    names = [f"{exported_name('_'.join(key), units[key])}{ending}" for key in keys for ending in FIGURE_ENDINGS]
    kinds = {gate.kind for gate in report.gates}
    changes = {kind: changes_of(gate for gate in report.gates if gate.kind == kind) for kind in kinds}
    summary, comparisons = list[Cells](), list[Cells]()
    for judgement in judgements:
        run, figures = judgement.run, {figure.key: figure for figure in judgement.figures}
        cells = [cell for key in keys for cell in figure_cells(run, key, figures.get(key))]
        summary.append([*run.identity, *cells, conditions_of(run)])
        for verdict in judgement.verdicts:
            if isinstance(verdict.subject, Comparison):
                found = _comparison_cells(judgement, verdict.subject, changes.get(run.kind, {}))
                found["fails"] = "yes" if verdict.fails else "no"
                named = (report.baseline, *run.identity[:_NAMES])
                comparisons.append([*named, *map(found.get, _COMPARISON_COLUMNS)])
    samples = (row for judgement in judgements for row in _sample_rows(judgement.run))
    return {
        "runs": ((*RUN_COLUMNS, *_SAMPLE_COLUMNS, "conditions"), samples),
        "summary": ((*RUN_COLUMNS, *names, "conditions"), summary),
        "comparisons": (("baseline", *RUN_COLUMNS[:_NAMES], *_COMPARISON_COLUMNS), comparisons),
    }


def file_of(columns: Cells, rows: Iterable[Cells]) -> bytes:
    """Return a whole file, its header first; numbers have twelve digits, and no text is a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in (columns, *rows):
        writer.writerow(
            ["" if cell is None else _text(cell) if isinstance(cell, str) else f"{cell:.12g}" for cell in row]
        )
    return text.getvalue().encode("utf-8")


_text = lru_cache(maxsize=1000)(spreadsheet_cell)  # sources, methods and reasons are repeated in every row


def conditions_of(run: Run) -> str:
    """Write `batch_size=1; threads=1`."""
    return "; ".join(f"{name}={value}" for name, value in sorted(run.conditions.items()))


def _unit(run: Run, metric: str) -> tuple[str, float]:
    return EXPORT_UNITS[metric_of(run, metric).unit]


def _sample_rows(run: Run) -> Iterator[Cells]:
    """Yield a row for each metric that was measured, then for each that was not."""
    found: list[dict[str, Cell]] = [_sample_cells(run, sample) for sample in run.samples]
    found += ({"metric": metric, "reason": str(cause)} for metric, cause in run.unmeasured.items())
    for cells in found:
        cells["unit"] = _unit(run, str(cells["metric"]))[0] or "1"
        yield [*run.identity, *map(cells.get, _SAMPLE_COLUMNS), conditions_of(run)]


def _sample_cells(run: Run, sample: Sample) -> dict[str, Cell]:
    """Summarise a sample; its mean is as it is judged: of windows of unequal length, and of rates, total over total."""
    import numpy as np

    factor, n, known = _unit(run, sample.metric)[1], len(sample.values), METRICS.get(sample.metric)
    cells: dict[str, Cell] = {"metric": sample.metric, "n": n, "per": sample.per, "source": sample.source}
    cells["warnings"] = "; ".join(map(str, sample.warnings))
    if not n:
        return {**cells, "reason": NO_READING}
    values = np.sort(np.frombuffer(sample.values) * factor)
    is_plain = sample.weights is None and not (known and known.is_rate)
    cells["mean"] = float(values.mean()) if is_plain else estimate(sample, "mean").value * factor
    cells |= {"min": float(values[0]), "max": float(values[-1])}
    cells["median"] = middle(run.metric(sample.metric), values.tolist())
    return {**cells, "reason": "sd needs 2 values"} if n == 1 else {**cells, "sd": float(values.std(ddof=1))}


def figure_cells(run: Run, key: Key, figure: Figure | None) -> tuple[Cell, ...]:
    """Return the cells in the order of `FIGURE_ENDINGS`."""
    if figure is None:
        return *[None] * (len(FIGURE_ENDINGS) - 1), str(run.unmeasured.get(key[0], "not among the figures of this run"))
    factor, estimate = _unit(run, figure.metric)[1], figure.estimate
    low, high = (None if end is None else end * factor for end in (estimate.low, estimate.high))
    return estimate.value * factor, low, high, estimate.n, figure.per, figure.source, _open_end(estimate)


def _open_end(estimate: Estimate) -> str:
    """Say why an end of an interval is empty; "" where both are there."""
    if estimate.low is not None and estimate.high is not None:
        return ""
    return "; ".join(map(str, estimate.warnings)) or f"no bound at n={estimate.n} ({estimate.method})"


def _comparison_cells(
    judgement: Judgement, comparison: Comparison, changes: Mapping[MeasurementKey, Changes]
) -> dict[str, Cell]:
    """Return the cells of a comparison by their columns; a standardised effect has only one that rests on pairs."""
    run, change = judgement.run, comparison.change
    unit, factor = _unit(run, comparison.metric)
    figure, value = figure_of(judgement.figures, comparison.key), comparison.candidate
    n, source = (None, None) if value is None else (comparison.pairs, figure.source if figure else IN_PAIRS)
    if figure and comparison.is_of(figure):  # then the candidate's value that belongs to the change is its own
        value, n, source = figure.estimate.value, figure.estimate.n, figure.source
    cells: dict[str, Cell] = {
        "unit": unit or "1",
        "baseline_value": None if comparison.baseline is None else comparison.baseline * factor,
        "candidate_value": None if value is None else value * factor,
        "n": n,
        "source": source,
        "method": comparison.how,
        "reason": comparison.reason or (_open_end(change) if change else ""),
        "warnings": "; ".join(map(str, [*comparison.warnings, *(change.warnings if change else ())])),
    }
    if change:
        cells |= {"change": change.value, "ci_low": change.low, "ci_high": change.high}
        cells["confidence"] = change.confidence
    same = ("metric", "statistic", "scale", "margin", "pairs", "p_value", "detectable", "outcome")
    cells |= {name: getattr(comparison, name) for name in same}
    values = decisive(comparison, changes.get((Measurement(test=run.test, label=run.label), *comparison.key), {}))
    if not values:
        return cells | {"cohens_d_paired_reason": _NO_EFFECT}
    effect = cohens_d(values)
    reason = _NO_DEVIATION.format(counted(len(values), "pair")) if effect is None else ""
    return cells | {"cohens_d_paired": effect, "cohens_d_paired_reason": reason}
