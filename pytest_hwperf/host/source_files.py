"""Files of Python code as both sides call them: relative to the tests' root, or to where they were imported from."""

import os
import sys
from pathlib import Path

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
