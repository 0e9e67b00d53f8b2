"""Two equal processes beside each other: what differs between them is this machine's noise."""

from dataclasses import dataclass
from time import monotonic
from typing import Any

from pytest_hwperf.gate.models import CompareSettings, rehearsed


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfComparison:
    """What pairs of equal processes have shown."""

    changes: tuple[float, ...]  # log of one side's median latency over the other's, one a pair, in time order
    latency_s: float | None  # median call, None without pairs
    seconds: float  # wall time of all pairs, without the rehearsal
    lost: str  # why pairs were lost and it ended early, "" where none was


def compare_with_itself(model: str, X: Any, settings: CompareSettings) -> SelfComparison:
    """Let a model take turns with itself until the time is up; the last pair may end a little later.

    Args:
        model: path of an ONNX file, or module:function.
        X: its rows, shape (n, ...).
        settings: `time_s` is for all, the rehearsal included.

    Raises:
        UsageProblem: it cannot be loaded or called; says why.
        WorkerError: a process was lost in the rehearsal.
    """
    until = monotonic() + settings.time_s
    changes, latencies, lost = list[float](), list[float](), ""
    with rehearsed(model, model, X, None, settings) as (conductor, evidence, _):
        began = monotonic()
        while monotonic() < until:
            # A round ends when the gate would have decided; what it saw is kept, and the next begins anew.
            seen = conductor.conduct(evidence, until, None)
            observed = [one for pair in seen.pairs for one in pair.observations]
            changes += [one.change for one in observed if one.change is not None]
            latencies += [value for one in observed for value in one.baseline]
            if seen.stopped or seen.dropped or not seen.pairs:
                lost = str(seen.stopped or next(iter(conductor.dropped.values()), ""))
                break
        seconds = monotonic() - began
    return SelfComparison(
        changes=tuple(changes),
        latency_s=sorted(latencies)[len(latencies) // 2] if latencies else None,
        seconds=seconds,
        lost=lost,
    )
