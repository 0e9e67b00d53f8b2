"""Verdicts on a run: an answer to every budget and every comparison; nothing inconclusive is ever called passed."""

import math
from collections.abc import Collection, Mapping, Sequence

from pytest_hwperf.records.messages import Statement, is_lacking, state
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, Metric, metric_of
from pytest_hwperf.records.run import OF_A_LOAD, Estimate, Figure, Key, Run, figure_of
from pytest_hwperf.records.units import (
    counted,
    show,
    show_change_interval,
    show_interval,
    show_limit,
    show_measured,
    show_move,
)
from pytest_hwperf.records.verdict import Budget, BudgetOutcome, Comparison, Policy, Verdict
from pytest_hwperf.stats.figures.estimates import REPORTED_CONFIDENCE, clear_of, needed_for_bound, voids
from pytest_hwperf.stats.figures.ranks import quantile

MOST_RETRIES = 5  # fresh processes: 2^-5 is below the 5 % of a one-sided limit

LONGEST_SAMPLING_S = 3600  # that --hwperf-sample-time takes

_FAILURES: frozenset[str] = frozenset({"test ended", "not runnable", "lost", "lost, logged"})  # of a test on a side
_UNPAIRED: frozenset[str] = _FAILURES | {"not collected", "not at once", "no value"}  # of a test in pairs


def answers_markers(run: Run, measured: Collection[str]) -> bool:
    """Whether a test's markers are about one of its runs: not about one of nothing but what the test recorded."""
    return run.label in measured or not measured


def judge(
    run: Run,
    figures: Sequence[Figure],
    comparisons: Sequence[Comparison],
    budgets: Sequence[Budget],
    policy: Policy,
    retried: Mapping[Key, Sequence[float]] | None = None,
) -> tuple[Verdict, ...]:
    """Answer every budget and every comparison of one run; `retried` has values of budgets in further processes."""
    again = retried or {}
    return (
        *(judge_budget(run, figures, budget, policy, again.get(budget.key, ())) for budget in budgets),
        *(judge_comparison(run.metric(comparison.metric), comparison, policy) for comparison in comparisons),
    )


def keeps(run: Run, budget: Budget, value: float) -> bool:
    lower = run.metric(budget.metric).better == "lower"
    return value <= budget.limit if lower else value >= budget.limit


def judge_budget(
    run: Run, figures: Sequence[Figure], budget: Budget, policy: Policy, retried: Sequence[float] = ()
) -> Verdict:
    """Answer one budget: passed or failed where the whole interval is, inconclusive where it holds the limit.

    Of `retried`, its values in fresh processes, all five have to lie on one side to decide what the interval does not:
    by chance they do so once in 32 times, if the median of processes lies on the other. They pass no
    percentile of too few calls, since the highest of 20 calls is below the p99 in most processes, and no doubtful load.
    """
    figure = figure_of(figures, budget.key)
    metric = run.metric(budget.metric)
    limit = show_limit(budget.limit, metric.unit, metric.better).removeprefix("<= ")
    if figure is None:
        known = (run.unmeasured.get(one) for one in (budget.metric, *metric.made_of))
        cause = next(filter(None, known), None) or state("not given", remedy=metric.remedy)
        line = f"{metric.called(budget.statistic)} unmeasured, limit {limit}: {cause}"
        fails = policy.undecided != "pass" and not budget.default
        return Verdict(subject=budget, outcome="unmeasured", reason=line, cause=cause, fails=fails)
    clear = clear_of(figure.estimate, budget.limit, metric.better)
    kept = sum(keeps(run, budget, value) for value in retried)
    is_tail = 2 * quantile(budget.statistic) > 1
    may_pass = not any((is_tail and is_lacking(one)) or voids(one) for one in figure.estimate.warnings)
    if clear is None and len(retried) == MOST_RETRIES and (kept == 0 or (kept == MOST_RETRIES and may_pass)):
        clear = kept > 0
    outcome: BudgetOutcome = "inconclusive" if clear is None else "passed" if clear else "failed"
    by_point = policy.undecided in ("point", "retry")  # which decides as a plain assertion would
    open_fails = not keeps(run, budget, figure.estimate.value) if by_point else policy.undecided == "fail"
    by_policy = [_decision(policy, metric, figure.estimate)] if outcome == "inconclusive" else []
    again = [state("fresh processes", kept=kept, processes=len(retried))] if retried else []
    again += _examples_needed(figure.estimate, budget.limit) if metric.binary and by_policy else []
    why = "; ".join(map(str, figure.estimate.warnings)) or "the interval holds the limit"
    doubts = ", ".join([f"inconclusive ({why})", *map(str, by_policy)])
    doubt = [doubts + _time_needed(run, figure)] if by_policy else []
    return Verdict(
        subject=budget,
        outcome=outcome,
        reason="; ".join([_observed(figure, metric, limit), *doubt, *map(str, again)]),
        decided_by=(*by_policy, *again),
        fails=outcome == "failed" or (outcome == "inconclusive" and open_fails),
    )


def why_it_cannot_pass(budget: Budget, call_s: float, time_s: float) -> str:
    """Say why a budget on a percentile of the latency cannot pass in `time_s`, and what to do; "" where it can."""
    q = quantile(budget.statistic)
    if budget.metric != MEDIAN_LATENCY[0] or not q:
        return ""
    calls = needed_for_bound(max(q, 1 - q), REPORTED_CONFIDENCE)
    if calls * call_s <= time_s:
        return ""
    needed = _calls_take(calls, "call", calls * call_s)
    return f"{budget.metric} {budget.statistic} cannot pass in {show(time_s, 's')} of calls: {needed}"


def judge_comparison(metric: Metric, comparison: Comparison, policy: Policy) -> Verdict:
    """Answer one comparison; its outcome was decided where its numbers were compared."""
    is_open = comparison.outcome in ("inconclusive", "not comparable") and not comparison.is_answered_elsewhere
    return Verdict(
        subject=comparison,
        outcome=comparison.outcome,
        reason="; ".join(filter(None, _compared(metric, comparison))),
        fails=comparison.outcome == "regressed" or (policy.strict and (is_open or baseline_failed(comparison))),
    )


def baseline_failed(comparison: Comparison) -> bool:
    """Whether there is no baseline because it has the test and could not run it, unlike a test that is new."""
    cause = comparison.cause
    return comparison.outcome == "no baseline" and cause is not None and cause.kind in _FAILURES


def pairs_failed(comparison: Comparison) -> bool:
    """Whether nothing is known of a statistic because its test does not run in the processes of pairs."""
    cause = comparison.cause
    return comparison.outcome == "not comparable" and cause is not None and cause.kind in _UNPAIRED


def explain(verdict: Verdict) -> str:
    return "; ".join([f"{verdict.outcome.upper()}  {verdict.reason}", *_moved(verdict)])


def failure_lines(run: Run, verdict: Verdict) -> list[str]:
    """Say why a verdict fails a test: its numbers, what moved, and how sure that is; else its outcome as well."""
    subject = verdict.subject
    if isinstance(subject, Budget):
        return [verdict.reason]
    if subject.outcome != "regressed":
        return [f"{verdict.reason}; {verdict.outcome}", *_moved(verdict)]
    numbers, told = _compared(metric_of(subject.metric, run.directions.get(subject.metric, "lower")), subject)
    return [numbers, *_moved(verdict), *filter(None, [told])]


def _moved(verdict: Verdict) -> list[str]:
    moved = verdict.subject.moved if isinstance(verdict.subject, Comparison) else None
    return [str(moved)] if moved else []


def _time_needed(run: Run, figure: Figure) -> str:
    """Say how long the sampling of a percentile has to be before it can pass at all; "" where it was long enough."""
    latency = run.sample(MEDIAN_LATENCY[0])
    lacking = [
        w.numbers["needed"] for w in figure.estimate.warnings if isinstance(w, Statement) and w.kind == "no bound"
    ]
    if not lacking or latency is None or figure.metric != latency.metric or latency.per == OF_A_LOAD:
        return ""
    seconds = lacking[0] * sum(latency.values) / len(latency.values)
    return f"; {_calls_take(int(lacking[0]), latency.per, seconds)}"


def _calls_take(calls: int, per: str, seconds: float) -> str:
    """Say how long calls take, and what to type for them: their pace varies, so that twice the time is advised."""
    given = min(math.ceil(2 * seconds), LONGEST_SAMPLING_S)
    remedy = f"--hwperf-sample-time={given}" if seconds < given else "give a limit to a lower percentile"
    return f"{counted(calls, per)} take {show(seconds, 's')}: {remedy}"


def _examples_needed(estimate: Estimate, limit: float) -> list[Statement]:
    """Say how many examples would decide a share: its interval shrinks with their root, that of 0 or 1 with them."""
    apart = abs(estimate.value - limit)
    if not apart or estimate.low is None or estimate.high is None:
        return []
    reach = (estimate.high - estimate.value) if estimate.value < limit else (estimate.value - estimate.low)
    needed = estimate.n * (reach / apart) ** (1 if estimate.value in (0, 1) else 2)
    return [state("few examples", n=estimate.n, needed=math.ceil(round(needed, 6)))]


def _decision(policy: Policy, metric: Metric, estimate: Estimate) -> Statement:
    """Return what decides an inconclusive budget: near a limit only where the interval holds it."""
    if policy.undecided in ("pass", "fail"):
        return state("passes as asked" if policy.undecided == "pass" else "fails as asked")
    if any(map(voids, estimate.warnings)):
        return state("doubted point")
    holds = estimate.low is not None and estimate.high is not None
    return state("timed point" if metric.is_timed and holds else "point")


def _observed(figure: Figure, metric: Metric, limit: str) -> str:
    """Write `latency p95 172 µs (146 .. 185), limit 100 µs; 2,545 calls, perf_counter`."""
    estimate, unit = figure.estimate, metric.unit
    counts_alike = (estimate.low, estimate.high) in {(None, None), (estimate.value, estimate.value)}
    shown = (
        show_measured(estimate.value, unit)
        if counts_alike
        else show_interval(estimate.value, estimate.low, estimate.high, unit)
    )
    counts = counted(estimate.n, figure.per)
    return f"{metric.called(figure.statistic)} {shown}, limit {limit}; {counts}, {figure.source}"


def _compared(metric: Metric, comparison: Comparison) -> tuple[str, str]:
    """Write `latency p50 +4.8 % (+2.3 .. +6.8), 310 → 325 µs, margin 2 %`, and `p=0.004, 8 fresh pairs, …`."""
    name = metric.called(comparison.statistic)
    change = comparison.change
    if change is None:
        return f"{name}: {comparison.reason}", ""
    if comparison.is_equal:
        return f"{name}: {comparison.method}, margin {comparison.allowed}", ""
    digits = 2 if round(abs(change.value), 3) == comparison.margin else 1  # +5.04 % is not seen in +5.0 %
    shown = show_change_interval(change.value, change.low, change.high, comparison.scale, digits=digits)
    then, now = comparison.baseline, comparison.candidate
    moved = f"{show_move(then, now, metric.unit)}, " if then is not None and now is not None else ""
    parts = [
        f"p={comparison.p_value:.2g}" if comparison.p_value is not None else "",
        str(comparison.caught(metric.better) or ""),
        str(comparison.disturbance or ""),
        comparison.reason,
        comparison.how,
    ]
    return f"{name} {shown}, {moved}margin {comparison.allowed}", ", ".join(filter(None, parts))
