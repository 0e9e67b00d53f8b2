"""Peaks of ONNX Runtime's own allocator."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from pytest_hwperf.core.contracts import Arenas
from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.scenarios.arena import SOURCE, arena_of, parse_arena
from pytest_hwperf.scenarios.onnx import onnx_fp32
from pytest_hwperf.scenarios.sklearn_native import sklearn_fp32


def node(**args: str) -> dict[str, Any]:
    return {"cat": "Node", "name": "a_kernel_time", "ts": 1, "dur": 1, "args": {"op_name": "Gemm", **args}}


def test_the_largest_of_all_events_is_told_in_bytes() -> None:
    """The runtime writes them as text; other events and nodes without a word of memory are passed over."""
    profile = [
        {"cat": "Session", "name": "model_run", "ts": 0, "dur": 9},
        {**node(mem_in_use_peak="999999"), "name": "a_fence_before"},
        node(mem_in_use_peak="100", mem_arena_held="4096"),
        node(mem_in_use_peak="2000", mem_arena_held="4096"),
        node(),
    ]

    assert {"arena_in_use": 2000.0, "arena_held": 4096.0} == parse_arena(json.dumps(profile))


@pytest.mark.parametrize(
    ("told", "missing"),
    [({}, "mem_in_use_peak and no mem_arena_held"), ({"mem_in_use_peak": "5"}, "no mem_arena_held")],
)
def test_a_profile_without_them_is_a_reason_and_no_number(told: dict[str, str], missing: str) -> None:
    """The arena is off, or the runtime is older."""
    with pytest.raises(MeasurementError, match=missing):
        parse_arena(json.dumps([node(**told)]))


def test_a_session_apart_is_called_and_its_profile_read(tmp_path: Path) -> None:
    calls: list[Path] = []

    class Session:
        def end_profiling(self) -> str:
            file = tmp_path / "profile.json"
            file.write_text(json.dumps([node(mem_in_use_peak=str(len(calls)), mem_arena_held="7")]), encoding="utf-8")
            return str(file)

    found = arena_of(lambda profile: (Session(), lambda: calls.append(profile)))

    assert {"arena_in_use": 6.0, "arena_held": 7.0} == found
    assert not calls[0].parent.exists()


@pytest.fixture(scope="module")
def model() -> Any:
    coin = np.random.default_rng(0)
    X = coin.normal(size=(200, 20)).astype(np.float32)
    return MLPClassifier((64,), max_iter=3, tol=1.0, n_iter_no_change=1).fit(X, X[:, 0] > 0), X


@pytest.mark.live
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_peaks_repeat_to_the_byte_and_grow_with_the_batch(model: Any) -> None:
    estimator, X = model
    scenario = onnx_fp32(estimator, X=X)
    first, again, larger = (scenario.arena(X, batch_size) for batch_size in (8, 8, 200))

    assert first == again
    assert 0 < first["arena_in_use"] < larger["arena_in_use"] <= larger["arena_held"]


@pytest.mark.live
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_only_scenarios_of_that_runtime_offer_it(model: Any) -> None:
    estimator, X = model

    assert isinstance(onnx_fp32(estimator, X=X), Arenas)
    assert SOURCE == onnx_fp32(estimator, X=X).arena_source
    assert not isinstance(sklearn_fp32(estimator, X=X), Arenas)


def test_a_profile_that_is_not_whole_is_no_measurement() -> None:
    with pytest.raises(MeasurementError, match="profile is not whole"):
        parse_arena('[{"cat": "Node", "na')
