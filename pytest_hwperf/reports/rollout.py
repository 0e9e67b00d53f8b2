"""The decision about a model version as Markdown: the verdict, both versions beside each other, and the plan."""

import math
from collections.abc import Iterator, Sequence

from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.run import Key
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted, show, show_excess, show_measured
from pytest_hwperf.reports.markdown_text import code, fenced, text
from pytest_hwperf.stats import rollout_plan as words
from pytest_hwperf.stats.rollout import Contender
from pytest_hwperf.stats.rollout_plan import RolloutFile

_DIGITS = 12  # of a digest


def render(file: RolloutFile) -> bytes:
    """Write everything that a reviewer needs; foreign text shows as it is, and links, mentions and tags do nothing."""
    return ("\n\n".join(_blocks(file)) + "\n").encode(errors="backslashreplace")


def _blocks(file: RolloutFile) -> Iterator[str]:
    record = file.record
    yield f"## {text(words.headline(record.decision, record.requirements))}"
    others = record.decision.reasons[1:]
    if others:
        yield "\n".join(f"- also {one.effect}: {text(words.reason(one))}" for one in others)
    yield f"{code(record.new.target)} (NEW) against {code(record.old.target)} (OLD)"
    yield _figures(file)
    moved = (one.moved for one in file.comparisons if one.moved and one.moved.kind == "class lost")
    yield from (f"Classes lost: {text(str(one))}" for one in moved)
    if record.requirements:
        yield "### Requirements"
        yield _requirements(file)
    yield "### Roll-out"
    yield from _plan(file)
    yield "### Not compared"
    yield "\n".join(f"- {text(one)}" for one in words.not_compared(file))
    yield "### How it was measured"
    yield (
        f"{counted(record.pairs, 'pair of fresh processes')}, {counted(record.rows.count, 'row')} of "
        f"{code(record.rows.file)} (SHA-256 {record.rows.sha256[:_DIGITS]}), batch size {record.batch_size}, "
        f"{counted(record.threads, 'thread')}; at most {100 * record.alpha:.3g} % false alarms; "
        f"{text(record.machine.cpu_model)}, {counted(record.machine.cores, 'core')}; {text(record.decided_at)}. "
        "To repeat it:"
    )
    yield fenced(visible(words.command(record)))


def _figures(file: RolloutFile) -> str:
    """Write a row for each figure that either version has, with the change where it was compared."""
    record = file.record
    changes = {one.key: one for one in file.comparisons}
    keys = dict.fromkeys([*changes, *(one.key for side in (record.old, record.new) for one in side.figures)])
    rows = [["metric", "OLD", "NEW", "change", "outcome"]]
    for key in keys:
        found = changes.get(key)
        rows.append([
            metric_of(key[0]).called(key[1]),
            _value(record.old, found.baseline if found else None, key),
            _value(record.new, found.candidate if found else None, key),
            words.change(found) if found else "",
            found.outcome if found else "not asked",
        ])  # fmt: skip
    rows.append(["failed requests", *(words.requests(side.requests) if side.requests else "" for side in
                                      (record.old, record.new)), "", ""])  # fmt: skip
    rows.append(["SHA-256", *(side.sha256[:_DIGITS] or "none" for side in (record.old, record.new)), "", ""])
    rows.append(["size", *("none" if side.size is None else show(side.size, "B") for side in (record.old, record.new)),
                 "", ""])  # fmt: skip
    return _table([row for row in rows if row[0] != "failed requests" or any(row[1:])])


def _value(side: Contender, compared: float | None, key: Key) -> str:
    """Write a value with its interval; where the comparison has another one of the same pairs, that one alone."""
    found = side.estimate(key)
    if compared is None or (found is not None and math.isclose(found.value, compared)):
        return words.figure(side, key)
    return show_measured(compared, metric_of(key[0]).unit)


def _requirements(file: RolloutFile) -> str:
    asked = file.record.requirements
    missed = [show_excess(one.excess) if one.excess else "" for one in asked]
    found = [[words.requirement(one), one.outcome, by] for one, by in zip(asked, missed, strict=True)]
    rows = [["requirement", "outcome", "missed by"], *found]
    return _table(rows)


def _plan(file: RolloutFile) -> Iterator[str]:
    plan = file.plan
    if plan is None:
        yield text(words.ONLY_ON_GO)
        return
    yield _table(words.stages(plan))
    told = [*map(words.limit, words.limits(plan)), *words.unwatched(plan)]
    yield "\n".join(f"- {text(one)}" for one in told)
    yield words.promise(plan)


def _table(rows: Sequence[Sequence[str]]) -> str:
    title, *others = ["| " + " | ".join(map(text, row)) + " |" for row in rows]
    return "\n".join([title, "|" + " --- |" * len(rows[0]), *others])
