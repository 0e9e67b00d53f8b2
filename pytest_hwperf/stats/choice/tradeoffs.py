"""Trade-offs between candidates: which keep the requirements, which none is better than, and how they rank.

A candidate is a scenario at its batch size and threads, or a model version. Whether one is better than another is
decided by `stats.candidates` alone; a metric that one candidate lacks is left out for all and named.

References:
    V. Pareto's order: one is dominated where another is nowhere worse and somewhere better.
    Geometric means of ratios, which keep their order whatever the reference: Fleming & Wallace, CACM 29 (1986).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Gate
from pytest_hwperf.records.markers import nearest
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.run import Estimate, Key
from pytest_hwperf.records.structs import Number, Record
from pytest_hwperf.records.verdict import Budget, BudgetOutcome, Judgement
from pytest_hwperf.stats.choice.candidates import (
    DIMENSIONS,
    Candidate,
    Worth,
    by_test,
    candidates_of,
    change_of,
    described,
    lost_by,
    per_row,
    points_of,
    quantised_pairs,
    versus,
    worth_of,
)
from pytest_hwperf.stats.figures.estimates import clear_of

WEIGHTS: Mapping[str, float] = {"accuracy": 0.4, "latency": 0.2, "memory": 0.2, "energy": 0.2}
SAME = 100.0  # score of the reference
USUAL_REFERENCE = "onnx_fp32"
_COMPOSITE_UNITS: Mapping[str, float] = {"latency": 1e3, "memory": 1e-6, "energy": 1e3}  # ms, MB, mJ


class BestCandidate(NamedTuple):
    """Who is best in one dimension."""

    first: Candidate
    as_good: list[Candidate]  # shown to be within the margin
    inconclusive: list[Candidate]  # the first is not shown to be better, nor they to be as good


class Requirement(Record, frozen=True, kw_only=True, tag=True):
    """A requirement, and what the figures of one candidate say of it."""

    budget: Budget
    estimate: Estimate | None  # None: unmeasured
    outcome: BudgetOutcome
    excess: Number | None  # share of the limit by which the value misses it, 0 where it keeps it; None of a limit of 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A geometric mean of ratios to a reference, 100 for the reference itself."""

    value: float
    low: float | None  # of the band in which it lies; None: an interval is not known
    high: float | None


def answers(values: Mapping[Key, Estimate], budgets: Sequence[Budget]) -> tuple[Requirement, ...]:
    """Answer every requirement by these values."""
    found = list[Requirement]()
    for budget in budgets:
        estimate, better = values.get(budget.key), metric_of(budget.metric).better
        outcome: BudgetOutcome = "unmeasured"
        excess: float | None = 0.0
        if estimate is not None:
            clear = clear_of(estimate, budget.limit, better)
            outcome = "inconclusive" if clear is None else "passed" if clear else "failed"
            beyond = max(0.0, (1 if better == "lower" else -1) * (estimate.value - budget.limit))
            excess = beyond / budget.limit if budget.limit else None if beyond else 0.0
        found.append(Requirement(budget=budget, estimate=estimate, outcome=outcome, excess=excess))
    return tuple(found)


def meets(found: Sequence[Requirement]) -> bool:
    """Whether a candidate may be chosen: no value misses its limit; an unmeasured one bars nothing."""
    return all(one.excess == 0 for one in found)


def pareto(candidates: Sequence[Candidate], keys: Sequence[Key]) -> list[Candidate]:
    """Return the candidates that none dominates: nowhere a worse value, and somewhere better beyond the noise."""
    return [one for one in candidates if not any(_dominates(other, one, keys) for other in candidates)]


def _dominates(one: Candidate, other: Candidate, keys: Sequence[Key]) -> bool:
    for key in keys:
        paired = one.pairs or other.pairs  # which may say the opposite of single values
        more = change_of(one, other, key).value if paired else per_row(one, key).value - per_row(other, key).value
        if more * _sign(key) > 0:
            return False
    return any(versus(one, other, key) == "improved" for key in keys)


def _sign(key: Key) -> int:
    return -1 if metric_of(key[0]).better == "higher" else 1


def best_by(candidates: Sequence[Candidate], key: Key) -> BestCandidate:
    """Return the best candidate of one dimension, with those that it is not shown to be better than."""
    first, *others = sorted(candidates, key=lambda one: _sign(key) * per_row(one, key).value)
    for other in others:  # pairs may have shown the opposite of single values
        first = other if versus(other, first, key) == "improved" else first
    found = [(one, versus(one, first, key)) for one in candidates if one is not first]
    return BestCandidate(
        first,
        [one for one, outcome in found if outcome == "equivalent"],
        [one for one, outcome in found if outcome in ("inconclusive", "improved")],
    )


def composite(candidate: Candidate, weights: Mapping[str, float]) -> float:
    """Return w.accuracy + w/(1 + latency in ms per row) + w/(1 + memory in MB) + w/(1 + energy in mJ).

    It depends on these units: beside it stand the score and the Pareto set, which do not.

    Example: 0.854, 0.068 ms, 2.41 MB, 0 mJ by the usual weights: 0.788.
    """
    found = 0.0
    for name, weight in weights.items():
        value, unit = per_row(candidate, DIMENSIONS[name]).value, _COMPOSITE_UNITS.get(name)
        found += weight * (value if unit is None else 1 / (1 + value * unit))
    return found


def score(candidate: Candidate, reference: Candidate, weights: Mapping[str, float]) -> Score | None:
    """Return 100 times the weighted geometric mean of the ratios to the reference, each better above 1.

    The band adds the half-widths of all changes in quadrature, as if they were independent.
    """
    logarithm = variance = 0.0
    for name, weight in weights.items():
        key = DIMENSIONS[name]
        if per_row(candidate, key).value <= 0 or per_row(reference, key).value <= 0:
            return None
        if candidate is not reference:
            low, value, high = change_of(candidate, reference, key)
            logarithm -= _sign(key) * weight * value
            variance += (weight * (high - low) / 2) ** 2
    value, half = SAME * math.exp(logarithm), math.sqrt(variance)
    ends = [value * math.exp(end) if math.isfinite(half) else None for end in (-half, half)]
    return Score(value=value, low=ends[0], high=ends[1])


def not_below(candidates: Sequence[Candidate], best: Candidate, weights: Mapping[str, float]) -> list[Candidate]:
    """Return the candidates whose score is not shown to be below that of the best one, scored against each other.

    The noise of a reference is in the scores of all, and tells nobody apart.
    """
    against = [(one, score(best, one, weights)) for one in candidates if one is not best]
    return [one for one, found in against if found is not None and (found.low is None or found.low <= SAME)]


def parse_weights(texts: Sequence[str]) -> dict[str, float]:
    """Turn `accuracy=0.5` into weights that are 1 in all; of what is not named, the usual ones."""
    found = dict[str, float]()
    for text in texts:
        name, _, number = text.partition("=")
        if name not in DIMENSIONS:
            hint = nearest(name, DIMENSIONS)
            raise UsageProblem(f"--weight={text}: unknown dimension.{hint} Allowed: {', '.join(DIMENSIONS)}")
        try:
            found[name] = float(number)
        except ValueError:
            found[name] = math.nan
        if not 0 <= found[name] <= 1e6:  # noqa: PLR2004 - far beyond any weight
            raise UsageProblem(f"--weight={text}: a number of at least 0, such as {name}=0.4")
    weights = _normalised({**WEIGHTS, **found})
    if not weights:
        raise UsageProblem("--weight: at least one weight above 0")
    return weights


def _normalised(weights: Mapping[str, float]) -> dict[str, float]:
    """Return weights that are 1 in all; {} where none is above 0."""
    total = math.fsum(weights.values())
    return {name: weight / total for name, weight in weights.items()} if total else {}


class Ranked(NamedTuple):
    """A candidate in its place."""

    candidate: Candidate
    score: Score | None  # None: a value of 0 has no ratio
    composite: float
    inconclusive: bool  # whether its score is not shown to be below the highest
    put_back: bool  # behind all others: a quantised form that is not worthwhile


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The candidates of one test at one operating point, which may be compared with each other, and by what."""

    test: str  # "" where a table names none
    point: str  # "" where nothing tells it from others
    candidates: Sequence[Candidate]  # at least one
    judgements: Sequence[Judgement] = ()  # of each candidate; () where none are needed
    budgets: Sequence[Budget] = ()  # the requirements
    called: str = USUAL_REFERENCE  # reference of the scores; the first candidate where none is called so
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)  # dimension → weight
    rank_by: str = "score"  # "score", "composite" or a dimension
    prices: Mapping[str, float] = field(default_factory=dict)  # kind of machine → price per hour
    gates: Sequence[Gate] = ()  # what pairs of the candidates have observed
    with_estimates: bool = False  # whether scores take an estimate of energy where nothing was measured

    @cached_property
    def reference(self) -> Candidate:
        return next((one for one in self.candidates if one.is_called(self.called)), self.candidates[0])

    @cached_property
    def lacking(self) -> Mapping[str, Sequence[str]]:
        """Dimension → the candidates that lack it; not there where all have it."""
        found = {
            name: [one.name for one in self.candidates if key not in one.values] for name, key in DIMENSIONS.items()
        }
        return {name: names for name, names in found.items() if names}

    @cached_property
    def dimensions(self) -> Mapping[str, Key]:
        return {name: key for name, key in DIMENSIONS.items() if name not in self.lacking}

    @cached_property
    def scored(self) -> Mapping[str, Candidate]:
        """Name → the candidate as scores take it: where asked, with an energy that is estimated for all.

        What was measured is never compared with what was estimated.
        """
        energy = DIMENSIONS["energy"]
        if not (self.with_estimates and all(one.is_guessed(energy) for one in self.candidates)):
            return {one.name: one for one in self.candidates}
        return {one.name: replace(one, values={**one.values, energy: one.guesses[energy]}) for one in self.candidates}

    @cached_property
    def weighted(self) -> Mapping[str, float]:
        """The weights of the scores, 1 in all; {} where no dimension that is left has any."""
        there = {name for name, key in DIMENSIONS.items() if all(key in one.values for one in self.scored.values())}
        return _normalised({name: weight for name, weight in self.weights.items() if name in there and weight})

    @property
    def estimated(self) -> tuple[str, ...]:
        """The dimensions of the scores that were not measured, but estimated."""
        return tuple(name for name in self.weighted if name not in self.dimensions)

    @cached_property
    def scores(self) -> Mapping[str, Score]:
        """Name → score of each candidate that has one."""
        if not self.weighted:
            return {}
        reference = self.scored[self.reference.name]
        found = {name: score(one, reference, self.weighted) for name, one in self.scored.items()}
        return {name: one for name, one in found.items() if one}

    @cached_property
    def front(self) -> list[Candidate]:
        return pareto(self.candidates, [*self.dimensions.values()]) if self.dimensions else []

    @cached_property
    def requirements(self) -> Mapping[str, Sequence[Requirement]]:
        """Name of a candidate → what it makes of each; an estimate counts where nothing was measured."""
        return {one.name: answers({**one.guesses, **one.values}, self.budgets) for one in self.candidates}

    @cached_property
    def left(self) -> list[Candidate]:
        return [one for one in self.candidates if meets(self.requirements[one.name])]

    @cached_property
    def worths(self) -> list[tuple[Candidate, Candidate, Worth]]:
        """The rule of quantisation for each INT8 candidate against the same form in FP32, called alike."""
        return [(one, other, worth_of(one, other)) for one, other in quantised_pairs(self.candidates)]

    def lost_by(self, candidate: Candidate) -> Statement | None:
        return lost_by(candidate, self.reference)

    @property
    def unranked(self) -> str:
        """Why there is no ranking; "" where there is one."""
        if not self.left:
            return "no candidate meets the requirements"
        if self.rank_by in DIMENSIONS and self.rank_by not in self.dimensions:
            return f"not by {self.rank_by}, which is left out"
        return "" if self.weighted else "no dimension that is left has a weight"

    @cached_property
    def ranked(self) -> list[Ranked]:
        """The candidates that meet the requirements, best first; [] where there is no ranking."""
        if self.unranked:
            return []
        found, key = [self.scored[one.name] for one in self.left], DIMENSIONS.get(self.rank_by)
        scores = {name: -one.value for name, one in self.scores.items()}
        best = min((one for one in found if one.name in scores), key=lambda one: scores[one.name], default=None)
        inconclusive = not_below(found, best, self.weighted) if best else []
        last = {one.name for one, _, it in self.worths if it.outcome == "not worthwhile"} if key is None else set()

        def place(one: Candidate) -> float:
            if key:
                return per_row(one, key).value * _sign(key)
            return -composite(one, self.weighted) if self.rank_by == "composite" else scores.get(one.name, 0.0)

        return [
            Ranked(one, self.scores.get(one.name), composite(one, self.weighted), one in inconclusive, one.name in last)
            for one in sorted(found, key=lambda one: (one.name in last, place(one)))
        ]


def choices_of(
    test: str, candidates: Sequence[Candidate], judgements: Sequence[Judgement] = (), **others: Any
) -> Iterator[Choice]:
    """Yield a choice for each operating point of a test, in their order; `others` are further fields of each."""
    points = points_of([one.conditions for one in candidates])
    for point in dict.fromkeys(points):
        here = [one for one, its in zip(candidates, points, strict=True) if its == point]
        of = [one for one, its in zip(judgements, points, strict=False) if its == point]
        yield Choice(test=test, point=described(point), candidates=here, judgements=of, **others)


def measured_together(judgements: Sequence[Judgement]) -> list[Choice]:
    """Return the measurements of a report, those together that may be compared."""
    found = by_test(judgements, [one.run for one in judgements]).items()
    return [choice for test, of in found for choice in choices_of(test, candidates_of(of), of)]
