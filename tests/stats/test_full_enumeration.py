"""Exact p-values against every sign pattern there is, for every number of pairs up to twelve, and against scipy's."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pytest_hwperf.stats.ranks import sign_flip_p, signed_rank_p

CASES = 25  # samples of each size

# Known answers with ties and a zero, counted by hand: 6/32, 4/256, 3/32.
TIED = {6 / 32: [1, 1, 2, -2, 3], 4 / 256: [1, 1, 2, 2, 3, 3, -1, 4], 3 / 32: [0, 1, 2, 2, 3, -1]}
EXAMPLE = [6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75]  # of scipy's manual


def share_of_patterns(weights: NDArray[np.int64], positive: NDArray[np.bool_]) -> float:
    """Return the share of all sign patterns whose positive weights sum to at least those that were observed."""
    n = len(weights)
    patterns = (np.arange(2**n)[:, np.newaxis] >> np.arange(n)) & 1
    return int(np.count_nonzero(patterns @ weights >= weights[positive].sum())) / int(2**n)


@pytest.mark.parametrize("n", range(1, 13))
def test_p_values_with_ties_and_zeros_are_those_of_every_pattern(n: int) -> None:
    """Whole numbers, so that ties are ties; twice a midrank is whole too, and what is 0 keeps its rank."""
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


def test_a_pattern_more_would_be_noticed() -> None:
    """What the counts are held against is no copy of what they check."""
    assert 4 / 256 == share_of_patterns(np.array([4, 4, 9, 9, 13, 13, 4, 16]), np.array([1, 1, 1, 1, 1, 1, 0, 1]) > 0)


@pytest.mark.parametrize(("p_value", "values"), TIED.items(), ids=["5", "8", "6 with a zero"])
def test_scipy_agrees_where_it_counts_patterns_instead_of_taking_a_table(p_value: float, values: list[float]) -> None:
    every = stats.PermutationMethod(n_resamples=np.inf)
    found = stats.wilcoxon(values, alternative="greater", zero_method="pratt", method=every)
    assert [p_value] * 2 == [signed_rank_p(values), pytest.approx(found.pvalue, rel=1e-12)]


def test_both_tails_of_the_manuals_example() -> None:
    assert (0.0206298828125, 0.041259765625) == (signed_rank_p(EXAMPLE), 2 * signed_rank_p(EXAMPLE))
