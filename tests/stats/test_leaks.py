"""Growth per call: known slopes, and the rule for a leak on series whose answer is known."""

from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.stats.figures.leaks import FEWEST_CALLS, growth, is_leak, least, slope

PAGE = 4096
KB = 1000
CALLS = 60

whole_pages = st.lists(st.integers(0, 40).map(lambda pages: float(pages * PAGE)), min_size=FEWEST_CALLS, max_size=30)

# kB above the first reading, after each of 60 calls, as real processes gave them: exact readings, allocator pinned.
RECORDED_LEAK = [0.0, *(float(104 + 100 * call + 4 * (call > 28)) for call in range(59))]  # 100 kB blocks, all kept
RECORDED_LEVEL = {
    "numpy svd, two threads": [0.0] * 50 + [4.0] * 10,
    "onnxruntime, allocator not pinned": [0.0] * 9 + [12.0] * 51,
    "a dictionary of strings": [0.0] + [4.0] * 59,
    "cycles, collected before each reading": [0.0] + [4.0] * 28 + [8.0] * 31,
}


def leaks(*processes: Sequence[float]) -> bool:
    return is_leak([growth(readings) for readings in processes], PAGE)


def test_the_slope_is_the_median_of_all_pairs() -> None:
    """Ten pairs: -.15 -.13 -.08 -.07 -.0575 -.055 -.045 -.0333 .01 .04."""
    assert -0.05625 == pytest.approx(slope([1.26, 1.27, 1.12, 1.16, 1.03]).value)


@given(whole_pages)
def test_the_interval_is_that_of_sen_rounded_outwards(readings: list[float]) -> None:
    """SciPy rounds the ranks to the nearest: ours are at most one rank further out, and never further in."""
    expected = stats.theilslopes(readings, alpha=0.90)
    found = slope(readings)
    assert found.value == pytest.approx(expected.slope)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= expected.low_slope + 1e-6
    assert found.high >= expected.high_slope - 1e-6


def test_ranks_of_the_bounds_without_ties() -> None:
    """Of ten values: Kendall's variance is 125, open ranks are 1.645 x 11.18 = 18.39, and (45 - 18.39) / 2 = 13.3."""
    readings = [float(call * call) for call in range(10)]
    slopes = sorted(float(i + j) for i in range(10) for j in range(i + 1, 10))
    found = slope(readings)
    assert (slopes[12], slopes[-13]) == (found.low, found.high)


def test_ties_bring_the_bounds_closer() -> None:
    """Five of six tie: Kendall's variance is (510 - 5 x 4 x 15) / 18 = 11.67, and (15 - 1.645 x 3.416) / 2 = 4.69.

    The slopes are 0 ten times, 1/5, 1/4, 1/3, 1/2 and 1. The bounds are the fourth from either end.
    """
    found = slope([0.0] * 5 + [1.0])
    assert (0.0, 0.0, 1 / 4) == (found.value, found.low, found.high)


def test_too_few_readings_have_no_bounds() -> None:
    """Of four: (6 - 1.645 x 2.94) / 2 = 0.58."""
    found = slope([0.0, 1.0, 2.0, 3.0])
    assert (1.0, None, None) == (found.value, found.low, found.high)


def test_fewer_calls_than_ten_are_refused() -> None:
    with pytest.raises(MeasurementError, match="growth per call takes 10 calls, there were 9"):
        growth([0.0] * 9)


def test_growth_that_ends_lasts_less_than_its_slope() -> None:
    """Half of the calls take a page each and the others none: nothing of it lasts."""
    found = growth([float(min(call, 30) * PAGE) for call in range(CALLS)])
    assert 0.0 == found.lasting < found.whole.value


def test_a_planted_leak_is_found_in_many_calls_and_in_few() -> None:
    recorded = [kb * 1024 for kb in RECORDED_LEAK]
    below = [100.0 * KB * call + float(KB * KB * (call % 5)) for call in range(CALLS)]  # a buffer comes and goes
    assert [True] * 3 == [leaks(one, one, one) for one in (recorded, recorded[:10], below)]
    assert 100 * 1024 == growth(recorded).lasting


def test_recorded_processes_without_a_leak_have_none() -> None:
    for kind, readings in RECORDED_LEVEL.items():
        recorded = [kb * 1024 for kb in readings]
        assert not leaks(recorded, recorded, recorded), kind
        assert 0.0 == growth(recorded).lasting, kind


def test_every_process_has_to_grow() -> None:
    growing = [100.0 * KB * call for call in range(CALLS)]
    assert not leaks(growing, growing, [0.0] * CALLS)
    assert not is_leak([], PAGE)


def test_what_ends_or_is_given_back_within_half_of_the_calls_is_no_leak() -> None:
    """A megabyte at once, as an arena takes it; a cache that fills; a buffer that is emptied every so many calls."""
    halfway = CALLS // 2
    steps = {at: [2**20 * (call >= at) for call in range(CALLS)] for at in (1, 2, 15, halfway, halfway + 1, 45, 58, 59)}
    caches = {full: [KB * KB * min(call, full) for call in range(CALLS)] for full in (1, 5, 15, halfway)}
    saws = {period: [KB * KB * (call % period) for call in range(CALLS)] for period in (2, 5, 10, 15, 20, 29, halfway)}
    kinds = {"step": steps, "cache": caches, "saw": saws}
    assert [] == [
        (kind, at) for kind, of in kinds.items() for at, series in of.items() if leaks(series, series, series)
    ]


def test_growth_of_a_page_per_call_is_no_leak_and_of_two_is_one() -> None:
    found = [leaks(*[[float(pages * PAGE * call) for call in range(CALLS)]] * 3) for pages in (1, 2)]
    assert [False, True] == found


def wandering(coin: Random, step: int) -> list[float]:
    """A random walk: after each call one step up, one down, or none."""
    held, found = 0, []
    for _ in range(CALLS):
        held += coin.choice((-step, 0, step))
        found.append(float(held))
    return found


def stepping(coin: Random, step: int) -> list[float]:
    """Steps up with one call in twenty."""
    held, found = 0, []
    for _ in range(CALLS):
        held += step * (coin.random() < 0.05)
        found.append(float(held))
    return found


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("kind", "step"), [(wandering, PAGE), (wandering, 2**17), (stepping, 2**17), (stepping, 2**20)]
)
def test_false_alarms_on_staircases_are_rare(kind: Callable[[Random, int], list[float]], step: int) -> None:
    """Errors that hang together, for which no interval was made: at most 1 % of 400 simulated measurements."""
    coin = Random(20)
    alarms = sum(leaks(*(kind(coin, step) for _ in range(3))) for _ in range(400))
    assert alarms <= 4


@pytest.mark.simulation
def test_one_slope_alone_would_call_a_random_walk_a_leak() -> None:
    """What the rule is for: the lower bound of one process lies above the floor in more than one walk of ten."""
    coin = Random(20)
    alone = [growth(wandering(coin, 2**17)).whole.low for _ in range(400)]
    assert sum(low is not None and low > PAGE for low in alone) > 40


def test_readings_that_lag_raise_the_floor() -> None:
    """256 KiB either way over the 30 calls of the second half of 60."""
    assert least(PAGE, 0, CALLS) == PAGE
    assert least(PAGE, 2**18, CALLS) == PAGE + 2 * 2**18 / 30


def test_a_single_low_reading_hides_no_steady_leak_from_a_budget() -> None:
    """A trim, or pages that were reclaimed for a moment."""
    readings = [float(KB * KB * call) for call in range(CALLS)]
    readings[45] -= 60 * KB * KB
    assert 0.9 * KB * KB <= growth(readings).lasting


def test_steps_among_ten_readings_are_seen_by_the_mean() -> None:
    """The half is too short for its bound: no leak is called, and no budget may pass on the lasting growth."""
    for every in [2, 3, 4]:
        readings = [float(KB * KB * every * (call // every)) for call in range(10)]
        assert not leaks(readings), every
        assert 0.6 * KB * KB <= growth(readings).mean, every


def test_ten_readings_of_noise_are_no_leak() -> None:
    for seed in range(20):
        random = Random(seed)
        assert not leaks(*([float(PAGE * random.randint(0, 20)) for _ in range(10)] for _ in range(3))), seed
