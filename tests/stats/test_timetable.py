"""How long tests take, how they are screened in the time that is left, and how many are compared next."""

from dataclasses import replace

import pytest

from pytest_hwperf.stats.timetable import (
    COARSE,
    FINE,
    PAIR_PLAN,
    BlockPlan,
    CallTimes,
    TestTime,
    Timetable,
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


@pytest.mark.parametrize(("count", "screening"), [(10, FINE), (60, COARSE), (2000, COARSE)])
def test_the_screen_gets_coarser_where_the_time_is_short(count: int, screening: int) -> None:
    assert screening == table(count).screening(600.0)


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
    assert 0 < found.shortened(found.tests, 0.5 * half_s, FINE, seen) < 20
    assert 1 == found.shortened(found.tests, 0.1, FINE, seen), "one is tried in any case"


def test_what_was_screened_before_takes_no_time_again() -> None:
    found = table(10)
    seen = {one.test: 6 for one in found.tests[:5]}
    assert found.screen_s(found.tests[5:], FINE) == pytest.approx(found.screen_s(found.tests, FINE, seen))


def test_a_slower_pace_makes_groups_smaller() -> None:
    assert table(2000, pace=2.0).next_group(0, 600.0, COARSE) < table(2000).next_group(0, 600.0, COARSE)


def test_the_first_test_is_tried_whatever_it_takes_and_no_later_one() -> None:
    assert 1 == table(5, call_s=60.0).next_group(0, 10.0, COARSE)
    assert 0 == table(5, call_s=60.0).next_group(1, 10.0, COARSE)


def test_the_last_test_is_compared_where_it_fits_into_all_that_is_left() -> None:
    found = table(3)
    needed_s = found.needed_s(found.tests[:1], FINE)
    assert 1 == found.next_group(1, 1.1 * needed_s, FINE)
    assert 0 == found.next_group(1, 0.9 * needed_s, FINE)


def test_a_test_that_one_side_at_a_time_runs_warms_up_in_four_processes() -> None:
    """Beside six double blocks: one call and three blocks in each of them. Their starts are counted once for all."""
    (test,) = table(1).tests
    serial = replace(test, is_serial=True)
    mixed = replace(table(0), serial_start_s=3.0, tests=(test, serial))

    plan = serial_plan(PAIR_PLAN)
    warm_s, uncounted_s = 0.001 + 2 * 0.003 + 3 * 0.002, 0.5 * 0.011
    assert test.pair_s(plan) + 2 * (warm_s - uncounted_s) == pytest.approx(serial.pair_s(PAIR_PLAN))
    of = {"shared": [test], "serial": [serial, serial], "both": [test, serial]}
    starts_s = {
        name: mixed.screen_s(tests, FINE) / 6 - sum(one.pair_s(plan) for one in tests) for name, tests in of.items()
    }
    assert {"shared": 0.5, "serial": 3.0, "both": 3.5} == pytest.approx(starts_s)


@pytest.mark.parametrize(
    ("call_s", "block"),
    [(25e-6, (240, 24)), (1e-3, (10, 3)), (0.01, (6, 3)), (0.05, (2, 0)), (1.0, (1, 0))],
)
def test_slow_calls_have_fewer_calls_a_turn(call_s: float, block: tuple[int, int]) -> None:
    assert block == PAIR_PLAN.block(call_s, pool=False)


@pytest.mark.parametrize(
    ("calls_s", "doubles"),
    [((1e-3, 1e-3), 12), ((0.05, 0.05), 12), ((0.5, 0.5), 6), ((1.0, 1.0), 3), ((0.05, 0.5), 1), ((9.0, 9.0), 1)],
)
def test_slow_calls_have_fewer_turns(calls_s: tuple[float, float], doubles: int) -> None:
    """One second of turns where the sides are far apart, twelve elsewhere, and one double block at least."""
    assert doubles == PAIR_PLAN.doubles_of(calls_s) == PAIR_PLAN.doubles_of(calls_s[::-1])


@pytest.mark.parametrize(
    ("spread", "margin", "doubles"),
    [(0.002, 0.05, 2), (0.02, 0.05, 5), (0.012, 0.02, 9), (0.05, 0.05, 12), (0.0, 0.0, 12)],
)
def test_turns_go_on_until_blocks_agree_within_a_part_of_the_margin(spread: float, margin: float, doubles: int) -> None:
    """Whatever the change is, and whichever side it is for; without a margin all are taken."""
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
