"""What pytest keeps of a test, log records and warnings: of a measured call it is neither memory nor time."""

import logging
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_hwperf.records.units import counted

_FIRST = 20  # of a measurement: where its first call fails, pytest shows what it has logged
_READERS = {"log record": "caplog", "warning": "recwarn"}  # the fixture by which a test reads them


@dataclass(slots=True, kw_only=True)
class Keeper:
    """Something that keeps all of a kind; only so many of them pass."""

    kind: str
    most: float
    seen: int = 0

    def passes(self, _: object = None) -> bool:
        self.seen += 1
        return self.seen <= self.most


@dataclass(slots=True, kw_only=True)
class Kept:
    """What was kept of a measurement."""

    keepers: list[Keeper] = field(default_factory=list)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of figures that contain it: a test that reads records is given all of them."""
        found = dict[str, int]()
        for keeper in self.keepers:
            if math.isinf(keeper.most) and keeper.seen > _FIRST:
                found[keeper.kind] = max(keeper.seen, found.get(keeper.kind, 0))
        return tuple(
            f"time and memory include pytest's copies of {counted(number, kind)}: the test uses {_READERS[kind]}"
            for kind, number in found.items()
        )


@contextmanager
def keeping_little(item: pytest.Item) -> Iterator[Kept]:
    """Let pytest keep only the first log records and warnings of a measurement, unless the test reads them.

    pytest keeps each of a test, formatted, for the report of a failure. A call that is repeated a thousand times would
    seem to leak them.
    """
    kept = Kept()
    fixtures = getattr(item, "fixturenames", ())

    def keeper(kind: str) -> Keeper:
        kept.keepers.append(Keeper(kind=kind, most=math.inf if _READERS[kind] in fixtures else _FIRST))
        return kept.keepers[-1]

    with ExitStack() as stack:
        for handler in filter(_is_of_pytest, logging.getLogger().handlers):
            limit = keeper("log record").passes
            handler.addFilter(limit)
            stack.callback(handler.removeFilter, limit)
        show = warnings.showwarning
        limited = partial(_show_first, keeper("warning"), show)
        warnings.showwarning = limited
        try:
            yield kept
        finally:
            if warnings.showwarning is limited:
                warnings.showwarning = show


def _is_of_pytest(handler: logging.Handler) -> bool:
    """Whether pytest has put a handler there unasked: it keeps records, or writes them nowhere."""
    if type(handler).__module__.partition(".")[0] != "_pytest":
        return False
    return hasattr(handler, "records") or getattr(handler, "baseFilename", "") == str(Path(os.devnull).absolute())


def _show_first(keeper: Keeper, show: Any, *args: Any, **kwargs: Any) -> None:
    if keeper.passes():
        show(*args, **kwargs)
