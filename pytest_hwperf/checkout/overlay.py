"""The candidate's benchmark code laid over the baseline's tree: tests and configuration, never the code under test."""

import ast
import configparser
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from pytest_hwperf.checkout.linked_tests import given_place, lay_links, own_ways
from pytest_hwperf.checkout.worktree import is_environment, is_lfs_pointer, walk
from pytest_hwperf.host.files import digest_of, read_file
from pytest_hwperf.host.source_files import is_of_tests, top_of_tests
from pytest_hwperf.records.errors import UsageProblem, WorkerError

_PYTEST_ONLY = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")  # read by pytest only
_CONFTEST, _INIT = "conftest.py", "__init__.py"
INI_COPY = "hwperf-candidate-"  # before the name of the candidate's ini file in the baseline's tree
_LARGEST = 10_000_000  # bytes of a source or a configuration file
_MEASURES = re.compile(r"\b(hwperf|hwbudget|hwregression|hwscenarios|hwsweep|hwload|benchmark)\b")
_INI_FILES = (*_PYTEST_ONLY, "pyproject.toml", "tox.ini", "setup.cfg")  # in pytest's order


def remove_gone(candidate_root: Path, baseline_root: Path, test_files: Iterable[Path]) -> list[str]:
    """Remove benchmark code that the candidate no longer has; return what was removed, relative to the roots, sorted.

    It is what `lay_over` would copy if the candidate had it, and every module in the folders of these tests.
    """
    files = {place_in(file, candidate_root) for file in test_files}
    ways = {way for file in files for way in file.parents}
    gone = {way / name for way in ways for name in (_CONFTEST, *([_INIT] if is_of_tests(way) else []))}
    inits = (file.parent / _INIT for file in files)
    gone |= {init for init in inits if _is_without_code(baseline_root / init)}
    for top in {one for file in files if (one := top_of_tests(file.parent))}:
        gone |= {path.relative_to(baseline_root) for path in modules_below(baseline_root / top)}
    removed = sorted(
        file for file in gone if os.path.lexists(baseline_root / file) and not os.path.lexists(candidate_root / file)
    )
    for file in removed:
        _within(baseline_root, file).unlink()
    return [file.as_posix() for file in removed]


def gone_tests(candidate_root: Path, baseline_root: Path, test_files: Iterable[Path]) -> list[str]:
    """Return measured tests of the baseline whose names none of these folders has any more, by their text; sorted.

    A test that only `--hwperf-all` measures is not told from others. Called before anything is laid over.
    """
    folders = {place_in(one, candidate_root).parent for one in test_files}
    here, there = (
        {
            path.relative_to(root): read_file(path, _LARGEST)
            for folder in folders
            for path in _test_modules(root, folder)
        }
        for root in (candidate_root, baseline_root)
    )
    now = {name for source in here.values() for name in _tests_of(source)}
    lost = {file: _tests_of(source) for file, source in there.items() if here.get(file) != source}
    return sorted(
        f"{file.as_posix()}::{name}"
        for file, tests in lost.items()
        for name in tests
        if tests[name] and name not in now
    )


def _test_modules(root: Path, folder: PurePath) -> Iterator[Path]:
    """Yield the test modules of a folder and, where it holds tests, of all that belong to it."""
    top = top_of_tests(folder)
    for path in (root / folder).glob("*.py") if top is None else modules_below(root / top):
        if path.is_file() and (path.name.startswith("test_") or path.stem.endswith("_test")):
            yield path


def _tests_of(source: bytes) -> Mapping[str, bool]:
    """Return name → whether its text or that of the whole module asks for a measurement, of each test function."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    whole = "\n".join(ast.unparse(one) for one in tree.body if isinstance(one, ast.Assign))
    return {
        node.name: bool(_MEASURES.search(f"{whole}\n{ast.unparse(node)}"))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")
    }


def lay_over(candidate_root: Path, baseline_root: Path, test_files: Iterable[Path]) -> list[str]:
    """Copy the benchmark code over the baseline; return what was copied, relative to the roots, sorted.

    Test modules and every `conftest.py` on their way are the candidate's. So is an `__init__.py` on their way from a
    folder of tests on (by its name); elsewhere it may be code under test and is the baseline's, unless it holds no
    code and the baseline lacks it. A helper in a folder of tests, a module or a package, is copied only if the baseline
    lacks it: what differs there must be seen as a change.
    """
    given = list(test_files)
    files = {place_in(file, candidate_root) for file in given}
    folders = {file.parent for file in files}
    ways = {way for folder in folders for way in (folder, *folder.parents)} | own_ways(candidate_root, given)
    laid = files | {way / _CONFTEST for way in ways}
    for way in ways:
        init = way / _INIT
        adds_nothing = way in folders and _is_without_code(candidate_root / init)
        if is_of_tests(way) or (adds_nothing and not os.path.lexists(baseline_root / init)):
            laid.add(init)
    tops = {top_of_tests(folder) for folder in folders}
    for folder in (way for way in ways if tops.intersection((way, *way.parents))):
        helpers = {folder / path.name for path in (candidate_root / folder).glob("*.py")}
        for init in (candidate_root / folder).glob(f"*/{_INIT}"):
            if not os.path.lexists(baseline_root / folder / init.parent.name / _INIT):
                helpers |= {path.relative_to(candidate_root) for path in modules_below(init.parent)}
        laid |= {helper for helper in helpers if not os.path.lexists(baseline_root / helper)}
    present = sorted(file for file in laid if (candidate_root / file).is_file())
    for file in present:
        _put(candidate_root / file, baseline_root, file)
    lay_links(candidate_root, baseline_root, given)
    return [file.as_posix() for file in present]


def candidate_ini(inipath: Path | None, candidate_root: Path, baseline_root: Path) -> list[str]:
    """Put the candidate's ini file next to the baseline's; return the arguments that make pytest read it.

    The baseline keeps its own `pythonpath`: it lists the folders of its code. Under another name, since the baseline's
    own file may be read by its code or its tools. An ini file outside of the candidate's tree serves both sides.
    Where the candidate has none, an empty one keeps pytest from reading the baseline's.
    """
    root = candidate_root.resolve()
    if inipath is not None and not inipath.resolve().is_relative_to(root):
        return ["-c", str(inipath)]
    place = root if inipath is None else inipath.parent.resolve()
    name = "pytest.ini" if inipath is None else inipath.name
    given = place.relative_to(root) / (name if inipath and name in _PYTEST_ONLY else f"{INI_COPY}{name}")
    kept = shlex.join(_own_pythonpath(baseline_root / given.parent, name))  # read first: it is overwritten
    path = _put(inipath or Path(os.devnull), baseline_root, given)
    return ["-c", str(path), "-o", f"pythonpath={kept}"]


def share(globs: Sequence[str], candidate_root: Path, baseline_root: Path) -> dict[str, str]:
    """Copy files of the candidate that the baseline lacks or has as a git-LFS pointer; return their SHA-256 by name."""
    shared = dict[str, str]()
    for glob in globs:
        files = sorted(_matches(glob, candidate_root))
        if not files:
            raise UsageProblem(
                f"--hwperf-share={glob} matches no file in {candidate_root}: give a glob relative to it, "
                "such as 'models/**/*.onnx', in quotes"
            )
        for file in files:
            target = baseline_root / file
            if not os.path.lexists(target) or is_lfs_pointer(target):
                if is_lfs_pointer(candidate_root / file):
                    raise UsageProblem(f"{file} is only a git-LFS pointer here too: get it with `git lfs pull`")
                shared[file.as_posix()] = give(candidate_root / file, baseline_root, file)
    return shared


def give(source: Path, baseline_root: Path, file: PurePath) -> str:
    """Copy one file to the baseline; return the SHA-256 of what it has then."""
    return digest_of(_put(source, baseline_root, file))


def place_in(file: Path, root: Path) -> PurePath:
    """Return where a file lies in the tree; a link to a file lies where the link does."""
    real = file.parent.resolve() / file.name
    if not real.is_relative_to(root.resolve()):
        by_link = f", but in {real.parent}, to which a link leads" if given_place(file, root) else ""
        raise UsageProblem(
            f"{file} is not in {root}{by_link}: tests to be compared must lie in the tree that is compared: "
            "put the files themselves there"
        )
    return real.relative_to(root.resolve())


def modules_below(folder: Path) -> Iterator[Path]:
    """Yield the modules of a folder and of those in it, through no link."""
    yield from (path for path in walk(folder, hidden=False) if path.name.endswith(".py"))


def _is_without_code(init: Path) -> bool:
    """Whether the module has at most a docstring; a module that cannot be read counts as code."""
    try:
        body = ast.parse(read_file(init, _LARGEST)).body
    except (OSError, SyntaxError, ValueError):
        return False
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)


def _put(source: Path, root: Path, relative: PurePath) -> Path:
    """Copy a file to the same path under `root`, through no link that leads out of it."""
    try:
        target = _within(root, relative)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # a link is replaced, not followed
        shutil.copyfile(source, target)
    except OSError as error:
        raise WorkerError(f"the baseline cannot be given {relative}: {error}") from error
    return target


def _within(root: Path, relative: PurePath) -> Path:
    """Return the same path under `root`; refuse it where a link on the way leads out of that."""
    target = root / relative
    existing = next(folder for folder in target.parents if os.path.lexists(folder))
    if not existing.resolve().is_relative_to(root.resolve()):
        raise WorkerError(
            f"the baseline cannot be given {relative}: {existing} is a link that leads out of its tree, to "
            f"{existing.resolve()}, where nothing is written; compare with a revision that has a folder in its place"
        )
    return target


def _own_pythonpath(folder: Path, name: str) -> list[str]:
    """Return `pythonpath` of the ini file that pytest would read in `folder`, the one of that name first."""
    for candidate in dict.fromkeys((name, *_INI_FILES)):
        settings = _settings(folder / candidate)
        if settings is not None:
            value = settings.get("pythonpath") or []
            return shlex.split(value) if isinstance(value, str) else [str(entry) for entry in value]
    return []


def _settings(path: Path) -> Mapping[str, Any] | None:
    """Return pytest's settings in an ini file; None where it has none or cannot be read."""
    try:
        text = read_file(path, _LARGEST).decode("utf-8")
        if path.suffix == ".toml":
            tables: dict[str, dict[str, Any]] = tomllib.loads(text)
            if path.name in _PYTEST_ONLY:
                return tables.get("pytest", {})
            tool = tables.get("tool", {}).get("pytest")
            return None if tool is None else {**tool, **tool.get("ini_options", {})}
        parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
        parser.read_string(text)
        section = "tool:pytest" if path.suffix == ".cfg" else "pytest"
        # A pytest.ini counts even without a section, and pytest looks no further.
        return dict(parser[section]) if parser.has_section(section) else {} if path.name in _PYTEST_ONLY else None
    except (OSError, ValueError, AttributeError, RecursionError, configparser.Error):
        return None


def _matches(glob: str, root: Path) -> Iterator[PurePath]:
    pure = PurePath(glob)
    if not pure.parts or pure.is_absolute() or pure.drive or ".." in pure.parts:
        raise UsageProblem(
            f"--hwperf-share={glob} is not allowed: give a glob inside {root}, relative to it and without '..'"
        )
    for found in root.glob(glob):
        for path in found.rglob("*") if found.is_dir() else [found]:
            relative = path.relative_to(root)
            if path.is_file() and not any(is_environment(root / folder) for folder in relative.parents):
                yield relative
