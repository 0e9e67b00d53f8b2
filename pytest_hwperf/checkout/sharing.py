"""Files that the candidate uses, git does not have and the baseline lacks: which of them the baseline may be given."""

import ast
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from pytest_hwperf.checkout.git import ignored_files, tracked_files
from pytest_hwperf.checkout.opened import own_data
from pytest_hwperf.checkout.overlay import give
from pytest_hwperf.checkout.trees import Trees, is_same
from pytest_hwperf.host.files import is_file, is_folder, read_file, read_text
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.host.source_files import is_compiled

_SOURCE = ".py"
_MOST = 1000  # files: git is asked about them on a command line, which has an end
_NAMES = re.compile(r"'([^']+)'|\"([^\"]+)\"|([^\s'\",:;()<>]+)")  # what may be a path in a message
_ABOUT_FILES = re.compile("no[ _]?such ?file|filenotfound|not ?a ?directory", re.IGNORECASE)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What the candidate was seen to use."""

    loaded: Sequence[str] = ()  # files of modules, links resolved
    opened: Opened = field(default_factory=Opened)
    named: Collection[str] = ()  # files and folders that a message of the baseline misses, relative to the root
    fails: bool = False  # whether the baseline cannot run something that the candidate can


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What of that the baseline lacks and git does not have, relative to the root."""

    given: list[str] = field(default_factory=list)  # what both sides may have
    kept: Mapping[str, str] = field(default_factory=dict)  # what may be the candidate's alone → why


def missing_files(text: str, trees: Trees, folders: Sequence[Path]) -> list[str]:
    """Return the data files in a message of the baseline that only the candidate has, relative to the root."""
    found = dict[str, None]()
    about_files = _ABOUT_FILES.search(text)
    for single, double, bare in _NAMES.findall(text):
        name = single or double or bare
        if not about_files and name.isidentifier():  # `build` may be a folder, and is a function here
            continue
        path, places = Path(name), list[Path]()
        if not path.is_absolute():
            places = [folder / path for folder in folders if ".." not in path.parts]
        elif (real := PurePath(os.path.normpath(path))).is_relative_to(trees.baseline):
            places = [trees.candidate / real.relative_to(trees.baseline)]
        for path in places:
            relative = os.path.relpath(path, trees.candidate)
            is_there = is_file(path) or (is_folder(path) and not bare.isidentifier())  # "the model" is no folder
            then = trees.baseline / relative
            if path.suffix != _SOURCE and is_there and not (is_file(then) or is_folder(then)):
                found[relative] = None
    return list(found)


def shareable(trees: Trees, used: Used) -> Found:
    """Sort what the candidate has used and the baseline lacks since git does not have it.

    A file that git ignores is given, and one that it neither has nor ignores if the baseline fails: as it will be part
    of the next commit, it belongs to the candidate otherwise. Code never is, but for modules that only give names to
    texts and numbers; nor is a file that may have been made from one that differs between both trees.
    """
    tree = trees.tree("candidate")
    modules = tree.own(file for file in used.loaded if file.endswith(_SOURCE))
    missed = ((trees.candidate / name).rglob("*") for name in used.named if is_folder(trees.candidate / name))
    named = [file.relative_to(trees.candidate).as_posix() for folder in missed for file in folder]
    every = {*own_data(used.opened, tree), *used.named, *named, *modules}
    files = [file for file in sorted(every) if _is_lacking(trees, file)][:_MOST]
    revision = tracked_files(trees.candidate, ["."]) if files else ()
    if not revision:  # without git, nobody knows what belongs to a revision
        return Found()
    tracked = frozenset(revision)
    others = {file: name for file in files if (name := _known_as(trees.candidate, file)) not in tracked}
    ignored = {*ignored_files(trees.candidate, [*dict.fromkeys(others.values())])}
    given, kept = list[str](), dict[str, str]()
    for file, name in others.items():
        if name not in ignored and (not used.fails or file.endswith(_SOURCE)):
            continue
        if why := _why_kept(trees, file, tracked):
            kept[file] = why
        else:
            given.append(file)
    return Found(given=given, kept=kept)


def with_shared(trees: Trees, files: Sequence[str]) -> Trees:
    """Give files to the baseline: its own, if it is the copy of a folder that has them, else the candidate's."""
    shared = dict(trees.shared)
    for file in files:
        own = trees.origin / file if trees.origin else None
        source = own if own is not None and is_file(own) else trees.candidate / file
        shared[file] = give(source, trees.baseline, PurePath(file))
    return replace(trees, shared=shared)


def _is_lacking(trees: Trees, file: str) -> bool:
    """Whether the candidate alone has it, and not as part of a submodule, whose revision may differ too.

    Compiled code is looked for where it is loaded: it is built, and never given.
    """
    if not is_file(trees.candidate / file) or os.path.lexists(trees.baseline / file) or is_compiled(file):
        return False
    return not any(os.path.lexists(trees.candidate / one / ".git") for one in [*PurePath(file).parents][:-1])


def _known_as(root: Path, file: str) -> str:
    """Return by what git knows a file: by the link that leads to its folder, where there is one."""
    folders = [*PurePath(file).parents][-2::-1]
    return next((folder.as_posix() for folder in folders if (root / folder).is_symlink()), file)


def _why_kept(trees: Trees, file: str, tracked: Collection[str]) -> str:
    """Return why the baseline is not given a file, "" where it is."""
    path, is_source = trees.candidate / file, file.endswith(_SOURCE)
    if is_source and not is_constants(path):
        return "it is code, and may be made from what differs"
    if not is_source and is_code(path):
        return "it is code"
    source = changed_source(file, trees, tracked)
    return source and f"{source} differs between both trees, and it may be made from that"


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


def _beside(file: str, trees: Trees) -> Iterator[str]:
    """Yield what lies beside a file in either tree and is called like it, up to the first dot."""
    path = PurePath(file)
    stem = path.name.lstrip(".").partition(".")[0]
    for root in (trees.candidate, trees.baseline):
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


def changed_source(file: str, trees: Trees, tracked: Collection[str]) -> str:
    """Return a file that differs between both trees and from which this one may have been made; "" if none is known.

    It lies beside it and has its name up to the first dot (`model.bin.dvc`, `table.yaml`), or is named in its
    first 4096 bytes, or is what DVC keeps of it or of a folder around it.
    """
    candidate, baseline = trees.candidate, trees.baseline
    for source in (*_beside(file, trees), *_notes_of_dvc(file, candidate), *_named_in(candidate / file)):
        for place in dict.fromkeys((PurePath(source), PurePath(file).parent / source)):
            one, two = candidate / place, baseline / place
            is_there = is_file(two) or (place.as_posix() in tracked and is_file(one))
            if place != PurePath(file) and ".." not in place.parts and is_there and not is_same(one, two):
                return place.as_posix()
    return ""
