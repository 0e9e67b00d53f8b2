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
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from pytest_hwperf.records.evidence import Measurement, MeasurementKey
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Estimate, Figure, Key, Run, Sample, figure_of
from pytest_hwperf.records.text import spreadsheet_cell
from pytest_hwperf.records.units import EXPORT_UNITS, counted, exported_name
from pytest_hwperf.records.verdict import Comparison, Judgement
from pytest_hwperf.reports.rows import IN_PAIRS, metric_of, sorted_keys
from pytest_hwperf.stats.estimates import estimate, middle
from pytest_hwperf.stats.ranks import Changes, changes_of, cohens_d, decisive

Cell: TypeAlias = str | float | None  # None is missing
Cells: TypeAlias = Sequence[Cell]

_NAMES = 4  # columns: test, label, scenario and kind of machine
_NO_EFFECT = "the comparison keeps no standardised effect; see change and its interval"
_NO_DEVIATION = "{} without a deviation; see change and its interval"

_RUN_COLUMNS = ("test", "label", "scenario", "machine_kind", "revision", "started_at", "machine")
_SAMPLE_COLUMNS = (
    *("metric", "unit", "n", "per", "source", "mean", "sd", "min", "median", "max", "reason", "warnings"),
)
FIGURE_ENDINGS = ("", "_ci_low", "_ci_high", "_n", "_per", "_source", "_reason")
_COMPARISON_COLUMNS = (
    *("metric", "statistic", "unit", "baseline_value", "candidate_value", "n", "source"),
    *("scale", "change", "ci_low", "ci_high", "confidence", "margin", "pairs", "method", "cohens_d_paired"),
    *("cohens_d_paired_reason", "p_value", "detectable", "outcome", "fails", "reason", "warnings"),
)


def render(report: Report) -> dict[str, bytes]:
    """Return the content of each file under its name; files without rows still have their header."""
    judgements = report.judgements
    keys = sorted_keys(figure.key for judgement in judgements for figure in judgement.figures)
    units = {key: metric_of(judgements[0].run, key[0]).unit for key in keys}  # a metric has one in all runs
    names = [f"{exported_name('_'.join(key), units[key])}{ending}" for key in keys for ending in FIGURE_ENDINGS]
    kinds = {gate.kind for gate in report.gates}
    changes = {kind: changes_of(gate for gate in report.gates if gate.kind == kind) for kind in kinds}
    return {
        "stat_benchmark_runs.csv": file_of(
            (*_RUN_COLUMNS, *_SAMPLE_COLUMNS, "conditions"),
            (row for judgement in judgements for row in _sample_rows(judgement.run)),
        ),
        "stat_benchmark_summary.csv": file_of(
            (*_RUN_COLUMNS, *names, "conditions"), (_summary_row(judgement, keys) for judgement in judgements)
        ),
        "statistical_comparisons.csv": file_of(
            ("baseline", *_RUN_COLUMNS[:_NAMES], *_COMPARISON_COLUMNS),
            (
                [report.baseline, *_run_cells(judgement.run)[:_NAMES], *row]
                for judgement in judgements
                for row in _comparison_rows(judgement, changes.get(judgement.run.kind, {}))
            ),
        ),
    }


def file_of(columns: Cells, rows: Iterable[Cells]) -> bytes:
    """Return a whole file, its header first."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(map(_written, row) for row in (columns, *rows))
    return text.getvalue().encode("utf-8")


def _written(cell: Cell) -> str:
    """Write numbers with twelve digits, and text so that no spreadsheet takes it for a formula."""
    return "" if cell is None else _text(cell) if isinstance(cell, str) else f"{cell:.12g}"


_text = lru_cache(maxsize=1000)(spreadsheet_cell)  # sources, methods and reasons are repeated in every row


def conditions_of(run: Run) -> str:
    """Write `batch_size=1; threads=1`."""
    return "; ".join(f"{name}={value}" for name, value in sorted(run.conditions.items()))


def _run_cells(run: Run) -> Cells:
    """Return the cells in the order of `_RUN_COLUMNS`."""
    return run.test, run.label, run.scenario, run.kind, run.shown_revision, run.started_at, run.machine.fingerprint


def _sample_rows(run: Run) -> Iterator[Cells]:
    """Yield a row for each metric that was measured, then for each that was not."""
    measured = (_sample_cells(run, sample) for sample in run.samples)
    missing: Iterator[dict[str, Cell]] = (
        {"metric": metric, "reason": str(cause)} for metric, cause in run.unmeasured.items()
    )
    for cells in (*measured, *missing):
        cells["unit"] = _unit(run, str(cells["metric"]))[0] or "1"
        yield [*_run_cells(run), *map(cells.get, _SAMPLE_COLUMNS), conditions_of(run)]


def _sample_cells(run: Run, sample: Sample) -> dict[str, Cell]:
    import numpy as np

    factor, n = _unit(run, sample.metric)[1], len(sample.values)
    cells: dict[str, Cell] = {"metric": sample.metric, "n": n, "per": sample.per, "source": sample.source}
    cells["warnings"] = "; ".join(map(str, sample.warnings))
    if not n:
        return {**cells, "reason": "no reading"}
    values = np.frombuffer(sample.values) * factor
    values.sort()
    mean = float(np.add.reduce(values)) / n
    cells |= {"mean": _mean(sample, factor, mean), "min": float(values[0]), "max": float(values[-1])}
    cells["median"] = middle(run.metric(sample.metric), values.tolist())
    if n == 1:
        return {**cells, "reason": "sd needs 2 values"}
    apart = values - mean
    return {**cells, "sd": math.sqrt(apart @ apart / (n - 1))}


def _mean(sample: Sample, factor: float, plain: float) -> float:
    """Return the mean as it is judged: of windows of unequal length, and of rates, it is total over total."""
    known = METRICS.get(sample.metric)
    if sample.weights is None and not (known and known.is_rate):
        return plain
    return estimate(sample, "mean").value * factor


def _unit(run: Run, metric: str) -> tuple[str, float]:
    return EXPORT_UNITS[metric_of(run, metric).unit]


def _summary_row(judgement: Judgement, keys: Sequence[Key]) -> Cells:
    run, figures = judgement.run, {figure.key: figure for figure in judgement.figures}
    cells = (cell for key in keys for cell in figure_cells(run, key, figures.get(key)))
    return [*_run_cells(run), *cells, conditions_of(run)]


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


def _comparison_rows(judgement: Judgement, changes: Mapping[MeasurementKey, Changes]) -> Iterator[Cells]:
    for verdict in judgement.verdicts:
        comparison = verdict.subject
        if isinstance(comparison, Comparison):
            cells = _comparison_cells(judgement, comparison)
            cells |= _effect_cells(judgement.run, comparison, changes)
            cells["fails"] = "yes" if verdict.fails else "no"
            yield [*map(cells.get, _COMPARISON_COLUMNS)]


def _comparison_cells(judgement: Judgement, comparison: Comparison) -> dict[str, Cell]:
    change = comparison.change
    unit, factor = _unit(judgement.run, comparison.metric)
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
        "change": change.value if change else None,
        "ci_low": change.low if change else None,
        "ci_high": change.high if change else None,
        "confidence": change.confidence if change else None,
        "method": comparison.how,
        "reason": comparison.reason or (_open_end(change) if change else ""),
        "warnings": "; ".join(map(str, [*comparison.warnings, *(change.warnings if change else ())])),
    }
    same = ("metric", "statistic", "scale", "margin", "pairs", "p_value", "detectable", "outcome")
    return cells | {name: getattr(comparison, name) for name in same}


def _effect_cells(run: Run, comparison: Comparison, changes: Mapping[MeasurementKey, Changes]) -> dict[str, Cell]:
    """Return the standardised effect of a comparison that rests on pairs, or the reason why there is none."""
    key = (Measurement(test=run.test, label=run.label), *comparison.key)
    values = decisive(comparison, changes.get(key, {}))
    if not values:
        return {"cohens_d_paired_reason": _NO_EFFECT}
    effect = cohens_d(values)
    reason = _NO_DEVIATION.format(counted(len(values), "pair")) if effect is None else ""
    return {"cohens_d_paired": effect, "cohens_d_paired_reason": reason}
