"""What `hwperf compare` says: the decision, what was compared and required, and the plan of the roll-out."""

import textwrap
from collections.abc import Iterator

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
    """Yield everything that is said of a comparison, no line wider than the terminal or 80 columns."""
    for first, text in _sentences(file):
        yield textwrap.fill(
            visible(text), min(width, _WIDEST), initial_indent=first, subsequent_indent="    ", break_on_hyphens=False
        )
    if file.plan is not None:
        yield from _table(file.plan)


def _sentences(file: RolloutFile) -> Iterator[tuple[str, str]]:
    """Yield texts, each with its indentation."""
    record = file.record
    yield "", words.headline(record.decision, record.requirements)
    for one in record.decision.reasons[1:]:
        yield "  ", f"also {one.effect}: {words.reason(one)}"
    pairs = counted(record.pairs, "pair of fresh processes")
    yield "", f"{record.new.target} against {record.old.target}: {pairs}"
    for comparison in file.comparisons:
        yield "", explain(judge_comparison(METRICS[comparison.metric], comparison, Policy()))
    for side, name in ((record.old, "OLD"), (record.new, "NEW")):
        if side.requests is not None:
            yield "", f"requests to {name}: {words.requests(side.requests)}"
    for requirement in record.requirements:
        yield "", f"{requirement.outcome.upper()}  {words.requirement(requirement)}"
    yield "", "not compared: " + "; ".join(words.not_compared(file))
    yield from _plan(file.plan)


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


def _table(plan: Plan) -> Iterator[str]:
    """Yield a line for each stage, columns below each other."""
    rows = words.stages(plan)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
