"""Explanations of what the pairs have decided: the operator of a model that moved most."""

from collections.abc import Iterable, Mapping

from pytest_hwperf.core.evidence import Hypothesis, MeasurementKey, PairedProfiles
from pytest_hwperf.core.metrics import MEDIAN_LATENCY
from pytest_hwperf.core.operators import moved_most, profile_of
from pytest_hwperf.core.records import Comparison, replace


def explained(
    decided: Mapping[Hypothesis, Comparison], profiles: Iterable[PairedProfiles]
) -> dict[MeasurementKey, Comparison]:
    """Return each comparison; that of a median latency that changed with the operator that moved, where it is known.

    The profiles give the shares, and the pairs the times that are shared out.
    """
    comparisons = {hypothesis.key: comparison for hypothesis, comparison in decided.items()}
    for one in profiles:
        key = (one.measurement, *MEDIAN_LATENCY)
        found = comparisons.get(key)
        changed = found and found.outcome in ("regressed", "improved")  # of a change that may be none, a share is noise
        if found and changed and found.baseline is not None and found.candidate is not None:
            sides = profile_of(one.baseline, found.baseline), profile_of(one.candidate, found.candidate)
            comparisons[key] = replace(found, moved=moved_most(*sides))
    return comparisons
