"""`hwperf capacity --models`: how many loaded models a memory holds, by what one was measured to need."""

import argparse
from collections.abc import Iterator

from pytest_hwperf.cli.capacity_text import is_load, line_of, named
from pytest_hwperf.core.capacity import fitting
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.metrics import BOARD_MEMORY
from pytest_hwperf.core.records import SCHEMA, Judgement, figure_of
from pytest_hwperf.core.structs import Count, Record, Size
from pytest_hwperf.core.units import counted, show
from pytest_hwperf.host.control_groups import memory_limit
from pytest_hwperf.host.machine import installed_memory

MILLION = 1e6
_MEMORY = "memory"
_UNKNOWN = "its memory was not measured: mark the test with @pytest.mark.hwbudget(memory_max_mb=…)"
_TOO_SMALL = "it needs less than can be measured"


class ModelMemory(Record, frozen=True, kw_only=True):
    """How many models of one measurement a memory holds."""

    measured: str
    count: Count | None  # None: `reason` says why it is not known
    each_bytes: Size | None = None  # upper bound of what one needs
    typical_bytes: Size | None = None  # its median
    processes: Count = 0  # fresh ones, that were measured
    rests_on: str = ""  # what the upper bound is
    boards_bytes: Size | None = None  # on GPUs, which the count leaves out; None: not measured
    reason: str = ""


class ModelsPlan(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf models in memory"):
    """Everything that is said, as a file for other programs."""

    schema: int = SCHEMA
    memory_bytes: Size
    memory_of: str  # "given", or what of this machine it is
    base_bytes: Size  # counted once
    models: tuple[ModelMemory, ...]


def models_plan(options: argparse.Namespace, judgements: list[Judgement]) -> ModelsPlan:
    """Count the models of each measurement."""
    memory, whose = _available(options.memory_mb)
    base = (options.base_mb or 0.0) * MILLION
    found = tuple(_model(one, memory, base) for one in judgements if not is_load(one))
    if all(one.count is None for one in found):
        raise UsageProblem(f"--models: {found[0].reason if found else 'no measurement of a call without a load'}")
    return ModelsPlan(memory_bytes=memory, memory_of=whose, base_bytes=base, models=found)


def models_lines(plan: ModelsPlan) -> Iterator[str]:
    """Yield the lines of a plan."""
    room = f"{show(plan.memory_bytes, 'B')} ({plan.memory_of})"
    for one in plan.models:
        if one.count is None:
            yield line_of("models", f"{one.measured}: not known: {one.reason}")
            continue
        yield line_of("models", f"{counted(one.count, 'model')} of {one.measured} in {room}")
        each, typical = show(one.each_bytes or 0.0, "B"), show(one.typical_bytes or 0.0, "B")
        rests = f"{one.rests_on} {counted(one.processes, 'fresh process')}, median {typical}"
        yield line_of("", f"{each} each: {rests}; its peak in calls is in it")
        if one.boards_bytes is not None:
            yield line_of("", f"its {show(one.boards_bytes, 'B')} on GPUs are not counted")
    base = f"after a base of {show(plan.base_bytes, 'B')}" if plan.base_bytes else "without a base; give --base-mb"
    yield line_of("", f"{base}: a process with its third-party imports, which all models share")


def _available(given_mb: float | None) -> tuple[float, str]:
    """Return the bytes, and whose they are."""
    if given_mb is not None:
        return given_mb * MILLION, "given"
    installed, limit = installed_memory(), memory_limit()
    if limit is not None and limit < installed:
        return limit, "limit of this process's control group"
    return installed, "of this machine"


def _model(one: Judgement, memory: float, base: float) -> ModelMemory:
    figure, sample = figure_of(one.figures, (_MEMORY, "p50")), one.run.sample(_MEMORY)
    if figure is None or sample is None:
        reason = one.run.unmeasured.get(_MEMORY)
        return ModelMemory(measured=named(one), count=None, reason=str(reason) if reason else _UNKNOWN)
    high = figure.estimate.high
    each = max(sample.values, default=0.0) if high is None else high
    rate = 50 * (1 + figure.estimate.confidence)  # of one bound alone, in %
    boards = figure_of(one.figures, (BOARD_MEMORY, "p50"))
    return ModelMemory(
        measured=named(one),
        count=fitting(memory, each, base) if each >= 1 else None,
        each_bytes=each,
        typical_bytes=figure.estimate.value,
        processes=len(sample.values),
        rests_on="the highest of" if high is None else f"upper bound ({rate:.3g} %) of",
        boards_bytes=boards.estimate.value if boards else None,
        reason="" if each >= 1 else _TOO_SMALL,
    )
