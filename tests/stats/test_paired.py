"""Decisions about one hypothesis by its pairs, and about fresh processes: known answers and properties."""

import math
from array import array
from collections.abc import Sequence

import pytest
from fakes import gates
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_hwperf.records.evidence import FixedSample, Observation
from pytest_hwperf.records.metrics import Better
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison, ComparisonOutcome
from pytest_hwperf.stats.pairs.paired import (
    MOST_PAIRS,
    Exact,
    Paired,
    compare_pairs,
    compare_processes,
    is_ratio,
    least_calls,
    pair_value,
    pairs_needed,
    pooled_percentile,
)

MIRROR: dict[ComparisonOutcome, ComparisonOutcome] = {"regressed": "improved", "improved": "regressed"}
MB = 1e6
LEVEL = 0.004  # of the first look of a single hypothesis at 1 %
EIGHT = [0.031, 0.034, 0.029, 0.030, 0.027, 0.033, 0.035, 0.0275]  # log ratios, all beyond a margin of 2 %
QUIET = [-0.004, -0.003, -0.002, -0.001, 0.001, 0.002, 0.003, 0.004]

changes = st.lists(st.integers(-400, 400).map(lambda n: n / 4096), min_size=1, max_size=12)
peaks = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 40)).map(lambda mb: (mb[0] * MB, mb[1] * MB)), min_size=1, max_size=8
)


def observation(baseline: Sequence[float], candidate: Sequence[float], preempted: float | None = None) -> Observation:
    return gates.observed(gates.asked(), baseline, candidate, preempted=preempted)


def decided(values: Sequence[float], level: float = LEVEL, *, better: Better = "lower") -> Comparison:
    return compare_pairs(gates.asked(better=better), values, level, baseline=0.001)


def memory(
    baseline: Sequence[float], candidate: Sequence[float], level: float = 0.01, *, better: Better = "lower"
) -> Comparison:
    asked = gates.asked("memory", 0.01, floor=MB, better=better)
    return compare_processes(asked, baseline, candidate, level)


def test_value_of_a_pair_is_the_median_of_its_blocks() -> None:
    blocks = observation([1e-3, 2e-3, 1e-3], [1.1e-3, 2.0e-3, 5e-3])
    assert math.log(1.1) == pytest.approx(pair_value(blocks), rel=1e-12)


@given(
    blocks=st.lists(st.tuples(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3)), min_size=1, max_size=9),
    unit=st.sampled_from([1e-9, 1e3]),
)
def test_value_of_a_pair_mirrors_and_has_no_unit(blocks: list[tuple[float, float]], unit: float) -> None:
    old, new = zip(*blocks, strict=True)
    value = pair_value(observation(old, new))
    assert -value == pytest.approx(pair_value(observation(new, old)), abs=1e-12)
    assert value == pytest.approx(pair_value(observation([unit * v for v in old], [unit * v for v in new])), abs=1e-9)


def test_values_without_a_logarithm_are_refused() -> None:
    table: list[tuple[list[float], list[float]]] = [([1.0], [0.0]), ([0.0], [1.0]), ([1.0, -1.0], [1.0, 1.0])]
    for old, new in table:
        assert not is_ratio(observation(old, new))
        with pytest.raises(ValueError, match="not positive"):
            pair_value(observation(old, new))


def test_ratio_needs_finite_values() -> None:
    table = [(1e-300, True), (math.inf, False), (math.nan, False)]
    assert [] == [(value, answer) for value, answer in table if answer != is_ratio(observation([1.0], [value]))]


def test_eight_pairs_beyond_the_margin_are_a_regression() -> None:
    found = decided(EIGHT)
    assert ("regressed", 2**-8, 8) == (found.outcome, found.p_value, found.pairs)
    assert found.how == "8 fresh pairs, exact signed-rank, interleaved"
    assert found.change is not None
    assert [math.expm1(0.027), math.expm1(0.035)] == [found.change.low, found.change.high]
    assert (0.992, 8, "Walsh averages") == (found.change.confidence, found.change.n, found.change.method)


def test_outcome_of_eight_pairs() -> None:
    table: list[tuple[list[float], ComparisonOutcome]] = [
        ([v - 0.03 for v in EIGHT], "equivalent"),
        ([-v for v in EIGHT], "improved"),
        ([v - 0.012 for v in EIGHT], "inconclusive"),
        ([*EIGHT[:7], 0.019], "inconclusive"),  # one of eight within the margin of log(1.02) = 0.0198
        (EIGHT[:7], "inconclusive"),  # seven cannot reach 0.004
    ]
    assert [] == [(values, outcome) for values, outcome in table if outcome != decided(values).outcome]


def test_a_p_value_of_just_the_level_decides() -> None:
    assert ["regressed", "inconclusive"] == [decided(EIGHT, level).outcome for level in (2**-8, 0.999 * 2**-8)]
    worse, better = ([(20 + sign * 2) * MB + 1000 * i for i in range(7)] for sign in (1, -1))
    base = [20 * MB + 900 * i for i in range(7)]
    for level, outcomes in ((2**-7, ["regressed", "improved"]), (0.999 * 2**-7, ["inconclusive"] * 2)):
        assert outcomes == [memory(base, candidate, level).outcome for candidate in (worse, better)]
    for level, outcomes in ((2**-7, ["regressed", "improved"]), (0.999 * 2**-7, ["inconclusive", "improved"])):
        assert outcomes == [alike(20 * MB, 20 * MB + added).compare(level).outcome for added in (MB, -MB)]
    counted = gates.asked("tokens", 0.02)
    for level, outcomes in ((2**-8, ["regressed", "improved"]), (0.999 * 2**-8, ["inconclusive"] * 2)):
        each = ([gates.observed(counted, [100.0], [now])] * 8 for now in (110.0, 90.0))
        assert outcomes == [Paired(counted, seen).compare(level).outcome for seen in each]


def alike(baseline: float, candidate: float) -> Exact:
    """Seven processes of each side, whose peaks do not differ."""
    asked = gates.asked("memory", 0.01, floor=MB / 2)
    sides = (array("d", [peak] * 7) for peak in (baseline, candidate))
    return Exact(FixedSample(hypothesis=asked, per="fresh process", baseline=next(sides), candidate=next(sides)))


def test_too_few_pairs_have_no_bounds_and_could_catch_nothing() -> None:
    found = decided(EIGHT[:7])
    assert found.change is not None
    assert (None, None, None) == (found.change.low, found.change.high, found.detectable)


def test_detectable_change_would_just_have_been_called() -> None:
    """The same noise around a change a little larger is called, around one a little smaller it is not."""
    quiet = [v - 0.03 for v in EIGHT]
    found = decided(quiet)
    assert found.detectable is not None
    assert found.change is not None
    shift = math.log1p(found.detectable) - math.log1p(found.change.value)
    assert [decided([v + shift + e for v in quiet]).outcome for e in (1e-9, -1e-9)] == ["regressed", "inconclusive"]


def test_where_more_is_better_a_loss_is_the_change_for_the_worse() -> None:
    lost = [-v for v in EIGHT]
    found, mirrored = decided(lost, better="higher"), decided(EIGHT)
    assert ("regressed", 2**-8) == (found.outcome, found.p_value)
    assert found.detectable is not None
    assert mirrored.detectable is not None
    assert -math.log1p(mirrored.detectable) == pytest.approx(math.log1p(found.detectable), rel=1e-12)


@given(values=changes, level=st.sampled_from([0.004, 1 / 64, 0.05]), better=st.sampled_from(["lower", "higher"]))
def test_swapping_the_sides_mirrors_a_comparison(values: list[float], level: float, better: Better) -> None:
    found = decided(values, level, better=better)
    swapped = decided([-v for v in values], level, better=better)
    assert MIRROR.get(found.outcome, found.outcome) == swapped.outcome
    assert found.change is not None
    assert swapped.change is not None
    for end, other in ((found.change.low, swapped.change.high), (found.change.high, swapped.change.low)):
        assert (end is None) == (other is None)
        assert end is None or other is None or math.isclose(1 + end, 1 / (1 + other))


@given(values=changes, level=st.sampled_from([0.004, 1 / 64, 0.05]))
def test_outcome_is_regressed_exactly_where_the_lower_bound_is_beyond_the_margin(
    values: list[float], level: float
) -> None:
    assume(len({abs(v - math.log1p(0.02)) for v in values}) == len(values))
    found = decided(values, level)
    assert found.change is not None
    assert (found.outcome == "regressed") == (found.change.low is not None and found.change.low > 0.02)


def test_margin_is_never_below_its_floor() -> None:
    """And an absurd ratio is shown as a number."""
    asked = gates.asked(floor=1e-4)
    assert compare_pairs(asked, EIGHT, LEVEL, baseline=1e-3).margin == pytest.approx(0.1)
    assert compare_pairs(asked, EIGHT, LEVEL, baseline=1.0).margin == 0.02
    assert compare_pairs(gates.asked(), [1400.0] * 8, LEVEL, baseline=1.0).outcome == "regressed"


def test_what_half_of_the_pairs_have_noticed_is_said() -> None:
    quiet = observation([1e-3], [1e-3])
    noticed = replace(quiet, warnings=("candidate: no steady state in its warm-up",))
    assert Paired(gates.asked(), [noticed, quiet, quiet]).compare(LEVEL).warnings == ()
    assert Paired(gates.asked(), [noticed, quiet, noticed, quiet]).compare(LEVEL).warnings == (
        "candidate: no steady state in its warm-up (in 2 of 4 pairs)",
    )


def test_observations_give_the_baseline_and_what_disturbed_them() -> None:
    observations = [
        observation([1e-3, 3e-3, 2e-3], [1e-3, 3e-3, 2e-3], 0.1),
        observation([4e-3], [4e-3], None),
        observation([1e-3], [1e-3], 0.3),
    ]
    found = Paired(gates.asked(), observations).compare(LEVEL)
    assert (2e-3, 0.2, 3) == (found.baseline, found.interference, found.pairs)
    assert Paired(gates.asked(), observations[1:2]).compare(LEVEL).interference is None


def test_seven_processes_that_all_need_more_are_a_regression() -> None:
    base = [10 * MB, 10.1 * MB, 10 * MB, 10.2 * MB, 10 * MB, 10 * MB, 10.1 * MB]
    found = memory(base, [one + 2 * MB for one in base])
    assert ("regressed", 2**-7, 10 * MB, 7) == (found.outcome, found.p_value, found.baseline, found.pairs)
    assert found.margin == pytest.approx(0.1)  # 1 MB of 10
    assert found.change is not None
    assert [0.2] * 3 == pytest.approx([found.change.value, found.change.low, found.change.high])
    assert found.detectable == pytest.approx(0.1)
    assert found.how == "7 pairs of fresh processes, exact sign-flip"


def test_outcome_of_fresh_processes() -> None:
    table: list[tuple[list[float], ComparisonOutcome]] = [
        ([2, 2, 2, 2, 2, 2, 1], "inconclusive"),  # on the margin of 1 MB is not beyond it
        ([1] * 7, "inconclusive"),  # nor within it
        ([-1] * 7, "inconclusive"),
        ([0.1, -0.1, 0.2, 0, 0.3, -0.2, 0], "equivalent"),
        ([-2, -3, -2, -4, -2, -2, -5], "improved"),
        ([2, 2, 2, 2, 2, 2], "inconclusive"),  # six cannot reach 1 %
    ]
    for added, outcome in table:
        base = [20 * MB + 1000 * i for i in range(len(added))]
        assert outcome == memory(base, [one + MB * more for one, more in zip(base, added, strict=True)]).outcome


@given(pairs=peaks, level=st.sampled_from([0.01, 0.05, 0.3]), better=st.sampled_from(["lower", "higher"]))
def test_swapping_processes_mirrors_and_another_direction_does_too(
    pairs: list[tuple[float, float]], level: float, better: Better
) -> None:
    old, new = zip(*pairs, strict=True)
    outcome = memory(old, new, level, better=better).outcome
    other: Better = "higher" if better == "lower" else "lower"
    assert MIRROR.get(outcome, outcome) == memory(new, old, level, better=better).outcome
    assert MIRROR.get(outcome, outcome) == memory(old, new, level, better=other).outcome


def test_processes_where_more_is_better_name_a_loss() -> None:
    base = [10 * MB + 1000 * i for i in range(7)]
    found = memory(base, [one - 2 * MB for one in base], better="higher")
    assert found.outcome == "regressed"
    assert found.detectable == pytest.approx(-0.1, abs=1e-3)


def test_nothing_in_the_baseline_has_no_ratio_but_an_outcome() -> None:
    found = memory([0.0] * 7, [2 * MB, 2 * MB, 3 * MB, 2 * MB, 2 * MB, 2 * MB, 2 * MB])
    assert ("regressed", None, None) == (found.outcome, found.change, found.detectable)
    assert found.reason == "0 B in the baseline, 2.00 MB now"


def test_recorded_metric_from_nothing_is_shown_without_a_unit() -> None:
    found = compare_processes(gates.asked("tokens", 0.5), [0.0] * 7, [1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0], 0.01)
    assert found.reason == "0 in the baseline, 1.00 now"


def test_processes_that_cannot_be_paired_are_not_comparable() -> None:
    for old, new in [(3, 4), (31, 31)]:
        found = memory([MB + i for i in range(old)], [MB - i for i in range(new)])
        assert found.outcome == "not comparable", (old, new)
        assert found.reason.startswith(f"{old} processes of the baseline and {new} of the candidate: ")


def test_percentile_is_the_nearest_rank() -> None:
    """`p7` of 100: in floating point .07 * 100 lies above 7. The spread lies between the quartiles."""
    ranks = {(100, "p95"): 95, (101, "p95"): 96, (100, "p7"): 7, (1000, "p99_9"): 999, (100, "iqr"): 50}
    assert ranks == {(n, name): pooled_percentile([float(one) for one in range(n, 0, -1)], name) for n, name in ranks}


def test_calls_that_a_percentile_needs() -> None:
    calls = {"p50": 0, "p90": 200, "p95": 400, "p99": 2000, "p99_9": 20_000, "mean": 0, "iqr": 80}
    assert calls == {statistic: least_calls(statistic) for statistic in calls}


def test_pairs_needed_grow_as_the_square_of_the_noise() -> None:
    """The bound of these lies 0.004 below the centre at eight pairs."""
    assert pairs_needed(QUIET, 0.05, LEVEL, 0.02) == 8
    assert pairs_needed([10 * v for v in QUIET], 0.05, LEVEL, 0.02) == math.ceil(
        8 * (0.04 / math.log(1.05 / 1.02)) ** 2
    )
    assert pairs_needed([10 * v + 0.3 for v in QUIET], 0.05, LEVEL, 0.02) == 16  # wherever they were centred


def test_no_number_of_pairs_finds_some_changes() -> None:
    """Within the margin, too noisy for any build, or too few pairs to say anything about this level."""
    assert pairs_needed(QUIET, 0.02, LEVEL, 0.02) is None
    assert pairs_needed([100 * v for v in QUIET], 0.05, LEVEL, 0.02) is None
    assert pairs_needed(QUIET[:7], 0.5, LEVEL, 0.02) is None


def test_as_many_pairs_as_a_build_may_take_are_said() -> None:
    room = math.log(1.05 / 1.02)
    widest = room / 0.004 * math.sqrt(MOST_PAIRS / 8)
    assert pairs_needed([0.999 * widest * v for v in QUIET], 0.05, LEVEL, 0.02) == MOST_PAIRS
    assert pairs_needed([1.001 * widest * v for v in QUIET], 0.05, LEVEL, 0.02) is None
