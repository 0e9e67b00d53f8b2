"""A report as pytest-benchmark's JSON: the readings of the latency of each measurement as rounds.

Statistics are those that pytest-benchmark computes, of the same names. A reading of several calls is a round of as
many iterations.
"""

import json
from collections.abc import Sequence
from typing import Any

from pytest_hwperf import __version__
from pytest_hwperf.core.foreign_text import visible, visible_json
from pytest_hwperf.core.metrics import MEDIAN_LATENCY
from pytest_hwperf.core.records import Machine, Run, Sample
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.round_statistics import Stats
from pytest_hwperf.reports.measures import Exported, benchmark_of

_BATCH = "batch of "  # how a unit of replication of several calls begins
_GROUP = "benchmark_group"  # in the context of a run: what the fixture `benchmark` was given
_STATISTICS = (
    "min", "max", "mean", "stddev", "rounds", "median", "iqr", "q1", "q3", "iqr_outliers", "stddev_outliers",
    "outliers", "ld15iqr", "hd15iqr", "ops", "total",
)  # fmt: skip


def render(report: Report) -> Exported:
    """Write every measurement with at least two readings of the latency; the others are left out."""
    found, left_out = [], []
    for judgement in report.judgements:
        run = judgement.run
        sample = run.sample(MEDIAN_LATENCY[0])
        reason = _why_not(run, sample)
        if sample is None or reason:
            left_out.append(f"{benchmark_of(run)}: {reason}")
        else:
            found.append(_benchmark(run, sample))
    whole = {
        "machine_info": _machine(report.machine),
        "commit_info": _commit(report),
        "benchmarks": found,
        "datetime": visible(report.started_at),
        "version": f"pytest-hwperf {__version__}",
    }
    content = visible_json(json.dumps(whole, indent=2, ensure_ascii=False).encode()) + b"\n"
    return Exported(content=content, benchmarks=len(found), left_out=tuple(left_out))


def _why_not(run: Run, sample: Sample | None) -> str:
    if sample is None:
        return f"no latency was measured: {run.unmeasured.get(MEDIAN_LATENCY[0], 'none of its samples is of calls')}"
    if len(sample.values) < 2:  # noqa: PLR2004 - a deviation needs as many
        return "a deviation needs 2 readings of the latency"
    return "" if sum(sample.values) > 0 else "every reading of the latency is 0: calls per second cannot be said"


def _machine(machine: Machine) -> dict[str, Any]:
    implementation, _, version = machine.python.partition(" ")
    return {
        "machine": visible(machine.architecture),
        "processor": visible(machine.cpu_model),
        "cpu": {"brand_raw": visible(machine.cpu_model), "count": machine.cores},
        "python_implementation": visible(implementation),
        "python_version": visible(version),
        "system": visible(machine.system),
    }


def _commit(report: Report) -> dict[str, Any]:
    """Return the revision; a report keeps neither its time nor a branch."""
    return {
        "id": visible(report.revision) or "unversioned",
        "time": None,
        "author_time": None,
        "dirty": report.changed,
        "project": None,
        "branch": None,
    }


def _benchmark(run: Run, sample: Sample) -> dict[str, Any]:
    fullname, group = visible(benchmark_of(run)), run.context.get(_GROUP)
    return {
        "group": None if group is None else visible(group),
        "name": fullname.rpartition("::")[2] or fullname,
        "fullname": fullname,
        "params": None,
        "param": None,
        "extra_info": {
            "source": visible(sample.source),
            "per": visible(sample.per),
            "conditions": {visible(name): visible(value) for name, value in run.conditions.items()},
            "warnings": [visible(str(one)) for one in sample.warnings],
        },
        "options": {},
        "stats": {**statistics_of(sample.values), "iterations": _iterations(sample.per)},
    }


def _iterations(per: str) -> int:
    count = per.removeprefix(_BATCH).partition(" ")[0] if per.startswith(_BATCH) else "1"
    return int(count) if count.isascii() and count.isdigit() else 1


def statistics_of(values: Sequence[float]) -> dict[str, Any]:
    """Return the statistics of at least two rounds, in s, whose sum is above 0."""
    found = Stats(values)
    return {name: getattr(found, name) for name in _STATISTICS}
