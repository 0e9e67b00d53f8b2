"""The tree that a process imports its code from: set before it starts, and proved afterwards."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from urllib.parse import unquote, urlsplit

from pytest_hwperf.host.source_files import is_own
from pytest_hwperf.records.errors import WorkerError

_SHARED_LIBRARY = re.compile(r"\.so(\.\d+)*$")
_FINDER = re.compile(r"__editable___.+_finder")  # the module that setuptools writes for an editable install
SITES = frozenset({"site-packages", "dist-packages"})
SOURCES = ("src", "lib", "python")  # folders that hold a tree's packages, besides its top
_TESTS = re.compile(r"(.+_)?(tests?|bench|benchmarks?)(_.+)?")  # names of folders that hold no code under test
_PLAIN = frozenset({"test", "tests", "bench", "benchmark", "benchmarks"})
_OWN_PYTHON = (
    "give --hwperf-base-python=PATH, the Python of an environment with the baseline installed, or have one built with "
    "-o hwperf_base_env=build"
)


def own_paths(sys_path: Sequence[str], root: Path, prefixes: Sequence[str]) -> list[Path]:
    """Return from where this process imports code of the tree, links resolved, in their order and each once.

    The folders of setuptools' editable installs, which are on no path, follow the entries of `sys_path`.
    """
    entries = [*map(Path, sys_path), *_editable_folders()]
    real = (Path(os.path.realpath(entry)) for entry in entries)
    mine = Tree(root, prefixes)
    return list(dict.fromkeys(entry for entry in real if entry.exists() and mine.holds(entry)))


def translated(paths: Iterable[Path], root: Path, other_root: Path) -> list[Path]:
    """Return the folders in `other_root` that correspond to `paths` in `root`."""
    return [other_root / path.resolve().relative_to(root.resolve()) for path in paths]


def python_path(paths: Iterable[Path]) -> str:
    """Return them as a value of PYTHONPATH."""
    return os.pathsep.join(map(str, paths))


def loaded_modules() -> dict[str, str]:
    """Return the name and the file of each module of this process, in the order of their import."""
    found = {}
    for name, module in list(sys.modules.items()):
        with suppress(AttributeError):  # anything may stand in for a module
            # Past any __getattr__, which might import: a lazy module must not be loaded.
            file = object.__getattribute__(module, "__dict__").get("__file__")
            if isinstance(file, str):
                found[name] = file
    return found


def modules_before_pytest() -> dict[str, str]:
    """Return those that may be imported before pytest starts: no tests, and no packages of plugins.

    It rewrites their assertions, and warns of a plugin where it comes too late. Of installed packages it rewrites what
    is called `*_test.py` too, and does not mind if that is there already. This one says PYTEST_DONT_REWRITE.
    """
    found = loaded_modules()
    rewritten = {
        name
        for name, file in found.items()
        if type(getattr(sys.modules.get(name), "__loader__", None)).__module__ == "_pytest.assertion.rewrite"
        and ("." not in name or not SITES.intersection(PurePath(file).parts))
    } - {"pytest_hwperf"}
    own = "pytest_hwperf."
    return {
        name: file
        for name, file in found.items()
        if name.startswith(own) or not {name, name.partition(".")[0]} & rewritten
    }


def loaded_files() -> list[str]:
    """Return the files of this process's modules and mapped shared libraries, links resolved, sorted."""
    files = {*loaded_modules().values()}
    with suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:  # noqa: PTH123 - pathlib is not needed for it
        for line in maps:
            path = line.rstrip("\n").partition("/")[2].removesuffix(" (deleted)")
            if _SHARED_LIBRARY.search(path):
                files.add(f"/{path}")
    return _resolved(files)


def _resolved(files: Iterable[str]) -> list[str]:
    """Return them with their links resolved, sorted; each folder once, which takes a third of the time."""
    paths = [Path(file) for file in files]
    real = {folder: _real(folder) for folder in {path.parent for path in paths}}
    return sorted({str(_real(path) if path.is_symlink() else real[path.parent] / path.name) for path in paths})


def own_code(root: Path) -> Callable[[str], bool]:
    """Return what tells by its file whether a module is code under test.

    It is, unless it is installed or of the standard library; what was installed from this tree is code under test too.
    """
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    sites = [Path(entry) for entry in sys.path if Path(entry).name in SITES]
    own = {*_offered(root), *_offered(top), *(name for site in sites for name, _ in _from_tree(site, top))}

    def is_of_tree(file: str) -> bool:
        parts = PurePath(file).parts
        site = next((place for place, part in enumerate(parts) if part in SITES), None)
        if site is None:
            return is_own(file, Path(Path(file).anchor))
        return parts[site + 1].partition(".")[0] in own

    return is_of_tree


def is_of_tests(folder: PurePath) -> bool:
    """Whether a folder, relative to the root, holds tests and no code under test, by its name or that of a parent."""
    return any(_TESTS.fullmatch(part) for part in folder.parts)


def top_of_tests(folder: PurePath) -> PurePath | None:
    """Return the folder that holds all tests of a part of the tree, relative to the root; None outside of any.

    It has a plain name, such as `tests`; a package called `load_test` with tests further below holds code.
    """
    named = [one for one in (folder, *folder.parents) if _TESTS.fullmatch(one.name)]
    return next((one for one in reversed(named) if one.name in _PLAIN), named[0] if named else None)


def check_isolation(  # noqa: PLR0913 - two sides, each with its root and files
    baseline_files: Sequence[str],
    candidate_files: Sequence[str],
    baseline_root: Path,
    candidate_root: Path,
    *,
    test_files: Sequence[Path],
    prefixes: Sequence[str],
    own_interpreter: bool,
) -> bool:
    """Make sure that each side ran its own code: that of its tree, or with its own interpreter an installed one.

    Where neither side has loaded code of a tree and no package of the tree is installed either, the tests measure
    something else, such as a model file or a dependency, and nothing can be mixed up.
    """
    candidate = Tree(candidate_root, prefixes, other=baseline_root)
    baseline = Tree(baseline_root, prefixes)
    if leaked := [file for file in baseline_files if candidate.holds(PurePath(file))]:
        more = f" and {len(leaked) - 1} more" if leaked[1:] else ""
        raise WorkerError(
            f"the baseline has loaded {leaked[0]}{more} of the candidate's tree: its editable install (by meson-python "
            f"or scikit-build-core?) cannot be redirected to another one; {_OWN_PYTHON}"
        )
    tests = {_real(file) for file in test_files}
    tests |= {baseline.root / file.relative_to(candidate.root) for file in tests if candidate.holds(file)}
    own = {
        "baseline": any(baseline.has_code(_real(file), tests) for file in baseline_files),
        "candidate": any(candidate.has_code(_real(file), tests) for file in candidate_files),
    }
    if all(own.values()):
        return True
    installed = installed_copies(candidate_files, candidate.root)
    theirs = installed_copies(baseline_files, candidate.root)
    if both := installed.keys() & theirs.keys():
        package = min(both)
        raise WorkerError(
            f"the package under test is imported from {package}, not from either tree; "
            f"install it with `pip install -e {installed[package]}`, or {_OWN_PYTHON}"
        )
    if own_interpreter and (own["candidate"] or installed) and (own["baseline"] or theirs):
        return True
    if any(own.values()) and not own_interpreter:
        side, root = ("candidate", candidate.root) if own["baseline"] else ("baseline", baseline.root)
        raise WorkerError(
            f"the {side} has loaded no code of its own tree {root}, but the other side has; "
            f"install it with `pip install -e {candidate.root}`, or {_OWN_PYTHON}"
        )
    return False


class Tree:
    """What belongs to a side: the files below its root but for environments, and but for the other side's tree."""

    def __init__(self, root: Path, prefixes: Sequence[str], other: Path | None = None) -> None:
        self.root = _real(root)
        outside = [*map(_real, prefixes), *([] if other is None else [_real(other)])]
        # A prefix around the tree, such as /usr around /usr/src/app, is not part of the tree.
        self._outside = [path for path in outside if path != self.root and path.is_relative_to(self.root)]

    def holds(self, path: PurePath) -> bool:
        """Whether a real path lies in the tree and is not installed there."""
        if not path.is_relative_to(self.root) or any(path.is_relative_to(other) for other in self._outside):
            return False
        return SITES.isdisjoint(path.relative_to(self.root).parts)

    def has_code(self, path: PurePath, tests: set[Path]) -> bool:
        """Whether it is code of the tree that was not laid over: neither a test nor in a folder of tests."""
        if not self.holds(path) or path in tests or path.name == "conftest.py":
            return False
        return not is_of_tests(path.relative_to(self.root).parent)


def _real(path: Path | str) -> Path:
    return Path(os.path.realpath(path))


def _editable_folders() -> Iterator[Path]:
    """Yield the folders that would have to be on the path for the packages of setuptools' editable finders."""
    for name, module in list(sys.modules.items()):
        if _FINDER.fullmatch(name):
            for package, path in getattr(module, "MAPPING", {}).items():
                parts = tuple(package.split("."))
                found = Path(path) if Path(path).is_dir() else Path(path).with_suffix("")
                if found.parts[-len(parts) :] == parts:  # else the folder has another name, and no path can help
                    yield found.parents[len(parts) - 1]


def installed_copies(files: Sequence[str], root: Path) -> Mapping[Path, Path]:
    """Return the loaded packages that are installed copies of code in the tree, and from which folder each was."""
    found = dict[Path, Path]()
    sources = dict[Path, Mapping[str, Path]]()  # of each site
    offered = dict.fromkeys(_offered(root), root)
    for file in map(Path, files):
        site = next((folder for folder in file.parents if folder.name in SITES), None)
        if site is not None:
            if site not in sources:
                sources[site] = {**offered, **dict(_from_tree(site, root))}
            top = file.relative_to(site).parts[0]
            if (name := top.partition(".")[0]) in sources[site]:
                found[site / top] = sources[site][name]
    return found


def _offered(root: Path) -> Iterator[str]:
    """Yield the names of packages and modules in the usual folders of a tree."""
    for folder in (root, *(root / name for name in SOURCES)):
        for path in folder.iterdir() if folder.is_dir() else ():
            is_module = path.suffix == ".py" or (path / "__init__.py").is_file()
            if is_module and not is_of_tests(PurePath(path.stem)):
                yield path.stem


def _from_tree(site: Path, root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the top-level names that pip has installed from a folder of the tree (PEP 610), and that folder."""
    for record in site.glob("*.dist-info/direct_url.json"):
        with suppress(OSError, ValueError, AttributeError):  # a damaged one is skipped
            direct = json.loads(record.read_text(encoding="utf-8"))
            url = urlsplit(direct.get("url", ""))
            folder = _real(unquote(url.path))
            is_editable = direct.get("dir_info", {}).get("editable", False)
            if url.scheme == "file" and folder.is_relative_to(root) and not is_editable:
                for line in record.with_name("RECORD").read_text(encoding="utf-8").splitlines():
                    yield (
                        PurePath(line.partition(",")[0]).parts[0].partition(".")[0],
                        folder if folder.is_dir() else root,
                    )
