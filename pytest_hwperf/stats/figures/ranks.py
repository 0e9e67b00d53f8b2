"""Ranks of percentiles, exact tests of a few paired values by the signs they could have had, bounds and effects.

The tests assume nothing about the noise but that every value is as likely to lie as far on one side as on the other,
which a coin that decides the order of each pair guarantees. No distribution is approximated, however few the values.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from statistics import fmean, median, stdev

from pytest_hwperf.records.evidence import Gate, MeasurementKey, Stage
from pytest_hwperf.records.verdict import Comparison

SPREAD = "iqr"  # from the lower to the upper quartile
QUARTILES = ("p25", "p75")
MOST_FLIPPED = 30  # values of a sign-flip test: half of them give 2^15 sums, which still takes no time


def signed_rank_p(values: Sequence[float], margin: float = 0.0) -> float:
    """Return the exact one-sided p-value of "greater than the margin", by the signed ranks of the values beyond it.

    The distances from the margin are ranked, ties get the mean of their ranks, and the ranks of those above it are
    summed. Under the null hypothesis each of 2^n patterns of signs is equally likely. A value on the margin keeps its
    rank and contributes nothing (Pratt), so that the smallest p-value is 2^-(values off the margin).

    References:
        Wilcoxon, Biometrics Bulletin 1 (1945); Pratt, JASA 54 (1959).
        Example: five values above 0 give 2^-5 = 0.03125; [1, 1, 2, -2, 3], with its ties, gives 6/32.
    """
    beyond = [value - margin for value in values]
    ordered = sorted(map(abs, beyond))
    # twice the mean rank of each size: whole numbers, also for ties
    ranks = {size: bisect_left(ordered, size) + 1 + bisect_right(ordered, size) for size in ordered}
    signed = tuple(sorted(ranks[abs(value)] for value in beyond if value))
    reached = sum(ranks[value] for value in beyond if value > 0)
    return float(_tail(signed)[reached] / 2 ** len(signed))


def sign_flip_p(values: Sequence[float], margin: float = 0.0) -> float:
    """Return the exact one-sided p-value of "greater than the margin", by the sum of the values beyond it.

    Every sum that other signs would have given is counted, in whole numbers, so that equal sums are equal. Made for
    differences that are often the same, of which ranks would make little: peaks of memory.

    References:
        Fisher, The Design of Experiments (1935), section 21.
        Example: three values above 0 give 1/8.
    """
    if len(values) > MOST_FLIPPED:
        raise ValueError(f"{len(values)} values: the exact test takes at most {MOST_FLIPPED}")
    sizes = [Fraction(value) - Fraction(margin) for value in values]
    scale = math.lcm(*(size.denominator for size in sizes))
    whole = [int(size * scale) for size in sizes]
    reached = sum(size for size in whole if size > 0)
    half = len(whole) // 2
    left, right = _sums(whole[:half]), sorted(_sums(whole[half:]))
    as_large = sum(len(right) - bisect_left(right, reached - one) for one in left)
    return float(as_large / 2 ** len(whole))


def sign_flip_bounds(values: Sequence[float], alpha: float) -> tuple[float | None, float | None]:
    """Return the one-sided bounds at which `sign_flip_p` begins to exceed alpha, on either side.

    They are means of subsets of the values (Hartigan): the test rejects a margin exactly where fewer than alpha * 2^n
    subset means lie at or below it. Found by bisection, to the last digit.
    """
    if not values or 2.0 ** -len(values) > alpha:
        return None, None
    return _lower_flip(tuple(values), alpha), -_lower_flip(tuple(-value for value in values), alpha)


def hodges_lehmann(values: Sequence[float]) -> float:
    """Return the median of the means of all pairs of values, each with itself included.

    References:
        Hodges & Lehmann, Annals of Mathematical Statistics 34 (1963).
        Example: of [0, 1, 5] it is 1.75, the middle of 0, 0.5, 1, 2.5, 3 and 5.
    """
    return median(_walsh(tuple(values)))


def walsh_bounds(values: Sequence[float], alpha: float) -> tuple[float | None, float | None]:
    """Return the one-sided bounds that belong to the signed-rank test: the k-th smallest and largest pairwise mean.

    Without ties the lower one lies above a margin exactly where `signed_rank_p` is at most alpha.

    References:
        Hollander, Wolfe & Chicken, Nonparametric Statistical Methods (2014), section 3.3.
        Example: of six values at 1/64 they are the smallest and the largest.
    """
    k = rank_count(len(values), alpha)
    means = _walsh(tuple(values))
    return (means[k - 1], means[-k]) if k else (None, None)


@lru_cache(maxsize=1024)
def rank_count(n: int, alpha: float) -> int:
    """Return k, the number of rank sums t with P(T+ <= t) <= alpha: 11 for ten values at 0.05."""
    counts = _tail(tuple(range(2, 2 * n + 1, 2)))[::2]  # of T+ >= t, which by symmetry is T+ <= the rest
    return sum(count <= alpha * 2**n for count in counts)


def shift_bound(later: Sequence[float], earlier: Sequence[float], alpha: float) -> float | None:
    """Return the one-sided lower bound of how far one group of values lies above another: a k-th smallest difference.

    It belongs to the rank-sum test, and holds at alpha for independent values of one form. A single value may be
    anything without moving it far.

    References:
        Mann & Whitney, Annals of Mathematical Statistics 18 (1947); Hodges & Lehmann, ibid. 34 (1963).
        Example: of two groups of four at 1/70 it is the smallest difference, of two of ten at 0.05 the 28th.
    """
    k = rank_sum_count(len(later), len(earlier), alpha)
    return sorted(one - other for one in later for other in earlier)[k - 1] if k else None


@lru_cache(maxsize=1024)
def rank_sum_count(m: int, n: int, alpha: float) -> int:
    """Return k, the number of values u of the Mann-Whitney statistic with P(U <= u) <= alpha.

    Of the ways to draw m ranks of m + n, those with each sum are counted.
    """
    ways = [[1] + [0] * (m * n)] + [[0] * (m * n + 1) for _ in range(m)]  # by how many are drawn, and their U
    for rank in range(1, m + n + 1):
        for drawn in range(min(rank, m), 0, -1):
            beyond = rank - drawn  # what this rank adds to U as the highest of those drawn
            for u in range(m * n, beyond - 1, -1):
                ways[drawn][u] += ways[drawn - 1][u - beyond]
    return sum(count <= alpha * math.comb(m + n, m) for count in accumulate(ways[m]))


@lru_cache
def is_tail(statistic: str) -> bool:
    """Whether a statistic is about single calls, which a mean of several hides: their spread, p90 or beyond."""
    return statistic in ("max", SPREAD) or (quantile(statistic) or 0) >= Fraction(9, 10)


def quantile(statistic: str) -> Fraction:
    """Return the share of calls at or below a percentile, exactly: `p99_9` → 999/1000; 0 for any other statistic."""
    match = re.fullmatch(r"p(\d+)(?:_(\d+))?", statistic, flags=re.ASCII)
    q = Fraction(f"{match[1]}.{match[2] or 0}") / 100 if match else Fraction(0)
    return q if q < 1 else Fraction(0)


def nearest_rank(q: Fraction, n: int) -> int:
    """Return the rank of quantile `q` among `n` values, from 1; a fraction, since .07 * 100 > 7 in floating point."""
    return math.ceil(q * n)


def fewest_pairs(alpha: float) -> int:
    """Return the smallest n with 2^-n <= alpha: fewer pairs can never reject. 7 for 0.01."""
    n = max(0, math.ceil(-math.log2(alpha)))
    return n if 2.0**-n <= alpha else n + 1


@lru_cache(maxsize=4096)  # without ties there is one for each n
def _tail(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Return at t how many of the sign patterns give the positive ranks a sum of t or more."""
    counts = [1] + [0] * sum(ranks)
    for rank in ranks:
        counts = [count + (counts[t - rank] if t >= rank else 0) for t, count in enumerate(counts)]
    return tuple(accumulate(reversed(counts)))[::-1]


def _sums(sizes: Sequence[int]) -> list[int]:
    """Return the sum of every subset, taken of the sizes without their signs."""
    sums = [0]
    for size in sizes:
        sums += [one + abs(size) for one in sums]
    return sums


@lru_cache(maxsize=1024)  # every look at the pairs asks for those of the processes again
def _lower_flip(values: tuple[float, ...], alpha: float) -> float:
    """Bisect to the smallest margin that the sign-flip test does not reject."""
    low, high = math.nextafter(min(values), -math.inf), max(values)  # rejected; no subset mean lies above it
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if sign_flip_p(values, middle) <= alpha else (low, middle)
    return high


@lru_cache(maxsize=1024)  # the centre and both bounds ask for the same ones
def _walsh(values: tuple[float, ...]) -> list[float]:
    return sorted([(one + other) / 2 for i, one in enumerate(values) for other in values[: i + 1]])


CONFIDENCE = 0.99  # one-sided, of the bound
_MOST_CALLS = 2**40  # more than any percentile takes


@lru_cache(maxsize=100)
def fewest_calls(q: float, confidence: float = CONFIDENCE) -> int:
    """Return how many calls a bound of the percentile `q` takes: 64 for 0.90, 130 for 0.95, 662 for 0.99."""
    return bisect_left(range(_MOST_CALLS), 1, key=lambda n: rank_from_above(n, q, confidence))


def early_stopping(latencies: Sequence[float], q: float, confidence: float = CONFIDENCE) -> float | None:
    """Return a bound that the percentile `q` keeps with this confidence: the t-th largest; None from too few calls."""
    t = rank_from_above(len(latencies), q, confidence)
    return sorted(latencies)[-t] if t else None


@lru_cache(maxsize=1000)
def rank_from_above(n: int, q: float, confidence: float = CONFIDENCE) -> int:
    """Return the largest t with binom.cdf(t, n, 1 - q) <= 1 - confidence; 0 where there is none."""
    from scipy.special import bdtr

    return bisect_right(range(1, n), 1 - confidence, key=lambda t: float(bdtr(t, n, 1 - q)))


Changes = Mapping[Stage, Sequence[float]]  # the one number of each pair, a log ratio, in time order

_DECISIVE: tuple[Stage, ...] = ("equivalence", "confirm", "screen")  # the last that was asked decides
_CLOSE = 1e-9  # relative: what is read back from a file may differ in its last digits


def changes_of(gates: Iterable[Gate]) -> Mapping[MeasurementKey, Changes]:
    """Sort the pair values of every gate by what they were measured of, and by stage: a rehearsal decides nothing.

    Pairs whose values have no ratio are left out.
    """
    found: dict[MeasurementKey, dict[Stage, list[float]]] = {}
    for pair in (pair for gate in gates for pair in gate.evidence.pairs):
        for one in pair.observations:
            if one.change is not None:
                found.setdefault(one.key, {}).setdefault(pair.stage, []).append(one.change)
    return found


def decisive(comparison: Comparison, changes: Changes) -> Sequence[float]:
    """Return the pair values that a comparison rests on: those whose centre is its change; () where there are none.

    A comparison is made of as many fresh pairs as a look takes, or else of the screen.
    """
    if comparison.change is None:
        return ()
    for stage in _DECISIVE:
        values = changes.get(stage, ())[: comparison.pairs]
        if values and math.isclose(math.expm1(hodges_lehmann(values)), comparison.change.value, rel_tol=_CLOSE):
            return values
    return ()


def cohens_d(values: Sequence[float]) -> float | None:
    """Return the mean of paired differences over their standard deviation; None where that is 0 or cannot be had.

    It is the effect that is called d_z: positive where the candidate's value is the larger one, and the same for any
    number of pairs. It speaks of the noise between these pairs on this machine and of no margin; so nothing is decided
    by it.

    References:
        Cohen, Statistical Power Analysis for the Behavioral Sciences, 2nd ed. (1988), section 2.3.5.
        Example: 0.02, 0.04 and 0.06 have a mean of 0.04 and a deviation of 0.02, so that d is 2.
    """
    deviation = stdev(values) if len(values) > 1 else 0.0
    return fmean(values) / deviation if deviation > 0 else None
