"""The obeying side, inside a fresh pytest process. Standard library only: what it imported would be weighed."""

import importlib
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns
from typing import Protocol

from pytest_hwperf.duet.messages import Answer, encode

_STEADY_CALLS = 5  # from the second call on; more do not change a peak
_SECOND = 1_000_000_000  # ns


class Scales(Protocol):
    """What weighs: a memory meter of this process."""

    def idle(self) -> str:
        """Note what the idle process holds; return why it cannot be done, "" where it can."""
        ...

    def reset(self) -> str:
        """Forget the peak so far and keep the idle value; return why it cannot be done, "" where it can."""
        ...

    def peak(self) -> int:
        """Bytes of the peak above the idle process."""
        ...

    def retained(self) -> int:
        """Bytes held now above the idle process."""
        ...


def weigh(imports: Sequence[str], load: Callable[[], Callable[[], object]], scales: Scales) -> Answer:
    """Load and call; return peaks above the idle process, which has imported the runtime and loaded nothing.

    `memory_first_call` is the peak of load and first call, `memory_steady` that of the calls after it, `memory` the
    larger of both, `memory_retained` what is still held afterwards.
    """
    for module in imports:
        importlib.import_module(module)
    metrics = ("memory", "memory_first_call", "memory_steady", "memory_retained")
    if reason := scales.idle():
        return _refusal(metrics, reason)
    call = load()
    call()
    first = scales.peak()
    if reason := scales.reset():
        return _refusal(metrics, reason)
    for _ in range(_STEADY_CALLS):
        call()
    steady = scales.peak()
    values = (max(first, steady), first, steady, scales.retained())
    return Answer(values=dict(zip(metrics, map(float, values), strict=True)), reasons={}, notes=[], runs=[])


def start_cold(
    imports: Sequence[str],
    load: Callable[[], Callable[[], object]],
    clock_ns: Callable[[], int] = perf_counter_ns,
) -> Answer:
    """Import the runtime, load the model and call once, each timed apart; the page cache is warm."""
    known = [module for module in imports if module in sys.modules]
    instants = [clock_ns()]
    for module in imports:
        importlib.import_module(module)
    instants.append(clock_ns())
    call = load()
    instants.append(clock_ns())
    call()
    instants.append(clock_ns())
    metrics = ("cold_import", "cold_load", "cold_first_call")
    spans = (end - start for start, end in pairwise(instants))
    values = {metric: span / _SECOND for metric, span in zip(metrics, spans, strict=True)}
    values["cold_start"] = (instants[-1] - instants[0]) / _SECOND
    notes = [f"already imported before the cold start, so not part of it: {', '.join(known)}"] if known else []
    return Answer(values=values, reasons={}, notes=notes, runs=[])


def reply(answer: Answer, path: str) -> None:
    """Leave the answer where the asking process looks; it appears whole or not at all."""
    target = Path(path)
    draft = target.with_suffix(".part")
    draft.write_text(encode(answer), encoding="utf-8")
    draft.replace(target)


def _refusal(metrics: Sequence[str], reason: str) -> Answer:
    return Answer(values={}, reasons=dict.fromkeys(metrics, reason), notes=[], runs=[])
