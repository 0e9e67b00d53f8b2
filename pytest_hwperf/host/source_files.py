"""Files of Python code: what a process has loaded, whose it is, and what both sides call it."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import wraps
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, SourceFileLoader, SourcelessFileLoader
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote, urlsplit

from pytest_hwperf.host.files import mapped_files, read_text

# Both may lie within the root; asking `sysconfig` would import its table of the build into every fresh process.
_LIBRARY = Path(os.__file__).parent
_INTERPRETER = (_LIBRARY, Path(sys.exec_prefix, sys.platlibdir, _LIBRARY.name))
_OWN = str(Path(__file__).parents[1])  # this package
_SHARED_LIBRARY = re.compile(r"\.so(\.\d+)*$")
_NATIVE = re.compile(r"\.(so(\.\d+)+|dylib|dll|pyd)$")
INSTALLED = "direct_url.json"  # in which pip notes from where it has installed a package
SITES = frozenset({"site-packages", "dist-packages"})
SOURCES = ("src", "lib", "python")  # folders that hold a tree's packages, besides its top
_TESTS = re.compile(r"(.+_)?(tests?|bench|benchmarks?)(_.+)?")  # names of folders that hold no code under test
_PLAIN = frozenset({"test", "tests", "bench", "benchmark", "benchmarks"})


def is_own(file: str, root: Path) -> bool:
    """Whether a file is the user's own code: no installed package, no part of Python and not this package."""
    path = Path(file)
    if not path.is_relative_to(root) or path.is_relative_to(_OWN):
        return False
    installed = {"site-packages", "dist-packages"}.intersection(path.parts)
    return not installed and not any(path.is_relative_to(folder) for folder in _INTERPRETER)


def is_of_this_package(file: str) -> bool:
    """Whether a file belongs to this package."""
    return Path(file).is_relative_to(_OWN)


def relative(file: str, root: Path) -> str:
    """Return a file relative to the tests' root where it lies there, else to where it was imported from."""
    path = Path(file)
    for folder in (root, *sorted(map(Path, filter(None, sys.path)), key=lambda one: -len(one.parts))):
        if "site-packages" in path.parts and folder == root:
            continue  # an environment inside the root: the module's own name says more
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return file


Around = Callable[[str], AbstractContextManager[object]]


def watch_imports(around: Around) -> None:
    """Run the code of every module that is imported from now on within `around(its file)`.

    The loaders themselves are changed, and stay so: for a fresh process that does nothing else. No import is made
    earlier or in another order than without it, and no finder, loader or specification is replaced.
    """
    # A finder that runs modules itself is pytest's, which rewrites the assertions of tests.
    rewriting = (type(one) for one in sys.meta_path if not isinstance(one, type) and hasattr(one, "exec_module"))
    for loader in (SourceFileLoader, SourcelessFileLoader, ExtensionFileLoader, *rewriting):
        setattr(loader, "exec_module", _within(around, loader.exec_module))  # type: ignore[attr-defined] # noqa: B010
    setattr(ExtensionFileLoader, "create_module", _within(around, ExtensionFileLoader.create_module))  # noqa: B010


def _within(around: Around, work: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(work)
    def within(loader: Any, subject: Any) -> Any:
        origin = getattr(getattr(subject, "__spec__", subject), "origin", None)  # of a module, or its specification
        with around(origin if isinstance(origin, str) else ""):
            return work(loader, subject)

    return within


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
    return file.endswith(tuple(EXTENSION_SUFFIXES)) or bool(_NATIVE.search(file))


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
    mapped = (file.removesuffix(" (deleted)") for file in mapped_files())
    paths = [Path(file) for file in {*loaded_modules().values(), *filter(_SHARED_LIBRARY.search, mapped)}]
    real = {folder: real_path(folder) for folder in {path.parent for path in paths}}  # once each: a third of the time
    return sorted({str(real_path(path) if path.is_symlink() else real[path.parent] / path.name) for path in paths})


def tree_around(root: Path) -> Path:
    """Return the repository in which the tests lie, as far as files tell, or their root where there is none."""
    return next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)


def own_code(root: Path) -> Callable[[str], bool]:
    """Return what tells by its file whether a module is code under test.

    It is, unless it is installed or of the standard library; what was installed from this tree is code under test too.
    """
    top = tree_around(root)
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


def source_of(note: str | None, root: Path, *, is_copy: bool = False) -> Path | None:
    """Return the folder or wheel of the tree that a package was installed from, by what pip notes of that (PEP 610).

    None for any other package, and where only copies are asked for, for an editable install.
    """
    with suppress(ValueError, AttributeError):  # a damaged note is none
        noted = json.loads(note or "{}")
        url = urlsplit(noted.get("url", ""))
        source = real_path(unquote(url.path))
        is_editable = noted.get("dir_info", {}).get("editable", False)
        if url.scheme == "file" and source.is_relative_to(root.resolve()) and not (is_copy and is_editable):
            return source
    return None


def real_path(path: Path | str) -> Path:
    return Path(os.path.realpath(path))


def _offered(root: Path) -> Iterator[str]:
    for folder in (root, *(root / name for name in SOURCES)):
        for path in folder.iterdir() if folder.is_dir() else ():
            is_module = path.suffix == ".py" or (path / "__init__.py").is_file()
            if is_module and not is_of_tests(PurePath(path.stem)):
                yield path.stem


def _copied(site: Path, root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the top-level names that were installed as copies from the tree, and the folder that each came from."""
    for note in site.glob(f"*.dist-info/{INSTALLED}"):
        if source := source_of(read_text(note), root, is_copy=True):
            for line in read_text(note.with_name("RECORD")).splitlines():
                name = PurePath(line.partition(",")[0]).parts[0].partition(".")[0]
                yield name, source if source.is_dir() else root
