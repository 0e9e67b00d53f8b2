"""Verdicts on a run: an answer to every budget and every comparison; nothing undecided is ever called passed."""

from collections.abc import Sequence

from pytest_hwperf.core.estimates import clear_of
from pytest_hwperf.core.metrics import Metric
from pytest_hwperf.core.records import (
    Budget,
    BudgetOutcome,
    Comparison,
    Estimate,
    Figure,
    Policy,
    Run,
    Verdict,
    figure_of,
)
from pytest_hwperf.core.statements import Kind, state
from pytest_hwperf.core.units import counted, show, show_change, show_interval, show_limit

_FAILURES: frozenset[Kind] = frozenset({"test ended", "not runnable", "lost", "lost, logged"})  # of a baseline


def budgets_of(run: Run, runs: Sequence[Run], budgets: tuple[Budget, ...]) -> tuple[Budget, ...]:
    """Return the budgets of one of a test's runs: none where it only holds metrics that the test recorded itself."""
    timed = [other for other in runs if other.is_timed]
    return budgets if run in timed or not timed else ()


def judge(
    run: Run,
    figures: Sequence[Figure],
    comparisons: Sequence[Comparison],
    budgets: Sequence[Budget],
    policy: Policy,
) -> tuple[Verdict, ...]:
    """Answer every budget and every comparison of one run."""
    return (
        *(judge_budget(run, figures, budget, policy) for budget in budgets),
        *(judge_comparison(run.metric(comparison.metric), comparison, policy) for comparison in comparisons),
    )


def judge_budget(run: Run, figures: Sequence[Figure], budget: Budget, policy: Policy) -> Verdict:
    """Answer one budget: passed or failed where the whole interval is, inconclusive where it holds the limit."""
    figure = figure_of(figures, budget.key)
    metric = run.metric(budget.metric)
    limit = show_limit(budget.limit, metric.unit, metric.better)
    if figure is None:
        cause = run.unmeasured.get(budget.metric) or state("not given", remedy=metric.remedy)
        line = f"{budget.metric} {budget.statistic}: unmeasured, budget {limit}: {cause}"
        fails = policy.undecided != "pass" and not budget.default
        return Verdict(subject=budget, outcome="unmeasured", reason=line, cause=cause, fails=fails)
    clear = clear_of(figure.estimate, budget.limit, metric.better)
    outcome: BudgetOutcome = "inconclusive" if clear is None else "passed" if clear else "failed"
    answer = _word(outcome, figure.estimate, policy)
    return Verdict(
        subject=budget,
        outcome=outcome,
        reason=f"{_observed(figure, metric)}, budget {limit}: {answer}",
        fails=outcome == "failed" or (outcome == "inconclusive" and _undecided_fails(figure, budget, metric, policy)),
    )


def judge_comparison(metric: Metric, comparison: Comparison, policy: Policy) -> Verdict:
    """Answer one comparison; its outcome was decided where its numbers were compared."""
    undecided = comparison.outcome in ("inconclusive", "not comparable") or baseline_failed(comparison)
    return Verdict(
        subject=comparison,
        outcome=comparison.outcome,
        reason=_compared(metric, comparison),
        fails=comparison.outcome == "regressed" or (policy.strict and undecided),
    )


def baseline_failed(comparison: Comparison) -> bool:
    """Whether there is no baseline because it has the test and could not run it, unlike a test that is new."""
    cause = comparison.cause
    return comparison.outcome == "no baseline" and cause is not None and cause.kind in _FAILURES


def explain(verdict: Verdict) -> str:
    """Say a verdict in one line, its outcome first."""
    return f"{verdict.outcome.upper()}  {verdict.reason}"


def _undecided_fails(figure: Figure, budget: Budget, metric: Metric, policy: Policy) -> bool:
    """Whether an inconclusive budget fails; by default the point decides, as a plain assertion would."""
    if policy.undecided == "point":
        value = figure.estimate.value
        return value > budget.limit if metric.better == "lower" else value < budget.limit
    return policy.undecided == "fail"


def _word(outcome: BudgetOutcome, estimate: Estimate, policy: Policy) -> str:
    if outcome != "inconclusive":
        return outcome
    needed = "; ".join(map(str, estimate.warnings)) or "the interval holds the limit"
    decided = {"point": "judged by its point", "pass": "let pass as asked", "fail": "failed as asked"}
    return f"inconclusive ({needed}), {decided[policy.undecided]}"


def _observed(figure: Figure, metric: Metric) -> str:
    estimate = figure.estimate
    shown = show_interval(estimate.value, estimate.low, estimate.high, metric.unit)
    return f"{figure.metric} {figure.statistic} {shown}, n={counted(estimate.n, figure.per)}, {figure.source}"


def _compared(metric: Metric, comparison: Comparison) -> str:
    name = f"{comparison.metric} {comparison.statistic}"
    change = comparison.change
    if change is None:
        return f"{name}: {comparison.reason}"
    ends = ("?" if end is None else show_change(end, comparison.scale) for end in (change.low, change.high))
    caught = comparison.caught(metric.better)
    kind = f"{100 * change.confidence:.3g} % CI " if comparison.p_value is not None else ""
    parts = [
        f"{name} {show_change(change.value, comparison.scale)} ({kind}{' .. '.join(ends)})",
        f"baseline {show(comparison.baseline, metric.unit)}" if comparison.baseline is not None else "",
        f"margin {show_change(comparison.margin, comparison.scale)}",
        f"p={comparison.p_value:.2g}" if comparison.p_value is not None else "",
        f"could have caught {caught}" if caught else "",
        str(comparison.disturbance or ""),
        comparison.reason,
        comparison.how,
    ]
    return ", ".join(part for part in parts if part)
