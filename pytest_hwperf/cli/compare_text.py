"""What `hwperf compare` says: the decision, what was compared and required, and the plan of the roll-out."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from pytest_hwperf.core import rollout_words as words
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.metrics import METRICS
from pytest_hwperf.core.records import Policy
from pytest_hwperf.core.rollout_plan import Plan
from pytest_hwperf.core.rollout_report import RolloutFile
from pytest_hwperf.core.units import counted
from pytest_hwperf.core.verdicts import explain, judge_comparison

_WIDEST = 80


def lines_of(file: RolloutFile, width: int) -> Iterator[str]:
    """Yield everything that is said of a comparison; what is no table is wrapped at the terminal, or at 80 columns."""
    width = min(width, _WIDEST)
    yield from _wrapped(_decision(file), width)
    yield from _table(words.figures(file))
    yield from _wrapped(_required(file), width)
    yield from _wrapped(_plan(file.plan), width)
    if file.plan is not None:
        yield from _table(words.stages(file.plan))


def _wrapped(texts: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    """Wrap texts, each with the indentation of its first line."""
    for first, text in texts:
        yield textwrap.fill(
            visible(text), width, initial_indent=first, subsequent_indent="    ", break_on_hyphens=False
        )


def _decision(file: RolloutFile) -> Iterator[tuple[str, str]]:
    """Yield the decision with its reasons, and each comparison."""
    record = file.record
    yield "", words.headline(record.decision, record.requirements)
    for one in record.decision.reasons[1:]:
        yield "  ", f"also {one.effect}: {words.reason(one)}"
    pairs = counted(record.pairs, "pair of fresh processes")
    yield "", f"{record.new.target} against {record.old.target}: {pairs}"
    for comparison in file.comparisons:
        yield "", explain(judge_comparison(METRICS[comparison.metric], comparison, Policy()))


def _required(file: RolloutFile) -> Iterator[tuple[str, str]]:
    """Yield the requests, the requirements, and what nothing is known of."""
    record = file.record
    for side, name in ((record.old, "OLD"), (record.new, "NEW")):
        if side.requests is not None:
            yield "", f"requests to {name}: {words.requests(side.requests)}"
    for requirement in record.requirements:
        yield "", f"{requirement.outcome.upper()}  {words.requirement(requirement)}"
    yield "", "not compared: " + "; ".join(words.not_compared(file))


def _plan(plan: Plan | None) -> Iterator[tuple[str, str]]:
    if plan is None:
        yield "", words.ONLY_ON_GO
        return
    yield "", "plan: limits at which it is rolled back"
    for limit in words.limits(plan):
        yield "  ", words.limit(limit)
    for missing in words.unwatched(plan):
        yield "  ", missing
    yield "", words.promise(plan)


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each row, columns below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
