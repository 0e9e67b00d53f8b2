"""Fixed samples: what is measured outside of the pairs, and how it is compared at a level."""

from collections.abc import Sequence

from pytest_hwperf.core.comparisons import compare_accuracy, compare_exact
from pytest_hwperf.core.evidence import FixedSample, Hypothesis
from pytest_hwperf.core.metrics import Metric, metric_of
from pytest_hwperf.core.paired import compare_processes
from pytest_hwperf.core.records import Comparison, ComparisonOutcome, replace
from pytest_hwperf.core.statements import state


def is_testable(fixed: FixedSample, found: Comparison, alpha: float) -> bool:
    """Say whether a fixed sample can be rejected by chance at all, whatever else is rejected."""
    if found.p_value is None:
        return False
    units = len(fixed.candidate)
    if fixed.per == "example":
        units = sum(old != new for old, new in zip(fixed.baseline, fixed.candidate, strict=True))
        if fixed.hypothesis.margin.size:
            return units > 0
    return 2.0**-units <= alpha  # the smallest p-value, of signs that all point the same way


def compare_fixed(fixed: FixedSample, level: float) -> Comparison:
    """Compare what no pair measures."""
    found = _compared(fixed, level)
    return replace(found, warnings=(*found.warnings, *fixed.warnings))


def _compared(fixed: FixedSample, level: float) -> Comparison:
    hypothesis, sides = fixed.hypothesis, (fixed.baseline, fixed.candidate)
    if fixed.per == "example":
        return compare_accuracy(*sides, hypothesis.margin, level, fixed.classes)
    found = compare_exact(measured_metric(hypothesis), *sides, hypothesis.margin)
    counts = {"baseline": len(fixed.baseline), "candidate": len(fixed.candidate)}
    constant, pairs = is_constant(*sides), min(map(len, sides))
    if fixed.per == "fresh process" and 2.0**-pairs <= level:
        if constant:
            return signed(replace(found, method=state("equal processes", per=fixed.per, **counts)), pairs, level)
        return compare_processes(hypothesis, *sides, level)
    if fixed.per == "fresh process" and (found.outcome == "regressed" or not constant):
        # Too few to fail anything; they may still show that nothing is worse.
        outcome: ComparisonOutcome = "inconclusive" if found.outcome == "regressed" else found.outcome
        return replace(found, outcome=outcome, method=state("screened values", per=fixed.per, **counts))
    return replace(found, method=state("equal values", per=fixed.per, **counts))


def is_constant(*sides: Sequence[float]) -> bool:
    """Whether each side has one value only."""
    return all(len(set(side)) == 1 for side in sides)


def signed(exact: Comparison, pairs: int, level: float) -> Comparison:
    """Test what all of so many pairs show alike: that none of them points the other way, as a coin would have it."""
    if exact.outcome not in ("regressed", "improved"):  # whatever the coin did
        return exact
    p_value = 2.0**-pairs if exact.outcome == "regressed" else 1.0
    return replace(exact, p_value=p_value, outcome=exact.outcome if 2.0**-pairs <= level else "inconclusive")


def measured_metric(hypothesis: Hypothesis) -> Metric:
    """Return the metric of a hypothesis, also of one that the user records."""
    return metric_of(hypothesis.margin.metric, hypothesis.better)
