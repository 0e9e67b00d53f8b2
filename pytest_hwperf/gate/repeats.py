"""Values of the rehearsal that would fail a test, taken again in fresh processes: models may be trained without a seed.

Where each process trains its model again, one process of each side says nothing about the code. A value counts only if
all processes of its side agree on it. That of k processes a side, all with one distribution, the baseline's agree on a
value and the candidate's on a worse one, has a probability of 4^-k at most: p^k (1 - p)^k for a model of two variants.
"""

import math
from collections.abc import Callable, Sequence

from pytest_hwperf.core.comparisons import compare_accuracy, compare_exact
from pytest_hwperf.core.evidence import FixedSample
from pytest_hwperf.core.hypotheses import SIDES, Questions
from pytest_hwperf.core.metrics import METRICS
from pytest_hwperf.core.ranks import fewest_pairs
from pytest_hwperf.core.statements import Statement, state
from pytest_hwperf.pairs.lockstep import PairTrace


def processes_to_agree(level: float) -> int:
    """Return the smallest number of processes a side, k, with 4^-k <= level: 4 for 0.01."""
    return math.ceil(fewest_pairs(level) / 2)


def repeat_alarms(
    questions: Questions,
    alpha: float,
    rehearse: Callable[[Sequence[str]], PairTrace],
    *,
    in_time: Callable[[], bool],
    why_late: Statement,
) -> None:
    """Take the values of each alarm again; those that differ between processes become parts that are inconclusive.

    Args:
        questions: of the build; its fixed samples and parts are changed.
        alpha: false-alarm rate of the build.
        rehearse: runs a pair of processes through tests, and returns what it showed.
        in_time: whether another pair may be begun.
        why_late: the reason of alarms that could not be repeated.
    """
    alarms = [fixed for fixed in questions.fixed_samples if _is_alarm(fixed, alpha)]
    for _ in range(1, processes_to_agree(alpha / questions.family)):
        if not alarms:
            return
        trace = (
            rehearse(list(dict.fromkeys(fixed.hypothesis.measurement.test for fixed in alarms))) if in_time() else None
        )
        for fixed in list(alarms):
            why = why_late if trace is None else _disagreement(fixed, trace)
            if why is not None:
                alarms.remove(fixed)
                questions.fixed_samples.remove(fixed)
                questions.parts[fixed.hypothesis.key] = ("inconclusive", why)


def _is_alarm(fixed: FixedSample, alpha: float) -> bool:
    """Whether the values of one process of each side would fail their test, were they those of any process."""
    margin, sides = fixed.hypothesis.margin, (fixed.baseline, fixed.candidate)
    if fixed.per == "example":
        return compare_accuracy(*sides, margin, alpha).outcome == "regressed"
    return compare_exact(METRICS[margin.metric], *sides, margin).outcome == "regressed"


def _disagreement(fixed: FixedSample, trace: PairTrace) -> Statement | None:
    """Return why a further pair of processes does not confirm the values of the first; None where it does."""
    if trace.lost:
        return trace.lost
    first = {"baseline": fixed.baseline, "candidate": fixed.candidate}
    metric, exact = fixed.hypothesis.margin.metric, trace.exact.get(fixed.hypothesis.measurement, {})
    for side in SIDES:
        again = next((one.values for one in exact.get(side, ()) if one.metric == metric), None)
        if again != first[side]:
            what = "predictions differ" if fixed.per == "example" else f"{metric} differs"
            return state("processes disagree", what=what, side=side)
    return None
