"""What a process has loaded, and what of that is code under test: from the tree, or installed as a copy of it."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePath
from urllib.parse import unquote, urlsplit

from pytest_hwperf.host.source_files import is_own

_SHARED_LIBRARY = re.compile(r"\.so(\.\d+)*$")
_LIBRARY = re.compile(r"\.(so(\.\d+)+|dylib|dll|pyd)$")
SITES = frozenset({"site-packages", "dist-packages"})
SOURCES = ("src", "lib", "python")  # folders that hold a tree's packages, besides its top
_TESTS = re.compile(r"(.+_)?(tests?|bench|benchmarks?)(_.+)?")  # names of folders that hold no code under test
_PLAIN = frozenset({"test", "tests", "bench", "benchmark", "benchmarks"})


def is_of_tests(folder: PurePath) -> bool:
    """Whether a folder, relative to the root, holds tests and no code under test, by its name or that of a parent."""
    return any(_TESTS.fullmatch(part) for part in folder.parts)


def top_of_tests(folder: PurePath) -> PurePath | None:
    """Return the folder that holds all tests of a part of the tree, relative to the root; None outside of any.

    It has a plain name, such as `tests`; a package called `load_test` with tests further below holds code.
    """
    named = [one for one in (folder, *folder.parents) if _TESTS.fullmatch(one.name)]
    return next((one for one in reversed(named) if one.name in _PLAIN), named[0] if named else None)


def is_compiled(file: str) -> bool:
    """Whether it is an extension module or another library of machine code by its name."""
    return file.endswith(tuple(EXTENSION_SUFFIXES)) or bool(_LIBRARY.search(file))


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
    paths = [Path(file) for file in files]
    real = {folder: real_path(folder) for folder in {path.parent for path in paths}}  # once each: a third of the time
    return sorted({str(real_path(path) if path.is_symlink() else real[path.parent] / path.name) for path in paths})


def own_code(root: Path) -> Callable[[str], bool]:
    """Return what tells by its file whether a module is code under test.

    It is, unless it is installed or of the standard library; what was installed from this tree is code under test too.
    """
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    sites = [Path(entry) for entry in sys.path if Path(entry).name in SITES]
    own = {*_offered(root), *_offered(top), *(name for site in sites for name, _ in _copied(site, top))}

    def is_of_tree(file: str) -> bool:
        parts = PurePath(file).parts
        site = next((place for place, part in enumerate(parts) if part in SITES), None)
        if site is None:
            return is_own(file, Path(Path(file).anchor))
        return parts[site + 1].partition(".")[0] in own

    return is_of_tree


def installed_copies(files: Sequence[str], root: Path) -> Mapping[Path, Path]:
    """Return the loaded packages that are installed copies of code in the tree, and from which folder each was."""
    found = dict[Path, Path]()
    sources = dict[Path, Mapping[str, Path]]()  # of each site
    offered = dict.fromkeys(_offered(root), root)
    for file in map(Path, files):
        site = next((folder for folder in file.parents if folder.name in SITES), None)
        if site is not None:
            if site not in sources:
                sources[site] = {**offered, **dict(_copied(site, root))}
            top = file.relative_to(site).parts[0]
            if (name := top.partition(".")[0]) in sources[site]:
                found[site / top] = sources[site][name]
    return found


def source_of(package: Distribution, root: Path, *, is_copy: bool = False) -> Path | None:
    """Return the folder or wheel of the tree that a package was installed from, by what pip notes of that (PEP 610).

    None for any other package, and where only copies are asked for, for an editable install.
    """
    with suppress(OSError, ValueError, AttributeError):  # a damaged note is none
        note = json.loads(package.read_text("direct_url.json") or "{}")
        url = urlsplit(note.get("url", ""))
        source = real_path(unquote(url.path))
        is_editable = note.get("dir_info", {}).get("editable", False)
        if url.scheme == "file" and source.is_relative_to(root.resolve()) and not (is_copy and is_editable):
            return source
    return None


def real_path(path: Path | str) -> Path:
    return Path(os.path.realpath(path))


def _offered(root: Path) -> Iterator[str]:
    """Yield the names of packages and modules in the usual folders of a tree."""
    for folder in (root, *(root / name for name in SOURCES)):
        for path in folder.iterdir() if folder.is_dir() else ():
            is_module = path.suffix == ".py" or (path / "__init__.py").is_file()
            if is_module and not is_of_tests(PurePath(path.stem)):
                yield path.stem


def _copied(site: Path, root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the top-level names that were installed as copies from the tree, and the folder that each came from."""
    for package in distributions(path=[str(site)]):
        if source := source_of(package, root, is_copy=True):
            for file in package.files or ():
                yield file.parts[0].partition(".")[0], source if source.is_dir() else root
