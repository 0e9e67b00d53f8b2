"""Limit and margin on the spread of the times of calls: from their lower to their upper quartile."""

import json

import pytest

QUICK = ("-p", "fakes.simulated_time", "--hwperf-energy=off", "--hwperf-report=report.json")
TEST = """
import itertools
import pytest
from fakes.simulated_time import spend

@pytest.mark.hwbudget(latency_iqr_ms={limit})
@pytest.mark.hwregression(latency_iqr="10%")
def test_it(hwperf):
    times = itertools.cycle([5, 5, 10, 10])
    hwperf(lambda: spend(next(times)))
"""


def test_the_spread_of_short_calls_has_a_limit_and_a_margin(pytester: pytest.Pytester) -> None:
    """Half of the calls take 5 µs and half 10 µs: a mean of several calls would hide that."""
    pytester.makepyfile(test_it=TEST.format(limit=0.006))
    kept = pytester.runpytest_inprocess(*QUICK, "--hwperf-save")
    pytester.makepyfile(test_it=TEST.format(limit=0.004))
    missed = pytester.runpytest_inprocess(*QUICK, "--hwperf-compare")
    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]
    (judgement,) = report["judgements"]

    missed.assert_outcomes(failed=1)
    missed.stdout.fnmatch_lines(["latency iqr [45].[09]* µs (*), limit 4 µs; * calls, perf_counter"])
    kept.assert_outcomes(passed=1)
    asked = [one["subject"] for one in judgement["verdicts"] if one["subject"]["statistic"] == "iqr"]
    assert ["Budget", "Comparison"] == [one["type"] for one in asked]
    assert 0.1 == asked[1]["margin"]
