"""Early stopping: a bound that a percentile keeps with a stated confidence, and how many calls it takes.

References:
    Reddi et al., MLPerf Inference Benchmark, ISCA 2020; mlcommons/inference, loadgen/early_stopping.cc.
"""

from collections.abc import Sequence
from functools import lru_cache

CONFIDENCE = 0.99  # one-sided, of the bound


@lru_cache(maxsize=100)
def fewest_calls(q: float, confidence: float = CONFIDENCE) -> int:
    """Return how many calls a bound of the percentile `q` takes: 64 for 0.90, 130 for 0.95, 662 for 0.99."""
    n = 1
    while not rank_from_above(n, q, confidence):
        n += max(1, n // 1000)
    while rank_from_above(n - 1, q, confidence):
        n -= 1
    return n


def early_stopping(latencies: Sequence[float], q: float, confidence: float = CONFIDENCE) -> float | None:
    """Return a bound that the percentile `q` keeps with this confidence: the t-th largest; None from too few calls."""
    t = rank_from_above(len(latencies), q, confidence)
    return sorted(latencies)[-t] if t else None


@lru_cache(maxsize=1000)
def rank_from_above(n: int, q: float, confidence: float = CONFIDENCE) -> int:
    """Return the largest t with binom.cdf(t, n, 1 - q) <= 1 - confidence; 0 where there is none."""
    from scipy.special import bdtr

    low, high = 0, n  # cdf rises with t: at `high` it is 1
    while high - low > 1:
        middle = (low + high) // 2
        if bdtr(middle, n, 1 - q) <= 1 - confidence:
            low = middle
        else:
            high = middle
    return low
