"""The decision about a model version as a document: the verdict, both versions beside each other, and the plan."""

import math
from collections.abc import Iterator, Sequence

from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.run import Key
from pytest_hwperf.records.units import counted, show, show_measured
from pytest_hwperf.reports.document import Block, Code, Grid, Paragraph, Title, as_markdown
from pytest_hwperf.stats import rollout_plan as words
from pytest_hwperf.stats.rollout import Contender
from pytest_hwperf.stats.rollout_plan import Plan, RolloutFile

_DIGITS = 12  # of a digest


def render(file: RolloutFile, verdicts: Sequence[str]) -> bytes:
    """Write everything that a reviewer needs as Markdown; foreign text shows as it is, and does nothing."""
    return as_markdown([*document_of(file, verdicts), *_measured(file)]).encode(errors="backslashreplace")


def document_of(file: RolloutFile, verdicts: Sequence[str]) -> Iterator[Block]:
    """Yield the decision with its reasons, a verdict for each comparison, both versions, and the plan."""
    record = file.record
    yield Title(words.headline(record.decision, record.requirements))
    yield from (Paragraph(f"also {one.effect}: {words.reason(one)}", 1) for one in record.decision.reasons[1:])
    pairs = counted(record.pairs, "pair of fresh processes")
    yield Paragraph(f"{record.new.target} (NEW) against {record.old.target} (OLD): {pairs}")
    yield from (Paragraph(one, 1) for one in verdicts)
    yield _figures(file)
    for side, name in ((record.old, "OLD"), (record.new, "NEW")):
        if side.requests is not None:
            yield Paragraph(f"requests to {name}: {words.requests(side.requests)}", 1)
    moved = (one.moved for one in file.comparisons if one.moved and one.moved.kind == "class lost")
    yield from (Paragraph(f"Classes lost: {one}", 1) for one in moved)
    if record.requirements:
        yield Title("Requirements", 3)
        yield from (Paragraph(f"{one.outcome.upper()}  {words.requirement(one)}", 1) for one in record.requirements)
    yield Title("Not compared", 3)
    yield from (Paragraph(one, 1) for one in words.not_compared(file))
    yield Title("Roll-out", 3)
    yield from _plan(file.plan)


def _measured(file: RolloutFile) -> Iterator[Block]:
    """Yield what whoever has typed the command knows."""
    record = file.record
    yield Title("How it was measured", 3)
    yield Paragraph(
        f"{counted(record.pairs, 'pair of fresh processes')}, {counted(record.rows.count, 'row')} of "
        f"{record.rows.file} (SHA-256 {record.rows.sha256[:_DIGITS]}), batch size {record.batch_size}, "
        f"{counted(record.threads, 'thread')}; at most {100 * record.alpha:.3g} % false alarms; "
        f"{record.machine.cpu_model}, {counted(record.machine.cores, 'core')}; {record.decided_at}. To repeat it:"
    )
    yield Code(words.command(record))


def _figures(file: RolloutFile) -> Grid:
    """Return a row for each figure that either version has, with the change where it was compared."""
    record = file.record
    sides = (record.old, record.new)
    changes = {one.key: one for one in file.comparisons}
    rows = list[list[str]]()
    for key in dict.fromkeys([*changes, *(one.key for side in sides for one in side.figures)]):
        found = changes.get(key)
        rows.append([
            metric_of(key[0]).called(key[1]),
            _value(record.old, found.baseline if found else None, key),
            _value(record.new, found.candidate if found else None, key),
            words.change(found) if found else "",
            found.outcome if found else "not asked",
        ])  # fmt: skip
    rows.append(["SHA-256", *(side.sha256[:_DIGITS] or "none" for side in sides), "", ""])
    rows.append(["size", *("none" if side.size is None else show(side.size, "B") for side in sides), "", ""])
    return Grid(["metric", "OLD", "NEW", "change", "outcome"], rows)


def _value(side: Contender, compared: float | None, key: Key) -> str:
    """Write a value with its interval; where the comparison has another one of the same pairs, that one alone."""
    found = side.estimate(key)
    if compared is None or (found is not None and math.isclose(found.value, compared)):
        return words.figure(side, key)
    return show_measured(compared, metric_of(key[0]).unit)


def _plan(plan: Plan | None) -> Iterator[Block]:
    if plan is None:
        yield Paragraph(words.ONLY_ON_GO)
        return
    yield Paragraph("plan: limits at which it is rolled back")
    told = [*map(words.limit, words.limits(plan)), *words.unwatched(plan)]
    yield from (Paragraph(one, 1) for one in told)
    yield Paragraph(words.promise(plan))
    columns, *rows = words.stages(plan)
    yield Grid(columns, rows)
