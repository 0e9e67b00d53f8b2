"""Simulated builds of fifty tests: false alarms within the stated rate, a planted slowdown found.

A small seeded version of the benchmark `builds`, whose full tables are in docs/statistics.md. Each rate is held against
the 99 % Clopper-Pearson interval of what was counted.
"""

from functools import partial
from typing import Any

import numpy as np
import pytest
from fakes.benchmarks import functions_of

from pytest_hwperf.stats.pairs.timetable import PAIR_PLAN

pytestmark = pytest.mark.simulation

FEW = 40
NOISES = (
    "normal, sd 1 %",
    "t with 2 df",
    "bursts in every tenth pair",
    "bimodal, +-2 %",
    "AR(1) drift, turns AB",
    "AR(1) drift, turns ABBA",
)


@pytest.fixture(scope="module")
def builds() -> dict[str, Any]:
    """The functions of the benchmark script."""
    return functions_of("gate.builds")


def test_every_noise_of_the_script_is_simulated_here(builds: dict[str, Any]) -> None:
    assert NOISES == tuple(builds["NOISES"])


@pytest.mark.parametrize("noise", NOISES)
def test_equal_code_alarms_no_more_often_than_stated(builds: dict[str, Any], noise: str) -> None:
    """At 5 % per build and a margin of 0, where every alarm of a test is possible."""
    alarms = builds["false_alarms"](builds["NOISES"][noise], FEW, change=0.0, margin=0.0, alpha=0.05)
    assert builds["interval"](alarms, FEW)[0] <= 0.05


def test_slowdowns_of_just_the_margin_alarm_no_more_often_than_stated(builds: dict[str, Any]) -> None:
    draw = builds["NOISES"]["normal, sd 1 %"]
    alarms = builds["false_alarms"](draw, FEW // 2, change=0.02, margin=0.02, alpha=0.05)
    assert builds["interval"](alarms, FEW // 2)[0] <= 0.05


def test_pairs_whose_turns_end_early_alarm_no_more_often_than_stated(builds: dict[str, Any]) -> None:
    """On the margin: what ends early depends on the spread of the blocks, and not on their centre."""
    draw = partial(builds["of_one_parent"], margin=0.02)
    alarms = builds["false_alarms"](draw, FEW // 2, change=0.02, margin=0.02, alpha=0.05)
    assert builds["interval"](alarms, FEW // 2)[0] <= 0.05


def test_the_simulated_turns_end_where_those_of_a_pair_do(builds: dict[str, Any]) -> None:
    """The script decides for whole arrays what `BlockPlan.is_enough` decides for one pair."""
    ratios = np.random.default_rng(4).normal(0.01, 0.025, (1, 200, 12))
    found = builds["ended_early"](ratios, 0.05)[0]
    ends = [[n for n in (4, 6, 8, 10) if PAIR_PLAN.is_enough(one[:n].tolist(), 0.05)] for one in ratios[0]]
    counts = [min(one, default=12) for one in ends]
    assert [np.median(one[:count]) for one, count in zip(ratios[0], counts, strict=True)] == pytest.approx(found)
    assert {4, 6, 8, 10, 12} == set(counts)


def test_groups_alarm_no_more_often_than_stated(builds: dict[str, Any]) -> None:
    """Ten groups of five at 5 % per build; none of its tests may alarm more often than without groups."""
    draw, haste = builds["NOISES"]["normal, sd 1 %"], builds["Haste"](group=5)
    alarms = builds["false_alarms"](draw, FEW // 8, change=0.0, margin=0.0, alpha=0.05, haste=haste)
    assert builds["interval"](alarms, FEW // 8)[0] <= 0.05


@pytest.mark.parametrize("workload", [0, 1])
def test_one_slow_test_of_fifty_is_found(builds: dict[str, Any], workload: int) -> None:
    """With recorded noise, +5 % of work, margin 2 % and 1 % per build; 400 values instead of 600 for all on twelve."""
    found, false, values = builds["planted"](workload, FEW)
    assert found >= 0.97 * FEW
    assert builds["interval"](false, FEW)[0] <= 0.01
    assert values / FEW < 50 * 12


def test_peeking_after_every_pair_is_seen_to_alarm_too_often(builds: dict[str, Any]) -> None:
    """What shows that the simulation can fail: 13 to 16 % at a nominal 5 %."""
    runs = 4000
    alarms = builds["peeking"](builds["NOISES"]["normal, sd 1 %"], runs)
    assert 0.13 <= alarms / runs <= 0.16


def test_fifty_tests_each_for_itself_are_seen_to_alarm_in_nearly_every_build(builds: dict[str, Any]) -> None:
    alarms = builds["each_for_itself"](builds["NOISES"]["normal, sd 1 %"], FEW)
    assert builds["interval"](alarms, FEW)[0] > 0.5


def test_build_of_slow_tests_only_is_red(builds: dict[str, Any]) -> None:
    """All of four at +10 %, without noise to speak of, in the fewest pairs there are."""
    values = np.full((4, builds["MOST"]), 0.1) + np.arange(builds["MOST"]) * 1e-6
    built = builds["build"](values, 0.02, 0.01)
    assert (frozenset(range(4)), 4 * (6 + 10)) == (built.regressed, built.values)


@pytest.mark.parametrize(("found", "of", "ends"), [(0, 100, (0.0, 0.0516)), (100, 100, (0.9484, 1.0))])
def test_interval_of_a_share(builds: dict[str, Any], found: int, of: int, ends: tuple[float, float]) -> None:
    """1 - 0.005^(1/100) = 0.0516."""
    assert ends == pytest.approx(builds["interval"](found, of), abs=5e-5)


def test_equal_code_in_four_shards_alarms_no_more_often_than_stated(builds: dict[str, Any]) -> None:
    """At 5 % over all shards and a margin of 0."""
    draw = builds["NOISES"]["normal, sd 1 %"]
    alarms = builds["shard_alarms"](draw, FEW, change=0.0, margin=0.0, alpha=0.05)
    assert builds["interval"](alarms, FEW)[0] <= 0.05


def test_a_slow_test_is_found_in_its_shard(builds: dict[str, Any]) -> None:
    found, false = builds["planted_in_shards"](0, FEW // 2)
    assert found >= 0.97 * FEW / 2
    assert builds["interval"](false, FEW // 2)[0] <= 0.01


@pytest.mark.parametrize(("change", "margin"), [(0.0, 0.0), (0.02, 0.02)])
def test_pairs_that_disturb_each_other_alarm_no_more_often_than_stated(
    builds: dict[str, Any], change: float, margin: float
) -> None:
    """Two side by side at 5 % per build, equal code and on the margin."""
    few = FEW // 2
    alarms = builds["false_alarms"](builds["beside"], few, change=change, margin=margin, alpha=0.05)
    assert builds["interval"](alarms, few)[0] <= 0.05
