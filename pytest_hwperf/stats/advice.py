"""Advice about a whole session: limits and measurements that say less than they seem to. It fails nothing."""

import math
from collections.abc import Collection, Iterator, Sequence

from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import ACCURACY, metric_of, taken_by
from pytest_hwperf.records.run import AS_TRAINED, figure_of
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.units import counted
from pytest_hwperf.records.verdict import Budget, Judgement, Verdict

_NAMED = 3  # tests in a sentence


def advice(judgements: Sequence[Judgement], *, served: int, swept: Collection[str] = ()) -> Iterator[Statement]:
    """Yield each piece of advice once, with the tests that it is about."""
    means = [one.run.test for one in judgements if _limits_means_alone(one)]
    if means:
        yield state("mean only", tests=_named(means))
    others = [one for one in judgements if served and one.run.test not in swept and _rows(one) not in (None, served)]
    if others:
        measured = [f"{one.run.test} ({_rows(one)})" for one in others]
        yield state("other batch served", served=served, tests=_named(measured))
    unchecked = [one.run.test for one in judgements if _is_unchecked(one)]
    if unchecked:
        yield state("predictions not checked", tests=_named(unchecked))


def _limits_means_alone(judgement: Judgement) -> bool:
    """Whether the time of calls has a limit, and no percentile or maximum of it has one.

    A limit on rows per second is that of a job for which nobody waits.
    """
    limits = [budget for budget in _budgets(judgement) if metric_of(budget.metric).is_of_calls]
    return bool(limits) and all(budget.statistic == "mean" for budget in limits)


def _is_unchecked(judgement: Judgement) -> bool:
    """Whether a model in another form has limits, and neither labels nor limits on its predictions."""
    run, budgets = judgement.run, _budgets(judgement)
    timed = any(metric_of(budget.metric).taken in ("calls", "windows") for budget in budgets)
    if not run.scenario or AS_TRAINED.items() <= run.context.items() or not timed:
        return False
    asked = {verdict.subject.metric for verdict in judgement.verdicts}
    known = {sample.metric for sample in run.samples}.intersection(taken_by("examples"))  # {}: of values
    return bool(known) and ACCURACY not in known and asked.isdisjoint(taken_by("examples"))


def _rows(judgement: Judgement) -> int | None:
    rows = judgement.run.conditions.get("batch_size", "")
    return int(rows) if rows.isdecimal() else None


def _budgets(judgement: Judgement) -> list[Budget]:
    return [verdict.subject for verdict in judgement.verdicts if isinstance(verdict.subject, Budget)]


def _named(tests: Sequence[str]) -> str:
    different = list(dict.fromkeys(tests))
    more = [counted(len(different) - _NAMED, "other")] if len(different) > _NAMED else []
    return ", ".join([*different[:_NAMED], *more])


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
