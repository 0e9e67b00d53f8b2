"""ONNX Runtime's own allocator: the most that a session had in use, and the most that it held for that."""

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_hwperf.core.errors import MeasurementError

SOURCE = "onnxruntime profile"

_RUNS = 6  # the first one plans the memory of those that follow
# Arguments of a node's event, in bytes, as ONNX Runtime 1.31 writes them.
_ARGUMENTS = {"arena_in_use": "mem_in_use_peak", "arena_held": "mem_arena_held"}


def arena_of(open_profiled: Callable[[Path], tuple[Any, Callable[[], object]]]) -> Mapping[str, float]:
    """Run a session under its profiler, apart from any measurement; return `arena_in_use` and `arena_held` in B.

    Both repeat to the byte, and belong to the batch size that was run.

    Args:
        open_profiled: opens a session that writes its profile to a path, and returns it with a call of it.

    Raises:
        MeasurementError: the profile does not tell them.
    """
    with tempfile.TemporaryDirectory(prefix="hwperf-arena-") as folder:
        session, call = open_profiled(Path(folder, "arena"))
        for _ in range(_RUNS):
            call()
        return parse_arena(Path(session.end_profiling()).read_text(encoding="utf-8"))


def parse_arena(profile: str) -> Mapping[str, float]:
    """Return the largest of what each node's event says of the arena, in B.

    Raises:
        MeasurementError: none says anything: the arena is off, or the runtime is older.
    """
    try:
        events = json.loads(profile)
    except ValueError as error:
        raise MeasurementError(f"ONNX Runtime's profile is not whole: {error}") from error
    told = [event["args"] for event in events if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")]
    found = {
        metric: max((float(args[name]) for args in told if name in args), default=None)
        for metric, name in _ARGUMENTS.items()
    }
    missing = [_ARGUMENTS[metric] for metric, value in found.items() if value is None]
    if missing:
        raise MeasurementError(
            f"ONNX Runtime's profile holds no {' and no '.join(missing)}: its arena is off, or it is older than 1.31"
        )
    return {metric: value for metric, value in found.items() if value is not None}
