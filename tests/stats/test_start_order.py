"""Simulated builds in which nothing differs but which side comes first: no more of them fail than stated.

A coin decides that in each measurement of a pair. Whatever a value makes of it, the sides are exchangeable; and what
is lost or dropped on the way may depend on all that was seen. Rates are held against the 99 % Clopper-Pearson interval
of the count.
"""

from array import array
from collections.abc import Callable, Sequence
from random import Random

import pytest
from fakes import gates

from pytest_hwperf.records.evidence import Evidence, FixedSample, Hypothesis, Pair, Stage
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.figures.exact import share_interval
from pytest_hwperf.stats.pairs.sequence import decide, next_step

pytestmark = pytest.mark.simulation

ALPHA = 0.05
BUILDS = 500
ROUND = (0.0, 3.0)  # of the side that comes first, and of the other

Draw = Callable[[Random, bool], tuple[float, float]]  # whether the baseline comes first → its value, the candidate's


def recorded(number: int, metric: str = "steps") -> Hypothesis:
    return gates.asked(metric, test=f"t_{number}")


def by_order(_: Random, first: bool) -> tuple[float, float]:
    return (1.0, 2.0) if first else (2.0, 1.0)


def by_order_from_zero(_: Random, first: bool) -> tuple[float, float]:
    return ROUND if first else (ROUND[1], ROUND[0])


def by_noise(random: Random, _: bool) -> tuple[float, float]:
    return random.lognormvariate(0, 0.05), random.lognormvariate(0, 0.05)


def pair_of(asked: Sequence[Hypothesis], number: int, stage: Stage, random: Random, draw: Draw) -> Pair:
    drawn = [(one, draw(random, random.random() < 0.5)) for one in asked]  # each measurement has a coin of its own
    return gates.pair(stage, [gates.observed(one, [then], [now]) for one, (then, now) in drawn], number)


def build(
    random: Random,
    hypotheses: Sequence[Hypothesis],
    draw: Draw,
    *,
    screen: Sequence[Pair] = (),
    losing: bool = False,
) -> Evidence:
    """Run a build, look by look; where it is losing, half of what the first look leaves gives no value any more."""
    evidence = Evidence(alpha=ALPHA, hypotheses=tuple(hypotheses), pairs=tuple(screen))
    while (step := next_step(evidence)).stage is not None:
        asked = [one for one in hypotheses if one.measurement in step.measurements]
        first = len(evidence.pairs) + 1
        more = [pair_of(asked, first + n, step.stage, random, draw) for n in range(step.pairs)]
        evidence = replace(evidence, pairs=(*evidence.pairs, *more))
        if losing and step.stage == "confirm" and not evidence.dropped:
            evidence = replace(evidence, dropped=next_step(evidence).hypotheses[::2])
    return evidence


def fails(evidence: Evidence) -> bool:
    return any(comparison.outcome == "regressed" for comparison in decide(evidence).values())


def rate(alarms: int) -> float:
    """Return the lower end of the interval of the rate."""
    return share_interval(alarms, BUILDS, 0.99)[0]


@pytest.mark.parametrize("draw", [by_order, by_order_from_zero, by_noise])
@pytest.mark.parametrize("count", [1, 16])
def test_builds_of_recorded_values_keep_the_rate(draw: Draw, count: int) -> None:
    random = Random(7)
    alarms = sum(fails(build(random, [recorded(n) for n in range(count)], draw)) for _ in range(BUILDS))
    assert rate(alarms) <= ALPHA


def test_six_equal_pairs_alone_are_seen_to_say_nothing() -> None:
    """What shows that the simulation can fail: one coin in 64 falls so, for each of 16 metrics of a build."""
    random, alarms = Random(7), 0
    for _ in range(BUILDS):
        coins = [[random.random() < 0.5 for _ in range(6)] for _ in range(16)]
        alarms += any(map(all, coins))
    assert rate(alarms) > 0.1


@pytest.mark.parametrize("draw", [by_order, by_noise])
def test_confirmation_alone_keeps_the_rate_whatever_was_screened(draw: Draw) -> None:
    """Every screen leaves the question open here; of the fresh pairs only chance is left."""
    random, asked, alarms = Random(7), [recorded(n) for n in range(3)], 0
    screen = tuple(pair_of(asked, n, "screen", random, lambda *_: (1.0, 2.0)) for n in range(1, 7))
    for _ in range(BUILDS):
        alarms += fails(build(random, asked, draw, screen=screen))
    assert rate(alarms) <= ALPHA


def test_values_that_are_lost_raise_no_alarm() -> None:
    """Latencies of three tests that the screen leaves open; what the first look leaves open loses every other test."""
    random, asked = Random(7), [recorded(n, "latency") for n in range(3)]
    screen = tuple(pair_of(asked, n, "screen", random, lambda *_: (1.0, 1.1)) for n in range(1, 7))
    builds = [build(random, asked, by_noise, screen=screen, losing=True) for _ in range(BUILDS)]
    assert BUILDS / 2 < sum(bool(evidence.dropped) for evidence in builds)
    assert rate(sum(map(fails, builds))) <= ALPHA


def test_processes_that_follow_the_coin_keep_the_rate() -> None:
    """Memory of three tests, of as many processes as an alarm among three takes at 5 %."""
    random, alarms = Random(7), 0
    for _ in range(BUILDS):
        samples = []
        for number in range(3):
            drawn = [by_order(random, random.random() < 0.5) for _ in range(6)]
            baseline, candidate = (array("d", (1e7 * pair[side] for pair in drawn)) for side in (0, 1))
            samples.append(
                FixedSample(
                    hypothesis=recorded(number, "memory"), per="fresh process", baseline=baseline, candidate=candidate
                )
            )
        alarms += fails(Evidence(alpha=ALPHA, hypotheses=(), pairs=(), fixed_samples=tuple(samples)))
    assert rate(alarms) <= ALPHA
