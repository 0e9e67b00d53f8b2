"""Profiles of ONNX Runtime: the operators that a model really executes, and the peaks of the runtime's allocator.

A graph alone does not show them: the runtime fuses, replaces and removes operators.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hwperf.core.contracts import Predictor
from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.scenarios.ort import open_session, run_all

# Operators that hold a model's weights, as ONNX Runtime 1.18 to 1.31 names its kernels. Only among these is it decided
# whether a model is INT8: by the time of all operators, the Softmax of a tiny model would decide. Trees count, because
# a vote of a forest and a linear model is not an INT8 model for the sake of its linear part.
INTEGER_OPERATORS = frozenset(
    {
        *("ConvInteger", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat"),
        *("QGemm", "QLinearConv", "QLinearMatMul"),
    }
)
WEIGHT_ONLY_OPERATORS = frozenset({"MatMulNBits"})  # INT8 in memory, computed in float
FLOAT_OPERATORS = frozenset(
    {
        *("Conv", "FusedConv", "NhwcFusedConv", "FusedGemm", "Gemm", "FusedMatMul", "MatMul"),
        *("LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor"),
        *("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"),
    }
)
_ROWS = 256  # in a smaller batch the profiler's own cost of 5 µs per operator is most of what it shows
_RUNS = 20
_ARENA_RUNS = 6  # the first one plans the memory of the later ones
# Arguments of a node's event, in bytes, as ONNX Runtime 1.31 writes them.
_ARENA = {"arena_in_use": "mem_in_use_peak", "arena_held": "mem_arena_held"}

OpenProfiled = Callable[[Path], tuple[Any, Callable[[], object]]]  # path of a profile → session and a call of it


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTime:
    """Time of one kind of operator in a profile."""

    operator: str
    calls: int
    time: float  # s, over all calls


def profile_operators(model: bytes, rows: Any) -> tuple[OperatorTime, ...]:
    """Run a model under the profiler, outside any measurement; return the operators that it executes, slowest first.

    Args:
        model: content of an ONNX file.
        rows: shape (n, …); repeated up to batches of 256 rows.
    """
    import numpy as np

    batch = np.resize(rows, (max(_ROWS, len(rows)), *rows.shape[1:]))

    def open_profiled(profile: Path) -> tuple[Any, Callable[[], object]]:
        session = open_session(model, threads=1, profile=profile)
        return session, lambda: run_all(session, batch, batch_size=len(batch))

    return parse_operators(_profile(open_profiled, _RUNS + 1))


def profile_arena(open_profiled: OpenProfiled) -> Mapping[str, float]:
    """Run a session under the profiler, outside any measurement; return `arena_in_use` and `arena_held` in B.

    Both repeat to the byte, and belong to the batch size that was run.

    Args:
        open_profiled: opens a session that writes its profile to a path, and returns it with a call of it.

    Raises:
        MeasurementError: the profile does not contain them.
    """
    return parse_arena(_profile(open_profiled, _ARENA_RUNS))


def arena_of(
    model: Path | bytes, threads: int, predictor_of: Callable[[Any], Predictor], X: Any, batch_size: int
) -> Mapping[str, float]:
    """Return the peaks of the runtime's allocator in B, for the first `batch_size` rows of `X`.

    Args:
        model: an ONNX file or its content.
        threads: of the session.
        predictor_of: makes a predictor of a session.
        X: rows.
        batch_size: rows of a call.
    """

    def open_profiled(profile: Path) -> tuple[Any, Callable[[], object]]:
        session = open_session(model, threads, profile=profile)
        predictor = predictor_of(session)
        return session, partial(predictor.predict, predictor.batches(X, batch_size)[0])

    return profile_arena(open_profiled)


def parse_operators(profile: str) -> tuple[OperatorTime, ...]:
    """Sum a profile by kind of operator, the slowest first, without its first (warm-up) run."""
    events = json.loads(profile)
    runs = sorted(event["ts"] + event["dur"] for event in events if event["name"] == "model_run")
    calls: dict[str, int] = {}
    times: dict[str, float] = {}
    for event in filter(_is_kernel, events):
        if event["ts"] < runs[0]:
            continue
        name = event["args"]["op_name"]
        calls[name] = calls.get(name, 0) + 1
        # Durations are cut to whole microseconds: half of one is what was cut on average, and keeps 0 from vanishing.
        times[name] = times.get(name, 0.0) + (event["dur"] + 0.5) * 1e-6
    found = [OperatorTime(operator=name, calls=calls[name], time=times[name]) for name in calls]
    return tuple(sorted(found, key=lambda one: -one.time))


def parse_arena(profile: str) -> Mapping[str, float]:
    """Return the largest arena of all nodes in a profile, in B.

    Raises:
        MeasurementError: no node has one: the arena is off, or the runtime is older.
    """
    try:
        events = json.loads(profile)
    except ValueError as error:
        raise MeasurementError(f"ONNX Runtime's profile is not whole: {error}") from error
    nodes = [event["args"] for event in events if _is_kernel(event)]
    found = {metric: [float(node[name]) for node in nodes if name in node] for metric, name in _ARENA.items()}
    missing = [_ARENA[metric] for metric, values in found.items() if not values]
    if missing:
        raise MeasurementError(
            f"ONNX Runtime's profile holds no {' and no '.join(missing)}: its arena is off, or it is older than 1.31"
        )
    return {metric: max(values) for metric, values in found.items()}


def describe_operators(operators: Sequence[OperatorTime]) -> str:
    """Write shares of the operators' time, as `QLinearMatMul 71 %, Add 20 %, Softmax 9 %`."""
    total = sum(one.time for one in operators)
    return ", ".join(f"{one.operator} {one.time / total * 100:.0f} %" for one in operators)


def _profile(open_profiled: OpenProfiled, runs: int) -> str:
    """Return the profile of so many runs, as JSON text."""
    with workdir() as folder:
        session, call = open_profiled(folder / "profile")
        for _ in range(runs):
            call()
        return Path(session.end_profiling()).read_text(encoding="utf-8")


def _is_kernel(event: Mapping[str, Any]) -> bool:
    """Whether an event is the execution of a node."""
    return event.get("cat") == "Node" and str(event["name"]).endswith("_kernel_time")
