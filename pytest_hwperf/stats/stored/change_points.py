"""Change points of a series: since when values are others than before, where successive values are alike.

Values of successive runs depend on each other: the machine of a day, a cache, a neighbour. A test that takes them for
independent finds changes where there are none. Here the autocorrelation is estimated after the best change was taken
out, corrected for its bias and raised by one standard error; how large the statistic gets by chance is simulated with
it. Values are replaced by their normal scores, so that single bursts weigh little.
Simulated rates: benchmarks/README.md. Why this method: docs/design-notes.md#change-points-and-drift.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING

from pytest_hwperf.records.run import Estimate, replace
from pytest_hwperf.records.structs import Count, Record, Share

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

FEWEST = 12  # values, below which nothing is looked for
_DRAWS = 1999  # simulated series
_LONGEST = 1000  # values: of longer series the newest
_FEW, _FEWER = 5, 3  # values on each side of a change, at least: of a long and of a short series
_LONG = 40  # values
_GRID = 0.05  # autocorrelations are rounded up to it
_HIGHEST = 0.95
_MAD = 1.4826  # times the median absolute deviation: the standard deviation of normal values
_MEDIAN = math.sqrt(math.pi / 2)  # times the standard error of a mean: that of a median
_Z = 1.96
# Of the likelihood ratio of two places, 95 %: Eo and Morley (2015), "Likelihood-ratio-based confidence sets for the
# timing of structural breaks", Quantitative Economics 6.
_TIMING = -2 * math.log(1 - math.sqrt(0.95))


class LevelChange(Record, frozen=True, kw_only=True):
    """One change of level of a series."""

    place: Count  # of the first value that is others, from 0
    earliest: Count  # of the same, 95 % confidence
    latest: Count
    revision: str = ""  # of that value
    before: str = ""  # revision of the value before it
    # Of the median: in the unit of the values, or relative, by `Trend.scale`; n: the values up to the next changes.
    shift: Estimate
    p_value: Share
    autocorrelation: Share  # of successive values, that was allowed for


def change_points(values: Sequence[float], alpha: float = 0.01) -> tuple[LevelChange, ...]:
    """Return the changes of level of a series, the oldest first; none where it is too short to say."""
    begin, end = max(0, len(values) - _LONGEST), len(values)
    found = sorted(_found(values, begin, end, alpha), key=lambda one: one.place)
    edges = [begin, *(one.place for one in found), end]
    return tuple(_again(values, one, edges[place], edges[place + 2]) for place, one in enumerate(found))


def _found(values: Sequence[float], begin: int, end: int, alpha: float) -> list[LevelChange]:
    """Look for the clearest change of a part, and then on both sides of it."""
    one = _clearest(values[begin:end])
    if one is None or one.p_value > alpha:
        return []
    here = _behind(begin, one)
    halves = ((begin, here.place), (here.place, end))
    return [here, *(more for part in halves for more in _found(values, *part, alpha / 2))]


def _again(values: Sequence[float], one: LevelChange, begin: int, end: int) -> LevelChange:
    """Look at a change once more, between the changes next to it: it was found in a part that had these in it too."""
    alone = _clearest(values[begin:end])
    if alone is None:  # too few values between its neighbours
        return replace(one, shift=_shift(values[begin:end], one.place - begin, one.autocorrelation))
    return replace(_behind(begin, alone), p_value=one.p_value)


def _behind(begin: int, one: LevelChange) -> LevelChange:
    """Return a change of a part by its places in the whole series."""
    return replace(one, place=begin + one.place, earliest=begin + one.earliest, latest=begin + one.latest)


def _clearest(values: Sequence[float]) -> LevelChange | None:
    """Return the change that a series shows best, whether it is one or not; None where it is too short or constant."""
    import numpy as np

    count = len(values)
    if count < FEWEST or min(values) == max(values):
        return None
    fewest = _FEW if count >= _LONG else _FEWER
    scores = _scores(np.asarray(values, dtype=np.float64)[np.newaxis])
    found = _statistics(scores, fewest)[0]
    at = fewest + int(found.argmax())
    rho = _autocorrelation(scores[0], at)
    null = _by_chance(count, fewest, rho)
    p_value = (1 + int(np.count_nonzero(null >= found.max()))) / (1 + len(null))
    # The likelihood ratio of two places of the change; where values depend on each other, each tells less.
    ratios = (count - 2) * np.log((count - 2 + found.max() ** 2) / (count - 2 + found**2)) * (1 - rho) / (1 + rho)
    near = np.flatnonzero(ratios <= _TIMING) + fewest
    return LevelChange(
        place=at,
        earliest=int(near[0]),
        latest=int(near[-1]),
        shift=_shift(values, at, rho),
        p_value=p_value,
        autocorrelation=rho,
    )


def _scores(rows: "Floats") -> "Floats":
    """Return the normal scores of each row: quantiles of the normal distribution at the ranks, ties in the middle."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    scores: Floats = ndtri(rankdata(rows, axis=1) / (rows.shape[1] + 1))
    return scores


def _statistics(rows: "Floats", fewest: int) -> "Floats":
    """Return the t statistic of two means for each place of a change, as far from both ends as `fewest`.

    It is that of residuals, so that it is bounded by no sum of squares: of a step without noise it is infinite.
    """
    import numpy as np

    count = rows.shape[1]
    places = np.arange(fewest, count - fewest + 1)
    sums = np.cumsum(rows, axis=1)
    apart = (sums[:, places - 1] - places / count * sums[:, -1:]) / np.sqrt(places * (count - places) / count)
    left = (rows**2).sum(axis=1, keepdims=True) - sums[:, -1:] ** 2 / count - apart**2
    found: Floats = np.abs(apart) / np.sqrt(np.maximum(left, 1e-12) / (count - 2))
    return found


def _autocorrelation(scores: "Floats", at: int) -> float:
    """Return the lag-1 autocorrelation to allow for: without the change, without bias, one standard error above.

    Of short series the estimate is too low by about (1 + 3 rho) / n (Kendall 1954), and by as much again for the
    second mean and for the place that was chosen.
    """
    count = len(scores)
    residuals = scores.copy()
    for part in (slice(0, at), slice(at, None)):
        residuals[part] -= residuals[part].mean()
    rest = float((residuals[:-1] ** 2).sum())
    plain = float((residuals[1:] * residuals[:-1]).sum()) / rest if rest > 0 else 0.0
    rho = plain + (4 + 3 * max(0.0, plain)) / count
    rho += math.sqrt(max(0.0, 1 - rho * rho) / count)
    return min(_HIGHEST, max(0.0, math.ceil(rho / _GRID) * _GRID))


@lru_cache(maxsize=64)
def _by_chance(count: int, fewest: int, rho: float) -> "Floats":
    """Return the largest statistics of simulated series without a change, whose successive values correlate by `rho`.

    The seed is fixed: the same series has the same answer everywhere.
    """
    import numpy as np

    steps = np.random.default_rng(count).normal(size=(_DRAWS, count))
    steps[:, 0] /= math.sqrt(1 - rho * rho)
    for place in range(1, count):
        steps[:, place] += rho * steps[:, place - 1]
    largest: Floats = _statistics(_scores(steps), fewest).max(axis=1)
    return largest


def _shift(values: Sequence[float], at: int, rho: float) -> Estimate:
    """Estimate the difference of the medians after and before."""
    before, after = median(values[:at]), median(values[at:])
    residuals = [abs(value - before) for value in values[:at]] + [abs(value - after) for value in values[at:]]
    spread = _MAD * median(residuals) * math.sqrt((1 + rho) / (1 - rho))
    half = _Z * _MEDIAN * spread * math.sqrt(1 / at + 1 / (len(values) - at))
    shift, method = after - before, f"difference of medians, normal, autocorrelation {rho:.2f}"
    return Estimate.of(shift, (shift - half, shift + half), 0.95, len(values), method)
