"""Change points: what is found in series of known answers, and how rarely in series without a change."""

import math
from random import Random

import pytest
from scipy import stats

from pytest_hwperf.stats.stored.change_points import FEWEST, LevelChange, change_points


def noise(count: int, *, rho: float = 0.0, seed: int = 1) -> list[float]:
    random, values = Random(seed), [0.0]
    while len(values) <= count + 50:
        values.append(rho * values[-1] + random.gauss(0, 1))
    return values[-count:]


def stepped(levels: list[tuple[int, float]], seed: int = 1) -> list[float]:
    """Noise of one standard deviation on levels that hold for so many values each."""
    levels_of = [level for count, level in levels for _ in range(count)]
    return [level + value for level, value in zip(levels_of, noise(len(levels_of), seed=seed), strict=True)]


def only(found: tuple[LevelChange, ...]) -> LevelChange:
    (one,) = found
    return one


def test_a_step_is_found_where_it_is() -> None:
    found = only(change_points(stepped([(30, 0.0), (30, 5.0)])))
    assert found.earliest <= found.place <= found.latest
    assert abs(found.place - 30) <= 1
    assert found.latest - found.earliest <= 4
    assert found.shift.low is not None
    assert found.shift.high is not None
    assert found.shift.low < 5.0 < found.shift.high
    assert found.shift.n == 60
    assert found.p_value == 1 / 2000


def test_places_that_are_nearly_as_likely_are_named() -> None:
    """The expected places come from residual sums of squares of the normal scores; 7.352 is -2 log(1 - sqrt(0.95))."""
    for seed in (5, 12):
        values = stepped([(12, 0.0), (12, 2.5)], seed=seed)
        scores, found = stats.norm.ppf(stats.rankdata(values) / 25), only(change_points(values))
        parts = {place: (scores[:place], scores[place:]) for place in range(3, 22)}
        left = {place: sum(len(one) * one.var() for one in both) for place, both in parts.items()}
        weight = 22 * (1 - found.autocorrelation) / (1 + found.autocorrelation)
        least = min(left.values())
        near = [place for place, squares in left.items() if weight * math.log(squares / least) <= 7.352]
        assert (near[0], near[-1]) == (found.earliest, found.latest)


def test_two_steps_are_found_in_the_order_of_time() -> None:
    found = change_points(stepped([(40, 0.0), (40, 6.0), (40, -2.0)]))
    assert [40, 80] == pytest.approx([one.place for one in found], abs=1)
    assert [6.0, -8.0] == pytest.approx([one.shift.value for one in found], abs=1.0)


def test_a_change_between_others_is_placed_without_them() -> None:
    """In the whole series the levels around look like dependent values, and the place of each change less sure."""
    first, last = change_points(stepped([(25, 0.0), (35, 6.0), (30, 2.0)]))
    assert (first.latest - first.earliest, last.latest - last.earliest) <= (4, 6)
    assert first.autocorrelation <= 0.4


def test_a_change_next_to_others_has_the_values_between_them() -> None:
    found = change_points(stepped([(40, 0.0), (5, 100.0), (5, 200.0), (40, 300.0)]), 0.2)
    assert [40, 45, 50] == pytest.approx([one.place for one in found], abs=1)
    assert found[1].shift.n in {10, 11}
    assert found[1].shift.value == pytest.approx(100, abs=4)


def test_a_step_near_the_end_or_without_noise_is_found() -> None:
    """As a file that has grown; values are ties."""
    found = only(change_points([10.0] * 20 + [11.0] * 20))
    assert abs(only(change_points(stepped([(60, 0.0), (6, 6.0)]))).place - 60) <= 1
    assert (20, 20, 20, 1.0) == (found.place, found.earliest, found.latest, found.shift.value)


def test_a_burst_is_no_change_and_of_few_or_constant_values_nothing_is_said() -> None:
    burst = noise(60)
    burst[20:23] = [50.0, 60.0, 40.0]
    assert [()] * 4 == [change_points(of) for of in (burst, [], [1.0] * 50, [0.0, 9.0] * (FEWEST // 2 - 1))]


def test_drifting_noise_is_no_change() -> None:
    """Of values that correlate by .8 a test for independent ones would call most series changed."""
    found = [bool(change_points(noise(60, rho=0.8, seed=seed))) for seed in range(60)]
    assert sum(found) <= 4


def test_independent_noise_is_hardly_ever_a_change() -> None:
    assert sum(bool(change_points(noise(50, seed=seed))) for seed in range(100)) <= 3


def test_autocorrelation_is_allowed_for() -> None:
    """Of thousands of values the newest thousand count, and places are those of the whole series."""
    values = [value + 9 * (place >= 1500) for place, value in enumerate(noise(2000, rho=0.6))]
    found = only(change_points(values))
    assert 0.55 <= found.autocorrelation <= 0.75
    assert abs(found.place - 1500) <= 2
    assert found.shift.n == 1000
    assert "autocorrelation 0." in found.shift.method


def test_the_answer_is_the_same_again() -> None:
    values = stepped([(20, 0.0), (20, 1.2)])
    assert change_points(values, 0.2) == change_points(values, 0.2)
