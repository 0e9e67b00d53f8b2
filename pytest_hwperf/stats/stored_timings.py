"""Comparison with stored runs of the same machine, where the baseline cannot be rerun: a warning of drift."""

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev

from pytest_hwperf.records.messages import state
from pytest_hwperf.records.metrics import Metric, metric_of
from pytest_hwperf.records.run import Estimate, replace
from pytest_hwperf.records.units import relative, relative_change, show_change
from pytest_hwperf.records.verdict import Comparison, Margin, uncompared

REPEATS = 2  # further fresh processes that an alarm has to survive: bursts of other load pass, slow code stays

_ROBUST_FROM = 3  # stored runs: of two, the median is the mean and one burst spoils either
_MAD_TO_SD = 1.4826  # of a normal distribution
_DRIFT_TIMINGS, _DRIFT_SHARE = 5, 0.7


def history_limit(
    history: Sequence[float], alpha: float, *, prior_sd: float = 0.10, prior_df: float = 3.0
) -> tuple[float, float]:
    """Return the centre of stored runs and how far beyond it a new one may lie: a moderated prediction interval.

    The spread of few runs is itself uncertain, so it is averaged with a prior one, as if `prior_df` more runs had
    been seen; a burst of other load in one of them must not widen the limit, so from three runs on the centre is
    the median and the spread 1.4826 times the median absolute deviation.

    References:
        Smyth, Stat. Appl. Genet. Mol. Biol. 3 (2004), for the moderated variance.
        Example: one stored run, alpha 0.01: t(.99, 3) * 0.10 * sqrt(2) = 0.642, a limit of +90 %.
    """
    if len(history) < _ROBUST_FROM:
        centre, excess = fmean(history), 1.0
        spread = stdev(history) if len(history) > 1 else 0.0
    else:
        centre, excess = median(history), math.pi / 2  # the median of n normal values varies so much more than the mean
        spread = _MAD_TO_SD * median(abs(value - centre) for value in history)
    return centre, prediction_limit(spread, len(history), excess, alpha, prior_sd=prior_sd, prior_df=prior_df)


def prediction_limit(
    spread: float, count: int, excess: float, alpha: float, *, prior_sd: float, prior_df: float
) -> float:
    """Return t(1 - alpha, df) * s * sqrt(1 + excess / count) with s^2 moderated by the prior."""
    from scipy.special import stdtrit

    df = prior_df + count - 1
    s = math.sqrt((prior_df * prior_sd**2 + (count - 1) * spread**2) / df)
    return float(stdtrit(df, 1 - alpha)) * s * math.sqrt(1 + excess / count)


def compare_with_history(
    metric: Metric,
    history: Sequence[float],
    value: float,
    margin: Margin,
    alpha: float,
    repeats: Sequence[float] = (),
) -> Comparison:
    """Compare a new value with stored ones of the same machine; an alarm counts only if repeated."""
    if not all(math.isfinite(one) and one > 0 for one in (*history, value, *repeats)):
        found = uncompared(margin, "not comparable", state("no ratio to sessions"))
        return replace(found, pairs=len(history), method=state("historical"))
    centre, limit = history_limit([math.log(one) for one in history], alpha)
    least = max(margin.size, relative(margin.floor, math.exp(centre)))
    bar, worse = max(limit, math.log1p(least)), 1 if metric.better == "lower" else -1
    detectable = relative_change(worse * bar)
    found = Comparison(
        metric=metric.name,
        statistic=margin.statistic,
        outcome="inconclusive",
        change=_change(math.log(value) - centre, limit, len(history), alpha),
        scale="relative",
        margin=least,
        pairs=len(history),
        method=state("historical limit", limit=detectable, sessions=len(history)),
        detectable=detectable,
        baseline=math.exp(centre),
    )
    shifts = [worse * (math.log(one) - centre) for one in (value, *repeats[:REPEATS])]
    return _with_alarm(found, shifts, bar) if abs(shifts[0]) > bar else found


def needs_repeats(comparison: Comparison) -> bool:
    """Say whether a comparison with history raised an alarm by its single value, and needs `REPEATS` more."""
    return comparison.cause is not None and comparison.cause.kind == "not repeated"


def machine_drift(comparisons: Sequence[Comparison]) -> str | None:
    """Return a sentence where most timings moved the same way since their stored runs, None where they did not.

    What tests share is the machine and its hour, not their code: from five timings on, where more than 70 % moved
    beyond their margin in the same direction, the machine is the first suspect.
    """
    moves = [move for comparison in comparisons if (move := _slowdown(comparison)) is not None]
    if len(moves) < _DRIFT_TIMINGS:
        return None
    for word, moved in (
        ("slower", [move for move, margin in moves if move > margin]),
        ("faster", [move for move, margin in moves if move < -margin]),
    ):
        if len(moved) > _DRIFT_SHARE * len(moves):
            typical = show_change(relative_change(median(moved)), "relative")
            return (
                f"machine drift: {len(moved)} of {len(moves)} timings are {word} than in their stored runs, "
                f"{typical} in the middle: suspect the machine before the code, and rerun on a quiet one"
            )
    return None


def _slowdown(comparison: Comparison) -> tuple[float, float] | None:
    """Log change of the seconds and its margin; None for what is no timing or was not compared with stored runs."""
    metric, change, method = metric_of(comparison.metric), comparison.change, comparison.method
    historical = method is not None and method.kind.startswith("historical")
    if change is None or not historical or metric.unit not in ("s", "1/s"):
        return None
    return math.log1p(change.value) * (1 if metric.unit == "s" else -1), math.log1p(comparison.margin)


def _with_alarm(found: Comparison, shifts: Sequence[float], bar: float) -> Comparison:
    """Decide an alarm by its repeats; `shifts` are logs for the worse, the candidate's first."""
    side = math.copysign(1, shifts[0])
    beyond = sum(side * shift > bar for shift in shifts)
    if len(shifts) <= REPEATS:
        return replace(found, cause=state("not repeated", repeats=REPEATS))
    numbers = found.method.numbers if found.method else {}
    found = replace(found, method=state("historical repeats", beyond=beyond, processes=len(shifts), **numbers))
    if beyond < len(shifts):
        return found
    return replace(found, outcome="regressed" if side > 0 else "improved")


def _change(shift: float, limit: float, runs: int, alpha: float) -> Estimate:
    return Estimate(
        value=relative_change(shift),
        low=relative_change(shift - limit),
        high=relative_change(shift + limit),
        confidence=1 - 2 * alpha,
        n=runs,
        method="moderated prediction interval",
    )
