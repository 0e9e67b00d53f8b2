"""Trade-offs between candidates: which keep the requirements, which none is better than, and how they rank.

A candidate is a scenario at its batch size and threads, or a model version. Whether one is better than another is
decided by `stats.rivals` alone; a metric that one candidate lacks is left out for all and named.

References:
    V. Pareto's order: one is dominated where another is nowhere worse and somewhere better.
    Geometric means of ratios, which keep their order whatever the reference: Fleming & Wallace, CACM 29 (1986).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import nearest
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.run import Estimate, Key
from pytest_hwperf.records.structs import Number, Record
from pytest_hwperf.records.verdict import Budget, BudgetOutcome
from pytest_hwperf.stats.estimates import clear_of
from pytest_hwperf.stats.rivals import DIMENSIONS, Candidate, change_of, per_row, versus

WEIGHTS: Mapping[str, float] = {"accuracy": 0.4, "latency": 0.2, "memory": 0.2, "energy": 0.2}
SAME = 100.0  # score of the reference
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

    @property
    def is_missed(self) -> bool:
        """Whether the value itself is beyond the limit."""
        return self.excess != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A geometric mean of ratios to a reference, 100 for the reference itself."""

    value: float
    low: float | None  # of the band in which it lies; None: an interval is not known
    high: float | None


def answers(values: Mapping[Key, Estimate], budgets: Sequence[Budget]) -> tuple[Requirement, ...]:
    """Answer every requirement by these values."""
    return tuple(_answer(values.get(budget.key), budget) for budget in budgets)


def _answer(estimate: Estimate | None, budget: Budget) -> Requirement:
    if estimate is None:
        return Requirement(budget=budget, estimate=None, outcome="unmeasured", excess=0.0)
    better = metric_of(budget.metric).better
    clear = clear_of(estimate, budget.limit, better)
    beyond = estimate.value - budget.limit if better == "lower" else budget.limit - estimate.value
    return Requirement(
        budget=budget,
        estimate=estimate,
        outcome="inconclusive" if clear is None else "passed" if clear else "failed",
        excess=max(0.0, beyond) / budget.limit if budget.limit else None if beyond > 0 else 0.0,
    )


def meets(found: Sequence[Requirement]) -> bool:
    """Whether a candidate may be chosen: no value misses its limit; an unmeasured one bars nothing."""
    return not any(one.is_missed for one in found)


def dimensions_of(candidates: Sequence[Candidate]) -> tuple[dict[str, Key], dict[str, list[str]]]:
    """Return the dimensions that all candidates have, and for each other one the candidates that lack it."""
    lacking = {name: [one.name for one in candidates if key not in one.values] for name, key in DIMENSIONS.items()}
    return (
        {name: DIMENSIONS[name] for name, names in lacking.items() if not names},
        {name: names for name, names in lacking.items() if names},
    )


def with_estimates(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates whose energy counts as estimated; where any was measured or lacks an estimate, as they are.

    What was measured is never compared with what was estimated. These candidates serve scores alone.
    """
    key = DIMENSIONS["energy"]
    if not all(key in one.guesses and key not in one.values for one in candidates):
        return [*candidates]
    return [replace(one, values={**one.values, key: one.guesses[key]}) for one in candidates]


def pareto(candidates: Sequence[Candidate], keys: Sequence[Key]) -> list[Candidate]:
    """Return the candidates that none dominates: nowhere a worse value, and somewhere better beyond the noise."""
    return [one for one in candidates if not any(_dominates(other, one, keys) for other in candidates)]


def _dominates(one: Candidate, other: Candidate, keys: Sequence[Key]) -> bool:
    return all(_is_as_good(one, other, key) for key in keys) and any(
        versus(one, other, key) == "improved" for key in keys
    )


def _is_as_good(one: Candidate, other: Candidate, key: Key) -> bool:
    paired = one.pairs or other.pairs  # which may say the opposite of single values
    more = change_of(one, other, key).value if paired else per_row(one, key).value - per_row(other, key).value
    return more >= 0 if metric_of(key[0]).better == "higher" else more <= 0


def best_by(candidates: Sequence[Candidate], key: Key) -> BestCandidate:
    """Return the best candidate of one dimension, with those that it is not shown to be better than."""
    sign = -1 if metric_of(key[0]).better == "higher" else 1
    first, *others = sorted(candidates, key=lambda one: sign * per_row(one, key).value)
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
        value = per_row(candidate, DIMENSIONS[name]).value
        unit = _COMPOSITE_UNITS.get(name)
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
        if candidate is reference:
            continue
        low, value, high = change_of(candidate, reference, key)
        logarithm += (1 if metric_of(key[0]).better == "higher" else -1) * weight * value
        variance += (weight * (high - low) / 2) ** 2
    value, half = SAME * math.exp(logarithm), math.sqrt(variance)
    known = math.isfinite(half)
    return Score(
        value=value, low=value * math.exp(-half) if known else None, high=value * math.exp(half) if known else None
    )


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
    return _normalised({**WEIGHTS, **found})


def weights_of(weights: Mapping[str, float], dimensions: Mapping[str, Key]) -> dict[str, float]:
    """Return the weights of the dimensions that are there, 1 in all; {} where none of them has any."""
    left = {name: weight for name, weight in weights.items() if name in dimensions and weight}
    return _normalised(left) if left else {}


def _normalised(weights: Mapping[str, float]) -> dict[str, float]:
    total = math.fsum(weights.values())
    if not total:
        raise UsageProblem("--weight: at least one weight above 0")
    return {name: weight / total for name, weight in weights.items()}
