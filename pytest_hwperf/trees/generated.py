"""Files that git does not have: which of them hold code, and from which files of the tree they may have been made."""

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path, PurePath

from pytest_hwperf.host.files import is_file, read_file, read_text
from pytest_hwperf.trees.differences import is_same
from pytest_hwperf.trees.ignored import is_compiled

_CODE = frozenset(  # suffixes of what is run, or compiled and run
    {
        *(".py", ".pyi", ".pyx", ".pxd", ".pyc", ".ipynb", ".pth", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp"),
        *(".cu", ".cuh", ".cl", ".ptx", ".cubin", ".hsaco", ".metal", ".metallib", ".spv", ".ll", ".bc", ".f", ".f90"),
        *(".a", ".o", ".lib", ".exe", ".jar", ".class", ".wasm", ".js", ".sh", ".lua", ".r", ".jl", ".rs", ".go"),
    }
)
_MACHINE_CODE = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\x00asm", b"#!")  # of ELF, PE, Mach-O
_LARGEST = 1 << 14  # bytes of a module that holds a version and the like; a table of a parser is larger
_HEAD = 4096  # bytes at whose place a generated file says what it was made from
_PATHS = re.compile(r"[\w.+-]+(?:[/\\][\w.+-]+)*\.\w+")
_DVC_LOCK = "dvc.lock"  # of a pipeline: what its stages have made
_MOST_VALUES = 16  # of a tuple: of a version, not of a table


def is_code(path: Path) -> bool:
    """Whether it is a program or a part of one, by its name or its first bytes; what cannot be read counts as one."""
    if path.suffix.lower() in _CODE or is_compiled(path.name):
        return True
    try:
        with path.open("rb") as file:
            return file.read(4).startswith(_MACHINE_CODE)
    except OSError:
        return True


def is_constants(path: Path) -> bool:
    """Whether a module only gives names to texts and numbers, as the `_version.py` that setuptools-scm writes."""
    try:
        return all(map(_is_constant, ast.parse(read_file(path, _LARGEST)).body))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False


def changed_source(file: str, candidate: Path, baseline: Path, tracked: Collection[str]) -> str:
    """Return a file that differs between both trees and from which this one may have been made; "" if none is known.

    It lies beside it and has its name up to the first dot (`model.bin.dvc`, `table.yaml`), or is named in its
    first 4096 bytes, or is what DVC keeps of it or of a folder around it.
    """
    for source in (*_beside(file, candidate, baseline), *_notes_of_dvc(file, candidate), *_named_in(candidate / file)):
        for place in dict.fromkeys((PurePath(source), PurePath(file).parent / source)):
            one, two = candidate / place, baseline / place
            is_there = is_file(two) or (place.as_posix() in tracked and is_file(one))
            if place != PurePath(file) and ".." not in place.parts and is_there and not is_same(one, two):
                return place.as_posix()
    return ""


def _is_constant(node: ast.stmt) -> bool:
    """Whether a statement does nothing but give names to values; what only a type checker runs counts too."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.AnnAssign(value=None):
            return True
        case ast.Assign(targets=targets, value=value):
            return all(isinstance(target, ast.Name) for target in targets) and _is_value(value)
        case ast.AnnAssign(target=ast.Name(), value=ast.expr() as value):
            return _is_value(value)
        case ast.ImportFrom(module="typing" | "__future__"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=others):
            return all(map(_is_constant, others))
        case _:
            return False


def _is_value(value: ast.expr) -> bool:
    match value:
        case ast.Constant() | ast.Name():
            return True
        case ast.Tuple(elts=values) | ast.List(elts=values):
            return len(values) <= _MOST_VALUES and all(map(_is_value, values))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            return True
        case _:
            return False


def _beside(file: str, candidate: Path, baseline: Path) -> Iterator[str]:
    """Yield what lies beside a file in either tree and is called like it, up to the first dot."""
    path = PurePath(file)
    stem = path.name.lstrip(".").partition(".")[0]
    for root in (candidate, baseline):
        for other in sorted((root / path.parent).glob("*")) if (root / path.parent).is_dir() else ():
            if other.name.lstrip(".").partition(".")[0] == stem and other.name != path.name:
                yield (path.parent / other.name).as_posix()


def _notes_of_dvc(file: str, candidate: Path) -> Iterator[str]:
    """Yield the files in which DVC may keep the digest of a file, or of a folder around it."""
    path = PurePath(file)
    for folder in [*path.parents][:-1]:
        yield f"{folder.as_posix()}.dvc"
    for folder in path.parents:
        inside = path.relative_to(folder)
        text = f"{read_text(candidate / folder / _DVC_LOCK)}\n"
        if any(f"path: {one.as_posix()}\n" in text for one in (inside, *[*inside.parents][:-1])):
            yield (folder / _DVC_LOCK).as_posix()


def _named_in(path: Path) -> Iterator[str]:
    """Yield what may be paths of files in the first bytes of a text; nothing of a binary file."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return
    if b"\0" not in head:
        for name in _PATHS.findall(head.decode("utf-8", errors="ignore")):
            yield name.replace("\\", "/")
