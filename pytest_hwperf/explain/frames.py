"""Frames of Python as both sides name them: a qualified name and a file, whatever the line and the folder."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from pytest_hwperf.core.changed_code import digest_of
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.host.source_files import is_of_this_package, is_own, relative

_LONGEST_NAME = 200  # characters
_DEEPEST = 100  # frames that are kept of a stack, the outermost
# Comprehensions are frames of their own in some versions of Python only.
_WITHIN = ("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>")
_MADE = "compiled at run time"  # in place of a file
_AROUND = {"_pytest", "pluggy"}  # packages that call what is measured
_TRACER = {("site-packages", "coverage"), ("dist-packages", "coverage")}  # it is called at any frame, also at ours
_is_of_this_package = cache(is_of_this_package)


class Function(NamedTuple):
    """A function, as an interpreter tells it."""

    name: str
    file: str
    line: int  # on which it begins
    code: CodeType | None = None


def function_of(code: CodeType) -> Function:
    """Return the function that a piece of code belongs to."""
    return Function(code.co_qualname, code.co_filename, code.co_firstlineno, code)


class FrameNames:
    """Names of frames in one tree: `Model.predict (src/model.py)`."""

    def __init__(self, root: Path) -> None:
        """Name files relative to `root`, that of the tests."""
        self.lines: dict[str, int] = {}  # frame → line on which its function begins
        self.own: set[str] = set()  # frames of the user's own code
        self.codes: dict[str, str] = {}  # frame of the user's own code → digest of it
        self._is_own = cache(lambda file: is_own(file, root))
        self._relative = cache(lambda file: relative(file, root))

    def frame(self, function: Function) -> str:
        """Return the name of a frame; no character of it separates frames."""
        is_made = not function.file or function.file.startswith("<")  # such as "<string>"
        file = _MADE if is_made else self._relative(function.file)
        shown = visible(f"{function.name[:_LONGEST_NAME]} ({file[-_LONGEST_NAME:]})").replace(";", ",")
        self.lines.setdefault(shown, 0 if is_made else function.line)
        if not is_made and self._is_own(function.file):
            self.own.add(shown)
            if function.code is not None and shown not in self.codes:
                self.codes[shown] = digest_of(function.code)
        return shown

    def path(self, stack: Sequence[Function]) -> tuple[str, ...]:
        """Return the frames of a stack from the measured callable inwards: none of this package and of pytest.

        A function that calls itself is there once.
        """
        named: list[str] = []
        for function in _measured(stack):
            if named and _is_within(function):
                continue
            frame = self.frame(function)
            if not named or named[-1] != frame:
                named.append(frame)
        return tuple(named[:_DEEPEST])


def is_measured(function: Function) -> bool:
    """Whether a function is part of what is measured, as far as its file tells: a frame, and not part of one."""
    return not (_is_within(function) or _is_of_this_package(function.file) or _leads(function))


def _measured(stack: Sequence[Function]) -> Iterator[Function]:
    """Yield the frames below the last one of this package, without those that only lead to the call."""
    own = max((place for place, one in enumerate(stack) if _is_of_this_package(one.file)), default=None)
    if own is None:
        return
    leading = True
    for function in stack[own + 1 :]:
        leading = leading and _leads(function)
        if not leading:
            yield function


def _is_within(function: Function) -> bool:
    """Whether a frame counts to the one that it is called from."""
    return function.name.rpartition(".")[2] in _WITHIN


def _leads(function: Function) -> bool:
    """Whether a frame lies between this package and what is measured: one of pytest's, or of a tracer."""
    parts = Path(function.file).parts
    return parts[-3:-1] in _TRACER or not _AROUND.isdisjoint(parts)
