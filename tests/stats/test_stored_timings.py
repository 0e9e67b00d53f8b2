"""The stored-baseline rule: its limits, its repeats, and the machine that drifts."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_hwperf.records.messages import state
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison, ComparisonOutcome, Margin
from pytest_hwperf.stats.stored import (
    compare_with_history,
    history_limit,
    machine_drift,
    needs_repeats,
    prediction_limit,
)

SESSIONS = (0.00100, 0.00101, 0.00099, 0.00100, 0.00102, 0.00098, 0.00100, 0.00100)  # seconds

times = st.floats(1e-6, 10.0)


def against(
    value: float,
    repeats: Sequence[float] = (),
    *,
    metric: str = "latency",
    history: Sequence[float] = SESSIONS,
    margin: float = 0.02,
    floor: float = 0.0,
) -> Comparison:
    asked = Margin(metric=metric, statistic="p50", size=margin, floor=floor)
    return compare_with_history(METRICS[metric], history, value, asked, 0.01, repeats)


@pytest.mark.parametrize(
    ("alpha", "limits"),
    [(0.01, (90.1, 49.2, 35.7, 24.7, 18.3, 14.5, 11.2)), (0.05, (39.5, 25.6, 20.0, 15.0, 11.6, 9.5, 7.5))],
)
def test_limits_by_number_of_sessions(alpha: float, limits: tuple[float, ...]) -> None:
    """In % over the mean of K sessions with a spread of 2 %, prior 10 % worth three sessions."""
    found = [
        prediction_limit(0.02, sessions, 1.0, alpha, prior_sd=0.10, prior_df=3.0)
        for sessions in (1, 2, 3, 5, 8, 12, 20)
    ]
    assert limits == pytest.approx([100 * math.expm1(limit) for limit in found], abs=0.051)


def test_one_session_has_only_the_prior() -> None:
    """t(.99, 3) = 4.540703, times 0.10 times sqrt(2)."""
    assert pytest.approx((1.5, 0.6421523)) == history_limit([1.5], 0.01)


def test_two_sessions_have_a_mean_and_a_standard_deviation() -> None:
    """Spread 0.2/sqrt(2) = .141421: s^2 = (3 * .01 + .02)/4 = .0125; t(.99, 4) = 3.746947; sqrt(1.5)."""
    assert pytest.approx((1.1, 3.746947 * math.sqrt(0.0125 * 1.5)), rel=1e-6) == history_limit([1.0, 1.2], 0.01)


def test_from_three_sessions_on_one_burst_moves_nothing() -> None:
    """Median and MAD: a session at e^5 counts as one that is a little high."""
    calm, burst = history_limit([0.0, 0.1, -0.1, 0.05, 0.06], 0.01), history_limit([0.0, 0.1, -0.1, 0.05, 5.0], 0.01)
    assert calm[0] == burst[0] == 0.05
    assert pytest.approx(burst[1], rel=0.1) == calm[1]


def test_robust_limit_known_answer() -> None:
    """[0, .1, .3]: median .1, MAD .1, spread .14826; s^2 = (.03 + 2 * .02198)/5; t(.99, 5); 1 + pi/6."""
    s = math.sqrt((3 * 0.01 + 2 * 0.14826**2) / 5)
    centre, limit = history_limit([0.0, 0.1, 0.3], 0.01)
    assert 0.1 == centre
    assert pytest.approx(stats.t.ppf(0.99, 5) * s * math.sqrt(1 + math.pi / 6)) == limit


def test_within_the_limit_is_inconclusive_and_tells_the_limit() -> None:
    """Ten percent above eight calm sessions is nothing that this rule can see."""
    found = against(0.00110)
    assert found.change is not None
    assert found.detectable is not None
    assert ("inconclusive", "", 8) == (found.outcome, found.reason, found.pairs)
    assert not needs_repeats(found)
    assert pytest.approx(0.10) == found.change.value
    assert pytest.approx(0.00100) == found.baseline
    assert 0.15 < found.detectable < 0.20
    assert (
        f"historical; false-alarm rate not guaranteed: limit {100 * found.detectable:+.1f} %, stored runs: 8"
        == found.how
    )


def test_an_alarm_asks_for_repeats_first() -> None:
    found = against(0.00130)
    assert "inconclusive" == found.outcome
    assert needs_repeats(found)
    assert "beyond the limit, not repeated: 2 further fresh processes decide" == found.reason


def test_one_repeat_is_not_enough() -> None:
    assert needs_repeats(against(0.00130, [0.00131]))


@pytest.mark.parametrize(
    ("metric", "value", "repeats", "outcome", "counted"),
    [
        ("latency", 0.0013, (0.0013, 0.0014), "regressed", "3 of 3"),
        ("latency", 0.0013, (0.0010, 0.0014), "inconclusive", "2 of 3"),  # the burst passed
        ("latency", 0.0013, (0.0007, 0.0014), "inconclusive", "2 of 3"),  # the other side does not count
        ("latency", 0.0007, (0.0007, 0.0006), "improved", "3 of 3"),
        ("throughput", 0.0007, (0.0007, 0.0006), "regressed", "3 of 3"),
        ("throughput", 0.0013, (0.0013, 0.0014), "improved", "3 of 3"),
    ],
)
def test_repeats_decide(
    metric: str, value: float, repeats: tuple[float, ...], outcome: ComparisonOutcome, counted: str
) -> None:
    found = against(value, repeats, metric=metric)
    assert (outcome, "") == (found.outcome, found.reason)
    assert found.how.endswith(f", {counted} processes beyond it")
    assert not needs_repeats(found)


def test_a_third_repeat_is_not_looked_at() -> None:
    assert "regressed" == against(0.0013, [0.0013, 0.0013, 0.0010]).outcome


def test_a_wide_margin_stands_above_the_limit() -> None:
    """+30 % is beyond the limit of eight sessions and within a margin of 50 %."""
    found = against(0.0013, [0.0013, 0.0013], margin=0.5)
    assert ("inconclusive", 0.5) == (found.outcome, found.margin)
    assert pytest.approx(0.5) == found.detectable


def test_a_floor_widens_the_margin() -> None:
    """1 ms of 1 ms is a margin of 100 %."""
    assert pytest.approx(1.0) == against(0.0013, floor=0.001).margin


def test_what_is_higher_better_is_detectable_downwards() -> None:
    found, seconds = against(0.0010, metric="throughput"), against(0.0010)
    assert found.detectable is not None
    assert seconds.detectable is not None
    assert pytest.approx(1.0) == (1 + found.detectable) * (1 + seconds.detectable)


@pytest.mark.parametrize(
    ("history", "value", "repeats"),
    [((0.0, 1.0), 1.0, ()), ((1.0,), -1.0, ()), ((1.0,), math.inf, ()), ((1.0,), 1.0, (0.0,))],
)
def test_ratios_need_positive_values(history: tuple[float, ...], value: float, repeats: tuple[float, ...]) -> None:
    found = against(value, repeats, history=history)
    assert ("not comparable", None) == (found.outcome, found.change)
    assert "not every value is positive: the ratio to stored runs needs that" == found.reason


def test_an_absurd_ratio_is_still_a_number() -> None:
    """Logs apart by more than 709 overflow a float, which no store could hold."""
    found = against(1e300, history=[1e-300])
    assert found.change is not None
    assert found.change.high is not None
    assert math.isfinite(found.change.high)


@given(
    history=st.lists(times, min_size=1, max_size=9),
    new=st.lists(times, min_size=1, max_size=3),
    factor=st.sampled_from([1e-3, 0.125, 64.0, 1e3]),
)
def test_another_unit_changes_no_outcome(history: list[float], new: list[float], factor: float) -> None:
    value, *repeats = new
    once = against(value, repeats, history=history)
    scaled = against(value * factor, [r * factor for r in repeats], history=[h * factor for h in history])
    assert (once.outcome, once.reason) == (scaled.outcome, scaled.reason)


@given(history=st.lists(times, min_size=1, max_size=9), new=st.lists(times, min_size=1, max_size=3))
def test_a_rate_gets_the_answer_of_its_seconds(history: list[float], new: list[float]) -> None:
    """Serial throughput is the reciprocal of latency, and its regression is the same one."""
    value, *repeats = new
    seconds = against(value, repeats, history=history)
    rate = against(1 / value, [1 / r for r in repeats], history=[1 / h for h in history], metric="throughput")
    assert (seconds.outcome, seconds.reason) == (rate.outcome, rate.reason)


def moved(by: float, metric: str = "latency") -> Comparison:
    return against(0.001 * (1 + by), metric=metric)


def test_most_timings_slower_is_the_machine() -> None:
    found = machine_drift([moved(0.12), moved(0.10), moved(0.14), moved(0.12), moved(0.01)])
    assert (
        "machine drift: 4 of 5 timings are slower than in their stored runs, +12.0 % in the middle: "
        "suspect the machine before the code, and rerun on a quiet one"
    ) == found


def test_a_lower_rate_is_slower_and_a_higher_one_faster() -> None:
    slower = [moved(0.12), moved(0.12), moved(-0.2, "throughput"), moved(-0.2, "throughput"), moved(0.12)]
    faster = [moved(-0.12), moved(0.2, "throughput"), moved(-0.12), moved(-0.12), moved(-0.12)]
    assert "5 of 5 timings are slower" in str(machine_drift(slower))
    assert "5 of 5 timings are faster" in str(machine_drift(faster))


@pytest.mark.parametrize(
    "changes",
    [
        (0.12, 0.12, 0.12, 0.12),  # four are too few
        (0.12, 0.12, 0.12, -0.12, -0.12),
        (0.01, 0.01, 0.01, 0.01, 0.01),  # within the margin
        (),
    ],
)
def test_no_drift(changes: tuple[float, ...]) -> None:
    assert machine_drift([moved(change) for change in changes]) is None


def test_only_timings_held_against_history_speak_of_the_machine() -> None:
    """Energy, metrics of the user's own, interleaved reruns, and comparisons without a change say nothing."""
    slower = moved(0.12)
    others = [
        moved(0.12, "energy"),
        replace(slower, metric="bleu"),
        replace(slower, method=state("signed-rank", pairs=8)),
        replace(slower, change=None),
    ]
    assert machine_drift([slower, slower, slower, slower, *others]) is None
