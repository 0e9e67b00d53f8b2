"""Subtests of a body that is measured: real ones in its first call, and in those after it nothing that is reported."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any
from unittest import SkipTest

import pytest

_GOES_ON = (pytest.skip.Exception, pytest.xfail.Exception, SkipTest)  # after which a body continues


class ReportedError(Exception):
    """The body has failed in what pytest or unittest report by themselves: it is measured no further."""


class RepeatedSubtests:
    """Stands for the fixture `subtests`, or for `TestCase.subTest`, in a body that is called many times."""

    def __init__(self, real: Callable[..., AbstractContextManager[object]]) -> None:
        """Make subtests by `real` until the first call has ended."""
        self._real, self._in_first = real, True
        self.failed = False  # whether one of the first call has

    def test(self, *args: Any, **kwargs: Any) -> AbstractContextManager[object]:
        """Return the context of a subtest."""
        return _Reported(self, self._real(*args, **kwargs)) if self._in_first else _QUIET

    def end_call(self) -> None:
        """Note that a call of the body has ended."""
        if self._in_first:
            self._in_first = False
            if self.failed:
                raise ReportedError


class _Reported:
    """A real subtest, whose failure is noted."""

    def __init__(self, subtests: RepeatedSubtests, real: AbstractContextManager[object]) -> None:
        self._subtests, self._real = subtests, real

    def __enter__(self) -> object:
        return self._real.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None and not isinstance(error, _GOES_ON):
            self._subtests.failed = True
        return bool(self._real.__exit__(kind, error, trace))


class _Quiet:
    """A subtest that is not reported; its failure ends the body, which passed in its first call."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return isinstance(error, _GOES_ON)


_QUIET = _Quiet()
