"""Models that each process trains again: equal code fails no build more often than stated, worse code still does."""

from array import array
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Literal

import pytest
from fakes.gates import ACCURACY, hypothesis

from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.gate.rehearsal import processes_to_part, repeat_alarms
from pytest_hwperf.records.evidence import Evidence, FixedSample, Measurement, Side
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import Sample
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.stats.pairs.hypotheses import SIDES, Questions
from pytest_hwperf.stats.pairs.sequence import decide

ALPHA = 0.01
LATE = state("out of time", limit=9)
SIZE = Margin(metric="model_size", statistic="p50", size=0.01)
EXAMPLES = 200
Draw = Callable[[Side], "array[float]"]  # what one process of a side gives


@cache
def right(count: int) -> "array[float]":
    """So many examples are right, the first ones."""
    return array("d", [1.0] * count + [0.0] * (EXAMPLES - count))


def sizes(size: float) -> "array[float]":
    return array("d", [size])


def asked(draw: Draw, margin: Margin = ACCURACY) -> Questions:
    """Rehearse once."""
    one = hypothesis(0, margin)
    per: Literal["example", "file"] = "example" if margin == ACCURACY else "file"
    fixed = FixedSample(hypothesis=one, per=per, baseline=draw("baseline"), candidate=draw("candidate"))
    return Questions(fixed_samples=[fixed])


def rehearsing(draw: Draw, margin: Margin = ACCURACY) -> Callable[[Sequence[str]], PairTrace]:
    def rehearse(nodes: Sequence[str]) -> PairTrace:
        samples: dict[Side, Sequence[Sample]] = {
            side: [Sample(metric=margin.metric, values=draw(side), per="", source="")] for side in SIDES
        }
        return PairTrace(exact={Measurement(test=node, label=""): samples for node in nodes})

    return rehearse


def repeated(questions: Questions, draw: Draw, margin: Margin = ACCURACY) -> Evidence:
    """Rehearse what raises an alarm again; return what is judged then."""
    repeat_alarms(questions, ALPHA, rehearsing(draw, margin), in_time=lambda: True, why_late=LATE)
    return Evidence(alpha=ALPHA, hypotheses=(), pairs=(), fixed_samples=tuple(questions.fixed_samples))


def fails(draw: Draw) -> bool:
    """Whether a build fails."""
    return any(found.outcome == "regressed" for found in decide(repeated(asked(draw), draw)).values())


def test_five_processes_a_side_part_less_often_than_once_in_a_hundred() -> None:
    """C(10, 5) = 252, C(8, 4) = 70."""
    assert [1, 2, 3, 5, 7, 8] == [processes_to_part(level) for level in (0.5, 0.25, 0.05, 0.01, 0.001, 0.0002)]


@pytest.mark.simulation
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_a_model_of_two_variants_fails_equal_code_no_more_often_than_stated(share: float) -> None:
    """A single rehearsal would fail p (1 - p) of the builds: 9, 21 and 25 %; five processes a side at most 0.1 %."""
    random = Random(16)
    builds = 4000

    def draw(_: Side) -> "array[float]":
        return right(190 if random.random() < share else 170)

    assert sum(fails(draw) for _ in range(builds)) <= 0.007 * builds


@pytest.mark.simulation
def test_a_model_that_differs_in_every_process_fails_no_equal_code() -> None:
    """Five processes a side part by chance in 1 of 252 builds."""
    random = Random(17)
    assert sum(fails(lambda _: right(random.randrange(140, 200))) for _ in range(2000)) <= 0.007 * 2000


def test_a_model_that_differs_in_every_process_and_is_worse_in_each_fails() -> None:
    random = Random(20)
    draw: Draw = lambda side: right(random.randrange(*((185, 195) if side == "baseline" else (140, 170))))  # noqa: E731
    (found,) = decide(repeated(asked(draw), draw)).values()
    assert "regressed" == found.outcome
    assert (
        "predictions differ between processes; the candidate is worse in each of its 5 than the baseline in any",
    ) == found.warnings


def test_sizes_that_differ_in_every_process_and_are_larger_in_each_are_regressed() -> None:
    random = Random(21)
    draw: Draw = lambda side: sizes(1e6 + (side == "candidate") * 2e5 + 1e5 * random.random())  # noqa: E731
    repeated(questions := asked(draw, SIZE), draw, SIZE)
    assert (1, {}) == (len(questions.fixed_samples), questions.parts)


def test_a_model_that_got_worse_and_is_the_same_in_every_process_fails() -> None:
    assert fails(lambda side: right(190 if side == "baseline" else 170))


def test_a_side_that_disagrees_with_itself_is_inconclusive_with_what_to_do() -> None:
    random = Random(18)
    questions, of_sizes = (
        (asked(lambda side: right(190 if side == "baseline" else 150))),
        asked(lambda side: sizes(1e6 + (side == "candidate") * 1e5), SIZE),
    )
    repeated(questions, lambda side: right(190 if side == "baseline" else random.randrange(190, 199)))
    repeated(of_sizes, lambda _: sizes(1e6 + 1e5 * random.random()), SIZE)
    ((outcome, why),) = questions.parts.values()
    assert [] == questions.fixed_samples
    assert "inconclusive" == outcome
    assert str(why).startswith("predictions differ between processes of the candidate, ")
    assert "random_state=0" in str(why)
    ((_, why),) = of_sizes.parts.values()
    assert str(why).startswith("model_size differs between processes of the baseline")


def test_alarms_that_cannot_be_repeated_are_inconclusive() -> None:
    """Because the time is up, or the processes are lost."""
    lost = state("lost", why="baseline: ended", side="baseline")
    worse: Draw = lambda side: right(190 if side == "baseline" else 170)  # noqa: E731
    late, gone = asked(worse), asked(worse)
    repeat_alarms(late, ALPHA, rehearsing(worse), in_time=lambda: False, why_late=LATE)
    repeat_alarms(gone, ALPHA, lambda _: PairTrace(lost=lost), in_time=lambda: True, why_late=LATE)
    assert [("inconclusive", LATE)] == [*late.parts.values()]
    assert [("inconclusive", lost)] == [*gone.parts.values()]


def test_what_raises_no_alarm_is_not_repeated() -> None:
    def never(nodes: Sequence[str]) -> PairTrace:
        raise AssertionError(nodes)

    questions = asked(lambda _: right(180))
    repeat_alarms(questions, ALPHA, never, in_time=lambda: True, why_late=LATE)
    assert 1 == len(questions.fixed_samples)
