"""What installed modules hold, as digits that two processes can compare: numbers, texts, and which code they name."""

import io
import sys
import zlib
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from types import CodeType, FunctionType, ModuleType
from typing import Any

from pytest_hwperf.host.source_files import SITES, loaded_modules

_DEEPEST = 3  # containers within containers
_MOST = 200  # values of a container
_SIMPLE = (bool, int, float, complex, str, bytes, type(None))
_OWN = ("pytest_hwperf", "pytest", "_pytest", "pluggy")  # who runs the tests


def states() -> dict[str, str]:
    """Return the digits of each installed module of this process; what has a simple value counts, of any depth."""
    found = dict[str, str]()
    for name, file in loaded_modules().items():
        module = sys.modules.get(name)
        if SITES.intersection(PurePath(file).parts) and name.partition(".")[0] not in _OWN and module is not None:
            found[name] = f"{zlib.crc32(repr(sorted(_held(module))).encode(errors='replace')):08x}"
    return found


def _held(module: object) -> Iterator[tuple[str, str]]:
    names: Mapping[str, Any] = object.__getattribute__(module, "__dict__")
    for name, value in list(names.items()):
        # pytest adds names with "@" to modules whose assertions it rewrites, as of an installed `x_test.py`.
        if not name.startswith(("__", "@")):
            yield name, _shown(value, _DEEPEST)


def _shown(value: Any, depth: int) -> str:  # noqa: PLR0911 - a table of kinds
    """Write what a value is; of one that is not simple only its type counts."""
    if type(value) in _SIMPLE:
        return repr(value)
    if isinstance(value, FunctionType):
        return (
            f"{value.__module__}.{value.__qualname__} {_digits(value.__code__)} {_shown(value.__defaults__, depth - 1)}"
        )
    if isinstance(value, ModuleType):
        return f"module {vars(value).get('__name__')}"
    if isinstance(value, type):
        code = [
            f"{name} {_digits(one.__code__)}"
            for name, one in list(vars(value).items())
            if isinstance(one, FunctionType)
        ]
        return f"{value.__module__}.{value.__qualname__} {sorted(code)}"
    if depth > 0 and type(value) in (list, tuple):
        return f"{type(value).__name__} {[_shown(one, depth - 1) for one in list(value)[:_MOST]]}"
    if depth > 0 and type(value) in (set, frozenset) and len(value) <= _MOST:
        return f"set {sorted(_shown(one, depth - 1) for one in list(value))}"
    if depth > 0 and isinstance(value, dict) and type(value) is dict and len(value) <= _MOST:
        return str(sorted((_shown(key, 0), _shown(one, depth - 1)) for key, one in list(value.items())))
    # A side captures its output, and the parent writes to a log: a default such as `file=sys.stdout` differs by that.
    kind = io.TextIOBase if isinstance(value, io.TextIOBase) else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _digits(code: CodeType) -> int:
    return zlib.crc32(code.co_code)
