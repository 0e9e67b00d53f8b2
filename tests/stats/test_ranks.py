"""Exact tests, their bounds and effects: known answers, full enumeration and properties."""

from itertools import combinations
from random import Random

import numpy as np
import pytest
from fakes import gates
from fakes import records as fake
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from pytest_hwperf.records.evidence import Gate, Hypothesis
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.figures.ranks import (
    MOST_FLIPPED,
    changes_of,
    cohens_d,
    decisive,
    fewest_pairs,
    hodges_lehmann,
    is_tail,
    rank_count,
    rank_sum_count,
    shift_bound,
    sign_flip_bounds,
    sign_flip_p,
    signed_rank_p,
    walsh_bounds,
)
from pytest_hwperf.stats.pairs.sequence import SCREEN_PAIRS, decide

# Quarters: sums and halves of them are exact, so that ties stay ties whatever is added.
few = st.lists(st.integers(-12, 12).map(lambda quarter: quarter / 4), min_size=1, max_size=9)
untied = st.lists(st.integers(-4000, 4000), min_size=1, max_size=14, unique_by=abs).map(lambda ns: [n / 64 for n in ns])
margins = st.integers(-8, 8).map(lambda quarter: quarter / 4)
levels = st.sampled_from([0.001, 0.003, 0.004, 0.01, 1 / 64, 0.05, 0.11, 0.3])


def attained(n: int, k: int) -> float:
    """The level that the k-th pairwise mean really holds, P(T+ <= k - 1), from the generating function of rank sums."""
    counts = np.ones(1)
    for rank in range(1, n + 1):
        counts = np.convolve(counts, [1, *[0] * (rank - 1), 1])
    return float(counts[:k].sum() / 2**n)


def test_rank_of_a_bound_and_the_level_it_holds() -> None:
    table = [
        (6, 0.05, 3, 0.0469),
        (8, 0.004, 1, 0.0039),
        (10, 0.05, 11, 0.0420),
        (10, 0.01, 6, 0.0098),
        (12, 0.01, 10, 0.0081),
        (13, 0.003, 8, 0.0023),
        (20, 0.003, 34, 0.0028),
        (6, 0.01, 0, 0.0),  # six values cannot reach 1 %
        (6, 1 / 64, 1, 0.0156),  # what is as rare as the level is enough
        (3, 0.8, 5, 0.75),  # the largest rank counts too
    ]
    assert [] == [
        (n, alpha, k, level)
        for n, alpha, k, level in table
        if (k, level) != (rank_count(n, alpha), round(attained(n, rank_count(n, alpha)), 4))
    ]


def test_fewest_pairs_that_can_reject() -> None:
    pairs = {0.05: 5, 0.01: 7, 0.001: 10, 1 / 64: 6, 0.999 / 64: 7, 0.5: 1, 1.0: 0}
    assert pairs == {alpha: fewest_pairs(alpha) for alpha in pairs}


def test_known_signed_rank_p_values() -> None:
    """Counts by hand with ties, and the example of scipy's manual."""
    table: list[tuple[list[float], float]] = [
        ([1, 1, 2, -2, 3], 6 / 32),
        ([1, 1, 2, 2, 3, 3, -1, 4], 4 / 256),
        ([0, 1, 2, 2, 3, -1], 3 / 32),  # the zero keeps its rank and contributes nothing
        ([6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75], 0.0206298828125),
        ([0, 0], 1.0),
        ([], 1.0),
    ]
    assert [] == [(values, p_value) for values, p_value in table if p_value != signed_rank_p(values)]
    untied = np.random.default_rng(20).normal(0.3, 1, size=20)
    expected = stats.wilcoxon(untied, alternative="greater", method="exact").pvalue
    assert expected == pytest.approx(signed_rank_p(untied.tolist()), rel=1e-12)


def test_all_values_beyond_the_margin_have_the_smallest_p_value() -> None:
    for n in (1, 12, 13, 20):
        values = [3.0 + i for i in range(n)]
        assert [2.0**-n] * 3 == [signed_rank_p(values), signed_rank_p(values, 2.5), sign_flip_p(values)]


@given(values=few, margin=margins, added=margins, factor=st.sampled_from([0.5, 2.0, 1024.0]))
def test_neither_another_unit_nor_another_origin_changes_a_p_value(
    values: list[float], margin: float, added: float, factor: float
) -> None:
    for p_of in (signed_rank_p, sign_flip_p):
        p_value = p_of(values, margin)
        assert p_value == p_of([value + added for value in values], margin + added)
        assert p_value == p_of([value * factor for value in values], margin * factor)


@given(values=untied, alpha=levels, margin=margins)
def test_bound_beyond_the_margin_and_small_p_value_are_one_answer(
    values: list[float], alpha: float, margin: float
) -> None:
    assume(len({abs(value - margin) for value in values}) == len(values) and margin not in values)
    low, high = walsh_bounds(values, alpha)
    assert (signed_rank_p(values, margin) <= alpha) == (low is not None and low > margin)
    assert (signed_rank_p([-v for v in values], -margin) <= alpha) == (high is not None and high < margin)


@given(values=few, alpha=levels, margin=margins)
def test_sign_flip_bound_and_p_value_are_one_answer(values: list[float], alpha: float, margin: float) -> None:
    low, high = sign_flip_bounds(values, alpha)
    assert (sign_flip_p(values, margin) <= alpha) == (low is not None and low > margin)
    assert (sign_flip_p([-v for v in values], -margin) <= alpha) == (high is not None and high < margin)


def test_sign_flip_bounds_are_means_of_subsets() -> None:
    """Of 1 … 7 the smallest means are 1, 1.5, 2 and 2: the second is the bound that 2 of 128 patterns reach."""
    assert (1.5, 6.5) == sign_flip_bounds([1, 2, 3, 4, 5, 6, 7], 2 / 128)
    assert (1, 7) == sign_flip_bounds([1, 2, 3, 4, 5, 6, 7], 1 / 128)
    assert (None, None) == sign_flip_bounds([1, 2, 3, 4, 5, 6, 7], 0.9 / 128)
    assert (None, None) == sign_flip_bounds([], 0.05)


def test_bounds_of_equal_values_are_these_values() -> None:
    assert (5.0, 5.0) == sign_flip_bounds([5.0] * 8, 0.05) == walsh_bounds([5.0] * 8, 0.05)


@given(values=few, added=margins, alpha=levels)
def test_interval_moves_with_its_values_and_mirrors(values: list[float], added: float, alpha: float) -> None:
    low, high = walsh_bounds(values, alpha)
    moved = [None if end is None else end + added for end in (low, high)]
    mirrored = [None if end is None else -end for end in (high, low)]
    assert moved == list(walsh_bounds([value + added for value in values], alpha))
    assert mirrored == list(walsh_bounds([-value for value in values], alpha))
    assert hodges_lehmann(values) + added == hodges_lehmann([value + added for value in values])
    assert low is None or high is None or low <= hodges_lehmann(values) <= high


def test_centre_is_the_median_of_pairwise_means() -> None:
    """One process gone wild does not move it."""
    table: list[tuple[list[float], float]] = [
        ([0, 1, 5], 1.75),
        ([0, 1, 2, 10], 1.75),
        ([4], 4.0),
        ([0.0] * 9 + [1000.0], 0.0),
    ]
    assert [] == [(values, centre) for values, centre in table if centre != hodges_lehmann(values)]


def test_too_many_values_for_an_exact_sum_are_refused() -> None:
    assert 2.0**-MOST_FLIPPED == sign_flip_p([1.0] * MOST_FLIPPED)
    with pytest.raises(ValueError, match="31 values: the exact test takes at most 30"):
        sign_flip_p([1.0] * (MOST_FLIPPED + 1))


def test_the_tail_begins_at_the_ninetieth_percentile() -> None:
    table = [("p50", False), ("p89", False), ("p90", True), ("p99_9", True), ("max", True), ("mean", False)]
    assert [] == [(statistic, tail) for statistic, tail in table if tail != is_tail(statistic)]


def test_the_bound_of_a_shift_is_that_of_the_rank_sum_test() -> None:
    """Critical values of U, one-sided: 27 of ten and ten at 0.05, 19 at 0.01; one of the 70 orders of four and four."""
    assert [28, 20] == [rank_sum_count(10, 10, alpha) for alpha in (0.05, 0.01)]
    assert shift_bound([5, 6, 7, 8], [1, 2, 3, 4], 1 / 70) == 1
    assert shift_bound([5, 6, 7, 8], [1, 2, 3, 4], 1 / 71) is None
    assert shift_bound([5, 6, 70, 8], [1, 2, 3, 4], 2 / 70) == 2


def test_every_order_of_a_rank_sum_is_counted() -> None:
    orders = [sum(rank - at for at, rank in enumerate(ranks)) for ranks in combinations(range(7), 3)]
    below = [sum(u <= most for u in orders) / len(orders) for most in range(13)]
    assert [*range(1, 14)] == [rank_sum_count(3, 4, share) for share in below]


CASES = 25  # samples of each size


def share_of_patterns(weights: NDArray[np.int64], positive: NDArray[np.bool_]) -> float:
    """Return the share of all sign patterns whose positive weights sum to at least those that were observed."""
    n = len(weights)
    patterns = (np.arange(2**n)[:, np.newaxis] >> np.arange(n)) & 1
    return int(np.count_nonzero(patterns @ weights >= weights[positive].sum())) / int(2**n)


def test_p_values_with_ties_and_zeros_are_those_of_every_pattern() -> None:
    """Whole numbers, so that ties are ties; twice a midrank is whole too, and what is 0 keeps its rank."""
    for n in range(1, 13):
        random = np.random.default_rng(n)
        tied = 0
        for _ in range(CASES):
            values, margin = random.integers(-3, 6, size=n), int(random.integers(-1, 3))
            beyond = values - margin
            ranks = np.where(beyond == 0, 0, np.rint(2 * stats.rankdata(np.abs(beyond)))).astype(np.int64)
            tied += len(np.unique(np.abs(beyond))) < n
            assert share_of_patterns(ranks, beyond > 0) == signed_rank_p(values.tolist(), margin)
            assert share_of_patterns(np.abs(beyond), beyond > 0) == sign_flip_p(values.tolist(), margin)
        assert tied > CASES / 2 or n < 4


EQUAL, SLOWER = 0, 1  # tests of the build


@pytest.fixture(scope="module")
def gate() -> Gate:
    """Two tests, of which the second got 8 % slower: the first is cleared by its screen, the second confirmed."""
    evidence = gates.build([0.0, 0.08], Random(5))
    return Gate(against="main", revision="4f2c1e9", seed=5, evidence=evidence, shared={}, seconds={})


def values_of(gate: Gate, hypothesis: Hypothesis) -> list[float]:
    changes = changes_of([gate])[hypothesis.measurement, hypothesis.margin.metric, hypothesis.margin.statistic]
    return list(decisive(decide(gate.evidence)[hypothesis], changes))


def observed(gate: Gate, hypothesis: Hypothesis, stage: str) -> list[float | None]:
    pairs = [pair for pair in gate.evidence.pairs if pair.stage == stage]
    return [one.change for pair in pairs for one in pair.observations if one.measurement == hypothesis.measurement]


def test_a_cleared_test_rests_on_its_screen_and_a_confirmed_one_on_its_fresh_pairs(gate: Gate) -> None:
    for number, stage in ((EQUAL, "screen"), (SLOWER, "confirm")):
        assert observed(gate, gates.hypothesis(number), stage) == values_of(gate, gates.hypothesis(number))
    assert SCREEN_PAIRS == len(values_of(gate, gates.hypothesis(EQUAL)))
    assert "regressed" == decide(gate.evidence)[gates.hypothesis(SLOWER)].outcome


def test_pairs_beyond_the_last_look_are_left_out(gate: Gate) -> None:
    """A test that was decided earlier may run on beside others; its comparison is that of the look."""
    last, slower = gate.evidence.pairs[-1], gates.hypothesis(SLOWER)
    more = replace(gate.evidence, pairs=(*gate.evidence.pairs, replace(last, number=last.number + 1)))
    assert values_of(gate, slower) == values_of(replace(gate, evidence=more), slower)


def test_the_rehearsal_is_kept_apart_and_what_has_no_ratio_is_left_out(gate: Gate) -> None:
    first = gate.evidence.pairs[0]
    none = replace(first, observations=tuple(replace(one, change=None) for one in first.observations))
    pairs = (replace(first, stage="rehearsal"), none, *gate.evidence.pairs[1:])
    found = changes_of([replace(gate, evidence=replace(gate.evidence, pairs=pairs))])
    assert {SCREEN_PAIRS - 1} == {len(changes["screen"]) for changes in found.values()}


def test_values_that_do_not_give_the_change_are_not_taken(gate: Gate) -> None:
    """As where the stored runs have answered, with as many of them as there are pairs."""
    hypothesis = gates.hypothesis(EQUAL)
    changes = changes_of([gate])[hypothesis.measurement, "latency", "p50"]
    stored = fake.comparison_verdict("latency", "p50", "regressed", (0.3, 0.1, 0.5), pairs=SCREEN_PAIRS).subject
    without = fake.comparison_verdict("latency", "p50", "no baseline").subject
    assert isinstance(stored, Comparison)
    assert isinstance(without, Comparison)
    assert [(), (), ()] == [decisive(stored, changes), decisive(without, changes), decisive(stored, {})]


def test_the_effect_is_the_mean_over_the_deviation() -> None:
    """0.04 / 0.02; the other way round it is its negative, and without a deviation there is none."""
    assert [2.0, -2.0] == pytest.approx([cohens_d([0.02, 0.04, 0.06]), cohens_d([-0.02, -0.04, -0.06])])
    assert [None] * 4 == [cohens_d(values) for values in ([], [0.02], [0.02, 0.02], [0.0, 0.0, 0.0])]
