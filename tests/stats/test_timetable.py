"""How long tests take, how many are compared next, and how much of a build its pairs have decided."""

import dataclasses
from random import Random

import pytest
from fakes.gates import build, hypothesis

from pytest_hwperf.records.evidence import Evidence
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.units import reasons
from pytest_hwperf.stats.pairs.sequence import decide
from pytest_hwperf.stats.pairs.timetable import (
    COARSE,
    FINE,
    PAIR_PLAN,
    BlockPlan,
    CallTimes,
    Completeness,
    TestTime,
    Timetable,
    completeness,
    rounded_up,
    seconds_needed_from_rehearsal,
    serial_plan,
)


def table(count: int, call_s: float = 1e-3, pace: float = 1.0) -> Timetable:
    tests = [
        TestTime(test=str(number), hypotheses=1, beside_s=0.03, measurements=(CallTimes(calls_s=(call_s, call_s)),))
        for number in range(count)
    ]
    return Timetable(start_s=0.5, tests=tests, alpha=0.01, pace=pace)


def test_a_test_takes_its_turns_its_warm_up_and_what_is_beside_them() -> None:
    """Turns of ten calls of 1 ms, each handed over in 1 ms: 24.5 a side; one call and two blocks warm it up."""
    (test,) = table(1).tests
    assert 0.03 + 2 * (24.5 * 0.011 + 0.001 + 2 * 0.003 + 3 * 0.002) == pytest.approx(test.pair_s(PAIR_PLAN))


def test_the_screen_gets_coarser_where_the_time_is_short() -> None:
    assert [FINE, COARSE, COARSE] == [table(count).screening(600.0) for count in (10, 60, 2000)]


def test_all_tests_are_one_group_where_they_fit() -> None:
    """And a machine that slows down to a third would still decide them."""
    found = table(20)
    needed_s = found.needed_s(found.tests, FINE)
    assert 20 == found.next_group(0, 3.1 * needed_s, FINE)
    assert 0 < found.next_group(0, 2.9 * needed_s, FINE) < 20


def test_what_does_not_fit_is_split_and_no_group_takes_all_of_the_time() -> None:
    found = table(2000)
    size = found.next_group(0, 600.0, COARSE)
    assert 0 < size < 2000
    assert found.needed_s(found.tests[:size], COARSE) <= 0.25 * 600
    assert found.needed_s(found.tests[: size + 1], COARSE) > 0.25 * 600
    assert 0 < found.next_group(size, 240.0, COARSE) < size


def test_a_group_that_will_not_be_over_goes_on_with_fewer_tests() -> None:
    found = table(40)
    seen = dict.fromkeys((one.test for one in found.tests), 3)
    half_s = found.needed_s(found.tests, FINE, seen)
    assert 40 == found.shortened(found.tests, half_s, FINE, seen)
    size = found.shortened(found.tests, 0.5 * half_s, FINE, seen)
    assert 0 < size < 20
    needed_s = [found.needed_s(found.tests[:count], FINE, seen) for count in (size, size + 1)]
    assert needed_s[0] <= 0.8 * 0.5 * half_s < needed_s[1], "a fifth of the time is a reserve"
    assert 1 == found.shortened(found.tests, 0.1, FINE, seen), "one is tried in any case"


def test_what_was_screened_before_takes_no_time_again() -> None:
    """One that goes on after six pairs takes three more at most."""
    found = table(10)
    over, half, longer = (dict.fromkeys((one.test for one in found.tests[:5]), pairs) for pairs in (9, 3, 6))
    assert found.screen_s(found.tests[5:], FINE) == pytest.approx(found.screen_s(found.tests, FINE, over))
    assert found.screen_s(found.tests, FINE, half) == pytest.approx(found.screen_s(found.tests, FINE, longer))


def test_a_slower_pace_makes_groups_smaller() -> None:
    assert table(2000, pace=2.0).next_group(0, 600.0, COARSE) < table(2000).next_group(0, 600.0, COARSE)


def test_the_first_test_is_tried_whatever_it_takes_and_no_later_one() -> None:
    assert 1 == table(5, call_s=60.0).next_group(0, 10.0, COARSE)
    assert 0 == table(5, call_s=60.0).next_group(1, 10.0, COARSE)


def test_no_pair_is_over_before_the_next_one_has_started_behind_it() -> None:
    """Six pairs of a short test wait for that; those of many tests take longer in any case."""
    short, long = (dataclasses.replace(table(count), ahead_s=4.0) for count in (1, 100))
    assert 6 * 4.0 == short.screen_s(short.tests, FINE)
    assert table(100).screen_s(long.tests, FINE) == long.screen_s(long.tests, FINE) > 6 * 4.0


def test_the_last_test_is_compared_where_it_fits_into_all_that_is_left() -> None:
    found = table(3)
    needed_s = found.needed_s(found.tests[:1], FINE)
    assert 1 == found.next_group(1, 1.1 * needed_s, FINE)
    assert 0 == found.next_group(1, 0.9 * needed_s, FINE)


def test_a_test_that_one_side_at_a_time_runs_warms_up_in_four_processes() -> None:
    """Beside six double blocks: one call and three blocks in each of them. Their starts are counted once for all."""
    (test,) = table(1).tests
    serial = dataclasses.replace(test, is_serial=True)
    mixed = dataclasses.replace(table(0), serial_start_s=3.0, tests=(test, serial))

    plan = serial_plan(PAIR_PLAN)
    warm_s, uncounted_s = 0.001 + 2 * 0.003 + 3 * 0.002, 0.5 * 0.011
    assert test.pair_s(plan) + 2 * (warm_s - uncounted_s) == pytest.approx(serial.pair_s(PAIR_PLAN))
    of = {"shared": [test], "serial": [serial, serial], "both": [test, serial]}
    starts_s = {
        name: mixed.screen_s(tests, FINE) / 6 - sum(one.pair_s(plan) for one in tests) for name, tests in of.items()
    }
    assert {"shared": 0.5, "serial": 3.0, "both": 3.5} == pytest.approx(starts_s)


def test_slow_calls_have_fewer_calls_a_turn_and_fewer_turns() -> None:
    """One second of turns where the sides are far apart, twelve elsewhere, and one double block at least."""
    blocks = {25e-6: (240, 24), 1e-3: (10, 3), 0.01: (6, 3), 0.05: (2, 0), 1.0: (1, 0)}
    assert blocks == {call_s: PAIR_PLAN.block(call_s, pool=False) for call_s in blocks}
    turns = {(1e-3, 1e-3): 12, (0.05, 0.05): 12, (0.5, 0.5): 6, (1.0, 1.0): 3, (0.05, 0.5): 1, (9.0, 9.0): 1}
    assert turns == {calls_s: PAIR_PLAN.doubles_of(calls_s) for calls_s in turns}
    assert turns == {calls_s: PAIR_PLAN.doubles_of(calls_s[::-1]) for calls_s in turns}


def test_turns_go_on_until_blocks_agree_within_a_part_of_the_margin() -> None:
    """Whatever the change is, and whichever side it is for; without a margin all are taken."""
    table = [(0.002, 0.05, 2), (0.02, 0.05, 5), (0.012, 0.02, 9), (0.05, 0.05, 12), (0.0, 0.0, 12)]
    for spread, margin, doubles in table:
        for change in (0.0, 0.5, -0.5):
            changes = [change + spread * (-1) ** number for number in range(24)]
            enough = (one for one in range(1, 12) if PAIR_PLAN.is_enough(changes[: 2 * one], margin))
            assert doubles == next(enough, PAIR_PLAN.doubles)


def test_wide_margins_take_fewer_turns_as_a_rule() -> None:
    assert [2, 2, 4, 12] == [PAIR_PLAN.usual_doubles((1e-3, 1e-3), margin) for margin in (0.1, 0.05, 0.02, 0.0)]
    assert PAIR_PLAN.seconds((1e-3, 1e-3), margin=0.05) < PAIR_PLAN.seconds((1e-3, 1e-3), margin=0.02)
    assert PAIR_PLAN.seconds((1e-3, 1e-3)) == PAIR_PLAN.seconds((1e-3, 1e-3), margin=0.0)


def test_calls_of_a_schedule_have_turns_as_long_as_in_a_plan_of_its_own() -> None:
    assert BlockPlan().block(1e-3, pool=False)[0] == PAIR_PLAN.paced().block(1e-3, pool=False)[0]
    assert PAIR_PLAN.doubles_of((1.0, 1.0)) == PAIR_PLAN.paced().doubles_of((1.0, 1.0))


def test_percentiles_have_the_calls_that_they_need_in_fewer_turns_too() -> None:
    assert (43, 10) == BlockPlan().block(0.001, pool=True, needed=33)
    assert BlockPlan(doubles=2).seconds((1e-3, 1e-3), needed=2000) > 4.0


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


def test_sixty_tests_of_which_the_screen_was_cut_short_are_no_answer() -> None:
    """One of them takes three times as long."""
    evidence = build([2.0] + [0.0] * 59, Random(2))
    for pairs in [0, 1, 2]:
        complete = found(cut(evidence, pairs))
        assert not complete.regressed, pairs
        assert complete.is_empty, pairs
        assert "0 of 60 tests decided, 60 not: the time of 120 s was too short" == complete.shortfall, pairs


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


def test_the_time_needed_is_known_from_a_part_of_the_rehearsal() -> None:
    """A first pair of 6 s; one for measuring takes twice that, and 6 are screened and 20 confirmed, with a reserve."""
    table: list[tuple[int, int, float, float, float | None, float]] = [
        # one test of four done in 4 s and the next begun: 2 s each; one is expected to look slower: a quarter of 20
        (4, 1, 1.0, 0.0, 2.0, 1 + 10 + 1.25 * 20 * 11),
        (4, 1, 1.0, 40.0, 2.0, 1 + 40 + 10 + 1.25 * 20 * 11),  # what came before the pair counts once
        (1, 0, 0.0, 0.0, 2.0, 6 + 1.25 * 12 * 26),
        (1, 1, 0.0, 0.0, 2.0, 6 + 1.25 * 12 * 26),
        (1, 0, 1.0, 0.0, None, 1 + 6 + 1.25 * 12 * 26),  # 6 s may be the start alone, however many tests there are
        (4, 0, 1.0, 0.0, None, 1 + 6 + 1.25 * 12 * 11),
    ]
    for tests, done, checkout_s, earlier_s, start_s, needed_s in table:
        spent = {"checkout": checkout_s, "rehearsal": 6.0 + earlier_s}
        assert needed_s == seconds_needed_from_rehearsal(tests, done, 0.01, spent, 6.0, start_s)


def test_seconds_are_rounded_up_to_two_digits() -> None:
    shown = {0.2: 1, 9: 9, 99.2: 100, 101: 110, 1260: 1300, 1300: 1300}
    assert shown == {seconds: rounded_up(seconds) for seconds in shown}
