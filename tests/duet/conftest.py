"""Tiny repositories, and temporary places apart from those of other runs."""

import tempfile
from pathlib import Path

import pytest
from fakes.repositories import commit, git, repository_with


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let temporary places lie apart from those of other runs."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def repository(temporary: Path) -> Path:
    """One commit, of `model.py`."""
    return repository_with(temporary.parent / "project", model__py="old")


@pytest.fixture
def with_submodule(repository: Path, tmp_path: Path) -> Path:
    inner = repository_with(tmp_path / "inner", weights="1")
    git(repository, "submodule", "add", str(inner), "vendored")
    commit(repository)
    return repository
