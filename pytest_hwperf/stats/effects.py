"""Standardised effects: how large a change is relative to the noise between pairs, for comparing experiments."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev

from pytest_hwperf.records.evidence import Gate, MeasurementKey, Stage
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.ranks import hodges_lehmann

Changes = Mapping[Stage, Sequence[float]]  # the one number of each pair, a log ratio, in time order

_STAGES: tuple[Stage, ...] = ("equivalence", "confirm", "screen")  # the last that was asked decides
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
    for stage in _STAGES:
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
