"""What pairs show at no cost and nobody has asked them: memory and start of whole processes, CPU time of calls."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from pytest_hwperf.core.evidence import Evidence, Measurement, Seen
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.metrics import MEDIAN_LATENCY, METRICS
from pytest_hwperf.core.records import Comparison
from pytest_hwperf.core.screen import FIRST_PAIRS
from pytest_hwperf.core.units import relative, show_move

_NAMES = {"memory": "peak memory", "cold_start": "start", "cpu_time": "CPU time"}
_MOST = 3  # tests that are named


def seen_beside(evidence: Evidence, comparisons: Mapping[tuple[Measurement, str, str], Comparison]) -> str:
    """Say what was beyond its default margin in all pairs, and which marker judges it; "" where nothing was.

    CPU time goes with latency: where the latency of a test has changed it says nothing more.
    """
    asked = {one.key[:2] for one in (*evidence.hypotheses, *(one.hypothesis for one in evidence.fixed_samples))}
    judged = {metric for _, metric in asked}
    moved = {key[0] for key, one in comparisons.items() if key[1:] == MEDIAN_LATENCY and one.outcome == "regressed"}
    found = defaultdict[tuple[str, Measurement], list[Seen]](list)
    for one in (one for pair in evidence.pairs for one in pair.seen):
        left_out = one.measurement in moved or (one.measurement, one.metric) in asked
        if not left_out and (one.measurement.test or one.metric not in judged):
            found[one.metric, one.measurement].append(one)
    beyond = {key: values for key, values in found.items() if _is_beyond(key[0], values)}
    said = [part for metric in _NAMES for part in _said(metric, beyond)]
    return f"seen, not judged: {', '.join(said)}" if said else ""


def _is_beyond(metric: str, values: Sequence[Seen]) -> bool:
    """Whether the same side is beyond the margin of the other in every pair."""
    if len(values) < FIRST_PAIRS or not all(one.baseline and one.candidate for one in values):
        return False
    margin = METRICS[metric].margins[0]
    sizes = [max(margin.size, relative(margin.floor, min(one.baseline, one.candidate))) for one in values]
    each = list(zip(values, sizes, strict=True))
    return all(one.candidate > one.baseline * (1 + size) for one, size in each) or all(
        one.baseline > one.candidate * (1 + size) for one, size in each
    )


def _said(metric: str, beyond: Mapping[tuple[str, Measurement], Sequence[Seen]]) -> Iterator[str]:
    """Yield how a metric has moved, of each of some tests, and the marker that judges it."""
    of = {measurement: values for (name, measurement), values in beyond.items() if name == metric}
    marker = f'hwregression({metric}="{100 * METRICS[metric].margins[0].size:g}%")'
    for place, (measurement, values) in enumerate(list(of.items())[:_MOST]):
        sides = median(one.baseline for one in values), median(one.candidate for one in values)
        test = f" of {visible(measurement.test)}" if measurement.test else ""
        yield f"{_NAMES[metric]}{test} {show_move(*sides, METRICS[metric].unit)}{'' if place else f' ({marker})'}"
    if len(of) > _MOST:
        yield f"{_NAMES[metric]} of {len(of) - _MOST} more"
