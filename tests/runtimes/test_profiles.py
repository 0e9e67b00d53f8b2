"""Profiles: the executed operators decide what may be called INT8, and nodes report the peaks of the allocator."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.records.messages import state
from pytest_hwperf.runtimes import profiles
from pytest_hwperf.runtimes.onnx import onnx_fp32
from pytest_hwperf.runtimes.profiles import (
    OperatorTime,
    describe_operators,
    parse_arena,
    parse_calls,
    parse_operators,
)
from pytest_hwperf.runtimes.quantise import why_not_int8
from pytest_hwperf.runtimes.sklearn_native import sklearn_fp32
from pytest_hwperf.stats.causes.explanations import profile_of

FLOAT = (("FusedGemm", 2, 900), ("Softmax", 1, 100))


def operators(*rows: tuple[str, int, float]) -> tuple[OperatorTime, ...]:
    """Write operators as name, calls, microseconds."""
    return tuple(OperatorTime(operator=name, calls=calls, time=us * 1e-6) for name, calls, us in rows)


@pytest.mark.parametrize(
    "integer", ["DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "QLinearMatMul", "QGemm"]
)
def test_integer_operators_that_carry_the_weights_are_int8(integer: str) -> None:
    """The Softmax takes most of the time and holds no weight."""
    quantised = operators(("Softmax", 1, 900), (integer, 2, 100))
    assert not why_not_int8(quantised, operators(*FLOAT), same_outputs=False)


@pytest.mark.parametrize(("integer_us", "accepted"), [(50, True), (49, False)])
def test_half_of_the_weight_holders_time_is_the_bound(integer_us: float, *, accepted: bool) -> None:
    quantised = operators(("Gemm", 1, 100 - integer_us), ("QGemm", 1, integer_us))
    reason = why_not_int8(quantised, operators(*FLOAT), same_outputs=False)
    assert accepted == (reason is None)
    assert accepted or str(reason).startswith("not INT8: integer operators take 49 %")


def test_trees_beside_an_int8_part_count_as_float() -> None:
    quantised = operators(("TreeEnsembleClassifier", 1, 900), ("QLinearMatMul", 1, 10))
    reason = str(why_not_int8(quantised, operators(*FLOAT), same_outputs=False))
    assert reason.startswith("not INT8: integer operators take 1 %")


def test_weight_only_operators_are_not_int8_whatever_runs_beside_them() -> None:
    quantised = operators(("QLinearMatMul", 1, 900), ("MatMulNBits", 1, 10))
    reason = why_not_int8(quantised, operators(*FLOAT), same_outputs=False)
    assert reason == state("weight-only", operator="MatMulNBits", executed="QLinearMatMul 99 %, MatMulNBits 1 %")


def test_the_same_operators_and_outputs_mean_that_nothing_was_quantised() -> None:
    """Times differ from run to run; counts do not."""
    slower = operators(("FusedGemm", 2, 950), ("Softmax", 1, 90))
    reason = why_not_int8(slower, operators(*FLOAT), same_outputs=True)
    assert reason == state("unchanged")


def test_the_same_operators_with_other_outputs_are_refused_for_what_they_are() -> None:
    reason = why_not_int8(operators(*FLOAT), operators(*FLOAT), same_outputs=False)
    assert str(reason).startswith("not INT8: integer operators take 0 %")
    assert "FusedGemm 90 %" in str(reason)


def test_no_weight_holder_at_all_is_not_int8() -> None:
    reason = why_not_int8(operators(("Scan", 1, 5)), operators(*FLOAT), same_outputs=False)
    assert reason is not None
    assert "not int8" == reason.kind


def test_shares_are_of_the_whole_time() -> None:
    assert "FusedGemm 90 %, Softmax 10 %" == describe_operators(operators(*FLOAT))


def test_a_profile_is_summed_without_its_first_run() -> None:
    def node(name: str, ts: int, dur: int, event: str = "kernel_time") -> dict[str, object]:
        return {"cat": "Node", "name": f"n_{event}", "ts": ts, "dur": dur, "args": {"op_name": name}}

    profile = [
        {"cat": "Session", "name": "model_loading", "ts": 0, "dur": 5},
        node("Gemm", 11, 999),
        {"cat": "Session", "name": "model_run", "ts": 10, "dur": 1001},
        node("Softmax", 1021, 0),
        node("Gemm", 1022, 7),
        node("Gemm", 1022, 50, event="fence_before"),
        node("Gemm", 1030, 8),
        {"cat": "Session", "name": "model_run", "ts": 1020, "dur": 20},
    ]

    found = parse_operators(json.dumps(profile))

    # Gemm: 7 + 8 µs and half a microsecond for each of two calls; Softmax: half a microsecond.
    assert ["Gemm", "Softmax"] == [one.operator for one in found]
    assert [2, 1] == [one.calls for one in found]
    assert pytest.approx([16e-6, 0.5e-6]) == [one.time for one in found]


def arena_node(**args: str) -> dict[str, Any]:
    return {"cat": "Node", "name": "a_kernel_time", "ts": 1, "dur": 1, "args": {"op_name": "Gemm", **args}}


def test_the_largest_of_all_events_is_reported_in_bytes() -> None:
    """The runtime writes them as text; other events and nodes without a word of memory are passed over."""
    profile = [
        {"cat": "Session", "name": "model_run", "ts": 0, "dur": 9},
        {**arena_node(mem_in_use_peak="999999"), "name": "a_fence_before"},
        arena_node(mem_in_use_peak="100", mem_arena_held="4096"),
        arena_node(mem_in_use_peak="2000", mem_arena_held="4096"),
        arena_node(),
    ]
    assert {"arena_in_use": 2000.0, "arena_held": 4096.0} == parse_arena(json.dumps(profile))


@pytest.mark.parametrize(
    ("reported", "missing"),
    [({}, "mem_in_use_peak and no mem_arena_held"), ({"mem_in_use_peak": "5"}, "no mem_arena_held")],
)
def test_a_profile_without_them_is_a_reason_and_no_number(reported: dict[str, str], missing: str) -> None:
    """The arena is off, or the runtime is older."""
    with pytest.raises(MeasurementError, match=missing):
        parse_arena(json.dumps([arena_node(**reported)]))


def test_a_session_apart_is_called_and_its_profile_read(tmp_path: Path) -> None:
    calls: list[Path] = []

    class Session:
        def end_profiling(self) -> str:
            file = tmp_path / "profile.json"
            file.write_text(
                json.dumps([arena_node(mem_in_use_peak=str(len(calls)), mem_arena_held="7")]), encoding="utf-8"
            )
            return str(file)

    found = parse_arena(
        profiles._profile(lambda profile: (Session(), lambda: calls.append(profile)), profiles._ARENA_RUNS)
    )
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
    assert scenario.arena is not None
    first, again, larger = (scenario.arena(X, batch_size) for batch_size in (8, 8, 200))
    assert first == again
    assert 0 < first["arena_in_use"] < larger["arena_in_use"] <= larger["arena_held"]


@pytest.mark.live
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_only_scenarios_of_that_runtime_offer_it(model: Any) -> None:
    estimator, X = model
    assert "onnxruntime profile" == onnx_fp32(estimator, X=X).arena_source
    assert sklearn_fp32(estimator, X=X).arena is None


def test_a_profile_that_is_not_whole_is_no_measurement() -> None:
    with pytest.raises(MeasurementError, match="profile is not whole"):
        parse_arena('[{"cat": "Node", "na')


def model_run(ts: int, dur: int) -> dict[str, Any]:
    return {"cat": "Session", "name": "model_run", "ts": ts, "dur": dur}


def kernel(name: str, kind: str, ts: int, dur: int) -> dict[str, Any]:
    return {"cat": "Node", "name": f"{name}_kernel_time", "ts": ts, "dur": dur, "args": {"op_name": kind}}


def test_nodes_are_those_of_the_undisturbed_runs() -> None:
    """Of three runs after the first, the two that took least; the node of the other one took 500 µs."""
    events = [
        *(kernel("a", "Gemm", 11, 900), model_run(10, 1000)),
        *(kernel("a", "Gemm", 2001, 60), kernel("b", "Relu", 2062, 9), model_run(2000, 80)),
        *(kernel("a", "Gemm", 3001, 500), kernel("b", "Relu", 3600, 9), model_run(3000, 700)),
        *(kernel("a", "Gemm", 4001, 70), kernel("b", "Relu", 4072, 9), model_run(4000, 90)),
    ]
    found = parse_calls(json.dumps(events), rows=256)
    assert [("a", "Gemm", 1.0), ("b", "Relu", 1.0)] == [(one.name, one.kind, one.calls) for one in found.operators]
    assert pytest.approx([65.5e-6, 9.5e-6]) == [one.seconds for one in found.operators]  # half of what was cut
    assert (2, 256, "onnxruntime profile") == (found.calls, found.rows, found.source)
    assert pytest.approx(85.5e-6) == found.call_s


def test_a_node_within_another_one_belongs_to_it() -> None:
    """The body of a loop: its time would be counted twice. A node that begins as the one before ends is another."""
    events = [
        *(model_run(0, 50), model_run(100, 90)),
        *(kernel("loop", "Loop", 101, 50), kernel("inner", "Add", 101, 20), kernel("inner", "Add", 125, 20)),
        kernel("after", "Relu", 151, 10),
    ]
    assert ["loop", "after"] == [one.name for one in parse_calls(json.dumps(events), rows=1).operators]


@pytest.mark.parametrize(
    ("profile", "why"), [("[{", "is not whole"), (json.dumps([model_run(0, 9)]), "holds no run after the first")]
)
def test_a_profile_without_runs_is_refused(profile: str, why: str) -> None:
    with pytest.raises(MeasurementError, match=f"ONNX Runtime's profile {why}"):
        parse_calls(profile, rows=1)


def test_slow_calls_are_profiled_fewer_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call takes a second: 21 runs are made, where a quick one is run 101 times."""
    calls = list[int]()

    class Session:
        def end_profiling(self) -> str:
            return str(self.path)

        def __init__(self, path: Path) -> None:
            path.write_text(json.dumps([model_run(0, 9), model_run(10, 9)]), encoding="utf-8")
            self.path = path

    for second, expected in ((1.0, 21), (0.0, 101)):
        calls.clear()
        monkeypatch.setattr(profiles, "monotonic", lambda second=second: second * len(calls))
        profiles._profile(
            lambda path: (Session(path), lambda: calls.append(1)), profiles._MOST_RUNS, profiles._PROFILE_S
        )
        assert expected == len(calls)


def test_matrix_products_lead_in_a_wide_network() -> None:
    """Two hidden layers of 512, 256 rows a call; shares add up to what the operators cover."""
    X = np.random.default_rng(0).normal(size=(256, 50)).astype("float32")
    with warnings.catch_warnings(action="ignore"):
        model = MLPClassifier((512, 512), max_iter=1, random_state=0).fit(X, X[:, 0] > 0)
    scenario = onnx_fp32(model, X=X)
    assert scenario.operators is not None
    found = profile_of(scenario.operators(X, 256), 1e-3)
    assert found.withheld is None
    assert found.operators[0].kind in {"FusedGemm", "Gemm", "MatMul"}
    assert 0.5 < found.operators[0].share
    assert pytest.approx(found.coverage) == sum(one.share for one in found.operators)
