"""How each verdict was decided, in plain sentences: from its record and counts of its pairs; nothing is recomputed."""

from collections.abc import Iterator
from math import isclose
from statistics import median

from pytest_hwperf.records.evidence import FixedSample, Measurement, Observation, Pair, Stage
from pytest_hwperf.records.metrics import Metric
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted, relative_change, show_interval, show_measured
from pytest_hwperf.records.verdict import Budget, Comparison
from pytest_hwperf.reports.rows import Row

_SCREENS = ("screen", "unconfirmed screen", "equal pairs")
_STAGES: tuple[Stage, ...] = ("confirm", "equivalence")
_IN_TURNS = "fresh processes, the baseline's code and the candidate's, took turns in blocks of calls"
_APART = "two fresh processes of each side were measured one after the other, with one of them alive at a time"
_WORSE = {"lower": "higher", "higher": "lower"}  # better → what a value is that got worse

SeenKey = tuple[str, Measurement, str, str]  # kind of machine, measurement, metric and statistic


class PairData(Record, frozen=True, kw_only=True):
    """What the pairs observed of one statistic, in their order; what no pair measures has a fixed sample."""

    pairs: tuple[tuple[Pair, Observation, str], ...] = ()  # with the side of each block in time order, "BCCB"
    fixed: FixedSample | None = None

    @property
    def blocks(self) -> int:
        """How many values the timelines need."""
        return sum(len(one.baseline) + len(one.candidate) for _, one, _ in self.pairs)

    def decisive(self, comparison: Comparison) -> list[Observation]:
        """Return the observations that a comparison was made of; [] where they cannot be told apart."""
        kind = comparison.method.kind if comparison.method else ""
        for stage in ("screen",) if kind in _SCREENS else _STAGES:
            found = [one for pair, one, _ in self.pairs if pair.stage == stage][: comparison.pairs]
            if found and len(found) == comparison.pairs:
                middle = median(median(one.baseline) for one in found)
                if comparison.baseline is None or isclose(comparison.baseline, middle, rel_tol=1e-9):
                    return found
        return []


def seen_of(report: Report) -> dict[SeenKey, PairData]:
    """Sort what all pairs observed by kind of machine, measurement, metric and statistic."""
    pairs: dict[SeenKey, list[tuple[Pair, Observation, str]]] = {}
    fixed = {(gate.kind, *one.hypothesis.key): one for gate in report.gates for one in gate.evidence.fixed_samples}
    for gate in report.gates:
        for pair in gate.evidence.pairs:
            turns = {drawn.measurement: drawn.turns for drawn in pair.assignments}
            for one in pair.observations if pair.stage != "rehearsal" else ():
                pairs.setdefault((gate.kind, *one.key), []).append((pair, one, turns.get(one.measurement, "")))
    return {key: PairData(pairs=tuple(pairs.get(key, ())), fixed=fixed.get(key)) for key in {**pairs, **fixed}}


def words_of(row: Row, seen: PairData) -> list[str]:
    """Return the sentences that say how a verdict was decided, in the order in which a reader asks."""
    subject = row.verdict.subject
    found = _of_budget(row, subject) if isinstance(subject, Budget) else _of_comparison(row, subject, seen)
    fails = "It fails the test." if row.fails else "It does not fail the test."
    return [visible(sentence) for sentence in (*found, f"Verdict: {row.verdict.outcome}. {fails}")]


def _of_budget(row: Row, budget: Budget) -> Iterator[str]:
    yield f"Asked: is {row.name} {row.limit}? ({budget.keyword}{', from the configuration file' * budget.default})"
    if row.figure is None:
        yield f"It was not measured: {row.verdict.cause or row.verdict.reason}."
        return
    at, n = row.figure.estimate, counted(row.figure.estimate.n, row.figure.per)
    if at.low is None and at.high is None:
        yield f"Measured: {show_measured(at.value, row.metric.unit)}, without an interval (n={n})."
    else:
        yield (
            f"Measured: {show_interval(at.value, at.low, at.high, row.metric.unit)}, {_level(at.confidence)} "
            f"confidence, n={n}, by {row.figure.source}; interval: {at.method}."
        )
    if row.verdict.outcome == "inconclusive":
        yield "The limit lies within the interval, so that these values alone do not answer it."
    yield from (f"{text[:1].upper()}{text[1:]}." for text in map(str, row.verdict.decided_by))
    yield from (f"To be known: {one}." for one in at.warnings)


def _of_comparison(row: Row, comparison: Comparison, seen: PairData) -> Iterator[str]:
    margin = f"the margin of {row.allowed}" if comparison.margin else "nothing at all"
    yield f"Asked: did {row.name} get worse by more than {margin}?"
    if comparison.is_left_out:
        yield f"No pair of processes was run (n=0): {comparison.reason}."
        return
    if comparison.change is None:
        yield f"Nothing could be compared: {row.cause or comparison.outcome}."
        return
    yield from _evidence(comparison, row.metric, seen)
    change = comparison.change
    yield f"Change: {row.change}, {_level(change.confidence)} confidence ({change.method}); {row.values}."
    if comparison.p_value is not None:
        yield (
            f"The chance of such values if nothing had got worse by more than {margin}: "
            f"{_percent(comparison.p_value)} (p = {comparison.p_value:.2g})."
        )
    if comparison.method is not None:
        yield f"Found by: {comparison.method}."
    if comparison.promise is not None:
        yield f"How often such an answer is wrong: {comparison.promise}."
    yield from _doubts(row, comparison)


def _evidence(comparison: Comparison, metric: Metric, seen: PairData) -> Iterator[str]:
    """Count what the pairs show; counts describe, the exact test decides."""
    found = seen.decisive(comparison)
    changes = [one.change for one in found if one.change is not None]
    if found:
        how = _APART if any(one.apart for one in found) else _IN_TURNS
        others = counted(len(seen.pairs) - len(found), "other pair")
        besides = f" ({others} screened or were taken besides)" if len(found) < len(seen.pairs) else ""
        yield f"{counted(len(found), 'pair')} of {how}, in an order drawn at random{besides}."
    if changes:
        sign, worse = (1 if metric.better == "lower" else -1), _WORSE[metric.better]
        beyond = sum(sign * relative_change(change) > comparison.margin for change in changes)
        higher = sum(sign * change > 0 for change in changes)
        yield (
            f"In {higher} of {len(changes)} the candidate's value was {worse}, in {beyond} of {len(changes)} by more "
            f"than the margin."
        )
    if seen.fixed is not None:
        yield _fixed(seen.fixed, metric)


def _fixed(fixed: FixedSample, metric: Metric) -> str:
    old, new = fixed.baseline, fixed.candidate
    if fixed.per == "example" and {*old, *new} <= {0.0, 1.0}:
        lost = sum(a > b for a, b in zip(old, new, strict=True))
        won = sum(a < b for a, b in zip(old, new, strict=True))
        examples = counted(len(old), "example")
        return f"Of the same {examples}, {lost} count for the baseline only, {won} for the candidate only."
    middles = (show_measured(median(side), metric.unit) for side in (old, new))
    return (
        f"{counted(len(old), fixed.per)} of the baseline, {counted(len(new), fixed.per)} of the candidate; medians "
        f"{' and '.join(middles)}."
    )


def _doubts(row: Row, comparison: Comparison) -> Iterator[str]:
    if comparison.outcome == "inconclusive":
        why = f": {comparison.reason}" if comparison.reason else ""
        yield f"The values do not decide it{why}."
    if row.detectable:
        yield f"The smallest change for the worse that could have been caught: {row.detectable}."
    if comparison.interference:
        yield f"Other work took the processor away in {_percent(comparison.interference)} of the blocks."
    if comparison.moved is not None:
        yield f"What moved: {comparison.moved}."
    yield from (f"To be known: {one}." for one in comparison.warnings)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 1 - 1e-9 and share > 0 else f"{100 * share:.0f} %"


def _level(confidence: float) -> str:
    return f"{100 * confidence:.3g} %"
