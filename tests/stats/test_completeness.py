"""How much of a build its pairs have decided: simulated builds that are cut short, and the time that they needed."""

from random import Random

import pytest
from fakes.gates import build, hypothesis

from pytest_hwperf.records.evidence import Evidence
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.units import reasons
from pytest_hwperf.stats.sequence import decide
from pytest_hwperf.stats.timetable import (
    Completeness,
    completeness,
    rounded_up,
    seconds_needed,
    seconds_needed_from_rehearsal,
)

LATE = state("out of time", limit=120)


def cut(evidence: Evidence, pairs: int) -> Evidence:
    """Let the time be up after so many pairs."""
    return replace(evidence, pairs=evidence.pairs[:pairs], stopped=LATE)


def found(evidence: Evidence, *more: str) -> Completeness:
    tests = [*(one.measurement.test for one in evidence.hypotheses), *more]
    return completeness(tests, evidence, decide(evidence))


def test_a_whole_build_is_decided() -> None:
    complete = found(build([0.0] * 3, Random(1)))
    assert (3, "", False) == (complete.decided, complete.shortfall, complete.is_empty)


@pytest.mark.parametrize("pairs", [0, 1, 5])
def test_sixty_tests_of_which_the_screen_was_cut_short_are_no_answer(pairs: int) -> None:
    """One of them takes three times as long."""
    evidence = build([2.0] + [0.0] * 59, Random(2))
    complete = found(cut(evidence, pairs))
    assert not complete.regressed
    assert complete.is_empty
    assert "0 of 60 tests decided, 60 not: the time of 120 s was up" == complete.shortfall


def test_a_build_that_was_cut_short_while_confirming_has_decided_the_others() -> None:
    complete = found(cut(build([2.0] + [0.0] * 59, Random(2)), 6))
    assert not complete.is_empty
    assert 50 <= complete.decided <= 59  # some of the others look slower by chance
    assert f"{complete.decided} of 60 tests decided, {60 - complete.decided} not" in complete.shortfall


def test_further_pairs_that_are_cut_short_leave_nothing_unanswered() -> None:
    """None is slower, which had been answered; that all are equal was still to be shown."""
    evidence = build([0.03] * 3, Random(4), spread=0.05)
    asked = replace(evidence, until_equivalent=True, stopped=LATE)
    assert {LATE} == {one.cause for one in decide(asked).values() if one.outcome == "inconclusive"}
    assert (3, "", False) == (found(asked).decided, found(asked).shortfall, found(asked).is_empty)


def test_a_test_that_could_not_be_run_is_not_decided() -> None:
    complete = found(build([0.0], Random(1)), "tests/test_models.py::test_gone")
    assert (2, 1, "") == (complete.tests, complete.decided, complete.shortfall)


def test_what_was_dropped_is_not_waited_for_and_no_answer_either() -> None:
    evidence = replace(build([0.0], Random(1)), pairs=(), dropped=(hypothesis(0),))
    assert found(evidence).is_empty
    assert "" == found(evidence).shortfall


def test_a_regression_is_an_answer_though_nothing_is_decided_wholly() -> None:
    complete = Completeness(
        tests=1, compared=frozenset({"a"}), unfinished=frozenset({"a"}), regressed=True, stopped=LATE
    )
    assert not complete.is_empty
    assert complete.shortfall


def test_a_build_whose_tests_a_change_cannot_reach_has_an_answer() -> None:
    """Not one pair was run, and nothing is missing."""
    evidence = build([], Random(1))
    assert not completeness(["t.py::one"], evidence, {}, ["t.py::one"]).is_empty
    assert completeness(["t.py::one"], evidence, {}).is_empty


def test_reasons_are_counted_and_at_most_three_are_shown() -> None:
    assert "" == reasons([])
    assert "no module" == reasons(["no module"])
    assert "b (2 tests); a (1 test)" == reasons(["a", "b", "b"])
    assert reasons(list("abcde")).endswith("c (1 test); and 2 other reasons")


def test_the_time_needed_is_that_of_the_screen_and_of_a_confirmation() -> None:
    """One test: 3 s before the pairs, a pair of 2 s, 6 for the screen, 20 fresh ones, and a quarter more in reserve."""
    whole = build([0.0], Random(1))
    spent = {"checkout": 1.0, "rehearsal": 2.0}
    assert 3 + 1.25 * 2 * 26 == seconds_needed(cut(whole, 3), {**spent, "screen": 6.0}, 2.0)
    assert 3 + 1.25 * 2 * 2 * 26 == seconds_needed(cut(whole, 0), spent, 2.0)


def test_pairs_of_both_kinds_are_one_where_all_tests_are_meant() -> None:
    """Three pairs of each kind in 9 s: 3 s a pair of all tests."""
    shared = cut(build([0.0], Random(1)), 3)
    apart = [
        replace(pair, observations=tuple(replace(one, apart=True) for one in pair.observations))
        for pair in shared.pairs
    ]
    mixed = replace(shared, pairs=(*shared.pairs, *apart))
    assert 3 + 1.25 * 3 * 26 == seconds_needed(mixed, {"checkout": 1.0, "rehearsal": 2.0, "screen": 9.0}, 2.0)


def test_the_time_needed_is_known_from_a_part_of_the_rehearsal() -> None:
    """Started in 2 s; one test of four done in 4 s and the next begun: 2 s each, 10 s in all; a pair takes twice that.

    Four tests, of which one is expected to look slower: 6 pairs and a quarter of 20, and a quarter more in reserve.
    """
    spent = {"checkout": 1.0, "rehearsal": 6.0}
    assert 1 + 10 + 1.25 * 20 * 11 == seconds_needed_from_rehearsal(4, 1, 0.01, spent, 6.0, 2.0)


def test_the_time_of_earlier_pairs_counts_once() -> None:
    """The first pair, and what one side did alone, took 40 s; the second one is as above."""
    spent = {"checkout": 1.0, "rehearsal": 46.0}
    assert 1 + 40 + 10 + 1.25 * 20 * 11 == seconds_needed_from_rehearsal(4, 1, 0.01, spent, 6.0, 2.0)
    assert 47 + 1.25 * 12 * 26 == seconds_needed(cut(build([0.0], Random(1)), 0), spent, 6.0)


def test_a_rehearsal_that_has_reached_no_test_says_the_least() -> None:
    """However many tests there are: 6 s may be the start alone."""
    spent = {"checkout": 1.0, "rehearsal": 6.0}
    assert 1 + 6 + 1.25 * 12 * 26 == seconds_needed_from_rehearsal(1, 0, 0.01, spent, 6.0, None)
    assert seconds_needed_from_rehearsal(4, 0, 0.01, spent, 6.0, None) < 1 + 6 + 1.25 * 12 * 26


def test_a_rehearsal_whose_last_test_was_cut_off_takes_no_less_than_it_took() -> None:
    spent = {"checkout": 0.0, "rehearsal": 6.0}
    assert 6 + 1.25 * 12 * 26 == seconds_needed_from_rehearsal(1, 0, 0.01, spent, 6.0, 2.0)
    assert 6 + 1.25 * 12 * 26 == seconds_needed_from_rehearsal(1, 1, 0.01, spent, 6.0, 2.0)


def test_sixty_tests_need_little_more_than_their_screen() -> None:
    """Seven of them are expected to look slower: no more than that of a pair is spent on confirming."""
    needed = seconds_needed(cut(build([0.0] * 60, Random(3)), 3), {"rehearsal": 15.0, "screen": 90.0}, 15.0)
    assert 15 + 1.25 * 30 * 6 < needed < 15 + 1.25 * 30 * 10


@pytest.mark.parametrize(("seconds", "shown"), [(0.2, 1), (9, 9), (99.2, 100), (101, 110), (1260, 1300), (1300, 1300)])
def test_seconds_are_rounded_up_to_two_digits(seconds: float, shown: int) -> None:
    assert shown == rounded_up(seconds)
