"""The words of a decision and its plan, the same on every surface; foreign text in them is not yet made visible."""

import shlex
from collections.abc import Mapping, Sequence

from pytest_hwperf.core.metrics import metric_of
from pytest_hwperf.core.records import Comparison, Estimate, Key
from pytest_hwperf.core.rollout import Contender, Decision, FailedRequests, Reason, Requests, Requirement
from pytest_hwperf.core.rollout_plan import POWER, Alarm, Limit, Plan, Watched
from pytest_hwperf.core.rollout_report import RolloutFile, VersionRecord
from pytest_hwperf.core.units import counted, show, show_change, show_excess, show_interval, show_limit

ONLY_ON_GO = "no plan: there is one when the decision is go"
_BEYOND: Mapping[Watched, str] = {
    "latency p95": "slower than {limit}",
    "accuracy": "wrong labels",
    "failed requests": "failed",
}
_UNWATCHED: Mapping[Watched, str] = {
    "latency p95": "latency p95: no interval was measured here",
    "accuracy": "accuracy: unmeasured here, for want of labels",
    "failed requests": "failed requests: unmeasured here, since no address was compared; take OLD's share in service",
}


def headline(decision: Decision, requirements: Sequence[Requirement]) -> str:
    """Say the decision in one line, with its first reason."""
    if not decision.reasons:
        if decision.outcome != "go":
            return "inconclusive: nothing was compared"
        met = f", and {counted(len(requirements), 'requirement')} met" if requirements else ""
        return f"go: nothing is worse by more than its margin{met}"
    first, *others = decision.reasons
    more = f"; {counted(len(others), 'further reason')}" if others else ""
    return f"{decision.outcome}: {reason(first)}{more}"


def reason(one: Reason) -> str:
    """Say one reason, and what would decide it."""
    subject = one.subject
    if isinstance(subject, Comparison):
        told = comparison(subject)
    elif isinstance(subject, Requirement):
        told = requirement(subject)
    else:
        told = failed(subject)
    return f"{told}; {one.needed}" if one.needed else told


def comparison(one: Comparison) -> str:
    """Say how a statistic has changed: `latency p50 +10.3 % (+8.9 .. +11.8), margin 2 %`."""
    name = metric_of(one.metric).called(one.statistic)
    if one.change is None:
        return f"{name}: {one.reason or one.outcome}"
    why = f", {one.reason}" if one.reason and one.outcome not in ("regressed", "improved", "equivalent") else ""
    return f"{name} {change(one)}, margin {one.allowed}{why}"


def change(one: Comparison) -> str:
    """Write a change with its interval, or that every example has the same value."""
    return (str(one.method) if one.is_equal else one.shift) or "–"


def requirement(one: Requirement) -> str:
    """Say what was measured and asked for: `latency_p95_ms 12.3 ms (12.0 .. 12.6), limit <= 10 ms`."""
    metric = metric_of(one.budget.metric)
    limit = show_limit(one.budget.limit, metric.unit, metric.better)
    if one.estimate is None:
        return f"{one.budget.keyword} unmeasured, limit {limit}"
    return f"{one.budget.keyword} {interval(one.estimate, metric.unit)}, limit {limit}{missed(one)}"


def missed(one: Requirement) -> str:
    """Say by how much a limit is missed, "" where it is kept."""
    return f", missed by {show_excess(one.excess)}" if one.excess else ""


def interval(estimate: Estimate, unit: str) -> str:
    """Write a value with its interval, where it has one that is wider than itself."""
    if estimate.low == estimate.high == estimate.value:
        return show(estimate.value, unit)
    return show_interval(estimate.value, estimate.low, estimate.high, unit)


def failed(one: FailedRequests) -> str:
    """Say how many requests have failed."""
    beside = f", of OLD {requests(one.old)}" if one.old else ""
    return f"{requests(one.new)}{beside}" + (f": {one.new.why}" if one.new.why else "")


def requests(one: Requests) -> str:
    """Write a share of requests."""
    low, high = one.interval
    return f"{one.failed} of {counted(one.made, 'request')} failed ({100 * low:.2g} .. {100 * high:.2g} %)"


def figure(side: Contender, key: Key) -> str:
    """Write one statistic of a version."""
    found = side.estimate(key)
    return "unmeasured" if found is None else interval(found, metric_of(key[0]).unit)


def limit(one: Limit) -> str:
    """Say a limit and the interval that it comes from."""
    unit = "s" if one.watched == "latency p95" else "1"
    value = f"{100 * one.value:.2g} %" if one.watched == "failed requests" else show(one.value, unit)
    measured = interval(one.interval, unit)
    if one.watched == "failed requests":
        measured = f"{100 * one.interval.value:.2g} %, n={one.interval.n}"
    if one.origin == "requirement":
        return f"{one.watched} {value}: the requirement {one.keyword}; measured {measured}"
    if one.origin == "old and margin":
        return f"{one.watched} {value}: OLD's {measured}, and {show_change(one.margin, 'relative')}"
    end = "lower" if one.watched == "accuracy" else "upper"
    return f"{one.watched} {value}: the {end} end of NEW's {measured}"


def beyond(one: Limit) -> str:
    """Name what is counted."""
    return _BEYOND[one.watched].format(limit=show(one.value, "s"))


def alarm(one: Alarm, requests: int) -> str:
    """Say how many are too many, of how many if these are not the requests of the stage, and which share is found."""
    of = "" if one.of == requests else f" of {one.of}"
    return f"{one.beyond}{of} (sees {100 * one.seen:.2g} %)"


def unwatched(plan: Plan) -> list[str]:
    """Say what the plan has no limit for."""
    return [_UNWATCHED[one] for one in plan.unwatched]


def promise(plan: Plan) -> str:
    """Say how often a plan is wrong, and what it assumes."""
    return (
        "Roll back where so many requests of a stage are beyond a limit. A version that is as it was measured here is "
        f"rolled back with a probability of at most {100 * plan.alpha:.3g} % (exact binomial, over all stages and "
        f"limits), if requests are independent of each other; a share that is 'seen' is found with {100 * POWER:.0f} "
        "%. Times are of calls in a row on this machine: where those in service differ, take OLD's p95 there."
    )


def figures(file: RolloutFile) -> list[list[str]]:
    """Return what was measured of both versions beside what was compared, as rows of text below a row of titles."""
    record, compared = file.record, {one.key for one in file.comparisons if one.change is not None}
    keys = dict.fromkeys(one.key for side in (record.old, record.new) for one in side.figures)
    rows = [
        [metric_of(key[0]).called(key[1]), figure(record.old, key), figure(record.new, key)]
        for key in keys
        if key not in compared
    ]
    return [["measured", "OLD", "NEW"], *rows] if rows else []


def not_compared(file: RolloutFile) -> list[str]:
    """Say what a comparison says nothing about."""
    record = file.record
    compared = {one.metric for one in file.comparisons}
    kinds = {side.kind for side in (record.old, record.new)}
    found = []
    if not record.rows.labelled:
        found.append("accuracy: there are no labels")
    if "model_size" not in compared:
        found.append("model size: files of both versions have one, functions and addresses have none")
    if len(kinds) > 1 and "address" in kinds:
        found.append("the models alone: one of them is called over HTTP, and its times hold the request")
    if "address" in kinds:
        found.append("the hardware behind an address: both have to be served alike")
    found.append("energy, cold start and behaviour under load: hwperf load, and tests, measure them")
    return found


def command(record: VersionRecord) -> str:
    """Write the command that repeats a comparison."""
    return shlex.join(record.command)


def limits(plan: Plan) -> list[Limit]:
    """Return what is watched at any stage."""
    return list(dict.fromkeys(one.limit for stage in plan.stages for one in stage.alarms))


def stages(plan: Plan) -> list[list[str]]:
    """Return the stages as rows of text, below a row of titles."""
    watched = limits(plan)
    rows = [["stage", "requests", *map(beyond, watched)]]
    for stage in plan.stages:
        alarms = {one.limit: one for one in stage.alarms}
        cells = [alarm(alarms[one], stage.requests) if one in alarms else "any number" for one in watched]
        rows.append([f"{100 * stage.share:.0f} %", str(stage.requests), *cells])
    return rows
