"""Which operators a model really executes: what a graph says is not what the runtime makes of it."""

import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_hwperf.scenarios.ort import open_session, run_all

# Operators that hold a model's weights, as ONNX Runtime 1.18 to 1.31 names its kernels. Only among these is it decided
# whether a model is INT8: by the time of all operators, the Softmax of a tiny model would decide. Trees count, because
# a vote of a forest and a linear model is not an INT8 model for the sake of its linear part.
INTEGER_OPERATORS = frozenset(
    {
        "ConvInteger",
        "DynamicQuantizeMatMul",
        "MatMulInteger",
        "MatMulIntegerToFloat",
        "QGemm",
        "QLinearConv",
        "QLinearMatMul",
    }
)
WEIGHT_ONLY_OPERATORS = frozenset({"MatMulNBits"})  # INT8 in memory, computed in float
FLOAT_OPERATORS = frozenset(
    {
        "Conv",
        "FusedConv",
        "FusedGemm",
        "FusedMatMul",
        "Gemm",
        "LinearClassifier",
        "LinearRegressor",
        "MatMul",
        "NhwcFusedConv",
        "SVMClassifier",
        "SVMRegressor",
        "TreeEnsemble",
        "TreeEnsembleClassifier",
        "TreeEnsembleRegressor",
    }
)
_ROWS = 256  # in a smaller batch the profiler's own cost of 5 µs per operator is most of what it shows
_RUNS = 20
_LEAST_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """One kind of operator in a profile."""

    operator: str
    calls: int
    time: float  # s, over all calls


def execute(model: bytes, rows: Any) -> tuple[Executed, ...]:
    """Run a model under the profiler, apart from any measurement, and return its operators, the slowest first.

    Args:
        model: content of an ONNX file.
        rows: float32, shape (n, d); repeated up to batches of 256 rows.
    """
    import numpy as np

    batch = np.resize(rows, (max(_ROWS, len(rows)), rows.shape[1]))
    with tempfile.TemporaryDirectory(prefix="hwperf-profile-") as folder:
        session = open_session(model, threads=1, profile=Path(folder, "operators"))
        for _ in range(_RUNS + 1):
            run_all(session, batch, batch_size=len(batch))
        return parse_profile(Path(session.end_profiling()).read_text(encoding="utf-8"))


def parse_profile(profile: str) -> tuple[Executed, ...]:
    """Sum an ONNX Runtime profile by kind of operator, the slowest first, without its first (warm-up) run."""
    events = json.loads(profile)
    runs = sorted(event["ts"] + event["dur"] for event in events if event["name"] == "model_run")
    calls: dict[str, int] = {}
    times: dict[str, float] = {}
    for event in events:
        if event.get("cat") != "Node" or not event["name"].endswith("_kernel_time") or event["ts"] < runs[0]:
            continue
        name = event["args"]["op_name"]
        calls[name] = calls.get(name, 0) + 1
        # Durations are cut to whole microseconds: half of one is what was cut on average, and keeps 0 from vanishing.
        times[name] = times.get(name, 0.0) + (event["dur"] + 0.5) * 1e-6
    found = [Executed(operator=name, calls=calls[name], time=times[name]) for name in calls]
    return tuple(sorted(found, key=lambda one: -one.time))


def objection(quantised: Sequence[Executed], original: Sequence[Executed], *, same_outputs: bool) -> str:
    """Say why a quantised model must not be called INT8; "" where it may.

    Args:
        quantised: operators that the quantised model executes.
        original: operators that its FP32 form executes, in as many runs.
        same_outputs: whether both give exactly the same outputs.
    """
    if any(one.operator in WEIGHT_ONLY_OPERATORS for one in quantised):
        return "not int8: weight-only, MatMulNBits computes in float"
    if same_outputs and _counts(quantised) == _counts(original):
        return "not int8: quantisation changed nothing, operators and outputs are those of the FP32 form"
    integer = _time(quantised, INTEGER_OPERATORS)
    total = integer + _time(quantised, FLOAT_OPERATORS)
    share = integer / total if total else 0.0
    if share >= _LEAST_SHARE:
        return ""
    return (
        f"not int8: integer operators take {share:.0%} of the time of the operators that hold weights, less than "
        f"{_LEAST_SHARE:.0%} (executed: {describe(quantised)})"
    )


def describe(operators: Sequence[Executed]) -> str:
    """Write shares of the operators' time, as `QLinearMatMul 71 %, Add 20 %, Softmax 9 %`."""
    total = sum(one.time for one in operators)
    return ", ".join(f"{one.operator} {one.time / total * 100:.0f} %" for one in operators)


def _counts(operators: Iterable[Executed]) -> dict[str, int]:
    return {one.operator: one.calls for one in operators}


def _time(operators: Iterable[Executed], names: frozenset[str]) -> float:
    return sum(one.time for one in operators if one.operator in names)
