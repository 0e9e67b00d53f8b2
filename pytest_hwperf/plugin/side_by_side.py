"""`hwperf.compare(...)`: two models of the user's, beside each other, from within a test."""

from collections.abc import Mapping
from typing import Any

import pytest

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.evidence import Gate, Measurement
from pytest_hwperf.core.records import Comparison, Run, replace
from pytest_hwperf.plugin.measurement import empty_run
from pytest_hwperf.plugin.state import COMPARED, MARKERS, SETTINGS

_KNOWN = frozenset({"latency", "accuracy", "model_size", "cpu_time"})


def compared(
    item: pytest.Item, models: Mapping[str, str], X: Any, y_true: Any | None, how: tuple[int, int, str]
) -> tuple[Run, tuple[Comparison, ...], Gate]:
    """Let two models take turns; return the run that the comparisons speak of, and the evidence.

    Args:
        item: the test.
        models: name → ONNX file or module:function, the baseline first.
        X: rows.
        y_true: labels, None for none.
        how: batch size, threads, label.
    """
    from pytest_hwperf.gate.models import Terms, compare_models

    batch_size, threads, label = how
    (old_name, old), (new_name, new) = _two(models)
    run = empty_run(item, label or f"{new_name} against {old_name}")
    if any(other.label == run.label for other, _, _ in item.stash.get(COMPARED, [])):
        raise UsageProblem(f"hwperf.compare: {run.label!r} is compared twice; give each its own label=")
    settings = item.config.stash[SETTINGS]
    terms = Terms(
        margins=tuple(margin for margin in item.stash[MARKERS].margins if margin.metric in _KNOWN),
        alpha=settings.alpha,
        batch_size=batch_size,
        threads=threads,
        time_s=settings.gate_time_s,
        measurement=Measurement(test=item.nodeid, label=run.label),
    )
    comparisons, gate = compare_models(old, new, X, y_true, terms)
    conditions = {"baseline": old, "candidate": new, "batch_size": str(batch_size), "threads": str(threads)}
    return replace(run, conditions=conditions), comparisons, gate


def _two(models: object) -> list[tuple[str, str]]:
    if not isinstance(models, Mapping) or len(models) != 2 or not all(isinstance(m, str) for m in models.values()):  # noqa: PLR2004
        raise UsageProblem(
            "hwperf.compare takes two names with their models, the baseline first, such as "
            "hwperf.compare({'v1': 'models/v1.onnx', 'v2': 'models/v2.onnx'}, X)"
        )
    return list(models.items())
