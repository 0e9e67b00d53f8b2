"""Repositories are made by git once, and copied for each test."""

import shutil
from pathlib import Path

import pytest
from fakes.repositories import commit, git, repository_with


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a repository of one commit, `plain`, and one with a submodule besides, `outer`."""
    folder = tmp_path_factory.mktemp("repositories")
    if shutil.which("git"):
        inner = repository_with(folder / "inner", weights="1")
        shutil.copytree(repository_with(folder / "plain", model__py="old"), folder / "outer", symlinks=True)
        git(folder / "outer", "submodule", "add", str(inner), "vendored")
        commit(folder / "outer")
        for hooks in folder.rglob("hooks"):  # only samples
            shutil.rmtree(hooks)
    return folder


@pytest.fixture
def repository(temporary: Path, _made: Path) -> Path:
    """One commit, of `model.py`."""
    return Path(shutil.copytree(_made / "plain", temporary.parent / "project", symlinks=True))


@pytest.fixture
def with_submodule(temporary: Path, _made: Path) -> Path:
    """And another one, of the submodule `vendored`, whose origin is `inner` beside it."""
    shutil.copytree(_made / "inner", temporary.parent / "inner", symlinks=True)
    project = Path(shutil.copytree(_made / "outer", temporary.parent / "project", symlinks=True))
    git(project / "vendored", "config", "remote.origin.url", str(temporary.parent / "inner"))
    return project
