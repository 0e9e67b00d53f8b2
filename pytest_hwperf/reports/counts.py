"""Counts of all outcomes of a report, shown or not."""

from collections import Counter
from typing import get_args

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.records import Budget, BudgetOutcome, Comparison, ComparisonOutcome
from pytest_hwperf.core.report import Report


def verdict_counts(report: Report) -> list[str]:
    """Write `budgets: 8 passed, 1 failed` and `comparisons: 1 not comparable`."""
    verdicts = [verdict for judgement in report.judgements for verdict in judgement.verdicts]
    found = []
    for name, kind, outcomes in (
        ("budgets", Budget, get_args(BudgetOutcome)),
        ("comparisons", Comparison, get_args(ComparisonOutcome)),
    ):
        count = Counter(verdict.outcome for verdict in verdicts if isinstance(verdict.subject, kind))
        if count:
            found.append(f"{name}: " + ", ".join(f"{count[word]} {word}" for word in outcomes if count[word]))
    if report.judgements and not verdicts:
        found.append(f"{len(report.judgements)} measured only, no budget or baseline")
    return found


def skip_counts(report: Report, *, listed: bool) -> list[str]:
    """Write `1 skipped`, with the reason where skips are not listed."""
    if listed:
        return [f"{len(report.skips)} skipped"] if report.skips else []
    count = Counter(skip.reason for skip in report.skips)
    return [f"{times} skipped: {visible(reason)}" for reason, times in count.items()]
