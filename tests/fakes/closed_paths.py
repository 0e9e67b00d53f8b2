"""Paths that this user may not look at, although root may."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest


class _Closed:
    """Stands for the module `os` where the package looks whether something is there."""

    def __init__(self, begin: str) -> None:
        self._begin = begin

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def stat(self, path: Any, **options: Any) -> os.stat_result:
        if str(path).startswith(self._begin):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return Path(path).stat(**options)


def close(monkeypatch: pytest.MonkeyPatch, begin: str) -> None:
    """Refuse to tell what is at paths that begin so."""
    monkeypatch.setattr("pytest_hwperf.host.files.os", _Closed(begin))
