"""The decision about a model version as a document: the verdict, both versions beside each other, and the plan."""

import math
from collections.abc import Iterator, Mapping, Sequence

from pytest_hwperf.records import units
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.run import Estimate, Key
from pytest_hwperf.records.text import shell_line
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.reports.document import Block, Code, Grid, Paragraph, Title, as_markdown
from pytest_hwperf.reports.rows import Tone
from pytest_hwperf.stats.choice.rollout import Contender, Outcome, Reason, Requests
from pytest_hwperf.stats.choice.rollout_plan import POWER, Limit, Plan, RolloutFile, VersionRecord, Watched
from pytest_hwperf.stats.choice.tradeoffs import Requirement

_DIGITS = 12  # of a digest
_TONES: Mapping[Outcome, Tone] = {"go": "good", "no-go": "bad", "inconclusive": "doubtful"}
_UNWATCHED: Mapping[Watched, str] = {
    "latency p95": "no interval was measured here",
    "accuracy": "unmeasured here, for want of labels",
    "failed requests": "unmeasured here, since no address was compared; take OLD's share in service",
}


def render(file: RolloutFile, verdicts: Sequence[str]) -> bytes:
    """Write everything that a reviewer needs as Markdown; foreign text shows as it is, and does nothing."""
    return as_markdown([*document_of(file, verdicts), *_measured(file.record)]).encode(errors="backslashreplace")


def document_of(file: RolloutFile, verdicts: Sequence[str]) -> Iterator[Block]:
    """Yield the decision with its reasons, a verdict for each comparison, both versions, and the plan."""
    record = file.record
    outcome, reasons = record.decision.outcome, record.decision.reasons
    headline = "nothing was compared"
    if reasons:
        more = f"; {units.counted(len(reasons) - 1, 'further reason')}" if len(reasons) > 1 else ""
        headline = f"{reason(reasons[0])}{more}"
    elif outcome == "go":
        met = f", and {units.counted(len(record.requirements), 'requirement')} met" if record.requirements else ""
        headline = f"nothing is worse by more than its margin{met}"
    yield Title(f"{outcome}: {headline}", tone=_TONES[outcome])
    yield from (Paragraph(f"also {one.effect}: {reason(one)}", 1) for one in reasons[1:])
    pairs = units.counted(record.pairs, "pair of fresh processes")
    yield Paragraph(f"{record.new.target} (NEW) against {record.old.target} (OLD): {pairs}")
    yield from (Paragraph(one, 1) for one in verdicts)
    yield _figures(file)
    for side, name in ((record.old, "OLD"), (record.new, "NEW")):
        if side.requests is not None:
            yield Paragraph(f"requests to {name}: {_requests(side.requests)}", 1)
    moved = (one.moved for one in file.comparisons if one.moved and one.moved.kind == "class lost")
    yield from (Paragraph(f"Classes lost: {one}", 1) for one in moved)
    if record.requirements:
        yield Title("Requirements", 3)
        yield from (Paragraph(f"{one.outcome.upper()}  {_requirement(one)}", 1) for one in record.requirements)
    yield Title("Not compared", 3)
    yield from (Paragraph(one, 1) for one in _not_compared(file))
    yield Title("Roll-out", 3)
    yield from _plan(file.plan) if file.plan else [Paragraph("no plan: there is one when the decision is go")]


def reason(one: Reason) -> str:
    """Say one reason, and what would decide it."""
    subject = one.subject
    if isinstance(subject, Comparison):
        told = f"{metric_of(subject.metric).called(subject.statistic)}: {subject.reason or subject.outcome}"
        if subject.change is not None:
            settled = subject.outcome in ("regressed", "improved", "equivalent")
            why = f", {subject.reason}" if subject.reason and not settled else ""
            name = metric_of(subject.metric).called(subject.statistic)
            told = f"{name} {_change(subject)}, margin {subject.allowed}{why}"
    elif isinstance(subject, Requirement):
        told = _requirement(subject)
    else:
        beside = f", of OLD {_requests(subject.old)}" if subject.old else ""
        told = f"{_requests(subject.new)}{beside}" + (f": {subject.new.why}" if subject.new.why else "")
    return f"{told}; {one.needed}" if one.needed else told


def _change(one: Comparison) -> str:
    """Write a change with its interval, or that every example has the same value."""
    return (str(one.method) if one.is_equal else one.shift) or "–"


def _requirement(one: Requirement) -> str:
    """Say what was measured and asked for: `latency_p95_ms 12.3 ms (12.0 .. 12.6), limit <= 10 ms`."""
    metric = metric_of(one.budget.metric)
    limit = units.show_limit(one.budget.limit, metric.unit, metric.better)
    if one.estimate is None:
        return f"{one.budget.keyword} unmeasured, limit {limit}"
    missed = f", missed by {units.show_excess(one.excess)}" if one.excess else ""
    return f"{one.budget.keyword} {_interval(one.estimate, metric.unit)}, limit {limit}{missed}"


def _interval(estimate: Estimate, unit: str) -> str:
    """Write a value with its interval, where it has one that is wider than itself."""
    if estimate.low == estimate.high == estimate.value:
        return units.show(estimate.value, unit)
    return units.show_interval(estimate.value, estimate.low, estimate.high, unit)


def _requests(one: Requests) -> str:
    low, high = one.interval
    return f"{one.failed} of {units.counted(one.made, 'request')} failed ({100 * low:.2g} .. {100 * high:.2g} %)"


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
            _change(found) if found else "",
            found.outcome if found else "not asked",
        ])  # fmt: skip
    rows.append(["SHA-256", *(side.sha256[:_DIGITS] or "none" for side in sides), "", ""])
    rows.append(["size", *("none" if side.size is None else units.show(side.size, "B") for side in sides), "", ""])
    return Grid(["metric", "OLD", "NEW", "change", "outcome"], rows)


def _value(side: Contender, compared: float | None, key: Key) -> str:
    """Write a value with its interval; where the comparison has another one of the same pairs, that one alone."""
    found, unit = side.estimate(key), metric_of(key[0]).unit
    if compared is not None and (found is None or not math.isclose(found.value, compared)):
        return units.show_measured(compared, unit)
    return "unmeasured" if found is None else _interval(found, unit)


def _not_compared(file: RolloutFile) -> Iterator[str]:
    """Yield what a comparison says nothing about."""
    kinds = {side.kind for side in (file.record.old, file.record.new)}
    if not file.record.rows.labelled:
        yield "accuracy: there are no labels"
    if all(one.metric != "model_size" for one in file.comparisons):
        yield "model size: files of both versions have one, functions and addresses have none"
    if len(kinds) > 1 and "address" in kinds:
        yield "the models alone: one of them is called over HTTP, and its times hold the request"
    if "address" in kinds:
        yield "the hardware behind an address: both have to be served alike"
    yield "energy, cold start and behaviour under load: hwperf load, and tests, measure them"


def _plan(plan: Plan) -> Iterator[Block]:
    yield Paragraph("plan: limits at which it is rolled back")
    yield from (Paragraph(_limit(one), 1) for one in plan.limits)
    yield from (Paragraph(f"{one}: {_UNWATCHED[one]}", 1) for one in plan.unwatched)
    yield Paragraph(
        "Roll back where so many requests of a stage are beyond a limit. A version that is as it was measured here is "
        f"rolled back with a probability of at most {100 * plan.alpha:.3g} % (exact binomial, over all stages and "
        f"limits), if requests are independent of each other; a share that is 'seen' is found with {100 * POWER:.0f} "
        "%. Times are of calls in a row on this machine: where those in service differ, take OLD's p95 there."
    )
    rows = list[list[str]]()
    for stage in plan.stages:
        alarms = dict.fromkeys(plan.limits, "any number")
        for one in stage.alarms:
            of = "" if one.of == stage.requests else f" of {one.of}"
            alarms[one.limit] = f"{one.beyond}{of} (sees {100 * one.seen:.2g} %)"
        rows.append([f"{100 * stage.share:.0f} %", str(stage.requests), *alarms.values()])
    heads = {"accuracy": "wrong labels", "failed requests": "failed"}
    named = [heads.get(one.watched, f"slower than {units.show(one.value, 's')}") for one in plan.limits]
    yield Grid(["stage", "requests", *named], rows)


def _limit(one: Limit) -> str:
    """Say a limit and the interval that it comes from."""
    if one.watched == "failed requests":
        value, measured = f"{100 * one.value:.2g} %", f"{100 * one.interval.value:.2g} %, n={one.interval.n}"
    else:
        unit = "s" if one.watched == "latency p95" else "1"
        value, measured = units.show(one.value, unit), _interval(one.interval, unit)
    if one.origin == "requirement":
        origin = f"the requirement {one.keyword}; measured {measured}"
    elif one.origin == "old and margin":
        origin = f"OLD's {measured}, and {units.show_change(one.margin, 'relative')}"
    else:
        origin = f"the {'lower' if one.watched == 'accuracy' else 'upper'} end of NEW's {measured}"
    return f"{one.watched} {value}: {origin}"


def _measured(record: VersionRecord) -> Iterator[Block]:
    """Yield what whoever has typed the command knows."""
    yield Title("How it was measured", 3)
    yield Paragraph(
        f"{units.counted(record.pairs, 'pair of fresh processes')}, {units.counted(record.rows.count, 'row')} of "
        f"{record.rows.file} (SHA-256 {record.rows.sha256[:_DIGITS]}), batch size {record.batch_size}, "
        f"{units.counted(record.threads, 'thread')}; at most {100 * record.alpha:.3g} % false alarms; "
        f"{record.machine.cpu_model}, {units.counted(record.machine.cores, 'core')}; {record.decided_at}. To repeat it:"
    )
    yield Code(shell_line(record.command))
