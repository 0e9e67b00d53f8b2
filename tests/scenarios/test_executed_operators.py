"""What may be called INT8 is decided by the operators that were executed."""

import json

import pytest

from pytest_hwperf.scenarios.operators import Executed, describe, objection, parse_profile

FLOAT = (("FusedGemm", 2, 900), ("Softmax", 1, 100))


def operators(*rows: tuple[str, int, float]) -> tuple[Executed, ...]:
    """Write operators as name, calls, microseconds."""
    return tuple(Executed(operator=name, calls=calls, time=us * 1e-6) for name, calls, us in rows)


@pytest.mark.parametrize(
    "integer", ["DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "QLinearMatMul", "QGemm"]
)
def test_integer_operators_that_carry_the_weights_are_int8(integer: str) -> None:
    """The Softmax takes most of the time and holds no weight."""
    quantised = operators(("Softmax", 1, 900), (integer, 2, 100))

    assert "" == objection(quantised, operators(*FLOAT), same_outputs=False)


@pytest.mark.parametrize(("integer_us", "accepted"), [(50, True), (49, False)])
def test_half_of_the_weight_holders_time_is_the_bound(integer_us: float, *, accepted: bool) -> None:
    quantised = operators(("Gemm", 1, 100 - integer_us), ("QGemm", 1, integer_us))

    reason = objection(quantised, operators(*FLOAT), same_outputs=False)

    assert accepted == (reason == "")
    assert accepted or reason.startswith("not int8: integer operators take 49%")


def test_trees_beside_an_int8_part_count_as_float() -> None:
    quantised = operators(("TreeEnsembleClassifier", 1, 900), ("QLinearMatMul", 1, 10))

    assert objection(quantised, operators(*FLOAT), same_outputs=False).startswith("not int8: integer operators take 1%")


def test_weight_only_operators_are_not_int8_whatever_runs_beside_them() -> None:
    quantised = operators(("QLinearMatMul", 1, 900), ("MatMulNBits", 1, 10))

    assert objection(quantised, operators(*FLOAT), same_outputs=False).startswith("not int8: weight-only")


def test_the_same_operators_and_outputs_mean_that_nothing_was_quantised() -> None:
    """Times differ from run to run; counts do not."""
    slower = operators(("FusedGemm", 2, 950), ("Softmax", 1, 90))

    reason = objection(slower, operators(*FLOAT), same_outputs=True)

    assert reason.startswith("not int8: quantisation changed nothing")


def test_the_same_operators_with_other_outputs_are_refused_for_what_they_are() -> None:
    reason = objection(operators(*FLOAT), operators(*FLOAT), same_outputs=False)

    assert reason.startswith("not int8: integer operators take 0%")
    assert "FusedGemm 90 %" in reason


def test_no_weight_holder_at_all_is_not_int8() -> None:
    assert objection(operators(("Scan", 1, 5)), operators(*FLOAT), same_outputs=False).startswith("not int8")


def test_shares_are_of_the_whole_time() -> None:
    assert "FusedGemm 90 %, Softmax 10 %" == describe(operators(*FLOAT))


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

    found = parse_profile(json.dumps(profile))

    # Gemm: 7 + 8 µs and half a microsecond for each of two calls; Softmax: half a microsecond.
    assert ["Gemm", "Softmax"] == [one.operator for one in found]
    assert [2, 1] == [one.calls for one in found]
    assert pytest.approx([16e-6, 0.5e-6]) == [one.time for one in found]
