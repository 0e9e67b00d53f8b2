"""The failure of a test by its verdicts, as pytest shows it: wrapped, and in the summary the numbers first."""

import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TypeVar

import pytest

from pytest_hwperf.host.extras import missing
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.meters.allocation_sites import MISSING
from pytest_hwperf.plugin.command import command_for, timeout_paused
from pytest_hwperf.records.errors import HwperfError, WorkerError
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.profiles import HeldMemory
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted, show
from pytest_hwperf.records.verdict import Budget, Judgement
from pytest_hwperf.reports.document import wrapped

LOOK_FURTHER = "details: "  # how the command that shows more begins


class _Writer(Protocol):
    """What is used of pytest's terminal writer."""

    @property
    def fullwidth(self) -> int: ...

    def line(self, s: str = "", **markup: bool) -> None: ...


class Failure:
    """What pytest keeps of a failed test: its text in full, and how it is drawn in a terminal.

    Everything else, such as where it was raised, is that of the representation which pytest made.
    """

    def __init__(self, text: str, made: object) -> None:
        """Draw `text` in the place of what pytest `made` of the exception."""
        self._text = text
        self._made = made

    def __str__(self) -> str:
        return self._text

    def __getattr__(self, name: str) -> object:
        return getattr(self._made, name)

    def toterminal(self, writer: _Writer) -> None:
        """Write each line, wrapped unless it is a command; what failed in red, what is known of it plain."""
        for text in self._text.split("\n"):
            said = text.lstrip()
            indent = text[: len(text) - len(said)]
            is_command = said.startswith(LOOK_FURTHER)  # in two lines, it would be two commands once it is pasted
            for line in [said] if is_command else wrapped(said, writer.fullwidth, indent):
                writer.line(line, red=not indent and not is_command)


def note_failure(report: pytest.TestReport, text: str) -> None:
    """Let the short summary begin with the numbers, and send the text to the process that shows it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if report.failed and crash is not None:
        crash.message = text
        report.hwperf_failure = text  # type: ignore[attr-defined] # pytest lets plugins add to a report


def draw_failure(report: pytest.TestReport) -> None:
    """Let a report that has failed by its verdicts draw itself in the width of the terminal."""
    text = getattr(report, "hwperf_failure", "")
    if text and report.failed:
        report.longrepr = Failure(text, report.longrepr)  # type: ignore[assignment] # pytest asks for these methods only


P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = "pytest_hwperf"
_CALLERS = frozenset(f"{_PACKAGE}.measure.{name}" for name in ("stream", "subjects", "accuracy"))  # the call


def raised_at_the_call(method: Callable[P, R]) -> Callable[P, R]:
    """Let errors point at the user's line and at what the user's code did, without the frames of this package."""

    @wraps(method)
    def shown(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        try:
            return method(*args, **kwargs)
        except HwperfError as error:
            raise error.with_traceback(None) from None
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - raised again
            raise error.with_traceback(without_own_frames(error.__traceback__))  # noqa: B904 - the same error

    return shown


def raised_at_the_await(method: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Do the same for a method that is awaited."""

    @wraps(method)
    async def shown(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        try:
            return await method(*args, **kwargs)
        except HwperfError as error:
            raise error.with_traceback(None) from None
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - raised again
            raise error.with_traceback(without_own_frames(error.__traceback__))  # noqa: B904 - the same error

    return shown


def without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this package; unchanged where the error is of this package itself."""
    frames = list[TracebackType]()
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    if frames and _is_own(frames[-1]) and _module(frames[-1]) not in _CALLERS:
        return frames[0]
    kept: TracebackType | None = None
    for one in reversed(frames):
        if not _is_own(one):
            kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kept


def _is_own(trace: TracebackType) -> bool:
    return _module(trace).partition(".")[0] == _PACKAGE


def _module(trace: TracebackType) -> str:
    return str(trace.tb_frame.f_globals.get("__name__", ""))


_MOST = 5  # lines that are shown
_LEAST_SHARE = 0.01  # of all that is held: less explains nothing


def lines_of_sites(item: pytest.Item, judgements: Sequence[Judgement]) -> list[str]:
    """Name what holds the memory of each run that misses its memory budget; nothing where none does.

    Each takes one more fresh process, and memray: without it one line says what would name them.
    """
    missed = [judgement.run.label for judgement in judgements if _misses_memory(judgement)]
    if not missed or sys.platform == "win32":  # for which there is no memray
        return []
    if missing("memray"):
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
