"""The imports of this process, each within a context that knows whose code is run."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from importlib.machinery import ExtensionFileLoader, SourceFileLoader, SourcelessFileLoader
from typing import Any

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
