"""The statistics of pytest-benchmark's names: known answers by its definitions."""

import pytest

from pytest_hwperf.stats.sweeps import Stats


@pytest.mark.parametrize(
    ("data", "q1", "q3"),
    [
        ([5.0], 5.0, 5.0),
        ([1.0, 2.0], 1.0, 2.0),
        ([6, 7, 15, 36, 39, 40, 41, 42, 43, 47, 49], 20.25, 42.75),  # the example of Wikipedia, third method: 4 n + 3
        ([7, 15, 36, 39, 40, 41], 15, 40),  # the same, second method
        ([1, 2, 6], 1.25, 5),  # 3/4 of the first value and a quarter of the second
        ([1, 2, 3, 4, 5], 1.75, 4.25),  # 4 n + 1: a quarter of the first value and three of the second
    ],
)
def test_quartiles(data: list[float], q1: float, q3: float) -> None:
    assert (q1, q3) == (Stats(data).q1, Stats(data).q3)


def test_every_statistic_of_ten_times() -> None:
    """1 … 9 and 100: mean 14.5; halves 1 … 5 and 6 … 100, so that the fences are at -4.5 and 15.5."""
    found = Stats([100.0, *map(float, range(1, 10))])
    assert (1, 100, 145, 14.5, 5.5, 10) == (found.min, found.max, found.total, found.mean, found.median, found.rounds)
    assert 30.1524 == pytest.approx(found.stddev, abs=1e-4)
    assert (3, 8, 5, 1, 9) == (found.q1, found.q3, found.iqr, found.ld15iqr, found.hd15iqr)
    assert "1;1" == found.outliers
    assert 10 / 145 == found.ops
    assert 0.0 == Stats([0.0]).ops


def test_one_time_has_no_spread() -> None:
    found = Stats([2.0])
    assert (2, 2, 0, 0, "0;0", 0.5) == (found.min, found.hd15iqr, found.stddev, found.iqr, found.outliers, found.ops)
