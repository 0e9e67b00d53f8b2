"""Head-room: how far the values of a run are from the limits of their budgets, and which limit is nearest."""

import math

from pytest_hwperf.core.records import Budget, Judgement, Verdict, figure_of
from pytest_hwperf.core.structs import Record


class Headroom(Record, frozen=True, kw_only=True):
    """A budget and what is left of it."""

    verdict: Verdict
    budget: Budget
    value: float  # which the budget judges, base units
    share: float  # of the limit, by the point: 0.2 = a fifth is left, -0.2 = missed by a fifth; or infinite


def tightest(judgement: Judgement) -> Headroom | None:
    """Return the budget of a run with the least head-room; None where none has a value."""
    found = [one for verdict in judgement.verdicts if (one := _headroom(judgement, verdict)) is not None]
    return min(found, key=lambda one: one.share, default=None)


def _headroom(judgement: Judgement, verdict: Verdict) -> Headroom | None:
    budget = verdict.subject
    if not isinstance(budget, Budget):
        return None
    figure = figure_of(judgement.figures, budget.key)
    if figure is None:
        return None
    left = budget.limit - figure.estimate.value
    if judgement.run.metric(budget.metric).better == "higher":
        left = -left
    share = left / abs(budget.limit) if budget.limit else math.copysign(math.inf, left) if left else 0.0
    return Headroom(verdict=verdict, budget=budget, value=figure.estimate.value, share=share)
