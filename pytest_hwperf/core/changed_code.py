"""Changed code of a Python file: which functions, class bodies or the module itself differ between two versions."""

import warnings
from collections.abc import Iterator
from hashlib import blake2b
from types import CodeType

MODULE = "<module>"  # key of what runs when the file is imported

_WHOLE = (frozenset({MODULE}), frozenset({MODULE}))
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)


def changed_code(baseline: bytes, candidate: bytes) -> tuple[frozenset[str], frozenset[str]]:
    """Return the keys of the changed code of each version, none where both do the same in the same order.

    What a piece of code does by itself are its instructions, names and constants; where they stand in the file and
    what is written about them in comments is left out. What is seen of a function without a call of it belongs to the
    code around it: its name, its arguments and their defaults, its decorators, its docstring. Code within changed code
    has no key of its own, since it is made only where the changed code runs.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            then, now = (compile(source, "", "exec", dont_inherit=True) for source in (baseline, candidate))
    except _UNREADABLE:
        return _WHOLE
    pairs = list(_changed(then, now))
    return frozenset(key_of(one) for one, _ in pairs), frozenset(key_of(other) for _, other in pairs)


def key_of(code: CodeType) -> str:
    """Return how a piece of code is called within its file: its qualified name and its first line, "add:12".

    Functions without a name on one line share a key.
    """
    return MODULE if code.co_name == MODULE else f"{code.co_qualname}:{code.co_firstlineno}"


def digest_of(code: CodeType) -> str:
    """Return 16 digits that are the same in every process for code that does the same, and tell versions apart."""
    return blake2b(repr(_own(code)).encode(errors="surrogatepass"), digest_size=8).hexdigest()


def _changed(then: CodeType, now: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    if _own(then) != _own(now):
        yield then, now
        return
    for one, other in zip(_nested(then), _nested(now), strict=True):
        yield from _changed(one, other)


def _nested(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _own(code: CodeType) -> tuple[object, ...]:
    """Return what a piece of code does by itself, with each function in it as it is seen from there."""
    return (
        code.co_code,
        code.co_exceptiontable,
        code.co_names,
        code.co_varnames,
        code.co_cellvars,
        code.co_freevars,
        *_signature(code),
        [_signature(one) if isinstance(one, CodeType) else _constant(one, code) for one in code.co_consts],
    )


def _signature(code: CodeType) -> tuple[object, ...]:
    arguments = code.co_argcount + code.co_kwonlyargcount
    first = code.co_consts[0] if code.co_consts else None  # where a function keeps its docstring
    return (
        code.co_qualname,
        code.co_flags,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_varnames[: arguments + 2],  # also *args and **kwargs, where there are any
        first if isinstance(first, str) else None,
    )


def _constant(value: object, of: CodeType) -> tuple[str, str]:
    if value == of.co_firstlineno and "__firstlineno__" in of.co_names:  # of a class, from Python 3.13 on
        return "line", ""
    # not by equality: 1, 1.0 and True are equal, and so are 0.0 and -0.0; a set has another order in each process
    return type(value).__name__, repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)
