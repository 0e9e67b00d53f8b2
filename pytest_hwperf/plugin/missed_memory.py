"""The lines of code that hold the memory of a missed budget: a note below the failure."""

import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import pytest

from pytest_hwperf.core.errors import WorkerError
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.metrics import METRICS
from pytest_hwperf.core.movers import HeldMemory
from pytest_hwperf.core.records import Budget, Judgement
from pytest_hwperf.core.units import counted, show
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.meters.memory.allocation_sites import MISSING
from pytest_hwperf.plugin.inherited_options import command_for
from pytest_hwperf.plugin.timeouts import timeout_paused

_MOST = 5  # lines that are shown
_LEAST_SHARE = 0.01  # of all that is held: less explains nothing


def lines_of_sites(item: pytest.Item, judgements: Sequence[Judgement]) -> list[str]:
    """Name what holds the memory of each run that misses its memory budget; nothing where none does.

    Each takes one more fresh process, and memray: without it one line says what would name them.
    """
    missed = [judgement.run.label for judgement in judgements if _misses_memory(judgement)]
    if not missed or sys.platform == "win32":  # for which there is no memray
        return []
    if find_spec("memray") is None:
        return [MISSING]
    return [line for label in missed for line in _lines(item, label)]


def _misses_memory(judgement: Judgement) -> bool:
    return any(
        isinstance(verdict.subject, Budget)
        and METRICS[verdict.subject.metric].has_sites
        and verdict.outcome == "failed"
        for verdict in judgement.verdicts
    )


def _lines(item: pytest.Item, label: str) -> Iterator[str]:
    try:
        task = WorkerTask(role="sites", node=item.nodeid, label=label)
        with timeout_paused(item):
            (result,) = ask(task, [command_for(item)])
    except WorkerError as error:
        yield f"memray named no lines: {visible(error.sentence)}"
        return
    yield from (f"memray named no lines: {visible(reason)}" for reason in result.reasons.values())
    if result.sites:
        of = f"[{visible(label)}] " if label else ""
        yield f"{of}allocated at the peak of load and calls, in a process of its own, by memray:"
        least = _LEAST_SHARE * sum(one.size for one in result.sites)
        yield from (_line(one) for one in result.sites[:_MOST] if one.size >= least)


def _line(held: HeldMemory) -> str:
    """Write `  64.0 MB in 1 allocation: work, test_it.py:5`."""
    where = f"{held.function}, {held.file}:{held.line}" if held.function else "outside Python"
    called = f", called at {held.called_at}" if held.called_at else ""
    return visible(f"  {show(held.size, 'B')} in {counted(held.allocations, 'allocation')}: {where}{called}")
