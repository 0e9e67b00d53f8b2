"""Loaded code that git ignores and the baseline lacks: refused with what to type."""

import sys
from collections.abc import Callable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import pytest
from fakes.repositories import commit, git

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.trees.ignored import check_ignored

Load = Callable[[str], None]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository that ignores what is generated, and a baseline beside it that has nothing."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init")
    commit(folder, __gitignore="*_generated.py\n*.so\n.venv\n")
    (tmp_path / "baseline").mkdir()
    return folder


@pytest.fixture
def loaded(project: Path) -> Iterator[Load]:
    """Let this process have loaded a file of the project."""
    names = list[str]()

    def load(file: str) -> None:
        (project / file).parent.mkdir(exist_ok=True, parents=True)
        (project / file).write_bytes(b"")
        module = ModuleType(f"loaded_{len(names)}")
        module.__file__ = str(project / file)
        sys.modules[module.__name__] = module
        names.append(module.__name__)

    yield load
    for name in names:
        del sys.modules[name]


def check(project: Path) -> None:
    check_ignored(project, project.parent / "baseline", [str(project / ".venv")])


def test_an_ignored_module_is_refused_with_the_option_that_shares_it(project: Path, loaded: Load) -> None:
    for name in ("pkg/a_generated.py", "b b_generated.py"):
        loaded(name)

    with pytest.raises(UsageProblem, match="loaded by the tests and ignored by git") as caught:
        check(project)
    assert "--hwperf-share='b b_generated.py'" in str(caught.value)
    assert "--hwperf-share=pkg/a_generated.py" in str(caught.value)


def test_code_compiled_in_place_is_refused_with_the_interpreter_to_give(project: Path, loaded: Load) -> None:
    loaded("pkg/plain_generated.py")
    for number in range(5):
        loaded(f"pkg/fast{number}{EXTENSION_SUFFIXES[0]}")

    with pytest.raises(UsageProblem, match=r"fast2.* and 2 more: compiled in place, .*--hwperf-base-python=PATH"):
        check(project)


def test_what_the_baseline_has_or_git_does_not_ignore_is_no_trouble(project: Path, loaded: Load) -> None:
    """A new module, one that was shared, one of an environment inside the tree."""
    for name in ("new.py", "shared_generated.py", ".venv/lib/x_generated.py", "lib/site-packages/y_generated.py"):
        loaded(name)
    (project.parent / "baseline" / "shared_generated.py").write_bytes(b"")

    check(project)


def test_outside_of_a_repository_nothing_is_ignored(tmp_path: Path, loaded: Load, project: Path) -> None:
    loaded("a_generated.py")
    (project / ".git").rename(tmp_path / "away")

    check(project)
