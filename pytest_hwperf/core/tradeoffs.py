"""Trade-offs between the scenarios of a test: quantisation that makes the model slower."""

from collections.abc import Iterator, Sequence

from pytest_hwperf.core.metrics import MEDIAN_LATENCY, least_apart
from pytest_hwperf.core.records import Estimate, Judgement, figure_of
from pytest_hwperf.core.statements import Statement, state

_QUANTISED = "int8"  # how such precisions begin
_UNQUANTISED = "float32"
# What both have in common, so that precision alone makes the difference. A scenario without a form has no other one.
_ALIKE = ("form", "threads", "batch_size", "load", "data")


def slower_than_fp32(judgements: Sequence[Judgement]) -> Iterator[Statement]:
    """Yield each INT8 scenario that is slower than the FP32 scenario of the same form.

    Slower: the intervals of both medians are apart, by more than `least_apart`.

    Args:
        judgements: of the scenarios of one test.
    """
    for one in judgements:
        precision = one.run.conditions.get("precision", "")
        if not precision.startswith(_QUANTISED):
            continue
        for other in judgements:
            if other.run.conditions.get("precision") == _UNQUANTISED and _alike(one, other):
                yield from _slower(one, other)


def _alike(one: Judgement, other: Judgement) -> bool:
    mine, its = one.run.conditions, other.run.conditions
    return _ALIKE[0] in mine and all(mine.get(name) == its.get(name) for name in _ALIKE)


def _slower(one: Judgement, reference: Judgement) -> Iterator[Statement]:
    now, then = _median(one), _median(reference)
    if now is None or then is None or now.low is None or then.high is None:
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
