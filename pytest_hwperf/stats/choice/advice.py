"""Advice: limits and measurements that say less than they seem to, which candidate to take, and where work helps."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import ACCURACY, ENERGY, MEDIAN_LATENCY, metric_of, stage_metric, taken_by
from pytest_hwperf.records.run import AS_TRAINED, Estimate, Key, figure_of, replace
from pytest_hwperf.records.structs import Number, Record
from pytest_hwperf.records.units import counted, show_share
from pytest_hwperf.records.verdict import Budget, Judgement, Verdict
from pytest_hwperf.stats.choice.candidates import DIMENSIONS, Candidate, between_processes, ends_of, per_row
from pytest_hwperf.stats.choice.tradeoffs import Requirement, best_by
from pytest_hwperf.stats.service.capacity import per_million

_NAMED = 3  # tests in a sentence


def advice(judgements: Sequence[Judgement], *, served: int, swept: Collection[str] = ()) -> Iterator[Statement]:
    """Yield each piece of advice about a session once, with the tests that it is about. It fails nothing."""
    if means := [one.run.test for one in judgements if _limits_means_alone(one)]:
        yield state("mean only", tests=_named(means))
    asked = [one.run for one in judgements if served and one.run.test not in swept]
    rows = [(run.test, run.conditions.get("batch_size", "")) for run in asked]
    if others := [f"{test} ({int(given)})" for test, given in rows if given.isdecimal() and int(given) != served]:
        yield state("other batch served", served=served, tests=_named(others))
    if unchecked := [one.run.test for one in judgements if _is_unchecked(one)]:
        yield state("predictions not checked", tests=_named(unchecked))


def _limits_means_alone(judgement: Judgement) -> bool:
    """Whether the time of calls has a limit, and no percentile or maximum of it has one.

    A limit on rows per second is that of a job for which nobody waits.
    """
    limits = [budget for budget in _budgets(judgement) if metric_of(budget.metric).is_of_calls]
    return bool(limits) and all(budget.statistic == "mean" for budget in limits)


def _is_unchecked(judgement: Judgement) -> bool:
    """Whether a model in another form has limits, and neither labels nor limits on its predictions."""
    run = judgement.run
    timed = any(metric_of(budget.metric).taken in ("calls", "windows") for budget in _budgets(judgement))
    if not run.scenario or AS_TRAINED.items() <= run.context.items() or not timed:
        return False
    asked = {verdict.subject.metric for verdict in judgement.verdicts}
    known = {sample.metric for sample in run.samples}.intersection(taken_by("examples"))  # {}: of values
    return bool(known) and ACCURACY not in known and asked.isdisjoint(taken_by("examples"))


def _budgets(judgement: Judgement) -> list[Budget]:
    return [verdict.subject for verdict in judgement.verdicts if isinstance(verdict.subject, Budget)]


def _named(tests: Sequence[str]) -> str:
    different = list(dict.fromkeys(tests))
    more = [counted(len(different) - _NAMED, "other")] if len(different) > _NAMED else []
    return ", ".join([*different[:_NAMED], *more])


class Headroom(NamedTuple):
    """A budget and what is left of it."""

    share: float  # of the limit, by the point: 0.2 = a fifth is left, -0.2 = missed by a fifth; or infinite
    verdict: Verdict
    budget: Budget
    value: float  # which the budget judges, base units


def tightest(judgement: Judgement) -> Headroom | None:
    """Return the budget of a run with the least head-room; None where none has a value."""
    found = list[Headroom]()
    for verdict in judgement.verdicts:
        budget = verdict.subject
        figure = figure_of(judgement.figures, budget.key)
        if isinstance(budget, Budget) and figure is not None:
            lower = judgement.run.metric(budget.metric).better == "lower"
            left = (1 if lower else -1) * (budget.limit - figure.estimate.value)
            share = left / abs(budget.limit) if budget.limit else math.copysign(math.inf, left) if left else 0.0
            found.append(Headroom(share, verdict, budget, figure.estimate.value))
    return min(found, key=lambda one: one.share, default=None)


STAGES = ("preprocess", "inference", "postprocess")
LEADING = 0.5  # share of a call from which on a stage is its bottleneck
_FASTER: Mapping[str, str] = {  # stage → what to do where it is the bottleneck
    "preprocess": "preprocessing takes {share} of the call: cache it, vectorise it or move it out of the call",
    "inference": "the model takes {share} of the call: quantise it, let the runtime optimise its graph, or make it "
    "smaller",
    "postprocess": "postprocessing takes {share} of the call: vectorise it",
}
_PURPOSES: Mapping[str, tuple[str, ...]] = {  # dimensions that decide, the first that is there
    "low latency": ("latency",),
    "critical accuracy": ("accuracy",),
    "few resources": ("memory", "energy"),
}


class Recommendation(NamedTuple):
    """The candidates for one purpose."""

    purpose: str
    dimension: str  # that decides; "" where none does
    candidates: tuple[Candidate, ...] = ()  # the best one and those as good, the fastest first; () where not known
    inconclusive: tuple[Candidate, ...] = ()  # that may be better


def matrix(candidates: Sequence[Candidate], dimensions: Mapping[str, Key]) -> Iterator[Recommendation]:
    """Yield a recommendation for each purpose, among candidates that meet the requirements.

    Simple to deploy is what nothing has converted: a form of another runtime is one more artefact to build and check.
    """
    for purpose, wanted in _PURPOSES.items():
        dimension = next((name for name in wanted if name in dimensions), "")
        if not dimension or not candidates:
            yield Recommendation(purpose, dimension)
            continue
        key = DIMENSIONS[dimension]
        first, as_good, inconclusive = best_by(candidates, key)
        if purpose == "critical accuracy":  # a loss within the margin is a loss
            as_good = [one for one in as_good if per_row(one, key).value == per_row(first, key).value]
        yield Recommendation(purpose, dimension, _fastest_first([first, *as_good]), tuple(inconclusive))
    yield Recommendation("simple deployment", "", _fastest_first([one for one in candidates if one.as_trained]))


def _fastest_first(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    timed = {one.name: per_row(one, MEDIAN_LATENCY).value for one in candidates if MEDIAN_LATENCY in one.values}
    return tuple(sorted(candidates, key=lambda one: timed.get(one.name, math.inf)))


def bottlenecks(candidate: Candidate, found: Sequence[Requirement]) -> Iterator[str]:
    """Say what to do, and what to leave: nothing where every requirement is met by its whole interval."""
    if found and all(one.outcome == "passed" for one in found):
        yield "every requirement is met: more work on its speed gains nothing that was asked for"
        return
    whole = candidate.values.get(MEDIAN_LATENCY)
    stages = {name: candidate.values.get((stage_metric(name), "p50")) for name in STAGES}
    seconds = {name: one.value for name, one in stages.items() if one and whole and whole.value}
    if not seconds or not whole:
        return
    # A stage may follow the timed call, and medians do not add up: no shares exceed the whole.
    total = max(whole.value, math.fsum(seconds.values()))
    shares = {name: spent / total for name, spent in seconds.items()}
    largest = max(shares, key=lambda name: shares[name])
    if shares.get("inference", 1.0) < LEADING:
        yield f"the model takes {show_share(shares['inference'])} of the call: a faster one helps little"
    if shares[largest] >= LEADING:
        yield _FASTER[largest].format(share=show_share(shares[largest]))


class OnHardware(Record, frozen=True, kw_only=True):
    """One candidate on one kind of machine."""

    candidate: str
    kind: str
    latency: Estimate | None = None  # s of a call, its median
    throughput: Estimate | None = None  # calls a second, as they were made in the measurement
    energy: Estimate | None = None  # J of a call, measured
    price_per_hour: Number | None = None  # of such a machine
    cost: Estimate | None = None  # of a million calls at that throughput, in the currency of the price


def on_hardware(candidates: Sequence[Candidate], prices: Mapping[str, float]) -> list[OnHardware]:
    """Return what is known of the candidates that were measured on named kinds of machine, the cheapest first."""
    found = list[OnHardware]()
    for one in candidates:
        price, throughput = prices.get(one.kind, one.price_per_hour), one.values.get(("throughput", "mean"))
        if one.kind:
            found.append(
                OnHardware(
                    candidate=one.name,
                    kind=one.kind,
                    latency=one.values.get(MEDIAN_LATENCY),
                    throughput=throughput,
                    energy=one.values.get((ENERGY, "mean")),
                    price_per_hour=price,
                    cost=cost_of(price, throughput) if price is not None and throughput else None,
                )
            )
    return sorted(found, key=lambda one: one.cost.value if one.cost else math.inf)


def as_cheap(found: Sequence[OnHardware]) -> list[OnHardware]:
    """Return the cheapest candidate and those that it is not shown to be cheaper than; [] where no cost is known."""
    ends = [(one, ends_of(one.cost)) for one in found if one.cost]
    most = ends[0][1][1] * math.exp(between_processes()) if ends else 0.0
    return [one for one, (low, _) in ends if low <= most]


def cost_of(price_per_hour: float, throughput: Estimate) -> Estimate | None:
    """Return the price of a million calls, one machine at that throughput; None where nothing passes through.

    Example: 0.36 an hour and 1000 calls a second are 0.0001 a second, so that a million calls cost 0.1.
    """
    if throughput.value <= 0:
        return None
    ends = (throughput.high, throughput.low)
    low, high = (per_million(price_per_hour, end) if end and end > 0 else None for end in ends)
    value = per_million(price_per_hour, throughput.value)
    return replace(throughput, value=value, low=low, high=high, method="price of an hour over the throughput")
