"""Further pairs of a comparison: they show that nothing matters, and fail nothing."""

import math
import random

import pytest
from fakes import gates

from pytest_hwperf.records.evidence import Evidence, Gate, Hypothesis, Observation, Pair, Stage
from pytest_hwperf.records.messages import said
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.figures.ranks import changes_of, decisive
from pytest_hwperf.stats.pairs.paired import pair_value
from pytest_hwperf.stats.pairs.sequence import (
    LOOKS,
    PATIENT_SHARES,
    SHARES,
    Step,
    decide,
    look_for_equivalence,
    looks,
    next_step,
)

A, B = gates.asked(test="a"), gates.asked(test="b")
WIDE = (0.97, 1.03, 0.98, 1.021, 0.975, 0.99)  # no sign of a slowdown, and no narrow interval
CLOSE = tuple(1 + 0.0005 * (-1) ** number * (1 + number / 100) for number in range(60))


def observation(asked: Hypothesis, ratio: float) -> Observation:
    return gates.observed(asked, [1e-3], [1e-3 * ratio])


def pairs(stage: Stage, *ratios: float, asked: Hypothesis = A) -> tuple[Pair, ...]:
    return tuple(gates.pair(stage, [observation(asked, ratio)]) for ratio in ratios)


def evidence(*found: tuple[Pair, ...], hypotheses: tuple[Hypothesis, ...] = (A,)) -> Evidence:
    together = tuple(pair for group in found for pair in group)
    return Evidence(alpha=0.01, hypotheses=hypotheses, pairs=together, until_equivalent=True)


def test_the_levels_of_all_looks_are_less_than_that_of_the_screen() -> None:
    assert {8: 2**-7, 16: 2**-8, 32: 2**-9, 60: 2**-10} == LOOKS
    assert sum(LOOKS.values()) < 2**-6


def test_what_the_screen_leaves_inconclusive_is_asked_again() -> None:
    screened = evidence(pairs("screen", *WIDE))
    assert "inconclusive" == decide(screened)[A].outcome
    assert Step(stage="equivalence", hypotheses=(A,), pairs=8) == next_step(screened)
    assert Step(stage=None) == next_step(replace(screened, until_equivalent=False))


def test_eight_close_pairs_show_equivalence() -> None:
    """The median of the Walsh averages of ±0.05 % lies within 2 %, and so does every one of them."""
    whole = evidence(pairs("screen", *WIDE), pairs("equivalence", *CLOSE[:8]))
    found = decide(whole)[A]
    assert ("equivalent", 8) == (found.outcome, found.pairs)
    assert Step(stage=None) == next_step(whole)


def test_the_screen_does_not_count_among_further_pairs() -> None:
    """It has selected its own."""
    found = decide(evidence(pairs("screen", *WIDE), pairs("equivalence", *CLOSE[:7])))[A]
    assert ("inconclusive", 5) == (found.outcome, found.pairs)  # whatever the sixth shows


def test_further_pairs_fail_nothing() -> None:
    """Not even where all sixty are slower: the looks that may have been taken."""
    whole = evidence(pairs("screen", *WIDE), pairs("equivalence", *[1.5 + one / 1000 for one in range(60)]))
    found = decide(whole)[A]
    assert ("inconclusive", 60, None) == (found.outcome, found.pairs, found.p_value)
    assert Step(stage=None) == next_step(whole)


def test_what_is_decided_already_stays() -> None:
    """It is measured again with the other statistics of its test."""
    screened = pairs("screen", *CLOSE[:6])
    before = decide(evidence(screened))[A]
    assert "equivalent" == before.outcome
    assert before == decide(evidence(screened, pairs("equivalence", *[1.5] * 8)))[A]


def test_a_regression_ends_it() -> None:
    """Whatever is still open changes the answer no more."""
    slow = [1.3 + number / 100 for number in range(20)]
    whole = evidence(
        pairs("screen", *WIDE),
        pairs("screen", *slow[:6], asked=B),
        pairs("confirm", *slow[:8], asked=B),
        hypotheses=(A, B),
    )
    assert "regressed" == decide(whole)[B].outcome
    assert Step(stage=None) == next_step(whole)


def test_groups_that_are_left_come_before_further_pairs() -> None:
    """Of a test that has not been reached nothing is known at all."""
    whole = replace(evidence(pairs("screen", *WIDE), hypotheses=(A, B)), groups=(1,))
    assert Step(stage=None) == next_step(whole)
    assert "screen" == next_step(replace(whole, groups=(1, 1))).stage
    both = replace(whole, groups=(1, 1), pairs=(*whole.pairs, *pairs("screen", *CLOSE[:6], asked=B)))
    assert Step(stage="equivalence", hypotheses=(A,), pairs=8) == next_step(both)


def test_what_a_late_look_finds_is_worse() -> None:
    """Twenty pairs, every fourth within the margin of 2 %, say nothing at 0.2 %; forty of them do."""
    slow = [1.0095 if number % 4 == 0 else 1.03 + number / 10_000 for number in range(40)]
    whole = evidence(pairs("screen", *slow[1:4], *slow[5:8]), pairs("confirm", *slow[:20]))
    assert (8, 13, 20, 40) == looks(1, 0.01, PATIENT_SHARES)
    assert "inconclusive" == decide(whole)[A].outcome
    assert Step(stage="confirm", hypotheses=(A,), pairs=20) == next_step(whole)
    assert Step(stage=None) == next_step(replace(whole, until_equivalent=False))
    found = decide(replace(whole, pairs=(*whole.pairs, *pairs("confirm", *slow[20:]))))[A]
    assert ("regressed", 40) == (found.outcome, found.pairs)


def test_the_looks_share_alpha() -> None:
    assert [1.0, 1.0] == pytest.approx([sum(SHARES), sum(PATIENT_SHARES)])


def test_a_late_look_needs_no_more_pairs_than_a_build_may_ask_for() -> None:
    """The one after 59 pairs would take 79: its share of alpha is not spent."""
    alpha = 2.0**-45
    slow = [1.03 + number / 10_000 for number in range(60)]
    whole = replace(evidence(pairs("screen", *slow[:6]), pairs("confirm", *WIDE, *slow[:53])), alpha=alpha)
    assert (59, 79) == looks(1, alpha, PATIENT_SHARES)[-2:]
    assert Step(stage="equivalence", hypotheses=(A,), pairs=8) == next_step(whole)


def test_a_time_that_is_up_is_the_cause() -> None:
    for further in (0, 9):
        whole = evidence(pairs("screen", *WIDE), pairs("equivalence", *WIDE, *WIDE[:3])[:further])
        found = decide(replace(whole, stopped=said("the time was up")))[A]
        assert ("inconclusive", "the time was up") == (found.outcome, found.reason)


def test_the_standardised_effect_is_that_of_the_further_pairs() -> None:
    whole = evidence(pairs("screen", *WIDE), pairs("equivalence", *CLOSE[:8]))
    valued = replace(whole, pairs=tuple(map(with_change, whole.pairs)))
    changes = changes_of([Gate(against="", revision="", seed=0, evidence=valued, shared={}, seconds={})])
    assert [math.log(ratio) for ratio in CLOSE[:8]] == pytest.approx(decisive(decide(whole)[A], changes[A.key]))


def with_change(pair: Pair) -> Pair:
    return replace(pair, observations=tuple(replace(one, change=pair_value(one)) for one in pair.observations))


@pytest.mark.simulation
def test_a_change_of_the_margin_is_seldom_called_equivalent() -> None:
    """At most 2**-6 of 400 would be 6.25; 17 or more happen to one in 5,000."""
    chance, called = random.Random(1), 0
    for _ in range(400):
        ratios = [1.02 * math.exp(chance.gauss(0, 0.02)) for _ in range(60)]
        found = look_for_equivalence(A, [observation(A, ratio) for ratio in ratios])
        called += found is not None and found.outcome == "equivalent"
    assert called < 17
