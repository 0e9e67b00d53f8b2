"""Candidates that nothing has measured."""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from fakes import records as fake

from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.run import Estimate
from pytest_hwperf.stats.choice.candidates import ACCURACY, DIMENSIONS, MEMORY, Candidate


def near(value: float, noise: float = 0.0) -> Estimate:
    return fake.estimate(value, value * (1 - noise), value * (1 + noise), 100)


def candidate(
    name: str,
    accuracy: float | None = 0.9,
    latency_ms: float = 1.0,
    memory_mb: float = 1.0,
    energy_mj: float | None = 1.0,
    *,
    noise: float = 0.0,
    **others: Any,
) -> Candidate:
    values = {
        ACCURACY: accuracy,
        MEDIAN_LATENCY: latency_ms * 1e-3,
        MEMORY: memory_mb * 1e6,
        DIMENSIONS["energy"]: None if energy_mj is None else energy_mj * 1e-3,
    }
    found = {key: near(value, noise) for key, value in values.items() if value is not None}
    return Candidate(name=name, values=found, **others)


def answering(name: str, right: Sequence[float], conditions: Mapping[str, str] | None = None) -> Candidate:
    """Return a candidate that has answered the same examples as others."""
    values = {ACCURACY: near(sum(right) / len(right), 0.02)}
    return Candidate(name=name, values=values, right=array("d", right), conditions=conditions or {})


def named(candidates: Sequence[Candidate]) -> list[str]:
    return [one.name for one in candidates]
