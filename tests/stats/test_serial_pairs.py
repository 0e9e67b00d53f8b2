"""Simulated builds of a test that one side at a time runs: no more false alarms than stated, less lost to drift.

A small version of the benchmark `serial_pairs`, whose table is in docs/statistics.md.
"""

from typing import Any

import pytest
from fakes.benchmarks import functions_of

pytestmark = pytest.mark.simulation


@pytest.fixture(scope="module")
def simulated() -> dict[str, Any]:
    """The functions of the benchmark script."""
    return functions_of("gate.serial_pairs")


@pytest.mark.parametrize("change", [0.0, 0.02])
def test_what_is_no_worse_than_the_margin_hardly_ever_alarms(simulated: dict[str, Any], change: float) -> None:
    """The rate of 1 % gives 2 of 200 on average."""
    assert simulated["builds"](200, change, 0.01, 0.01)["regressed"] <= 6


def test_a_slowdown_beyond_the_spread_is_found(simulated: dict[str, Any]) -> None:
    assert 50 == simulated["builds"](50, 0.1, 0.01, 0.01)["regressed"]


def test_two_processes_a_side_tell_more_than_one_where_the_machine_drifts(simulated: dict[str, Any]) -> None:
    four, two = (simulated["builds"](200, 0.0, 0.01, 0.01, simulated[order]) for order in ("ABBA", "AB"))
    assert four["equivalent"] > 1.5 * two["equivalent"]
