"""Every usual way to lay out and install a project: which side's code a worker gets, and whether the proof sees it.

Real repositories and virtual environments; what an installer would write into them is written by hand.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes.repositories import commit, git

import pytest_hwperf
from pytest_hwperf.checkout import trees
from pytest_hwperf.checkout.isolation import check_isolation
from pytest_hwperf.checkout.trees import Trees, translated
from pytest_hwperf.checkout.worktree import worktree
from pytest_hwperf.records.errors import WorkerError

pytestmark = [pytest.mark.live, pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")]

PREAMBLE = f"""
import json, sys
from pathlib import Path
sys.path += {[str(Path(str(one.__file__)).parents[1]) for one in (pytest_hwperf, msgspec)]!r}
from pytest_hwperf.host.source_files import loaded_files
from pytest_hwperf.checkout.trees import PREFIXES, own_paths
"""
CONDUCTOR = """
paths = own_paths(sys.path, Path(sys.argv[1]))
print(json.dumps({"paths": list(map(str, paths)), "prefixes": PREFIXES}))
"""
WORKER = """
import pkg.model
print(json.dumps({"side": pkg.model.SIDE, "files": loaded_files()}))
"""

# What setuptools' editable install does for a flat layout: a finder that knows the package, after all others, and an
# entry of sys.path that is no folder.
LAST_FINDER = """
import sys
from importlib.util import spec_from_file_location
MAPPING = {{"pkg": {package!r}}}
class _EditableFinder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in MAPPING:
            return spec_from_file_location(name, MAPPING[name] + "/__init__.py")
def install():
    sys.meta_path.append(_EditableFinder)
    sys.path.append("__editable__.pkg-0.1.finder.__path_hook__")
"""
# What meson-python's and scikit-build-core's do: a finder before all others.
FIRST_FINDER = """
import sys
from importlib.util import spec_from_file_location
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "pkg":
            return spec_from_file_location(name, {package!r} + "/__init__.py")
def install():
    sys.meta_path.insert(0, Finder)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A candidate with its environment inside, and the baseline's work tree."""

    candidate: Path
    baseline: Path
    python: Path  # the candidate's
    package: Path  # of the candidate

    @property
    def site(self) -> Path:
        """Where the candidate's environment has its packages."""
        return site_of(self.python)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Make virtual environments, copies of one, and return the interpreter of each."""
    empty = tmp_path_factory.mktemp("environment") / "empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(empty)], check=True, capture_output=True)
    return lambda folder: Path(shutil.copytree(empty, folder, symlinks=True)) / "bin" / "python"


def site_of(python: Path) -> Path:
    (site,) = (python.parents[1] / "lib").glob("python3*/site-packages")
    return site


@pytest.fixture
def project(
    tmp_path: Path,
    environment: Callable[[Path], Path],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Project]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    candidate = tmp_path / "project"
    package = candidate / getattr(request, "param", "src") / "pkg"
    package.mkdir(parents=True)
    git(candidate, "init")
    (package / "__init__.py").write_text("")
    (package / "model.py").write_text("SIDE = 'baseline'")
    baseline = commit(candidate, __gitignore=".venv\n__pycache__\n")
    (package / "model.py").write_text("SIDE = 'candidate'")
    python = environment(candidate / ".venv")
    with worktree(candidate, baseline) as tree:
        yield Project(candidate=candidate, baseline=tree, python=python, package=package)


def notes(project: Project, site: Path, *, editable: bool, files: Sequence[str]) -> None:
    """Write what pip notes of an install from a folder (PEP 610)."""
    folder = site / "pkg-0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: pkg\nVersion: 0.1\n")
    direct = {"url": project.candidate.as_uri(), "dir_info": {"editable": True} if editable else {}}
    (folder / "direct_url.json").write_text(json.dumps(direct))
    (folder / "RECORD").write_text("".join(f"{name},,\n" for name in files))


def not_installed(project: Project) -> None:
    assert not list(project.site.iterdir())


def by_path_of_setuptools(project: Project) -> None:
    (project.site / "__editable__.pkg-0.1.pth").write_text(f"{project.package.parent}\n")
    notes(project, project.site, editable=True, files=["__editable__.pkg-0.1.pth"])


def by_finder(text: str) -> Callable[[Project], None]:
    def install(project: Project) -> None:
        module = "__editable___pkg_0_1_finder"
        (project.site / f"{module}.py").write_text(text.format(package=str(project.package)))
        (project.site / "__editable__.pkg-0.1.pth").write_text(f"import {module}; {module}.install()")
        notes(project, project.site, editable=True, files=[f"{module}.py", "__editable__.pkg-0.1.pth"])

    return install


def as_copy(project: Project) -> None:
    shutil.copytree(project.package, project.site / "pkg")
    notes(project, project.site, editable=False, files=["pkg/__init__.py", "pkg/model.py"])


def run(python: Path, script: str, folder: Path, path: str, *arguments: str, safe: bool = False) -> dict[str, Any]:
    """Run a script in `folder`, which is on sys.path as with `python -m pytest`, unless `safe`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
    command = [str(python), *(["-P"] if safe else []), "-c", PREAMBLE + script, *arguments]
    done = subprocess.run(
        command, cwd=folder, env={**kept, "PYTHONPATH": path}, check=True, stdout=subprocess.PIPE, text=True
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def sides(project: Project, given: str = "", base_python: Path | None = None) -> tuple[str, str | WorkerError]:
    """Start both workers as the conductor would; return whose code the baseline got, and what the proof says.

    `given` is the folder that the ini file's `pythonpath` names, and the baseline may have a Python of its own.
    """
    ini = str(project.candidate / given) if given else ""
    conductor = run(project.python, CONDUCTOR, project.candidate, ini, str(project.candidate), safe=True)
    own = [Path(path) for path in conductor["paths"]]
    theirs = translated(own, project.candidate, project.baseline)
    candidate = run(project.python, WORKER, project.candidate, os.pathsep.join(map(str, own)))
    baseline = run(base_python or project.python, WORKER, project.baseline, os.pathsep.join(map(str, theirs)))
    assert "candidate" == candidate["side"]
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trees, "PREFIXES", conductor["prefixes"])
            prove(project, baseline["files"], candidate["files"], own_interpreter=base_python is not None)
    except WorkerError as error:
        return baseline["side"], error
    return baseline["side"], "proven"


def prove(project: Project, baseline: list[str], candidate: list[str], *, own_interpreter: bool = False) -> None:
    both = Trees(candidate=project.candidate, baseline=project.baseline)
    check_isolation(both, {"baseline": baseline, "candidate": candidate}, [], own_interpreter=own_interpreter)


FLAT, SRC = ".", "src"
LEAK = "the baseline has loaded"

# Layout, how it is installed, and the folder of the ini file's pythonpath. Merely started in the work tree, a worker
# would get the candidate's code by the finder and by the path of a src layout.
ROWS = {
    "flat, not installed, pythonpath": (FLAT, not_installed, "."),
    "src, not installed, pythonpath": (SRC, not_installed, "src"),
    "flat, finder of setuptools": (FLAT, by_finder(LAST_FINDER), ""),
    "src, finder of setuptools": (SRC, by_finder(LAST_FINDER), ""),
    "src, path of setuptools": (SRC, by_path_of_setuptools, ""),
    "flat, installed copy": (FLAT, as_copy, "."),  # only what `python -m pytest` puts first leads to the tree
}


@pytest.mark.parametrize(
    ("project", "install", "given"), [pytest.param(*row, id=name) for name, row in ROWS.items()], indirect=["project"]
)
def test_the_baseline_gets_its_own_code_and_it_is_proven(
    project: Project, install: Callable[[Project], None], given: str
) -> None:
    install(project)
    assert ("baseline", "proven") == sides(project, given)


def test_without_translated_paths_the_leak_is_seen(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof does not rest on the paths: it would fail without them."""
    by_path_of_setuptools(project)
    monkeypatch.setattr(trees, "PREFIXES", (str(project.candidate / ".venv"),))
    files = {tree: run(project.python, WORKER, tree, "")["files"] for tree in (project.baseline, project.candidate)}
    with pytest.raises(WorkerError, match=rf"{LEAK} {project.package}/__init__.py and 1 more of the candidate's tree"):
        prove(project, files[project.baseline], files[project.candidate])


def test_a_finder_before_all_others_is_an_error(project: Project) -> None:
    """No path can lead past it."""
    by_finder(FIRST_FINDER)(project)
    side, error = sides(project)
    assert "candidate" == side
    assert f"{LEAK} {project.package}/__init__.py and 1 more of the candidate's tree" in str(error)
    assert "give --hwperf-base-python=PATH" in str(error)


@pytest.mark.parametrize("install", [as_copy, by_finder(FIRST_FINDER)], ids=["installed copy", "finder before all"])
def test_what_the_errors_tell_to_do_works(
    project: Project, tmp_path: Path, environment: Callable[[Path], Path], install: Callable[[Project], None]
) -> None:
    """With an environment of its own, the baseline's code is that which is installed there."""
    install(project)
    python = environment(tmp_path / "base")
    shutil.copytree(project.baseline / "src" / "pkg", site_of(python) / "pkg")
    notes(project, site_of(python), editable=False, files=["pkg/__init__.py", "pkg/model.py"])
    assert ("baseline", "proven") == sides(project, base_python=python)


def test_an_environment_of_its_own_that_holds_the_candidate_is_an_error(
    project: Project, tmp_path: Path, environment: Callable[[Path], Path]
) -> None:
    by_path_of_setuptools(project)
    python = environment(tmp_path / "base")
    (site_of(python) / "_pkg.pth").write_text(str(project.package.parent))
    (project.baseline / "src").rename(project.baseline / "elsewhere")
    side, error = sides(project, base_python=python)
    assert "candidate" == side
    assert LEAK in str(error)
