"""The plan of a roll-out in stages, with limits at which it is rolled back; each limit comes from a measured interval.

At every stage a share is watched: of requests slower than a limit of p95, of labels that are wrong, of requests that
fail. It is rolled back where so many are seen that the share is above what is allowed, by the exact binomial test.
The probability of doing so although all is as it was measured is alpha at most, over all stages and shares together,
where requests are independent of each other. Of requests with several rows each label counts.

References:
    Clopper & Pearson, Biometrika 26 (1934); for the fewest requests of a percentile: stats/figures/ranks.py.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from pytest_hwperf.records.evidence import Gate
from pytest_hwperf.records.metrics import ACCURACY
from pytest_hwperf.records.run import Estimate, Machine
from pytest_hwperf.records.structs import Count, ErrorRate, Number, Record, Share
from pytest_hwperf.records.verdict import Budget, Comparison, Margin
from pytest_hwperf.stats.choice.rollout import P95, Contender, Decision
from pytest_hwperf.stats.choice.tradeoffs import Requirement
from pytest_hwperf.stats.figures.ranks import fewest_calls

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

    @property
    def limits(self) -> list[Limit]:
        return list(dict.fromkeys(one.limit for stage in self.stages for one in stage.alarms))


def plan_of(
    old: Contender, new: Contender, budgets: Sequence[Budget], margin: float, alpha: float, rows: int = 1
) -> Plan:
    """Return the plan of a roll-out.

    The first stage takes as many requests as an upper bound of p95 needs at its level; the later ones as many more as
    their share is larger, which takes the same time where requests arrive at the same rate.
    """
    limits = list(_limits(old, new, budgets, margin))
    missing = tuple(one for one in _WATCHED if one not in {limit.watched for limit in limits})
    level = alpha / (len(SHARES) * max(1, len(limits)))
    first, stages = fewest_calls(_Q, 1 - level), list[Stage]()
    for share in SHARES:
        requests, alarms = round(first * share / SHARES[0]), list[Alarm]()
        for limit in limits:
            of = requests * rows if limit.watched == "accuracy" else requests
            beyond = alarm_count(of, limit.allowed, level)
            if beyond <= of:
                alarms.append(Alarm(limit=limit, beyond=beyond, of=of, seen=seen_share(of, beyond)))
        stages.append(Stage(share=share, requests=requests, alarms=tuple(alarms)))
    return Plan(stages=tuple(stages), alpha=alpha, unwatched=missing)


def alarm_count(n: int, share: float, level: float) -> int:
    """Return the smallest k of which P(Bin(n, share) >= k) is at most `level`; n + 1 where there is none.

    Example: of 130 requests, 5 % of which may be slow, 14 are too many at a level of 1 %.
    """
    from scipy.special import bdtrc

    return bisect_left(range(1, n + 1), True, key=lambda k: float(bdtrc(k - 1, n, share)) <= level) + 1  # noqa: FBT003


def seen_share(n: int, k: int) -> float:
    """Return the share p of which P(Bin(n, p) >= k) is `POWER`: the one-sided bound of Clopper and Pearson."""
    from scipy.special import betaincinv

    return float(betaincinv(k, n - k + 1, POWER))


def _limits(old: Contender, new: Contender, budgets: Sequence[Budget], margin: float) -> Iterator[Limit]:
    now, before = new.estimate(P95), old.estimate(P95)
    if now is not None and now.high is not None and before is not None:
        # The larger of NEW's upper bound and OLD's value with the margin; a requirement where it is less.
        most = max(before.value * (1 + margin), now.high)
        asked = next((one for one in budgets if one.key == P95 and one.limit < most), None)
        is_new = asked is not None or now.high == most
        yield Limit(
            watched="latency p95",
            value=asked.limit if asked else most,
            origin="requirement" if asked else "new" if is_new else "old and margin",
            interval=now if is_new else before,
            margin=0.0 if is_new else margin,
            keyword=asked.keyword if asked else "",
            allowed=1 - _Q,
        )
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
        high = new.requests.interval[1]
        seen = Estimate.of(new.requests.share, new.requests.interval, 0.98, new.requests.made, "Clopper-Pearson")
        yield Limit(watched="failed requests", value=high, origin="new", interval=seen, allowed=high)


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
