"""Suites that do not fit into their time: a few builds of the benchmark `suite_size`, with a clock that is reckoned."""

from typing import Any

import numpy as np
import pytest
from fakes.benchmarks import functions_of

pytestmark = pytest.mark.simulation


@pytest.fixture
def script() -> dict[str, Any]:
    """The functions of the benchmark script."""
    return functions_of("gate.suite_size")


@pytest.mark.parametrize(
    ("tests", "change", "time_s", "groups"),
    [(60, 2.0, 120, 3), (20, 0.3, 600, 1), (60, 2.0, 90, 2)],
    ids=["in groups", "whole", "short"],
)
def test_a_slower_test_that_is_reached_is_found(
    script: dict[str, Any], tests: int, change: float, time_s: float, groups: int
) -> None:
    """Sixty tests of 1 ms in 120 s, of which one took three times as long, used to end without a verdict."""
    suite = script["Suite"](title="", tests=tests, call_s=1e-3, change=change, time_s=time_s)
    for seed in range(3):
        build = script["Build"](suite=suite, rng=np.random.default_rng(seed), slow=2)
        assert {2} == build.run()
        assert build.clock_s <= time_s
        assert groups <= len(build.evidence.groups)
