"""The plan of a roll-out in stages, with limits at which it is rolled back; each limit comes from a measured interval.

At every stage a share is watched: of requests slower than a limit of p95, of labels that are wrong, of requests that
fail. It is rolled back where so many are seen that the share is above what is allowed, by the exact binomial test.
The probability of doing so although all is as it was measured is alpha at most, over all stages and shares together,
where requests are independent of each other. Of requests with several rows each label counts.

References:
    Clopper & Pearson, Biometrika 26 (1934); for the fewest requests of a percentile: stats/ranks.py.
"""

import shlex
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, get_args

from pytest_hwperf.records.evidence import Gate
from pytest_hwperf.records.metrics import ACCURACY, metric_of
from pytest_hwperf.records.run import Estimate, Key, Machine
from pytest_hwperf.records.structs import Count, ErrorRate, Number, Record, Share
from pytest_hwperf.records.units import counted, show, show_change, show_excess, show_interval, show_limit
from pytest_hwperf.records.verdict import Budget, Comparison, Margin
from pytest_hwperf.stats.ranks import fewest_calls
from pytest_hwperf.stats.rollout import P95, Contender, Decision, FailedRequests, Reason, Requests, Requirement

SHARES = (0.05, 0.20, 0.50, 1.00)  # of all requests, at each stage
POWER = 0.9  # probability with which the share that is told is seen

_Q = 0.95  # of the percentile of latency that is watched
Watched = Literal["latency p95", "accuracy", "failed requests"]
_WATCHED: tuple[Watched, ...] = get_args(Watched)
# Of the limit: the upper or lower end of an interval of NEW; OLD's value and the margin; a requirement.
Origin = Literal["new", "old and margin", "requirement"]


class Limit(Record, frozen=True, kw_only=True):
    """A limit of one thing that is watched, and where it comes from."""

    watched: Watched
    value: Number  # base units
    origin: Origin
    interval: Estimate  # that it comes from: of NEW, or of OLD where `origin` says so
    margin: Number = 0.0  # of `old and margin`, relative
    keyword: str = ""  # of a requirement
    allowed: Share  # of requests that may be beyond it


class Alarm(Record, frozen=True, kw_only=True):
    """How many requests of a stage beyond a limit roll it back."""

    limit: Limit
    beyond: Count  # requests of the stage, or labels in them, at least so many
    of: Count  # that are counted: requests, or the labels of all their rows
    seen: Share  # the smallest share of requests beyond the limit that is found in nine of ten such stages


class Stage(Record, frozen=True, kw_only=True):
    """A stage of a roll-out."""

    share: Share  # of all requests, that NEW answers
    requests: Count  # that NEW has to answer, before the next stage
    alarms: tuple[Alarm, ...]


class Plan(Record, frozen=True, kw_only=True):
    """How a version is rolled out."""

    stages: tuple[Stage, ...]
    alpha: ErrorRate  # probability of rolling back what is as it was measured, over all stages
    unwatched: tuple[Watched, ...] = ()  # nothing was measured that a limit could come from


def plan_of(
    old: Contender, new: Contender, budgets: Sequence[Budget], margin: float, alpha: float, rows: int = 1
) -> Plan:
    """Return the plan of a roll-out.

    The first stage takes as many requests as an upper bound of p95 needs at its level; the later ones as many more as
    their share is larger, which takes the same time where requests arrive at the same rate.
    """
    limits = list(_limits(old, new, budgets, margin))
    watched = {one.watched for one in limits}
    missing = tuple(one for one in _WATCHED if one not in watched)
    level = alpha / (len(SHARES) * max(1, len(limits)))
    first = fewest_calls(_Q, 1 - level)
    stages = tuple(_stage(share, round(first * share / SHARES[0]), rows, limits, level) for share in SHARES)
    return Plan(stages=stages, alpha=alpha, unwatched=missing)


def _stage(share: float, requests: int, rows: int, limits: Sequence[Limit], level: float) -> Stage:
    alarms = []
    for limit in limits:
        of = requests * rows if limit.watched == "accuracy" else requests
        beyond = alarm_count(of, limit.allowed, level)
        if beyond <= of:
            alarms.append(Alarm(limit=limit, beyond=beyond, of=of, seen=seen_share(of, beyond, POWER)))
    return Stage(share=share, requests=requests, alarms=tuple(alarms))


def alarm_count(n: int, share: float, level: float) -> int:
    """Return the smallest k of which P(Bin(n, share) >= k) is at most `level`; n + 1 where there is none.

    Example: of 130 requests, 5 % of which may be slow, 14 are too many at a level of 1 %.
    """
    from scipy.special import bdtrc

    return bisect_left(range(1, n + 1), True, key=lambda k: float(bdtrc(k - 1, n, share)) <= level) + 1  # noqa: FBT003


def seen_share(n: int, k: int, power: float) -> float:
    """Return the share p of which P(Bin(n, p) >= k) is `power`: the one-sided bound of Clopper and Pearson."""
    from scipy.special import betaincinv

    return float(betaincinv(k, n - k + 1, power))


def _limits(old: Contender, new: Contender, budgets: Sequence[Budget], margin: float) -> Iterator[Limit]:
    yield from _latency_limit(old, new, budgets, margin)
    accuracy = new.estimate((ACCURACY, "mean"))
    if accuracy is not None and accuracy.low is not None:
        asked = next((one for one in budgets if one.key == (ACCURACY, "mean") and one.limit > accuracy.low), None)
        value = asked.limit if asked else accuracy.low
        yield Limit(
            watched="accuracy",
            value=value,
            origin="requirement" if asked else "new",
            interval=accuracy,
            keyword=asked.keyword if asked else "",
            allowed=1 - value,
        )
    if new.requests is not None and new.requests.made:
        low, high = new.requests.interval
        seen = Estimate(
            value=new.requests.share, low=low, high=high, confidence=0.98, n=new.requests.made, method="Clopper-Pearson"
        )
        yield Limit(watched="failed requests", value=high, origin="new", interval=seen, allowed=high)


def _latency_limit(old: Contender, new: Contender, budgets: Sequence[Budget], margin: float) -> Iterator[Limit]:
    """Yield the larger of NEW's upper bound and OLD's value with the margin; a requirement where it is less."""
    now, before = new.estimate(P95), old.estimate(P95)
    if now is None or now.high is None or before is None:
        return
    most, allowed = before.value * (1 + margin), 1 - _Q
    asked = next((one for one in budgets if one.key == P95 and one.limit < max(most, now.high)), None)
    if asked is not None:
        yield Limit(
            watched="latency p95", value=asked.limit, origin="requirement", interval=now, keyword=asked.keyword,
            allowed=allowed,
        )  # fmt: skip
    elif now.high >= most:
        yield Limit(watched="latency p95", value=now.high, origin="new", interval=now, allowed=allowed)
    else:
        yield Limit(
            watched="latency p95", value=most, origin="old and margin", interval=before, margin=margin, allowed=allowed
        )


SCHEMA = 1  # of both files; raised when a reader of the old schema would misread the new


class Rows(Record, frozen=True, kw_only=True):
    """The rows that both versions were measured on."""

    file: str
    sha256: str  # of the file
    count: Count
    labelled: bool


class VersionRecord(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf model version"):
    """What is kept of a model version: what it is, how it was measured, and what was decided."""

    schema: int = SCHEMA
    decided_at: str  # ISO 8601, UTC
    decision: Decision
    old: Contender
    new: Contender
    rows: Rows
    batch_size: Count
    threads: Count
    machine: Machine
    hwperf: str  # version of this package
    alpha: ErrorRate
    margins: tuple[Margin, ...]
    pairs: Count  # of fresh processes
    requirements: tuple[Requirement, ...]
    command: tuple[str, ...]  # that repeats it; values of headers are left out


class RolloutFile(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf roll-out"):
    """Everything about a decision, with the evidence."""

    schema: int = SCHEMA
    record: VersionRecord
    comparisons: tuple[Comparison, ...]
    plan: Plan | None  # None unless the decision is go
    gate: Gate


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
