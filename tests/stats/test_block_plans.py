"""How finely a pair takes turns: never by which side is which."""

import pytest

from pytest_hwperf.stats.block_plans import BlockPlan
from pytest_hwperf.stats.timetable import PAIR_PLAN


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
