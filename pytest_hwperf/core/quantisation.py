"""Whether quantisation pays: a form in INT8 that makes the model slower, and the rule that it is worthwhile."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_hwperf.core.comparisons import tango_interval
from pytest_hwperf.core.metrics import MEDIAN_LATENCY, least_apart
from pytest_hwperf.core.records import Estimate, Judgement, figure_of
from pytest_hwperf.core.statements import Statement, state

MOST_LOSS, LEAST_GAIN = 0.01, 0.20  # of accuracy (1 point) and of latency, for quantisation to be worthwhile
_ALPHA = 0.01  # one-sided, of the interval of a paired loss
_QUANTISED = "int8"  # how such precisions begin
_UNQUANTISED = "float32"


def slower_than_fp32(judgements: Sequence[Judgement]) -> Iterator[Statement]:
    """Yield each INT8 scenario that is slower than the FP32 scenario of the same form.

    Slower: the intervals of both medians are apart, by more than `least_apart`.

    Args:
        judgements: of the scenarios of one test.
    """
    for one, other in quantised_pairs(judgements):
        yield from _slower(one, other)


def quantised_pairs(judgements: Sequence[Judgement]) -> Iterator[tuple[Judgement, Judgement]]:
    """Yield each INT8 measurement with each FP32 one of the same form, called alike."""
    for one in judgements:
        if one.run.conditions.get("precision", "").startswith(_QUANTISED):
            for other in judgements:
                if other.run.conditions.get("precision") == _UNQUANTISED and _alike(one, other):
                    yield one, other


def _alike(one: Judgement, other: Judgement) -> bool:
    """Whether precision alone tells them apart: every condition of the one in FP32 holds for the other too.

    Runtimes differ in their conditions. A scenario without a form is the model itself and has no other one.
    """
    mine, its = one.run.conditions, other.run.conditions
    return "form" in its and all(mine.get(name) == value for name, value in its.items() if name != "precision")


def _slower(one: Judgement, reference: Judgement) -> Iterator[Statement]:
    now, then = _median(one), _median(reference)
    if now is None or then is None or now.low is None or then.high is None or not then.value:
        return
    if now.low > then.high * (1 + least_apart(MEDIAN_LATENCY[0])):
        yield state(
            "slower than fp32",
            test=one.run.test,
            scenario=one.run.scenario,
            reference=reference.run.scenario,
            now=now.value,
            then=then.value,
            change=now.value / then.value - 1,
        )


def _median(judgement: Judgement) -> Estimate | None:
    figure = figure_of(judgement.figures, MEDIAN_LATENCY)
    return figure.estimate if figure else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What quantisation costs and what it gains."""

    outcome: Literal["worthwhile", "not worthwhile", "undecided"]
    loss: Estimate | None  # of accuracy, absolute, positive where it is lost; None: unmeasured
    gain: Estimate | None  # of latency, as a share of that of the reference, positive where it is faster


def worth(loss: Estimate | None, gain: Estimate | None) -> Worth:
    """Say whether quantisation is worthwhile: a loss below 1 point and a gain above 20 %, both by their intervals.

    It is not where either interval lies wholly on the other side, and undecided where one holds its limit or is
    missing. A gain in accuracy is no loss.
    """
    too_dear = loss is not None and loss.low is not None and loss.low >= MOST_LOSS
    too_slow = gain is not None and gain.high is not None and gain.high <= LEAST_GAIN
    cheap = loss is not None and loss.high is not None and loss.high < MOST_LOSS
    fast = gain is not None and gain.low is not None and gain.low > LEAST_GAIN
    outcome: Literal["worthwhile", "not worthwhile", "undecided"] = (
        "not worthwhile" if too_dear or too_slow else "worthwhile" if cheap and fast else "undecided"
    )
    return Worth(outcome=outcome, loss=loss, gain=gain)


def paired_loss(reference: Sequence[float], quantised: Sequence[float]) -> Estimate | None:
    """Return the loss of accuracy on the same examples, with Tango's interval; None where they are not the same.

    Args:
        reference: 0 or 1 per example.
        quantised: the same, in the same order.
    """
    n = len(reference)
    if not n or n != len(quantised):
        return None
    lost = sum(before > after for before, after in zip(reference, quantised, strict=True))
    won = sum(before < after for before, after in zip(reference, quantised, strict=True))
    low, high = tango_interval(lost, won, n, _ALPHA)
    return Estimate(
        value=(lost - won) / n, low=low, high=high, confidence=1 - 2 * _ALPHA, n=n, method="Tango score interval"
    )


def latency_gain(reference: Estimate, quantised: Estimate) -> Estimate:
    """Return the gain as a share of the reference's latency, its interval between the most distant ends of both."""
    ends = [
        None if mine is None or not its else 1 - mine / its
        for mine, its in ((quantised.high, reference.low), (quantised.low, reference.high))
    ]
    return Estimate(
        value=1 - quantised.value / reference.value,
        low=ends[0],
        high=ends[1],
        confidence=min(reference.confidence, quantised.confidence),
        n=min(reference.n, quantised.n),
        method="between the ends of both intervals",
    )


def worth_of(quantised: Judgement, reference: Judgement) -> Worth:
    """Apply the rule to two measurements, with the accuracy paired by example."""
    right = [one.run.sample("accuracy") for one in (reference, quantised)]
    medians = [_median(one) for one in (reference, quantised)]
    loss = paired_loss(right[0].values, right[1].values) if right[0] and right[1] else None
    gain = latency_gain(medians[0], medians[1]) if medians[0] and medians[1] and medians[0].value else None
    return worth(loss, gain)
