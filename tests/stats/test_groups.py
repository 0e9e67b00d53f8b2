"""Groups of tests that are screened and confirmed one after the other, and screens that the time has cut short."""

from random import Random

import pytest
from fakes.gates import hypothesis, observation, pair

from pytest_hwperf.records.evidence import Evidence, Hypothesis
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.pairs.sequence import decide, next_step
from pytest_hwperf.stats.pairs.timetable import completeness

LATE = state("out of time", limit=60)
FOUR = tuple(hypothesis(number) for number in range(4))
SLOW = {FOUR[0]: 0.08}  # the others are equal


def asked(*groups: int, slow: dict[Hypothesis, float] | None = None) -> Evidence:
    """Run every pair that is asked for, of four tests in these groups."""
    truths, random = dict.fromkeys(FOUR, 0.0) | (SLOW if slow is None else slow), Random(5)
    evidence = Evidence(alpha=0.01, hypotheses=FOUR, pairs=(), groups=groups)
    while (step := next_step(evidence)).stage is not None:
        wanted = [one for one in truths if one.measurement in step.measurements]
        found = pair(step.stage, [observation(one, truths[one], random, spread=0.002) for one in wanted])
        evidence = replace(evidence, pairs=(*evidence.pairs, found))
    return evidence


def stages(evidence: Evidence) -> list[str]:
    return [pair.stage[0] for pair in evidence.pairs]


def level(evidence: Evidence, one: Hypothesis) -> float:
    """Return the one-sided level at which a hypothesis was decided."""
    change = decide(evidence)[one].change
    assert change is not None
    return (1 - change.confidence) / 2


def test_each_group_is_screened_and_confirmed_before_the_next() -> None:
    evidence = asked(2, 2, slow={FOUR[0]: 0.08, FOUR[3]: 0.08})
    assert [*"s" * 6, *"c" * 9, *"s" * 6, *"c" * 9] == stages(evidence)
    assert {FOUR[0], FOUR[3]} == {one for one, found in decide(evidence).items() if found.outcome == "regressed"}


def test_a_small_group_among_many_counts_as_one_that_is_expected_to_be_tested() -> None:
    """Of one test and of three, each: half of the false-alarm rate; of what is left alone, all of it."""
    evidence = asked(1, 3, slow={FOUR[0]: 0.08, FOUR[3]: 0.08})
    assert [0.4 * 0.005] * 2 == pytest.approx([level(evidence, FOUR[0]), level(evidence, FOUR[3])])


def test_a_group_that_was_not_begun_is_not_asked_and_named() -> None:
    evidence = replace(asked(2), stopped=LATE)
    complete = completeness([one.measurement.test for one in FOUR], evidence, decide(evidence))
    assert {FOUR[0], FOUR[1]} == set(decide(evidence))
    assert {FOUR[2].measurement.test, FOUR[3].measurement.test} == complete.unreached == evidence.unreached_tests
    assert (
        "2 of 4 tests decided, 2 not reached (tests/test_models.py::test_2, tests/test_models.py::test_3): "
        "the time of 60 s was too short" == complete.shortfall
    )


def test_the_first_of_two_groups_has_the_share_of_the_rate_that_it_has_of_the_tests() -> None:
    """Half of 1 %, of which the first look has .4: 2^-9 is the first that is as small, so that it is at nine pairs."""
    assert 0.4 * 0.01 / 2 == pytest.approx(level(asked(2, 2), FOUR[0]))
    assert 0.4 * 0.01 == pytest.approx(level(asked(4), FOUR[0]))


def test_a_group_that_tested_nothing_has_spent_nothing() -> None:
    """The second group has the whole rate where nothing of the first one looked slower, and else what is left."""
    assert 0.4 * 0.01 == pytest.approx(level(asked(2, 2, slow={FOUR[3]: 0.08}), FOUR[3]))
    assert 0.4 * 0.01 / 2 == pytest.approx(level(asked(2, 2, slow={FOUR[0]: 0.08, FOUR[3]: 0.08}), FOUR[3]))


def test_one_group_of_all_is_as_none() -> None:
    whole = asked(4)
    assert decide(whole) == decide(replace(whole, groups=()))


def test_no_group_has_more_hypotheses_than_there_are() -> None:
    for groups in [(5,), (3, 2), (0, 4)]:
        with pytest.raises(ValueError, match="groups of"):
            Evidence(alpha=0.01, hypotheses=FOUR, pairs=(), groups=groups)
