"""Profiles of ONNX Runtime: the operators that a model really executes, and the peaks of the runtime's allocator.

A graph alone does not show them: the runtime fuses, replaces and removes operators.
"""

import json
import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.records.contracts import Predictor
from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.records.profiles import ProfiledCalls, ProfiledOperator
from pytest_hwperf.runtimes.ort import open_session, run_all

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
OPERATORS_WITH_WEIGHTS = INTEGER_OPERATORS | WEIGHT_ONLY_OPERATORS | FLOAT_OPERATORS
PROFILE = "onnxruntime profile"  # where its figures are from
_ROWS = 256  # in a smaller batch the profiler's own cost of 5 µs per operator is most of what it shows
_RUNS = 20
_MOST_RUNS, _PROFILE_S = 101, 0.5  # of which the first is not used
_KERNEL = "_kernel_time"  # what follows a node's name
_ARENA_RUNS = 6  # the first one plans the memory of the later ones
# Arguments of a node's event, in bytes, as ONNX Runtime 1.31 writes them.
_ARENA = {"arena_in_use": "mem_in_use_peak", "arena_held": "mem_arena_held"}

OpenProfiled = Callable[[Path], tuple[Any, Callable[[], object]]]  # path of a profile → session and a call of it
_PredictorOf = Callable[[Any], Predictor]  # session → what calls it


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTime:
    """Time of one kind of operator in a profile."""

    operator: str
    calls: int
    time: float  # s, over all calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """The execution of an operator."""

    operator: str
    types: frozenset[str]  # of its inputs and outputs, such as "float16"


def read_kernels(session: Any) -> list[Kernel]:
    """End the profile of a session, and return what it has executed."""
    events = _events(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return [Kernel(operator=one["args"]["op_name"], types=_types(one["args"])) for one in filter(_is_kernel, events)]


def _types(arguments: Mapping[str, Any]) -> frozenset[str]:
    named = (arguments.get(name, ()) for name in ("input_type_shape", "output_type_shape"))
    return frozenset(kind for tensors in named for tensor in tensors for kind in tensor)


def profile_operators(model: bytes, rows: Any) -> tuple[OperatorTime, ...]:
    """Run a model under the profiler, outside any measurement; return the operators that it executes, slowest first."""
    import numpy as np

    batch = np.resize(rows, (max(_ROWS, len(rows)), *rows.shape[1:]))

    def open_profiled(profile: Path) -> tuple[Any, Callable[[], object]]:
        session = open_session(model, threads=1, profile=profile)
        return session, lambda: run_all(session, batch, batch_size=len(batch))

    return parse_operators(_profile(open_profiled, _RUNS + 1))


def arena_of(
    model: Path | bytes, threads: int, predictor_of: _PredictorOf, X: Any, batch_size: int
) -> Mapping[str, float]:
    """Return the peaks of the runtime's allocator in B, for the first `batch_size` rows of `X`.

    They repeat to the byte, and belong to the batch size that was run.
    """
    return parse_arena(_profile(_profiled(model, threads, predictor_of, X, batch_size), _ARENA_RUNS))


def operators_of(
    model: Path | bytes, threads: int, predictor_of: _PredictorOf, X: Any, batch_size: int
) -> ProfiledCalls:
    """Return where the time of a call goes, for the first `batch_size` rows of `X`; arguments as of `arena_of`."""
    opened = _profiled(model, threads, predictor_of, X, batch_size)
    return parse_calls(_profile(opened, _MOST_RUNS, time_s=_PROFILE_S), batch_size)


def _profiled(model: Path | bytes, threads: int, predictor_of: _PredictorOf, X: Any, batch_size: int) -> OpenProfiled:
    """Return what opens a session that writes its profile, and calls it with the first `batch_size` rows of `X`."""

    def open_profiled(profile: Path) -> tuple[Any, Callable[[], object]]:
        session = open_session(model, threads, profile=profile)
        predictor = predictor_of(session)
        return session, partial(predictor.predict, predictor.batches(X, batch_size)[0])

    return open_profiled


def summed(executions: Iterable[tuple[str, float]]) -> tuple[OperatorTime, ...]:
    """Add up executions, each an operator and its seconds, by kind of operator, the slowest first."""
    times = defaultdict[str, list[float]](list)
    for name, seconds in executions:
        times[name].append(seconds)
    found = [OperatorTime(operator=name, calls=len(each), time=sum(each)) for name, each in times.items()]
    return tuple(sorted(found, key=lambda one: -one.time))


def _seconds(event: Mapping[str, Any]) -> float:
    """Return the seconds of a node.

    They are cut to whole microseconds: half of one is what was cut on average, and keeps 0 from vanishing.
    """
    seconds: float = (event["dur"] + 0.5) * 1e-6
    return seconds


def parse_operators(profile: str) -> tuple[OperatorTime, ...]:
    """Sum a profile by kind of operator, the slowest first, without its first (warm-up) run."""
    events = _events(profile)
    first = min(event["ts"] + event["dur"] for event in events if event["name"] == "model_run")
    return summed(
        (event["args"]["op_name"], _seconds(event)) for event in filter(_is_kernel, events) if event["ts"] >= first
    )


def parse_calls(profile: str, rows: int) -> ProfiledCalls:
    """Take the nodes of the undisturbed runs of a profile: of all after the first, the half that took least.

    Nodes within another one, as in the body of a loop, belong to it.
    """
    events = _events(profile)
    runs = sorted((event["dur"], event["ts"]) for event in events if event["name"] == "model_run")
    first = min((ts for _, ts in runs), default=0)
    later = [(dur, ts) for dur, ts in runs if ts > first]
    if not later:
        raise MeasurementError("ONNX Runtime's profile holds no run after the first one")
    kept = later[: (len(later) + 1) // 2]
    times = defaultdict[tuple[str, str], list[float]](list)
    for event in _outer_kernels(events, kept):
        times[event["name"].removesuffix(_KERNEL), event["args"]["op_name"]].append(_seconds(event))
    count = len(kept)
    return ProfiledCalls(
        source=PROFILE,
        operators=tuple(
            ProfiledOperator(name=name, kind=kind, calls=len(each) / count, seconds=sum(each) / count)
            for (name, kind), each in times.items()
        ),
        call_s=sum(dur + 0.5 for dur, _ in kept) * 1e-6 / count,
        calls=count,
        rows=rows,
    )


def parse_arena(profile: str) -> Mapping[str, float]:
    """Return the largest arena of all nodes in a profile, in B."""
    nodes = [event["args"] for event in _events(profile) if _is_kernel(event)]
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


def _profile(open_profiled: OpenProfiled, runs: int, time_s: float = math.inf) -> str:
    """Return the profile of so many runs, as JSON text; of fewer, but at least `_RUNS`, where they take longer."""
    with workdir() as folder:
        session, call = open_profiled(folder / "profile")
        until = monotonic() + time_s
        for count in range(runs):
            if count > _RUNS and monotonic() > until:
                break
            call()
        return Path(session.end_profiling()).read_text(encoding="utf-8")


def _events(profile: str) -> list[dict[str, Any]]:
    try:
        events: list[dict[str, Any]] = json.loads(profile)
    except ValueError as error:
        raise MeasurementError(f"ONNX Runtime's profile is not whole: {error}") from error
    return events


def _outer_kernels(
    events: Sequence[dict[str, Any]], runs: Sequence[tuple[float, float]]
) -> Iterator[Mapping[str, Any]]:
    """Yield the nodes of some runs, given as duration and start, that lie within no other node."""
    nodes = sorted(filter(_is_kernel, events), key=lambda event: (event["ts"], -event["dur"]))
    for dur, ts in runs:
        end = ts
        for event in nodes[bisect_left(nodes, ts, key=_start) : bisect_right(nodes, ts + dur, key=_start)]:
            if event["ts"] >= end:
                end = event["ts"] + event["dur"]
                yield event


def _start(event: Mapping[str, Any]) -> float:
    start: float = event["ts"]
    return start


def _is_kernel(event: Mapping[str, Any]) -> bool:
    """Whether an event is the execution of a node."""
    return event.get("cat") == "Node" and str(event["name"]).endswith(_KERNEL)
