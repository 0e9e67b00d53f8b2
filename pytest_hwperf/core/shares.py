"""Shares of examples that are right: exact intervals, accuracy by class, and the classes that a candidate loses.

References:
    Clopper & Pearson, Biometrika 26 (1934). Zou, Huang & Zhang, Computational Statistics & Data Analysis 53 (2009):
    intervals of a sum of shares from those of each. McNemar, Psychometrika 12 (1947). Holm, Scandinavian Journal of
    Statistics 6 (1979).
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.metrics import BALANCED_ACCURACY, WORST_CLASS
from pytest_hwperf.core.records import Classes, Estimate, Figure, Sample
from pytest_hwperf.core.statements import Statement, state
from pytest_hwperf.core.units import some_of

LOST_LEVEL = 0.01  # of all classes together
_LITTLE = 0.1  # of what was right: a class of which no more is right is lost
_MUCH_MORE = 0.1  # of accuracy, 10 points: by so much more than the other classes


class _Right(NamedTuple):
    """One class."""

    name: str
    right: int
    n: int


class _Loss(NamedTuple):
    """One class in two answers to the same examples."""

    name: str
    n: int
    then: int  # examples that were right
    now: int
    p_value: float


def share_interval(ones: int, n: int, confidence: float) -> tuple[float, float]:
    """Return the exact two-sided interval of a share of which `ones` of `n`, at least one, were seen.

    Example: 0 of 40 at 0.95: 0 .. 8.8 %.
    """
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = 0.0 if ones == 0 else float(betaincinv(ones, n - ones + 1, tail))
    high = 1.0 if ones == n else float(betaincinv(ones + 1, n - ones, 1 - tail))
    return low, high


def by_class(sample: Sample, confidence: float) -> Iterator[Figure]:
    """Yield the accuracy of the worst class and the mean over all classes; nothing where the classes are not known.

    The worst is known as surely as all of them are: each interval has its part of the error.
    """
    if sample.classes is None:
        return
    found = _right_by_class(sample.values, sample.classes)
    worst, right, n = min(found, key=lambda one: one.right / one.n)
    each = 1 - (1 - confidence) / len(found)
    ends = [share_interval(one.right, one.n, each) for one in found]
    yield _figure(
        sample,
        WORST_CLASS,
        f"class {worst}, {sample.source}",
        Estimate(
            value=right / n,
            low=min(low for low, _ in ends),
            high=min(high for _, high in ends),
            confidence=confidence,
            n=n,
            method=f"worst of {len(found)} classes, Clopper-Pearson intervals, Bonferroni",
        ),
    )
    yield _figure(sample, BALANCED_ACCURACY, sample.source, _balanced(found, confidence))


def _figure(sample: Sample, metric: str, source: str, estimate: Estimate) -> Figure:
    return Figure(metric=metric, statistic="mean", estimate=estimate, source=source, per=sample.per)


def _balanced(found: Sequence[_Right], confidence: float) -> Estimate:
    shares = [(one.right / one.n, *share_interval(one.right, one.n, confidence)) for one in found]
    value = math.fsum(share for share, _, _ in shares) / len(shares)
    below = math.sqrt(math.fsum((share - low) ** 2 for share, low, _ in shares)) / len(shares)
    above = math.sqrt(math.fsum((high - share) ** 2 for share, _, high in shares)) / len(shares)
    return Estimate(
        value=value,
        low=max(0.0, value - below),
        high=min(1.0, value + above),
        confidence=confidence,
        n=sum(one.n for one in found),
        method=f"mean of {len(shares)} classes, from the Clopper-Pearson interval of each",
    )


def _right_by_class(values: Sequence[float], classes: Classes) -> list[_Right]:
    """Return each class that has examples."""
    right = Counter(place for place, value in zip(classes.of, values, strict=True) if value == 1)
    return [
        _Right(visible(classes.names[int(place)]), right[place], n) for place, n in sorted(Counter(classes.of).items())
    ]


def lost_classes(baseline: Sequence[float], candidate: Sequence[float], classes: Classes | None) -> Statement | None:
    """Name the classes that a candidate loses, None where it loses none.

    A class is lost if McNemar's exact test on its examples says so, by Holm's rule over all classes at `LOST_LEVEL`,
    and if no more than a tenth of what was right is right, or the loss is 10 points above that of the other examples,
    whose gain counts as no loss.

    Example: of 45 examples 41 were right and 2 of these are: 39 lost, none won, p = 2^-39.
    """
    if classes is None:
        return None
    found = sorted(_losses(baseline, candidate, classes), key=lambda one: one.p_value)
    shown = list[_Loss]()
    for place, one in enumerate(found):
        if one.p_value > LOST_LEVEL / (len(found) - place):
            break
        shown += [one] if _is_lost(one, found) else []
    if not shown:
        return None
    texts = [f"class {one.name}: {one.then} of {one.n} → {one.now} of {one.n}" for one in shown]
    return state("class lost", classes=some_of(texts), p=shown[-1].p_value, of=len(found))


def _is_lost(one: _Loss, found: Sequence[_Loss]) -> bool:
    others = [other for other in found if other is not one]
    n = sum(other.n for other in others)
    beside = max(0.0, sum(other.then - other.now for other in others) / n) if n else 0.0
    return one.now <= _LITTLE * one.then or (one.then - one.now) / one.n >= beside + _MUCH_MORE


def _losses(baseline: Sequence[float], candidate: Sequence[float], classes: Classes) -> Iterator[_Loss]:
    from scipy.special import bdtr

    counts = Counter(zip(classes.of, baseline, candidate, strict=True))
    for place in sorted({place for place, *_ in counts}):
        both, lost, won = (counts[place, then, now] for then, now in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0)))
        yield _Loss(
            name=visible(classes.names[int(place)]),
            n=both + lost + won + counts[place, 0.0, 0.0],
            then=both + lost,
            now=both + won,
            p_value=float(bdtr(won, lost + won, 0.5)) if lost else 1.0,
        )
