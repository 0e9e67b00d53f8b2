"""What the page shows of one measurement on demand: pairs, blocks, distributions, operators, in plain data."""

from typing import Any

from pytest_hwperf.core.evidence import Measurement, Observation, Pair
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.metrics import Metric
from pytest_hwperf.core.records import Budget, Judgement, figure_of
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.units import relative_change, scale_for
from pytest_hwperf.reports.cells import metric_of
from pytest_hwperf.reports.groups import VerdictRow
from pytest_hwperf.reports.html.decision import Seen, words_of
from pytest_hwperf.reports.html.numbers import packed, quantiles, rounded

Plain = dict[str, Any]
SeenKey = tuple[str, Measurement, str, str]  # kind of machine, measurement, metric and statistic


def seen_of(report: Report) -> dict[SeenKey, Seen]:
    """Sort what all pairs observed by kind of machine, measurement, metric and statistic."""
    pairs: dict[SeenKey, list[tuple[Pair, Observation, str]]] = {}
    fixed = {(gate.kind, *one.hypothesis.key): one for gate in report.gates for one in gate.evidence.fixed_samples}
    for gate in report.gates:
        for pair in gate.evidence.pairs:
            turns = {drawn.measurement: drawn.turns for drawn in pair.assignments}
            for one in pair.observations if pair.stage != "rehearsal" else ():
                pairs.setdefault((gate.kind, *one.key), []).append((pair, one, turns.get(one.measurement, "")))
    return {key: Seen(pairs=tuple(pairs.get(key, ())), fixed=fixed.get(key)) for key in {**pairs, **fixed}}


def blocks_in(seen: Seen) -> int:
    """Count the values that the timelines of a statistic need."""
    return sum(len(one.baseline) + len(one.candidate) for _, one, _ in seen.pairs)


def detail_of(row: VerdictRow, seen: Seen, *, blocks: bool) -> Plain:
    """Return the words and the values of one verdict."""
    run, subject = row.judgement.run, row.verdict.subject
    metric = metric_of(run, subject.metric)
    figure = figure_of(row.judgement.figures, subject.key)
    found: Plain = {"words": words_of(row, metric, figure, seen), "source": row.source}
    if isinstance(subject, Budget):
        return found | _budget_values(row, subject, metric)
    if subject.change is None:
        return found
    change = subject.change
    found["change"] = [rounded(one) for one in (change.value, change.low, change.high)]
    found |= {"margin": rounded(subject.margin), "allowed": subject.allowed}
    found |= {"scale": subject.scale, "better": metric.better}
    found["pairs"] = [_pair(pair, one) for pair, one, _ in seen.pairs]
    if blocks:
        every = (value for _, one, _ in seen.pairs for side in (one.baseline, one.candidate) for value in side)
        largest = max(map(abs, every), default=0.0)
        found["blocks"] = [_blocks(pair, one, turns, metric.unit, largest) for pair, one, turns in seen.pairs]
    if seen.fixed is not None and not {*seen.fixed.baseline, *seen.fixed.candidate} <= {0.0, 1.0}:
        sides = [quantiles(side) for side in (seen.fixed.baseline, seen.fixed.candidate)]
        found["values"] = {**packed(sides, metric.unit), "per": visible(seen.fixed.per)}
    return found


def _budget_values(row: VerdictRow, budget: Budget, metric: Metric) -> Plain:
    sample = row.judgement.run.sample(budget.metric)
    if sample is None or len({*sample.values}) < 2:  # noqa: PLR2004 - one value has no distribution
        return {}
    values = packed([[], quantiles(sample.values)], metric.unit)
    factor, _ = scale_for(metric.unit, max(map(abs, sample.values)))
    return {"values": {**values, "per": visible(sample.per), "limit": rounded(budget.limit / factor)}}


def _pair(pair: Pair, one: Observation) -> list[Any]:
    """Return number, stage, relative change, share of preempted blocks and what was noticed."""
    change = None if one.change is None else rounded(relative_change(one.change))
    return [pair.number, pair.stage, change, rounded(one.preempted, 3), [visible(text) for text in one.warnings]]


def _blocks(pair: Pair, one: Observation, turns: str, unit: str, largest: float) -> Plain:
    """Return the values of a pair; without turns where those that were drawn are of other blocks."""
    fits = turns.count("B") == len(one.baseline) and turns.count("C") == len(one.candidate)
    return {"n": pair.number, "t": turns if fits else "", **packed([one.baseline, one.candidate], unit, largest)}


def facts_of(judgement: Judgement) -> list[list[str]]:
    """Return the conditions and the context of a measurement by name."""
    run = judgement.run
    named = {**run.conditions, **run.context, "revision": run.shown_revision}
    unmeasured = {f"{metric} unmeasured": str(why) for metric, why in run.unmeasured.items()}
    facts = {**named, **unmeasured}
    return [[visible(name.replace("_", " ")), visible(value)] for name, value in facts.items() if value]


def measurement_of(judgement: Judgement) -> Measurement:
    """Return what the pairs call this measurement."""
    return Measurement(test=judgement.run.test, label=judgement.run.label)
