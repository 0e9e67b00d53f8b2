"""What the page shows across measurements: scenarios of a test against each other, rooflines, and other machines."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_hwperf.records.metrics import MEDIAN_LATENCY, metric_of
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Key, Machine
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import scale_for
from pytest_hwperf.reports.html.details import rounded
from pytest_hwperf.reports.rows import benchmark_of
from pytest_hwperf.stats.candidates import measured_together
from pytest_hwperf.stats.rivals import Candidate, per_row
from pytest_hwperf.stats.tradeoffs import dimensions_of

Plain = dict[str, Any]
_LEAST = 2  # candidates to choose from, and dimensions of a plane


def tradeoffs_of(report: Report) -> Iterator[Plain]:
    """Yield a scatter for each test and operating point: its candidates by what all of them have."""
    for measured in measured_together(report.judgements):
        candidates, front = measured.candidates, measured.front
        dimensions, lacking = dimensions_of(candidates)
        if min(len(candidates), len(dimensions)) < _LEAST or MEDIAN_LATENCY not in dimensions.values():
            continue
        yield {
            "title": visible(f"{measured.test}{f' at {measured.point}' if measured.point else ''}"),
            "axes": {name: _axis(candidates, name, key) for name, key in dimensions.items()},
            "names": [visible(one.name) for one in candidates],
            "front": [one in front for one in candidates],
            "lacking": [
                visible(f"{name}, not measured" + (f" of {', '.join(names)}" if len(names) < len(candidates) else ""))
                for name, names in lacking.items()
            ],
        }


def _axis(candidates: Sequence[Candidate], name: str, key: Key) -> Plain:
    """Return the values of all candidates with their intervals, in the unit in which the largest reads well."""
    metric, values = metric_of(key[0]), [per_row(one, key) for one in candidates]
    factor, unit = scale_for(metric.unit, max(abs(one.value) for one in values))
    points = [
        [None if end is None else rounded(end / factor) for end in (one.value, one.low, one.high)] for one in values
    ]
    of_row = " of a row" if name == "latency" and any(one.rows > 1 for one in candidates) else ""
    return {"unit": unit, "better": metric.better, "points": points, "of": of_row}


def rooflines_of(report: Report) -> list[Plain]:
    """Return a chart for each set of rates that numpy reaches: the measurements whose work is known, beside them."""
    charts: dict[tuple[float, float, int], list[list[Any]]] = {}
    for judgement in report.judgements:
        found = judgement.run.roofline
        if found is None or found.peak is None or not found.intensity or not found.flops_per_s:
            continue
        peak = (found.peak.flops_per_s, found.peak.bytes_per_s, found.peak.threads)
        point = [
            visible(benchmark_of(judgement.run)),
            rounded(found.intensity),
            rounded(found.flops_per_s),
            found.bound or "",
        ]
        charts.setdefault(peak, []).append(point)
    return [
        {"flops": rounded(flops), "bytes": rounded(bandwidth), "threads": threads, "points": points}
        for (flops, bandwidth, threads), points in charts.items()
    ]


def differences_of(report: Report) -> Iterator[Mapping[str, str | int]]:
    """Yield each fact in which a baseline and this run differ, once, with the number of tests that it concerns."""
    found: dict[tuple[str, str, str], set[str]] = {}
    usual: dict[str, Machine] = {}  # kind of machine → that of its first run: kinds are not compared
    for judgement in report.judgements:
        for comparison in judgement.comparisons:
            for one in comparison.cause.differences if comparison.cause else ():
                found.setdefault((one.name, one.baseline, one.candidate), set()).add(judgement.run.test)
        run = judgement.run
        machine = usual.setdefault(run.kind, run.machine) if run.kind else report.machine
        for one in machine.differences(run.machine):
            found.setdefault((one.name, one.baseline, one.candidate), set()).add(run.test)
    for (name, baseline, candidate), tests in found.items():
        yield {"name": visible(name), "baseline": visible(baseline), "now": visible(candidate), "tests": len(tests)}
