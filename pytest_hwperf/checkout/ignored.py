"""Files that only one side has since git ignores them: it would fail, or run something else without a word."""

import ast
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path, PurePath
from shlex import quote

from pytest_hwperf.checkout.differences import is_same
from pytest_hwperf.checkout.git import git
from pytest_hwperf.checkout.isolation import SITES, SOURCES, Tree
from pytest_hwperf.host.files import is_file, is_folder, read_file, read_text
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Side
from pytest_hwperf.stats.hypotheses import SIDES

_SHOWN = 3  # files
_MOST = 1000  # that are asked about: a command line has an end
_PREFIXES = (sys.prefix, sys.exec_prefix, sys.base_prefix)  # an environment inside the tree is no code of it
_FOREIGN = frozenset({"site-packages", "__pycache__"})  # of environments, and of what a process makes for itself
_NAMES = re.compile(r"'([^']+)'|\"([^\"]+)\"|([^\s'\",:;()<>]+)")  # what may be a path in a message
_ABOUT_FILES = re.compile("no[ _]?such ?file|filenotfound|not ?a ?directory", re.IGNORECASE)
_LIBRARY = re.compile(r"\.(so(\.\d+)+|dylib|dll|pyd)$")
_SOURCE = ".py"
_SETUP = "setup.py"


def check_ignored(
    candidate: Path, baseline: Path, loaded: Mapping[Side, Sequence[str]], prefixes: Sequence[str] = _PREFIXES
) -> None:
    """Refuse sides of which one has loaded code that the other lacks and git does not keep."""
    roots: Mapping[Side, Path] = {"candidate": candidate, "baseline": baseline}
    for side, files in loaded.items():
        own, other = roots[side], baseline if side == "candidate" else candidate
        missing = _missing(files, own, other, prefixes)
        tracked = tracked_files(own, missing)
        ignored = ignored_files(candidate, [file for file in missing if file not in (tracked or ())])
        others = [file for file in missing if is_compiled(file) and file not in ignored]
        built = [file for file in ignored if is_compiled(file)] + _untracked(other, others, tracked)
        if built or ignored:
            raise UsageProblem(_built_problem(side, built, own) if built else _generated_problem(side, ignored))


def missing_files(text: str, candidate: Path, baseline: Path, folders: Sequence[Path]) -> list[str]:
    """Return the data files in a message of the baseline that only the candidate has, relative to the root."""
    found = dict[str, None]()
    about_files = _ABOUT_FILES.search(text)
    for single, double, bare in _NAMES.findall(text):
        name = single or double or bare
        if not about_files and name.isidentifier():  # `build` may be a folder, and is a function here
            continue
        for path in _places(name, candidate, baseline, folders):
            relative = os.path.relpath(path, candidate)
            is_there = is_file(path) or (is_folder(path) and not bare.isidentifier())  # "the model" is no folder
            if path.suffix != _SOURCE and is_there and not _exists(baseline / relative):
                found[relative] = None
    return list(found)


def is_compiled(file: str) -> bool:
    """Whether it is an extension module or another library of machine code by its name."""
    return file.endswith(tuple(EXTENSION_SUFFIXES)) or bool(_LIBRARY.search(file))


def sharing(files: Sequence[str]) -> str:
    """Return the options that give the baseline these files."""
    return " ".join(f"--hwperf-share={quote(file)}" for file in files)


def _built_problem(side: Side, files: Sequence[str], root: Path) -> str:
    if side == "candidate":
        return (
            f"{named(files)}: compiled in place, which git does not have, so that the baseline would run other "
            f"code: have both trees built with {_how_to_build(root)}, or the baseline's project with "
            "-o hwperf_base_env=build, or give the Python of an environment in which it is, --hwperf-base-python=PATH"
        )
    return (
        f"{named(files)}: compiled in the baseline only, so that the present tree would run other code: build it here "
        "in the same way, as by `pip install -e .` or `python setup.py build_ext --inplace`"
    )


def _how_to_build(root: Path) -> str:
    """Return the option that compiles in both trees; where it is not known how, with a placeholder."""
    return f"--hwperf-build={quote('python setup.py build_ext --inplace' if is_file(root / _SETUP) else 'COMMAND')}"


def _generated_problem(side: Side, files: Sequence[str]) -> str:
    if side == "candidate":
        return (
            f"{named(files)}: loaded by the tests and ignored by git, so that the baseline does not have it: "
            "have it made in both trees with --hwperf-build=COMMAND, or in the baseline with -o hwperf_base_env=build, "
            f"or give the baseline the present one with {sharing(files)}"
        )
    return (
        f"{named(files)}: loaded by the tests of the baseline and ignored by git, and the present tree does not have "
        "it: generate it here as it was there, as by `pip install -e .`"
    )


def _missing(files: Sequence[str], own: Path, other: Path, prefixes: Sequence[str]) -> list[str]:
    """Return what a side has loaded from its own tree and the other's lacks, relative to the root."""
    root = os.path.realpath(own)
    others = {os.path.realpath(one) for one in (*prefixes, str(other))} - {root}
    outside = tuple(f"{place}{os.sep}" for place in others if not root.startswith(f"{place}{os.sep}"))
    mine = (file for file in files if file.startswith(f"{root}{os.sep}") and not file.startswith(outside))
    relative = (os.path.relpath(file, root) for file in mine)
    return [one for one in relative if _FOREIGN.isdisjoint(Path(one).parts) and not (other / one).exists()][:_MOST]


def _exists(path: Path) -> bool:
    return is_file(path) or is_folder(path)


def ignored_files(candidate: Path, files: Sequence[str]) -> list[str]:
    """Return those that git ignores; none where it cannot tell, as outside of a repository."""
    if not files:
        return []
    found = git(candidate, "-c", "core.quotePath=off", "check-ignore", "--no-index", "--", *files)
    return found.output.splitlines() if found.code == 0 else []


def tracked_files(own: Path, files: Sequence[str]) -> Collection[str] | None:
    """Return those that are part of a revision; None where git cannot tell."""
    if not files:
        return ()
    kept = git(own, "--literal-pathspecs", "ls-files", "-z", "--", *files)
    return None if kept.code else kept.output.split("\0")


def _untracked(other: Path, compiled: Sequence[str], tracked: Collection[str] | None) -> list[str]:
    """Return those that are no part of a revision; without git, those of which the other side has the source."""
    if tracked is not None:
        return [file for file in compiled if file not in tracked]
    return [file for file in compiled if (other / file).with_name(f"{_module(file)}{_SOURCE}").exists()]


def _module(file: str) -> str:
    return Path(file).name.partition(".")[0]


def _places(name: str, candidate: Path, baseline: Path, folders: Sequence[Path]) -> Iterator[Path]:
    """Yield what a path in a message of the baseline may mean in the candidate's tree."""
    path = Path(name)
    if not path.is_absolute():
        yield from (folder / path for folder in folders if ".." not in path.parts)
    elif path.is_relative_to(baseline):
        yield candidate / path.relative_to(baseline)


def named(files: Sequence[str]) -> str:
    """Return the first few of them, and how many more there are."""
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return f"{', '.join(files[:_SHOWN])}{more}"


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


_NO_SOURCES = frozenset({".py", ".pyi"})


def check_compiled(
    loaded: Mapping[Side, Sequence[str]], candidate: Path, baseline: Path, prefixes: Sequence[str]
) -> None:
    """Refuse a compiled module that one side has loaded, and the other not although its tree has the source of it."""
    if len(loaded) < len(SIDES):
        return
    roots: Mapping[Side, Path] = {"candidate": candidate, "baseline": baseline}
    modules = {side: dict(_modules(loaded[side], Tree(roots[side], prefixes))) for side in SIDES}
    for side, other in (SIDES, SIDES[::-1]):
        missing = modules[side].keys() - modules[other].keys()
        if files := sorted(modules[side][one] for one in missing if _is_source_in(roots[other], one)):
            place = "the environment of the baseline" if other == "baseline" else "the present tree"
            raise UsageProblem(
                f"{named(files)}: compiled, and loaded by the {side} only, so that the {other} would run other code, "
                f"such as pure Python: build it in {place} too, as by `pip install -e .`"
            )


def _modules(files: Sequence[str], tree: Tree) -> Iterator[tuple[PurePath, str]]:
    """Yield the compiled modules of a tree or of an environment, as paths without suffix, and their files."""
    for file in filter(is_compiled, files):
        path = PurePath(file)
        site = next((folder for folder in path.parents if folder.name in SITES), None)
        if site is not None:
            relative = path.relative_to(site)
        elif tree.holds(path):
            relative = path.relative_to(tree.root)
            relative = PurePath(*relative.parts[1:]) if relative.parts[0] in SOURCES else relative
        else:
            continue
        yield relative.with_name(relative.name.partition(".")[0]), file


def _is_source_in(root: Path, module: PurePath) -> bool:
    """Whether a tree has what the module is compiled from, beside where it would lie."""
    folders = (root / place / module.parent for place in ("", *SOURCES))
    found = (path for folder in folders if folder.is_dir() for path in folder.glob(f"{module.name}.*"))
    return any(path.suffix not in _NO_SOURCES and not is_compiled(path.name) for path in found)
