"""Trade-offs between the scenarios of each test as files: tables for dashboards, and who is best at what as JSON.

`hardware_tradeoffs.csv`: a row for each scenario at its operating point, with its figures, its score and whether it is
in the Pareto set; `hwperf tradeoffs` reads it.
`benchmark_dashboard.csv`: a row for each measurement, with its tightest budget and its worst outcome.
`hardware_tradeoffs_summary.json` and `benchmark_summary.json`: for each test and operating point what was compared,
and who is best, ties included. docs/artifacts.md defines every column and field.
`TradeoffsFile`: what `hwperf tradeoffs --json=FILE` writes.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_hwperf.records import metrics
from pytest_hwperf.records.evidence import Gate
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.metrics import ENERGY, MEDIAN_LATENCY, MEMORY_PRESSURE, METRICS, stage_metric
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import SCHEMA, Estimate, Key, Run, figure_of
from pytest_hwperf.records.structs import Number, Record
from pytest_hwperf.records.text import visible_json
from pytest_hwperf.records.units import EXPORT_UNITS, exported_name
from pytest_hwperf.records.verdict import BudgetOutcome, Comparison, Judgement
from pytest_hwperf.reports.csv_files import Cell, Cells, conditions_of, figure_cells, file_of
from pytest_hwperf.reports.rows import metric_of
from pytest_hwperf.stats.choice.advice import STAGES, OnHardware, on_hardware, tightest
from pytest_hwperf.stats.choice.candidates import ACCURACY, DIMENSIONS, MEMORY, Candidate, per_row
from pytest_hwperf.stats.choice.tradeoffs import (
    Choice,
    Ranked,
    Score,
    best_by,
    composite,
    measured_together,
    meets,
    not_below,
)

_FIGURES: Sequence[Key] = (
    *(ACCURACY, (metrics.WORST_CLASS, "mean"), (metrics.BALANCED_ACCURACY, "mean"), MEDIAN_LATENCY, ("latency", "p95")),
    *(("throughput", "mean"), MEMORY, (MEMORY_PRESSURE, "p50"), ("model_size", "p50"), (ENERGY, "mean")),
    *(("cpu_utilisation", "mean"), *((stage_metric(name), "p50") for name in STAGES)),
)
_ENDINGS = ("", "_ci_low", "_ci_high", "_reason")
_MEASUREMENT = ("test", "label", "scenario", "machine", "cpu_model", "batch_size", "threads", "load", "precision")
_RANKED = ("reference", "score", "score_low", "score_high", "composite", "pareto", "rank_reason")
_BANDWIDTH = ("memory_bandwidth_gb_per_s", "memory_bandwidth_reason")
_BUDGET = ("tightest_budget", "tightest_limit", "tightest_headroom", "tightest_reason")
_CHANGE = ("latency_p50_change", "latency_p50_change_ci_low", "latency_p50_change_ci_high", "latency_p50_change_reason")
# Worst first; what has no answer stands before what is well.
_OUTCOMES = (
    *("regressed", "failed", "inconclusive", "unmeasured", "not comparable", "no baseline"),
    *("improved", "equivalent", "passed"),
)


def render(report: Report) -> dict[str, bytes]:
    """Return the content of each file under its name; tables without rows still have their header."""
    together = measured_together(report.judgements)
    columns = [exported_name("_".join(key), metrics.metric_of(key[0]).unit) for key in _FIGURES]
    figures = [f"{column}{ending}" for column in columns for ending in _ENDINGS]
    counts = [outcome.replace(" ", "_") for outcome in _OUTCOMES]
    return {
        "hardware_tradeoffs.csv": file_of(
            (*_MEASUREMENT, "name", *figures, *_BANDWIDTH, *_RANKED, "conditions"),
            (row for measured in together for row in _tradeoff_rows(measured)),
        ),
        "hardware_tradeoffs_summary.json": _json("hardware tradeoffs", map(_compared, together)),
        "benchmark_dashboard.csv": file_of(
            (*_MEASUREMENT, *figures, *_BUDGET, *_CHANGE, *counts, "worst", "conditions"),
            map(_dashboard_row, report.judgements),
        ),
        "benchmark_summary.json": _json("best candidates", map(_best, together)),
    }


def _json(what: str, tests: Iterator[Mapping[str, Any]]) -> bytes:
    whole = {"what": f"pytest-hwperf {what}", "schema": 2, "tests": [*tests]}
    return visible_json(json.dumps(whole, indent=1, allow_nan=False).encode()) + b"\n"


def _measurement(run: Run) -> Iterator[Cell]:
    """Yield the cells in the order of `_MEASUREMENT`; a condition that is not declared is empty."""
    yield from (run.test, run.label, run.scenario, run.machine.fingerprint, run.machine.cpu_model)
    yield from (run.conditions.get(name) for name in ("batch_size", "threads", "load", "precision"))


def _figures(judgement: Judgement) -> Iterator[Cell]:
    """Yield value, interval and reason of each figure; one that was not measured is empty, whatever was estimated."""
    for key in _FIGURES:
        figure = figure_of(judgement.figures, key)
        if figure is not None and figure.estimated:
            yield from (None, None, None, f"only estimated, by {figure.source}")
            continue
        value, low, high, *_, reason = figure_cells(judgement.run, key, figure)
        yield from (value, low, high, reason)


def _bandwidth(run: Run) -> tuple[Cell, Cell]:
    """Return the estimate of the memory bandwidth, or why there is none."""
    if run.roofline is None:
        asked = run.operators is not None
        return None, "the work of its runtime is not counted" if asked else "counted with --hwperf-operators"
    moved, uncounted = run.roofline.bytes_per_s, ", ".join(run.roofline.work.uncounted)
    if moved is None:
        return None, "no byte of its work was counted"
    return moved / 1e9, f"at least: not counted are {uncounted}" if uncounted else ""


def _tradeoff_rows(choice: Choice) -> Iterator[Cells]:
    weights = choice.weighted
    left_out = "; ".join(f"{name} is left out: not measured for every scenario" for name in choice.lacking)
    for candidate, judgement in zip(choice.candidates, choice.judgements, strict=True):
        found, run = choice.scores.get(candidate.name), judgement.run
        yield [
            *(*_measurement(run), candidate.name, *_figures(judgement), *_bandwidth(run), choice.reference.name),
            *((found.value, found.low, found.high) if found else (None, None, None)),
            composite(candidate, weights) if weights else None,
            ("yes" if candidate in choice.front else "no") if choice.dimensions else None,
            left_out if found else "; ".join(filter(None, [_unscored(weights), left_out])),
            conditions_of(run),
        ]


def _unscored(weights: Mapping[str, float]) -> str:
    return "a value of 0 has no ratio" if weights else "nothing was measured for every scenario"


def _dashboard_row(judgement: Judgement) -> Cells:
    run, room = judgement.run, tightest(judgement)
    counts = Counter[str](verdict.outcome for verdict in judgement.verdicts)
    budget: list[Cell] = [None, None, None, "no budget has a value"]
    if room:
        factor = EXPORT_UNITS[metric_of(run, room.budget.metric).unit][1]
        share: list[Cell] = [room.share, ""] if math.isfinite(room.share) else [None, "the limit is 0"]
        budget = [room.budget.keyword, room.budget.limit * factor, *share]
    worst = next((outcome for outcome in _OUTCOMES if counts[outcome]), None)
    cells = [*_measurement(run), *_figures(judgement), *budget, *_change(judgement)]
    return [*cells, *(counts[one] for one in _OUTCOMES), worst, conditions_of(run)]


def _change(judgement: Judgement) -> list[Cell]:
    """Return the change of the median latency, or why there is none."""
    found = next((one for one in judgement.comparisons if one.key == MEDIAN_LATENCY), None)
    if found is None or found.change is None:
        return [None, None, None, (found.reason if found else "") or "not compared"]
    change = found.change
    return [change.value, change.low, change.high, "" if None not in (change.low, change.high) else "an open interval"]


def _compared(choice: Choice) -> dict[str, Any]:
    """Say what was compared at one operating point, in which order, and what was left out."""
    ranked = sorted(choice.scores.items(), key=lambda one: -one[1].value)
    return {
        "test": choice.test,
        "operating_point": choice.point or None,
        "candidates": [one.name for one in choice.candidates],
        "reference": choice.reference.name,
        "weights": choice.weighted or None,
        "left_out": {name: {"not_measured_for": names} for name, names in choice.lacking.items()},
        "pareto": [one.name for one in choice.front] if choice.dimensions else None,
        "ranking": [
            {"name": name, "score": found.value, "score_low": found.low, "score_high": found.high}
            for name, found in ranked
        ]
        or None,
        "lost_classes": {one.name: str(lost) for one in choice.candidates if (lost := choice.lost_by(one))} or None,
        "reason": None if ranked else _unscored(choice.weighted),
    }


def _best(choice: Choice) -> dict[str, Any]:
    """Say who is best by composite, latency, memory and energy, with those that are shown to be as good."""
    nobody, weights = dict.fromkeys(("names", "inconclusive", "value", "unit")), choice.weighted
    found: dict[str, Any] = {"test": choice.test, "operating_point": choice.point or None}
    found["best_composite"] = {**nobody, "reason": _unscored(weights)}
    if weights:
        best = max(choice.candidates, key=lambda one: composite(one, weights))
        found["best_composite"] |= {
            "names": [best.name],
            "inconclusive": [one.name for one in not_below(choice.candidates, best, weights)],
            "value": composite(best, weights),
            "reason": None,
        }
    for name in ("latency", "memory", "energy"):
        found[f"lowest_{name}"] = {**nobody, "reason": "not measured for every scenario"}
        if name in choice.dimensions:
            best, as_good, inconclusive = best_by(choice.candidates, DIMENSIONS[name])
            unit, factor = EXPORT_UNITS[METRICS[DIMENSIONS[name][0]].unit]
            found[f"lowest_{name}"] = {
                "names": [best.name, *(one.name for one in as_good)],
                "inconclusive": [one.name for one in inconclusive],
                "value": per_row(best, DIMENSIONS[name]).value * factor,
                "unit": f"{unit} per row" if name == "latency" else unit,
                "reason": None,
            }
    return found


class RequirementAnswer(Record, frozen=True, kw_only=True):
    """What one candidate makes of one requirement."""

    keyword: str
    limit: Number  # base units
    outcome: BudgetOutcome
    estimate: Estimate | None = None  # base units; None: unmeasured
    estimated: bool = False  # whether the value was estimated, and not measured
    excess: Number | None = None  # share of the limit by which it is missed; None: it is kept, or 0


class RankedCandidate(Record, frozen=True, kw_only=True):
    """One candidate."""

    name: str
    conditions: Mapping[str, str]
    meets: bool  # no value misses its limit; what is unmeasured bars nothing
    requirements: tuple[RequirementAnswer, ...]
    pairs: Mapping[str, tuple[Comparison, ...]] = {}  # name of another candidate, the baseline → what pairs have shown
    quantisation: str | None = None  # "worthwhile", "not worthwhile" or "inconclusive"; None: it is no INT8 form
    dimensions: Mapping[str, Estimate]  # that all candidates have, base units, latency per row
    is_pareto: bool | None  # None: there is no dimension that all candidates have
    rank: int | None = None  # from 1; None: it is not ranked
    score: Score | None = None
    composite: Number | None = None
    is_inconclusive: bool | None = None  # whether its score is not shown to be below the highest
    lost_classes: Statement | None = None  # against the reference; None: none is lost, or it is not known
    hardware: OnHardware | None = None  # None: no kind of machine is named


class TradeoffTable(Record, frozen=True, kw_only=True):
    """The candidates of one test at one operating point."""

    test: str  # "" where the file names none
    point: str  # "" where nothing tells it from others
    reference: str  # candidate whose score is 100
    weights: Mapping[str, Number]  # dimension → weight, of those that all candidates have
    estimated: tuple[str, ...] = ()  # of these, what scores and composites take by an estimate
    left_out: Mapping[str, tuple[str, ...]]  # dimension → candidates that lack it
    unranked: str  # why there is no ranking, "" where there is one
    candidates: tuple[RankedCandidate, ...]
    gates: tuple[Gate, ...] = ()  # what `pairs` of the candidates rest on


class TradeoffsFile(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf tradeoffs"):
    """Everything that was compared."""

    schema: int = SCHEMA
    tables: tuple[TradeoffTable, ...]


def table_of(choice: Choice) -> TradeoffTable:
    """Return the candidates of a choice with everything that the lines say of them, in the order of the file."""
    places = {one.candidate.name: (place, one) for place, one in enumerate(choice.ranked, 1)}
    return TradeoffTable(
        test=choice.test,
        point=choice.point,
        reference=choice.reference.name,
        weights=choice.weighted,
        estimated=choice.estimated,
        left_out={name: tuple(names) for name, names in choice.lacking.items()},
        unranked=choice.unranked,
        candidates=tuple(_candidate(one, choice, *places.get(one.name, (None, None))) for one in choice.candidates),
        gates=tuple(choice.gates),
    )


def _candidate(one: Candidate, choice: Choice, rank: int | None, found: Ranked | None) -> RankedCandidate:
    requirements = choice.requirements[one.name]
    return RankedCandidate(
        name=one.name,
        conditions=one.conditions,
        meets=meets(requirements),
        requirements=tuple(
            RequirementAnswer(
                keyword=asked.budget.keyword,
                limit=asked.budget.limit,
                outcome=asked.outcome,
                estimate=asked.estimate,
                estimated=one.is_guessed(asked.budget.key),
                excess=asked.excess or None,
            )
            for asked in requirements
        ),
        pairs={name: tuple(found.values()) for name, found in one.pairs.items()},
        quantisation=next((found.outcome for quantised, _, found in choice.worths if quantised is one), None),
        dimensions={name: per_row(one, key) for name, key in choice.dimensions.items()},
        is_pareto=one in choice.front if choice.dimensions else None,
        rank=rank,
        score=found and found.score,
        composite=found and found.composite,
        is_inconclusive=found and found.inconclusive,
        lost_classes=choice.lost_by(one),
        hardware=next(iter(on_hardware([one], choice.prices)), None),
    )
