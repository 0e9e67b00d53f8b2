"""Statistics of one run: known answers, what too few values cannot say, and when sampling may stop."""

import math
from array import array
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from fakes.records import run
from fakes.records import sample as sample_of
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_hwperf.cli.foreign import mean_of_rounds
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.metrics import METRICS, STATISTICS, Better
from pytest_hwperf.records.run import Estimate, Sample, replace
from pytest_hwperf.records.verdict import Budget
from pytest_hwperf.stats.figures.estimates import (
    STOPPING_CONFIDENCE,
    clear_of,
    enough,
    estimate,
    figures,
    needed_for_bound,
)

VALUES = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=80)
SPREAD_AND_QUARTILES = [("iqr", 0.9), ("p25", 0.95), ("p75", 0.95)]


def calls(values: Iterable[float]) -> Sample:
    return sample_of("latency", values)


def one_to(n: int) -> Sample:
    """A shuffled 1..n, so that a value is its own rank."""
    return calls(np.random.default_rng(n).permutation(np.arange(1.0, n + 1)))


def windows(values: Iterable[float], metric: str = "cpu_time") -> Sample:
    return sample_of(metric, values, per="window")


def processes(values: Iterable[float]) -> Sample:
    return sample_of("memory", values, per="fresh process")


def examples(ones: int, n: int) -> Sample:
    return sample_of("accuracy", [1.0] * ones + [0.0] * (n - ones), per="example")


def numbers(found: Estimate) -> tuple[float, float | None, float | None]:
    return found.value, found.low, found.high


def test_percentile_is_the_nearest_rank() -> None:
    """The value is x[ceil(qn)], and that rank is found in whole numbers."""
    table = [
        ("p50", 4, 2),
        ("p50", 5, 3),
        ("p90", 10, 9),
        ("p95", 20, 19),
        ("p99", 300, 297),
        ("p99_9", 3000, 2997),
        ("p7", 100, 7),  # .07 * 100 is 7.000000000000001 in floating point: rank 8
        ("p55", 100, 55),  # .55 * 100 likewise
    ]
    for statistic, n, rank in table:
        found = estimate(one_to(n), statistic)
        assert rank == found.value
        assert "nearest rank, order-statistic interval, this process only" == found.method, (statistic, n, rank)
        assert n == found.n


def weighted(metric: str, values: Iterable[float], weights: Iterable[float]) -> Sample:
    return replace(windows(values, metric), weights=array("d", weights))


ROWS = sample_of("probability_diff", [0.5, 0.25, 0.0], per="example")  # differences, and no shares


def test_known_answers() -> None:
    table: list[tuple[Sample, str, tuple[float, float | None, float | None], str]] = [
        # of 100 calls the 42nd and the 59th hold the median with 90 %: Binom(100, .5) has ppf(.05) = 42, ppf(.95) = 58
        (one_to(100), "p50", (50.0, 42.0, 59.0), "nearest rank, order-statistic interval, this process only"),
        # 0.1 + 0.1 + 0.1 is not 0.3: equal readings are reported without rounding
        (windows([0.1] * 3), "mean", (0.1, 0.1, 0.1), "mean, t interval, this process only"),
        (weighted("throughput", [4.0], [3]), "mean", (4.0, None, None), "completed / wall, inverted t interval"),
        (ROWS, "max", (0.5, 0.5, 0.5), "observed maximum, no claim beyond this run"),
        (ROWS, "mean", (0.25, 0.25, 0.25), "mean of these rows, no claim beyond them"),
        (one_to(30), "max", (30.0, 30.0, 30.0), "observed maximum, no claim beyond this run"),
        # the median of n processes lies outside their range only if all fall on one side: 2 * 2^-4 for four
        (processes([5.0, 1.0, 2.0, 3.0]), "p50", (2.5, 1.0, 5.0), "median and range of 4 fresh processes"),
        (sample_of("model_size", [812.0], per="model"), "p50", (812.0, 812.0, 812.0), "deterministic value"),
        # the first call, or a number of the user's own, comes alone by nature: that is worth no warning
        (sample_of("first_call", [3.0]), "p50", (3.0, None, None), "single reading, no interval"),
        (sample_of("bleu", [3.0]), "p50", (3.0, None, None), "single reading, no interval"),
    ]
    for sample, statistic, expected, method in table:
        found = estimate(sample, statistic)
        assert expected == numbers(found)
        assert found.method.startswith(method)
        assert found.confidence == (0.875 if "fresh" in method else 0.90)
        assert bool(found.warnings) == bool(sample.weights)  # that of a single window


@given(n=st.integers(1, 400), q=st.sampled_from([0.07, 0.5, 0.9, 0.95, 0.99]), confidence=st.sampled_from([0.9, 0.99]))
def test_interval_ranks_are_those_of_the_binomial(n: int, q: float, confidence: float) -> None:
    tail = (1 - confidence) / 2
    low, high = int(stats.binom.ppf(tail, n, q)), int(stats.binom.ppf(1 - tail, n, q)) + 1
    found = estimate(one_to(n), f"p{q * 100:.0f}", confidence=confidence)
    assert (low or None, high if high <= n else None) == (found.low, found.high)


def test_needed_for_an_upper_bound() -> None:
    """q^n <= .05 or .01, at 90 and 98 % two-sided."""
    needed = {0.90: [5, 29, 59, 299, 2995], 0.98: [7, 44, 90, 459, 4603]}
    assert needed == {one: [needed_for_bound(q, one) for q in (0.5, 0.9, 0.95, 0.99, 0.999)] for one in needed}


def test_needed_is_where_the_bound_appears() -> None:
    """One call fewer has no upper bound and says how many it takes."""
    for statistic in ["p50", "p90", "p95", "p99"]:
        needed = needed_for_bound(Fraction(statistic[1:]) / 100, 0.90)
        found, short = estimate(one_to(needed), statistic), estimate(one_to(needed - 1), statistic)
        told = f"{statistic} has no upper 95 % bound below n={needed}, have n={needed - 1}"
        assert (needed, (), None, [told]) == (found.high, found.warnings, short.high, [*map(str, short.warnings)])


def test_a_percentile_without_a_bound_or_a_call_above_it_says_so() -> None:
    """Nineteen calls hold nothing above their p95; below the median the other bound takes .9^29 <= .05."""
    found, low = estimate(one_to(19), "p95"), estimate(one_to(28), "p10")
    assert [
        "p95 of n=19 is the maximum: a rank below it needs n=20",
        "p95 has no upper 95 % bound below n=59, have n=19",
    ] == [*map(str, found.warnings)]
    assert (19.0, 16.0, None) == numbers(found)
    assert (None, ["p10 has no lower 95 % bound below n=29, have n=28"]) == (low.low, [*map(str, low.warnings)])


def test_t_interval_of_a_mean() -> None:
    """A published answer (golang/perf, benchmath): 95 % of [-8, 2, 3, 4, 5, 6]."""
    found = estimate(windows([-8, 2, 3, 4, 5, 6]), "mean", confidence=0.95)
    assert pytest.approx((2.0, -3.351092806, 7.351092806), abs=1e-9) == numbers(found)
    assert "mean, t interval, this process only" == found.method


def test_what_cannot_be_negative_has_no_bound_below_0() -> None:
    """2 ± 10.63 of two windows: the t interval knows no such limit."""
    lows = {"energy": 0.0, "energy_net": -8.6311, "throughput": 0.09222}
    assert pytest.approx(lows, abs=1e-4) == {one: estimate(windows([0.3162, 3.6838], one), "mean").low for one in lows}


def test_throughput_is_completed_over_wall() -> None:
    """60 calls at 30/s and 60 at 60/s are 120 calls in 3 s: 40/s, not the 45/s between the rates.

    60 at 30/s and 6 at 3/s are 66 calls in 4 s; 0.1 s for each of 60 and 1 s for each of 6 are 12 s of CPU.
    """
    found = estimate(windows([30.0, 60.0], "throughput"), "mean")
    assert pytest.approx(40.0) == found.value
    assert found.high is None  # the t interval of 1/30 and 1/60 s reaches below 0 s, which is no rate
    assert pytest.approx(66 / 4) == estimate(weighted("throughput", [30.0, 3.0], [60, 6]), "mean").value
    assert pytest.approx(12 / 66) == estimate(weighted("cpu_time", [0.1, 1.0], [60, 6]), "mean").value


def test_equal_weights_change_nothing() -> None:
    for metric in ["cpu_time", "throughput"]:
        plain = estimate(windows([4.0, 5.0, 7.0, 4.5], metric), "mean")
        found = estimate(weighted(metric, [4.0, 5.0, 7.0, 4.5], [3.0] * 4), "mean")
        assert pytest.approx(numbers(plain)) == numbers(found), metric


def test_throughput_interval_is_that_of_the_seconds() -> None:
    """t(.95, 3) = 2.353363; seconds 1, 2, 2, 3 have mean 2 and sd .816497: 2 -+ .960757."""
    found = estimate(windows([1.0, 1 / 2, 1 / 2, 1 / 3], "sample_throughput"), "mean")
    assert pytest.approx((1 / 2, 1 / 2.960757, 1 / 1.039243), rel=1e-6) == numbers(found)


def test_accuracy_has_a_clopper_pearson_interval() -> None:
    for ones, n in [(0, 20), (20, 20), (145, 150), (1, 1), (7, 19)]:
        interval = stats.binomtest(ones, n).proportion_ci(0.90, method="exact")
        found = estimate(examples(ones, n), "mean")
        assert pytest.approx((ones / n, interval.low, interval.high)) == numbers(found)
        assert "share of examples, Clopper-Pearson interval" == found.method, (ones, n)


def test_one_value_of_many_that_are_meant_has_no_interval_and_says_so() -> None:
    table: list[tuple[Sample, str, str]] = [
        (processes([5.0]), "p50", "one fresh process only: no interval"),
        (windows([5.0]), "mean", "one window only: no interval"),
        (windows([5.0], "throughput"), "mean", "one window only: no interval"),
        (calls([5.0]), "p50", "p50 of n=1 is the maximum: a rank below it needs n=2"),
    ]
    for sample, statistic, told in table:
        found = estimate(sample, statistic)
        assert (5.0, None, None) == numbers(found), (sample, statistic, told)
        assert told == str(found.warnings[0])


def test_tail_of_fresh_processes_is_an_ordinary_percentile() -> None:
    assert "nearest rank" in estimate(processes([1.0, 2.0, 3.0]), "p95").method


def test_unknown_statistic_is_refused() -> None:
    for statistic in ["median", "p0", "p100", "p", "px", "95", "p-5"]:
        with pytest.raises(UsageProblem, match="Allowed: mean, max, iqr, and percentiles such as p50"):
            estimate(calls([1.0]), statistic)


def test_values_that_a_metric_cannot_have_are_no_estimate() -> None:
    table: list[tuple[Sample, str]] = [
        (sample_of("throughput", [0.0, 1.0]), "throughput holds 0: a rate is positive"),
        (sample_of("accuracy", [0.0, 1e99]), r"accuracy holds 0 \.\. 1e\+99: shares lie between 0 and 1"),
        (weighted("cpu_time", [0.001, 0.002], [1.0]), "cpu_time has 2 values: each window has calls"),
        (weighted("cpu_time", [0.001, 0.002], [1.0, 0.0]), "cpu_time has 2 values: each window has calls"),
        (weighted("cpu_time", [0.001, 0.002], [1.0, -2.0]), "cpu_time has 2 values: each window has calls"),
        (sample_of("latency", []), "latency has no values: measure at least one call"),
    ]
    for sample, problem in table:
        with pytest.raises(MeasurementError, match=f"^{problem}$"):
            estimate(sample, "mean")


@given(values=VALUES, exponent=st.integers(-30, 30), statistic=st.sampled_from(STATISTICS))
def test_scaling_the_unit_scales_the_estimate(values: list[float], exponent: int, statistic: str) -> None:
    """A power of two scales without rounding, so every number follows exactly."""
    factor = 2.0**exponent
    once, scaled = (estimate(calls(v), statistic) for v in (values, [value * factor for value in values]))
    assert [None if x is None else x * factor for x in numbers(once)] == list(numbers(scaled))


@given(values=VALUES, statistic=st.sampled_from(STATISTICS))
def test_the_value_lies_in_its_interval_and_order_matters_nothing(values: list[float], statistic: str) -> None:
    found = estimate(calls(values), statistic)
    assert found.low is None or found.low <= found.value
    assert found.high is None or found.high >= found.value
    assert estimate(calls(values[::-1]), statistic) == found


def test_figures_hold_every_statistic_shown() -> None:
    """Source and unit of replication travel along; a metric of the user's own shows the middle."""
    found = figures(run(samples=(sample_of(), sample_of("bleu", [30.1], per="test", source="record"))))
    assert [*METRICS["latency"].statistics, "p50"] == [figure.statistic for figure in found]
    assert ("bleu", "record", "test") == (found[-1].metric, found[-1].source, found[-1].per)
    assert estimate(sample_of(), "p95") == found[3].estimate


def test_clear_of_a_limit_of_2() -> None:
    table: list[tuple[float | None, float | None, Better, bool | None]] = [
        (1.0, 2.0, "lower", True),  # a bound on the limit keeps it
        (2.0, 3.0, "lower", None),
        (2.1, 3.0, "lower", False),
        (2.1, None, "lower", False),  # breaks it however far it reaches
        (1.0, None, "lower", None),
        (None, 2.0, "lower", True),
        (None, 3.0, "lower", None),
        (2.0, 3.0, "higher", True),
        (1.0, 2.0, "higher", None),
        (1.0, 1.9, "higher", False),
        (None, 1.9, "higher", False),
        (2.0, None, "higher", True),
        (None, None, "higher", None),
    ]
    for low, high, better, clear in table:
        found = Estimate(value=2.0, low=low, high=high, confidence=0.9, n=9, method="")
        assert clear is clear_of(found, 2.0, better)


def budget(metric: str, statistic: str, limit: float) -> Budget:
    return Budget(keyword=f"{metric}_{statistic}", metric=metric, statistic=statistic, limit=limit)


def test_enough_when_every_budget_is_clear() -> None:
    table: list[tuple[tuple[Budget, ...], bool]] = [
        ((), True),
        ((budget("latency", "p50", 200.0),), True),
        ((budget("latency", "p50", 10.0),), True),  # hopeless: no further call would mend it
        ((budget("latency", "p50", 51.0),), False),
        ((budget("latency", "p99", 200.0),), False),  # no upper bound yet
        ((budget("latency", "p50", 200.0), budget("latency", "p99", 200.0)), False),
        ((budget("memory", "p50", 1.0),), True),  # measured elsewhere
    ]
    assert [] == [(budgets, stop) for budgets, stop in table if stop is not enough([one_to(100)], budgets)]


def test_a_budget_that_memory_decides_later_takes_all_the_time() -> None:
    """One window has no interval: the index would be inconclusive however far from its limit it is."""
    pressure = (budget("memory_pressure_index", "p50", 5.0),)
    assert not enough([windows([50.0], "throughput")], pressure)
    assert enough([one_to(100)], pressure)


@pytest.mark.simulation
def test_stopping_at_every_doubling_hardly_costs_the_stated_level() -> None:
    """The limit is the true p95 of exponential calls, so every clear answer is wrong.

    The benchmark `simulate` asks at 300, 600 … 9600 calls: at the reported 90 % each wrong answer comes in 15 % of the
    runs, at 99 % in 5, of which the last look alone may have all. The bound here is 7.5 % (five looks at 0.5 % and the
    last at 5 %) and four standard errors of 500 runs.
    """
    rng = np.random.default_rng(20)
    truth, wrong = -math.log(0.05), {True: 0, False: 0}
    for _ in range(500):
        taken = rng.exponential(size=9600)
        for n in (300, 600, 1200, 2400, 4800, 9600):
            looked = Sample(metric="latency", values=array("d", taken[:n]), per="call", source="simulated")
            confidence = STOPPING_CONFIDENCE if n < len(taken) else 0.90
            answer = clear_of(estimate(looked, "p95", confidence=confidence), truth, "lower")
            if answer is not None:
                wrong[answer] += 1
                break
    assert max(wrong.values()) <= 500 * 0.075 + 4 * math.sqrt(500 * 0.075 * 0.925)


def test_one_process_says_little_about_the_next() -> None:
    """How often a process's 90 % interval holds the median process's value, on recorded calls of two workloads."""
    table: list[tuple[str, list[int]]] = [("p50", [12, 21]), ("p95", [71, 79])]
    for statistic, percent in table:
        with np.load(Path(__file__).parents[1] / "data" / "recorded_rounds.npz", allow_pickle=False) as recording:
            solo = recording["solo_ns"][:, :, 0].astype(np.float64)  # round, workload, call
        held = []
        for workload in range(solo.shape[1]):
            found = [estimate(calls(taken), statistic) for taken in solo[:, workload]]
            middle = float(np.median([one.value for one in found]))
            inside = [(one.low or 0.0) <= middle <= (one.high or math.inf) for one in found]
            held.append(round(100 * sum(inside) / len(inside)))
        assert percent == held


def test_the_mean_of_rounds_of_which_only_statistics_are_known() -> None:
    """t(9, 0.95) = 1.8331: 2 ± 1.8331 × 0.1 / sqrt(10) = ± 0.057968."""
    found, single = mean_of_rounds(2.0, 0.1, 10), mean_of_rounds(2.0, 0.0, 1)
    assert pytest.approx(1.942032) == found.low
    assert pytest.approx(2.057968) == found.high
    assert (2.0, 10) == (found.value, found.n)
    assert (2.0, None, None, 1) == (single.value, single.low, single.high, single.n)


def test_memory_pressure_is_made_of_the_figures_of_a_run() -> None:
    """3 MB of three processes at 100 rows a second are 0.03; without rows, calls count."""
    memory, rate = processes([3e6] * 3), windows([50.0, 50.0], "throughput")
    rows = windows([100.0, 100.0], "sample_throughput")
    found = {one.key: one.estimate for one in figures(run(samples=(rate, rows, memory)))}[
        "memory_pressure_index", "p50"
    ]
    by_calls = figures(run(samples=(rate, memory)))[-1].estimate
    assert pytest.approx((0.03, 0.03, 0.03)) == numbers(found)
    assert 3 == found.n
    assert pytest.approx(0.06) == by_calls.value
    assert "memory_pressure_index" not in {one.metric for one in figures(run(samples=(memory,)))}


def test_the_pressure_of_memory_has_the_ends_of_both() -> None:
    """The range of 3 processes misses the median with 2 / 2^3, and the rate has 90 %: together at least 65 %."""
    memory, lone = processes([2e6, 3e6, 4e6]), windows([100.0], "throughput")
    spread = windows([50.0, 200.0, 100.0, 100.0], "throughput")
    whole, half = (figures(run(samples=(one, memory)))[-1].estimate for one in (spread, lone))
    assert (whole.low or 0) < whole.value < (whole.high or 0)
    assert pytest.approx(1 - 2 / 2**3 - 0.1) == whole.confidence
    assert (None, None) == (half.low, half.high)


def test_the_spread_has_the_ends_of_both_quartiles() -> None:
    """Of 1 .. 400 the quartiles are 100 and 300, each with an order-statistic interval at half of the error."""
    found, lower, upper = (estimate(one_to(400), name, confidence=level) for name, level in SPREAD_AND_QUARTILES)
    assert 200.0 == found.value
    assert None not in (lower.low, lower.high, upper.low, upper.high)
    assert ((upper.low or 0) - (lower.high or 0), (upper.high or 0) - (lower.low or 0)) == (found.low, found.high)
    few = estimate(one_to(3), "iqr")
    assert (2.0, 0.0, None, True) == (*numbers(few), bool(few.warnings))
