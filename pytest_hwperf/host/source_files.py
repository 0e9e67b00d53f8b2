"""Files of Python code as both sides call them: relative to the tests' root, or to where they were imported from."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from importlib.machinery import ExtensionFileLoader, SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from typing import Any

# Both may lie within the root; asking `sysconfig` would import its table of the build into every fresh process.
_LIBRARY = Path(os.__file__).parent
_INTERPRETER = (_LIBRARY, Path(sys.exec_prefix, sys.platlibdir, _LIBRARY.name))
_OWN = str(Path(__file__).parents[1])  # this package


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
