"""Projects of several usual shapes: from where each side imports, what is laid over, and whether the proof holds.

No process is started: what pytest would put on `sys.path` and load is written down for each shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_hwperf.checkout.isolation import check_isolation
from pytest_hwperf.checkout.overlay import lay_over
from pytest_hwperf.checkout.trees import Trees, own_paths, translated
from pytest_hwperf.checkout.worktree import is_environment
from pytest_hwperf.records.errors import WorkerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A project, and what pytest does in it; all paths relative to its root."""

    code: Sequence[str]  # files that change
    tests: Sequence[str]  # modules that are collected
    paths: Sequence[str]  # of `sys.path`, in their order: those of editable installs, and what pytest puts there
    laid: Sequence[str]  # that the baseline gets of the candidate
    others: Sequence[str] = ()  # that exist, and are loaded by both sides
    prefix: str = "../environment"  # of the interpreter


SHAPES = {
    "tests in the package": Shape(  # rootdir/pkg/tests with __init__.py: pytest puts the folder above pkg on the path
        code=["pkg/__init__.py", "pkg/model.py"],
        tests=["pkg/tests/test_model.py"],
        others=["pkg/tests/__init__.py", "pkg/conftest.py"],
        paths=["."],
        laid=["pkg/conftest.py", "pkg/tests/__init__.py", "pkg/tests/test_model.py"],
    ),
    "tests in a package below src": Shape(
        code=["src/pkg/__init__.py", "src/pkg/model.py"],
        tests=["src/pkg/tests/test_model.py"],
        others=["src/pkg/tests/__init__.py"],
        paths=["src"],
        laid=["src/pkg/tests/__init__.py", "src/pkg/tests/test_model.py"],
    ),
    "a namespace over two source trees": Shape(
        code=["core/src/org/core/__init__.py", "extra/src/org/extra/__init__.py"],
        tests=["extra/tests/test_extra.py"],
        paths=["core/src", "extra/src"],
        laid=["extra/tests/test_extra.py"],
    ),
    "a sub-project of a monorepo": Shape(
        code=["services/api/src/api/__init__.py", "libs/shared/shared.py"],
        tests=["services/api/tests/test_api.py"],
        others=["services/api/conftest.py"],
        paths=["services/api/src", "libs/shared"],
        laid=["services/api/conftest.py", "services/api/tests/test_api.py"],
    ),
    "a uv workspace": Shape(
        code=["packages/a/src/a/__init__.py", "packages/b/src/b/__init__.py"],
        tests=["packages/a/tests/test_a.py", "packages/b/tests/test_b.py"],
        paths=["packages/a/src", "packages/b/src"],
        laid=["packages/a/tests/test_a.py", "packages/b/tests/test_b.py"],
        prefix=".venv",
    ),
    "a conda environment in the project": Shape(
        code=["pkg/__init__.py"],
        tests=["tests/test_pkg.py"],
        paths=["."],
        laid=["tests/test_pkg.py"],
        prefix="envs/work",
    ),
}


@pytest.fixture(params=SHAPES.values(), ids=list(SHAPES))
def shape(request: pytest.FixtureRequest) -> Shape:
    found: Shape = request.param
    return found


@pytest.fixture
def trees(tmp_path: Path, shape: Shape, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Both trees, whose environment belongs to the candidate."""
    prefix = str((tmp_path / "project" / shape.prefix).resolve())
    monkeypatch.setattr("pytest_hwperf.checkout.trees.PREFIXES", (prefix,))
    roots = tmp_path / "project", tmp_path / "base"
    for root in roots:
        for name in (*shape.code, *shape.tests, *shape.others):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"SIDE = {root.name!r}\n", encoding="utf-8")
    _site(roots[0], shape).mkdir(parents=True)
    return roots


def _site(root: Path, shape: Shape) -> Path:
    return (root / shape.prefix).resolve() / "lib" / "python3.11" / "site-packages"


def _loaded(root: Path, shape: Shape) -> list[str]:
    return [str(root / name) for name in (*shape.code, *shape.tests, *shape.others)]


def test_each_side_imports_from_the_same_folders_of_its_own_tree(trees: tuple[Path, Path], shape: Shape) -> None:
    """An environment inside the project belongs to both: its packages are not those of the tree."""
    project, base = trees
    given = [*(str(project / path) for path in shape.paths), str(_site(project, shape)), "/usr/lib/python3.11"]
    own = own_paths(given, project)
    assert [project / path for path in shape.paths] == own
    assert [base / path for path in shape.paths] == translated(own, project, base)


def test_the_proof_holds_and_a_leak_breaks_it(trees: tuple[Path, Path], shape: Shape) -> None:
    project, base = trees
    shared = [str(_site(project, shape) / "numpy" / "__init__.py")]
    tests = [project / name for name in shape.tests]

    def check(theirs: Sequence[str]) -> bool:
        loaded = {"baseline": theirs, "candidate": [*_loaded(project, shape), *shared]}
        return check_isolation(Trees(candidate=project, baseline=base), loaded, tests, own_interpreter=False)  # type: ignore[arg-type] # sides

    assert check([*_loaded(base, shape), *shared])
    with pytest.raises(WorkerError, match=r"the baseline has loaded .* of the candidate's tree"):
        check([*_loaded(base, shape), str(project / shape.code[0])])


def test_tests_are_laid_over_and_code_is_not(trees: tuple[Path, Path], shape: Shape) -> None:
    project, base = trees
    assert sorted(shape.laid) == lay_over(project, base, [project / name for name in shape.tests])
    assert {"SIDE = 'base'\n"} == {(base / name).read_text(encoding="utf-8") for name in shape.code}


@pytest.mark.parametrize("mark", ["conda-meta/history", "pyvenv.cfg"])
def test_environments_are_known_by_what_makes_them_one(tmp_path: Path, mark: str) -> None:
    assert not is_environment(tmp_path)

    (tmp_path / mark).parent.mkdir(exist_ok=True)
    (tmp_path / mark).write_text("")
    assert is_environment(tmp_path)
