"""Which modules a process has imported before code of the user's tree did anything that an import could notice.

These alone are the same in a process that has run nothing of the tree. What comes later may have read an attribute that
the tree has written, a variable that it has set, or a path that it has added.
"""

import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from pytest_hwperf.host.effects import TopLevel
from pytest_hwperf.host.files import read_file
from pytest_hwperf.host.opened_files import callers
from pytest_hwperf.host.source_files import SITES, is_own, watch_imports

_LARGEST_SOURCE = 10_000_000  # bytes of a module that is looked at
_MODULE = "<module>"  # the name of the code at the top of a module


class ImportOrder:
    """Watches imports until code of the tree has an effect; from then on it only waits for the end."""

    def __init__(self, root: Path, begin: Callable[[Callable[[str], Any]], None] = watch_imports) -> None:
        """Watch from now on in this process, of which no timed call counts; the tree is what lies around `root`."""
        self.why = ""  # what of the tree has had an effect, "" where nothing has yet
        self._root = root
        self._before: frozenset[str] | None = None
        self._running = list[bool]()  # of each import in progress, whether it is of the tree
        # Files of installed modules that no installed module has imported → digits of what the tree had run before.
        self._asked = dict[str, str]()
        self._ran = list[str]()  # what each module of the tree has run, of those that are imported
        self._sources = dict[str, TopLevel | None]()
        self.is_of_tree = cache(self._is_of_tree)
        begin(self.importing)

    def end(self, why: str) -> None:
        """Note that code of the tree has an effect now: what is imported from now on is not the same without it."""
        if self._before is None:
            self.why = why
            self._before = frozenset(name for name, module in list(sys.modules.items()) if not _is_in_progress(module))

    def of(self, modules: Mapping[str, str]) -> dict[str, str]:
        """Return those of the modules that were there before, and are none of the tree, in their order."""
        return {
            name: file
            for name, file in modules.items()
            if (self._before is None or name in self._before) and not self.is_of_tree(file)
        }

    def asked(self, modules: Mapping[str, str]) -> dict[str, str]:
        """Return those of the modules that were asked for by code of the tree, or of who runs it, in their order.

        With each come digits of what the tree had run before: constants and classes, which a package can find in
        `sys.modules`, in a frame, or as subclasses of its own class. In which order each of them imports others may
        follow from the order of a set, which is drawn for a process.
        """
        return {name: self._asked[file] for name, file in modules.items() if file in self._asked}

    @contextmanager
    def importing(self, file: str) -> Iterator[None]:
        """Go along with an import of a file."""
        if self._before is not None:
            yield
            return
        is_of_tree = self.is_of_tree(file)
        if is_of_tree and not all(self._running):
            self.end(f"an installed package imports {Path(file).name}")
        elif not is_of_tree:
            running = self._look(sys._getframe(2))  # noqa: SLF001 - who imports
            if all(self._running):
                ran = "\n".join([*self._ran, *running])
                self._asked.setdefault(file, f"{zlib.crc32(ran.encode(errors='replace')):08x}")
        self._running.append(is_of_tree)
        try:
            yield
        except BaseException:
            if is_of_tree:
                self.end(f"{Path(file).name} has raised an error")
            raise
        finally:
            self._running.pop()
        if is_of_tree:
            self._ran.append(self._judge(file, _names_of(file), None))

    def calls(self, function: object, what: str) -> None:
        """Note that a function is called, by pytest for instance."""
        code = getattr(function, "__code__", None)
        if code is not None and self.is_of_tree(code.co_filename):
            self.end(f"{Path(code.co_filename).name}: {what}")

    def _look(self, frame: FrameType | None) -> list[str]:
        """Judge what of the tree has run so far of modules that are being imported, and return it."""
        running = list[str]()
        for one in callers(frame):
            file = one.f_code.co_filename
            if self._before is None and self.is_of_tree(file):
                if one.f_code.co_name == _MODULE:
                    running.append(self._judge(file, one.f_globals, one.f_lineno))
                else:
                    self.end(f"{Path(file).name}: {one.f_code.co_name}() runs")
        return running

    def _judge(self, file: str, names: Mapping[str, Any], line: int | None) -> str:
        """Judge what of a module has run, and return it."""
        if file not in self._sources:
            self._sources[file] = _read(file)
        found = self._sources[file]
        effect = found.first_effect(names, line) if found else 1
        if effect:
            self.end(f"{Path(file).name}:{effect} runs")
        return f"{names.get('__name__')}: {found.outline(names, line) if found else ''}"

    def _is_of_tree(self, file: str) -> bool:
        path = Path(file)
        if not path.is_absolute() or not is_own(file, Path(path.anchor)):
            return False
        return SITES.isdisjoint(path.parts) and path.is_relative_to(self._root)


def _read(file: str) -> TopLevel | None:
    """Read the source of a module; None where there is none to be read."""
    try:
        return TopLevel(read_file(Path(file), _LARGEST_SOURCE))
    except (OSError, SyntaxError, ValueError):
        return None


def _names_of(file: str) -> Mapping[str, Any]:
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        if names.get("__file__") == file:
            return names
    return {}


def _is_in_progress(module: object) -> bool:
    return bool(getattr(getattr(module, "__dict__", {}).get("__spec__"), "_initializing", False))
