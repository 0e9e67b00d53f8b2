"""Whether quantisation pays: a form in INT8 that makes the model slower, and the rule that it is worthwhile."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, least_apart
from pytest_hwperf.records.run import Estimate
from pytest_hwperf.stats.exact import tango_interval
from pytest_hwperf.stats.rivals import ALPHA, MOST_LOSS, Candidate, between_processes, change_of, in_pairs

LEAST_GAIN = 0.20  # of latency, for quantisation to be worthwhile; of accuracy less than `MOST_LOSS` is lost
_QUANTISED = "int8"  # how such precisions begin
_UNQUANTISED = "float32"


def slower_than_fp32(candidates: Sequence[Candidate]) -> Iterator[Statement]:
    """Yield each INT8 scenario that is slower than the FP32 scenario of the same form.

    Both are of one process, so that most are `may be slower than fp32`: the intervals of both medians are apart by
    more than the margin, but not by as much as processes of equal code differ by.
    """
    for one, other in quantised_pairs(candidates):
        yield from _slower(one, other)


def quantised_pairs(candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, Candidate]]:
    """Yield each INT8 candidate with each FP32 one of the same form, called alike."""
    for one in candidates:
        if one.conditions.get("precision", "").startswith(_QUANTISED):
            for other in candidates:
                if other.conditions.get("precision") == _UNQUANTISED and _alike(one, other):
                    yield one, other


def _alike(one: Candidate, other: Candidate) -> bool:
    """Whether precision alone tells them apart: every condition of the one in FP32 holds for the other too.

    Runtimes differ in their conditions. A scenario without a form is the model itself and has no other one.
    """
    mine, its = one.conditions, other.conditions
    return (
        one.kind == other.kind
        and "form" in its
        and all(mine.get(name) == value for name, value in its.items() if name != "precision")
    )


def _slower(one: Candidate, reference: Candidate) -> Iterator[Statement]:
    now, then = one.values.get(MEDIAN_LATENCY), reference.values.get(MEDIAN_LATENCY)
    if now is None or then is None or now.low is None or then.high is None or not then.value:
        return
    least = then.high * (1 + least_apart(MEDIAN_LATENCY[0]))
    if now.low > least:
        yield state(
            "slower than fp32" if now.low > least * math.exp(between_processes()) else "may be slower than fp32",
            test=one.test,
            scenario=one.scenario,
            reference=reference.scenario,
            now=now.value,
            then=then.value,
            change=now.value / then.value - 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What quantisation costs and what it gains."""

    outcome: Literal["worthwhile", "not worthwhile", "inconclusive"]
    loss: Estimate | None  # of accuracy, absolute, positive where it is lost; None: unmeasured
    gain: Estimate | None  # of latency, as a share of that of the reference, positive where it is faster

    @property
    def is_fast(self) -> bool:
        """Whether the gain is above 20 % by its whole interval: what is in doubt then is the accuracy."""
        return self.gain is not None and self.gain.low is not None and self.gain.low > LEAST_GAIN


def worth(loss: Estimate | None, gain: Estimate | None) -> Worth:
    """Say whether quantisation is worthwhile: a loss below 1 point and a gain above 20 %, both by their intervals.

    It is not where either interval lies wholly on the other side, and inconclusive where one holds its limit or is
    missing. A gain in accuracy is no loss.
    """
    too_dear = loss is not None and loss.low is not None and loss.low >= MOST_LOSS
    too_slow = gain is not None and gain.high is not None and gain.high <= LEAST_GAIN
    cheap = loss is not None and loss.high is not None and loss.high < MOST_LOSS
    fast = gain is not None and gain.low is not None and gain.low > LEAST_GAIN
    outcome: Literal["worthwhile", "not worthwhile", "inconclusive"] = (
        "not worthwhile" if too_dear or too_slow else "worthwhile" if cheap and fast else "inconclusive"
    )
    return Worth(outcome=outcome, loss=loss, gain=gain)


def paired_loss(reference: Sequence[float], quantised: Sequence[float]) -> Estimate | None:
    """Return the loss of accuracy on the same examples, with Tango's interval; None where they are not the same."""
    n = len(reference)
    if not n or n != len(quantised):
        return None
    lost = sum(before > after for before, after in zip(reference, quantised, strict=True))
    won = sum(before < after for before, after in zip(reference, quantised, strict=True))
    low, high = tango_interval(lost, won, n, ALPHA)
    return Estimate(
        value=(lost - won) / n, low=low, high=high, confidence=1 - 2 * ALPHA, n=n, method="Tango score interval"
    )


def latency_gain(reference: Candidate, quantised: Candidate) -> Estimate:
    """Return the gain as a share of the reference's latency: of pairs, else with what processes differ by."""
    change, paired = change_of(quantised, reference, MEDIAN_LATENCY), in_pairs(quantised, reference, MEDIAN_LATENCY)
    low, high = (None if math.isinf(end) else -math.expm1(end) for end in (change.high, change.low))
    return Estimate(
        value=-math.expm1(change.value),
        low=low,
        high=high,
        confidence=1 - 2 * ALPHA,
        n=paired.pairs if paired else 1,
        method="pairs of fresh processes" if paired else "one process each",
    )


def worth_of(quantised: Candidate, reference: Candidate) -> Worth:
    """Apply the rule to two candidates, with the accuracy paired by example."""
    loss = gain = None
    if quantised.right is not None and reference.right is not None:
        loss = paired_loss(reference.right, quantised.right)
    if all(one.values.get(MEDIAN_LATENCY) for one in (quantised, reference)):
        gain = latency_gain(reference, quantised)
    return worth(loss, gain)
