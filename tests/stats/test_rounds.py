"""Figures over rounds: what drifts between rounds is part of the interval."""

from array import array
from typing import Any

import pytest

from pytest_hwperf.records.run import Figure
from pytest_hwperf.stats.sweeps import Round, figures_of, over_rounds


def round_of(*latency_s: float, **others: Any) -> Round:
    return Round(latency_s=array("d", latency_s), calls=len(latency_s), wall_s=sum(latency_s), **others)


def found(rounds: list[Round], *statistics: str) -> dict[tuple[str, str], Figure]:
    return {figure.key: figure for figure in figures_of(rounds, statistics)}


def test_the_range_of_six_rounds_holds_the_median_with_97_percent() -> None:
    """1 - 2 / 2^6 = 0.969."""
    seen = over_rounds([1.0, 2.0, 3.0, 4.0, 5.0, 9.0])
    assert (3.5, 1.0, 9.0, 6) == (seen.value, seen.low, seen.high, seen.n)
    assert 0.96875 == seen.confidence


def test_one_round_has_no_interval() -> None:
    assert (None, None) == (over_rounds([2.0]).low, over_rounds([2.0]).high)


def test_medians_and_rates_have_one_value_a_round() -> None:
    """Medians 2 and 6 s; 3 calls of 8 rows in 6 s, and in 18 s."""
    figures = found([round_of(1.0, 2.0, 3.0, rows=8), round_of(5.0, 6.0, 7.0, rows=8)], "p50")
    assert {("latency", "p50"), ("throughput", "mean"), ("sample_throughput", "mean")} == figures.keys()
    assert (4.0, 2.0, 6.0) == ((p50 := figures["latency", "p50"].estimate).value, p50.low, p50.high)
    assert (1 / 6, 1 / 2) == (
        (rate := figures["throughput", "mean"].estimate).low,
        rate.high,
    )
    assert 4.0 == figures["sample_throughput", "mean"].estimate.high


def test_a_tail_is_of_all_calls() -> None:
    """The 190th of 200 calls."""
    p95 = found([round_of(*range(1, 101)), round_of(*range(101, 201))], "p95")["latency", "p95"]
    assert (190.0, 200, "call") == (p95.estimate.value, p95.estimate.n, p95.per)


@pytest.mark.parametrize(("rows", "expected"), [(4, 0.25), (0, 1.0)])
def test_energy_is_that_of_a_row_and_without_rows_that_of_a_call(rows: int, expected: float) -> None:
    one = round_of(1.0, 1.0, rows=rows, joules=2.0, energy_source="estimate:cpu-time", energy_estimated=True)
    energy = found([one, one])["energy", "mean"]
    assert (expected, "estimate:cpu-time", True) == (energy.estimate.value, energy.source, energy.estimated)


def test_energy_that_a_round_lacks_is_left_out() -> None:
    assert ("energy", "mean") not in found([round_of(1.0, joules=2.0), round_of(1.0)])


def test_nothing_measured_has_no_figures() -> None:
    assert () == figures_of([], ["p95"])
