"""Samples of a load: what the times of its calls give for each metric, and what is to be doubted of it."""

import math
from array import array
from collections.abc import Iterator, Sequence

from pytest_hwperf.core.load_windows import rates, why_degrading, why_unsteady
from pytest_hwperf.core.loads import Load, Served, why_not_served, why_slower, why_unsure
from pytest_hwperf.core.records import OF_A_LOAD, Sample, Values, replace
from pytest_hwperf.core.statements import Remark, Statement


def doubts_of(load: Load, served: Served, within_s: float | None) -> tuple[Statement, ...]:
    """Say what is to be doubted of a load; with most of it no budget passes."""
    late = why_not_served(load, served)
    found = (
        None if late is not None and late.kind == "late calls" else late,  # that is what a budget answers
        why_unsure(served, within_s) or why_slower(served),
        why_unsteady(load, served),
        why_degrading(load, served),
    )
    return tuple(filter(None, found))


def load_samples(
    load: Load, served: Served, source: str, *, rows: int | None, within_s: float | None, warnings: Sequence[Remark]
) -> Iterator[Sample]:
    """Yield latency, throughput and goodput of a load."""
    noted = (*warnings, *doubts_of(load, served, within_s))
    yield Sample(metric="latency", values=served.latencies, per=OF_A_LOAD, source=source, warnings=noted)
    one = _throughput(served, source, tuple(one for one in noted if not _of_generator(one)))
    yield one
    if rows is not None:
        yield replace(one, metric="sample_throughput", values=array("d", (rate * rows for rate in one.values)))
    if within_s is not None:
        good, _ = rates(served, within_s)
        yield Sample(metric="goodput", values=good, per="window", source=source, warnings=noted)


def _of_generator(remark: Remark) -> bool:
    """Whether a remark is about the moment when calls were issued, which changes no rate."""
    return isinstance(remark, Statement) and remark.kind in {"generator late", "generator adds"}


def _throughput(served: Served, source: str, warnings: tuple[Remark, ...]) -> Sample:
    """Completed calls over wall time, window by window; over the whole where a window has none."""
    values, counts = rates(served)
    weights: Values | None = counts
    if not min(counts):
        values, weights = array("d", [len(served.ended) / max(*served.ended, math.ulp(0.0))]), None
    return Sample(metric="throughput", values=values, per="window", source=source, warnings=warnings, weights=weights)
