"""When the baseline's project has to be built, how it is installed, and what its tree is given of that."""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import Distribution
from pathlib import Path, PurePath
from subprocess import CompletedProcess
from time import monotonic
from types import ModuleType
from typing import Any

import pytest
from fakes.repositories import repository_with

from pytest_hwperf.checkout import building
from pytest_hwperf.checkout.building import (
    BuildPlace,
    fill,
    install,
    projects_in,
    run_builds,
    ways_to_install,
    why_not_shared,
)
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.records.errors import UsageProblem, WorkerError

FAST = f"_fast{EXTENSION_SUFFIXES[0]}"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose package lies in `src`, and which ignores what is compiled; `baseline` beside it is empty."""
    folder = repository_with(tmp_path / "project", __gitignore="*.so\n")
    put(folder / "src/pkg/__init__.py")
    put(tmp_path / "baseline/src/pkg/__init__.py")
    monkeypatch.syspath_prepend(folder / "src")
    return folder


def put(path: Path, text: str = "") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def note(site: Path, source: Path, *files: str, lines: Sequence[str] = ()) -> Path:
    """Write what pip notes of an install of `pkg` from a folder, and its files."""
    folder = site / "pkg-1.0.dist-info"
    put(folder / "METADATA", "\n".join(["Metadata-Version: 2.1", "Name: pkg", "Version: 1.0", *lines, ""]))
    put(folder / "direct_url.json", json.dumps({"url": source.as_uri(), "dir_info": {}}))
    put(folder / "RECORD", "".join(f"{file},,\n" for file in files))
    for file in files:
        put(site / file, "built")
    return site


def both(tree: Path) -> Trees:
    return Trees(candidate=tree, baseline=tree.with_name("baseline"))


def reason(tree: Path, *loaded: str, modules: Mapping[str, str] | None = None) -> str:
    """Return why the environment cannot be shared, of what has loaded these files."""
    made = {name: ModuleType(name) for name in modules or {}}
    for name, file in (modules or {}).items():
        made[name].__file__ = file
    return why_not_shared(both(tree), loaded, made)


def test_code_that_a_path_leads_to_is_shared(tree: Path) -> None:
    package = str(tree / "src/pkg/__init__.py")
    assert "" == reason(tree, package, modules={"pkg": package, "pkg.sub": "/x", "os": "/usr/lib/os.py"})


def test_code_that_is_compiled_in_place_is_not(tree: Path) -> None:
    assert f"src/pkg/{FAST}: compiled in place" == reason(tree, put(tree / "src/pkg" / FAST))


def test_an_installed_copy_is_not(tree: Path, tmp_path: Path) -> None:
    """Unless code of the tree is loaded too, as where the copy is that of an older install."""
    copy = put(tmp_path / "site-packages/pkg/__init__.py")
    (tree / "src/pkg").rename(tree / "pkg")
    assert f"the package under test is installed as a copy, {Path(copy).parent}" == reason(tree, copy)
    assert "" == reason(tree, copy, str(tree / "pkg/__init__.py"))


def test_an_editable_install_by_a_finder_is_not(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of meson-python and scikit-build-core: no entry of the path leads to it."""
    monkeypatch.setattr(sys, "path", [str(tree)])
    files = {"pkg": str(tree / "src/pkg/__init__.py"), "odd": "", "work": put(tree / "work.py")}
    del files["odd"]
    assert "the editable install of pkg cannot be led to another tree" == reason(tree, *files.values(), modules=files)


def test_what_was_installed_of_the_tree_is_installed_of_the_baseline(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the extras of which everything is here; a folder that nothing can be installed from is left out."""
    lines = [
        *("Requires-Dist: pytest", "Requires-Dist: no-such-package; extra == 'rare'"),
        *("Requires-Dist: pytest>1; extra == 'test'", "Provides-Extra: rare", "Provides-Extra: test"),
    ]
    site = note(tmp_path / "site", tree / "python", lines=lines)
    monkeypatch.setattr(building, "distributions", lambda: Distribution.discover(path=[str(site)]))
    monkeypatch.setattr(building, "is_here", lambda text: not text.startswith("no-such"))
    baseline = tree.with_name("baseline")
    assert {} == projects_in(both(tree))
    put(baseline / "python/pyproject.toml")
    assert {PurePath("python"): ("test",)} == projects_in(both(tree))


def test_what_is_not_installed_is_installed_from_the_root(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "distributions", list)
    put(tree.with_name("baseline") / "setup.py")
    assert {PurePath(): ()} == projects_in(both(tree))


def test_what_builds_a_project_is_loaded_only_if_it_is_not_here(tmp_path: Path) -> None:
    what = f"{tmp_path}/sub[test,fast]"
    for requires, ways in (
        ("['pytest>1', 'other; python_version < \"3\"']", [["--no-build-isolation", what], [what]]),
        ("['no-such-package']", [[what]]),
        ("['pytest<1']", [[what]]),
        ("['???']", [[what]]),
    ):
        put(tmp_path / "sub/pyproject.toml", f"[build-system]\nrequires = {requires}\n")
        assert ways == list(ways_to_install(tmp_path, {PurePath("sub"): ("test", "fast")}))


def test_a_damaged_file_names_nothing_that_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a project is built by setuptools, or refused by pip."""
    put(tmp_path / "pyproject.toml", "[")
    monkeypatch.setattr(building, "is_here", lambda one: one.startswith("setuptools"))
    what = str(tmp_path)
    assert [["--no-build-isolation", what], [what]] == list(ways_to_install(tmp_path, {PurePath(): ()}))


def test_the_tree_is_given_what_was_built_and_it_lacks(tree: Path, tmp_path: Path) -> None:
    """Never what it has itself, nor what would lie outside of its packages."""
    files = (f"pkg/{FAST}", "pkg/__init__.py", "pkg/m.pyc", "other/x.py", "top.py", "../../bin/pkg")
    site, baseline = note(tmp_path / "lib/python3/site", tree, *files), tree.with_name("baseline")
    assert [f"src/pkg/{FAST}"] == fill(baseline, {PurePath(): ()}, site)
    assert "built" == (baseline / "src/pkg" / FAST).read_text()
    assert "" == (baseline / "src/pkg/__init__.py").read_text()


def test_a_tree_that_cannot_be_given_a_file_says_so(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = note(tmp_path / "site", tree, f"pkg/{FAST}")

    def full(source: Path, target: Path) -> None:
        raise OSError(f"no space left for {source.name} in {target.parent}")

    monkeypatch.setattr(shutil, "copy2", full)
    with pytest.raises(WorkerError, match="the baseline cannot be given pkg/_fast"):
        fill(tree.with_name("baseline"), {PurePath(): ()}, site)


PYTHON = Path("/env/bin/python")


class FakePython:
    """An interpreter that does nothing and ends with this code; there is a pip, or not."""

    def __init__(self, patch: pytest.MonkeyPatch, *, code: int = 0, said: str = "", has_pip: bool = True) -> None:
        self.code, self.said, self.is_late = code, said, False
        self.commands, self.given = list[list[str]](), dict[str, str]()
        patch.setattr(building, "run_to_end", self.run)
        patch.setattr("importlib.util.find_spec", lambda _: self if has_pip else None)

    def run(self, arguments: Sequence[str], *, interpreter: str, directory: Path, **given: Any) -> object:
        """Take the place of a process."""
        assert (str(PYTHON), PYTHON.parent) == (interpreter, directory)
        self.commands.append(list(arguments))
        self.given = given["environment"]
        if self.is_late:
            raise WorkerError(f"gave no answer within {given['timeout_s']:g} s")
        return CompletedProcess([], self.code, "", self.said)


def test_pip_is_given_the_requirements_and_no_foreign_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example.org")
    python = FakePython(monkeypatch)
    install(PYTHON, ["a==1", "b<2"], 60.0)
    assert [["-P", "-m", "pip", "install", "--no-warn-conflicts", "a==1", "b<2"]] == python.commands
    assert "PYTHONPATH" not in python.given
    assert "https://index.example.org" == python.given["PIP_INDEX_URL"]


def test_an_environment_without_pip_gets_that_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    python = FakePython(monkeypatch, has_pip=False)
    install(PYTHON, ["a==1"], 60.0)
    assert ["ensurepip", "pip"] == [command[2] for command in python.commands]


def test_a_refusal_is_told_with_the_end_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    FakePython(monkeypatch, code=1, said="\n\n".join(f"line {number}" for number in range(30)))
    with pytest.raises(UsageProblem) as caught:
        install(PYTHON, ["a==1"], 60.0)
    lines = str(caught.value).splitlines()
    assert "`python -m pip install --no-warn-conflicts a==1` for the environment of the baseline failed:" == lines[0]
    assert [f"  line {number}" for number in range(18, 30)] == lines[1:]


def test_an_installation_that_takes_too_long_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    FakePython(monkeypatch).is_late = True
    with pytest.raises(UsageProblem, match=r"no answer within 60 s; give more time with --hwperf-time-limit=SECONDS"):
        install(PYTHON, ["a==1"], 60.0)


class FakeRun:
    """Runs nothing, and ends as it is told."""

    def __init__(self, code: int | None = 0) -> None:
        """Nothing has run."""
        self.code = code
        self.commands = list[list[str]]()
        self.path = ""
        self.makes: Path | None = None

    def __call__(
        self, command: list[str], log: Path, *, timeout_s: float, directory: Path, environment: dict[str, str]
    ) -> tuple[int | None, str]:
        """Take the place of `run_logged`."""
        assert timeout_s >= 1
        assert directory.name == "tree"
        self.commands.append(command)
        self.path = environment["PATH"]
        log.write_text("all of it")
        if command[0] == "absent":
            raise WorkerError("absent cannot be started")
        if self.makes is not None:
            self.makes.unlink()
            self.makes.write_text("new and longer")
            os.utime(self.makes, (1, 1))
        return self.code, "The end of its log:\n  no compiler"


@pytest.fixture
def place(tmp_path: Path) -> BuildPlace:
    return BuildPlace(
        side="present tree",
        directory=tmp_path / "tree",
        environment={"PATH": "/usr/bin"},
        interpreter="/venv/bin/python3.11",
        logs=tmp_path / "logs",
    )


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    fake = FakeRun()
    monkeypatch.setattr(building, "run_logged", fake)
    return fake


def test_commands_are_run_in_order_with_the_interpreter_of_the_side(place: BuildPlace, run: FakeRun) -> None:
    """Programs beside it are found first; what has worked leaves no log."""
    built = run_builds(["python setup.py build_ext --inplace", "make 'a b'"], place, monotonic())
    assert [["/venv/bin/python3.11", "setup.py", "build_ext", "--inplace"], ["make", "a b"]] == run.commands
    assert f"/venv/bin{os.pathsep}/usr/bin" == run.path
    assert [] == list(place.logs.iterdir())
    assert built.seconds >= 0
    assert () == built.stale


@pytest.mark.parametrize(
    ("code", "why"),
    [(2, "ended with code 2"), (None, r"did not end within 1 s; give more time .*--hwperf-time-limit=")],
)
def test_what_fails_is_quoted_and_its_log_is_kept(place: BuildPlace, run: FakeRun, code: int | None, why: str) -> None:
    run.code = code
    with pytest.raises(
        UsageProblem, match=rf"(?s)--hwperf-build='make x', in the present tree, {why}.*no compiler"
    ) as caught:
        run_builds(["make x", "never"], place, monotonic())
    (log,) = place.logs.glob("*/present-tree.log")
    assert str(caught.value).endswith(f"All of it: {log}")
    assert 1 == len(run.commands)


@pytest.mark.usefixtures("run")
def test_a_program_that_is_not_there_is_named(place: BuildPlace) -> None:
    with pytest.raises(UsageProblem, match="--hwperf-build=absent, in the present tree: absent cannot be started"):
        run_builds(["absent"], place, monotonic())


def test_compiled_files_that_were_loaded_before_are_named(place: BuildPlace, run: FakeRun, tmp_path: Path) -> None:
    """This process still has the old ones."""
    files = [tmp_path / name for name in ("fast.so", "same.so", "code.py")]
    for file in files:
        file.touch()
    run.makes = files[0]
    loaded = [*map(str, files), str(tmp_path / "gone.so")]
    assert (str(files[0]),) == run_builds(["make"], place, monotonic(), loaded).stale


@pytest.mark.live
def test_a_real_build_writes_its_log(tmp_path: Path) -> None:
    place = BuildPlace(
        side="baseline", directory=tmp_path, environment=os.environ, interpreter=sys.executable, logs=tmp_path / "logs"
    )
    program = "import sys, os; print(os.getcwd()); print('broken', file=sys.stderr); sys.exit(3)"
    with pytest.raises(UsageProblem, match=r"(?s)baseline, ended with code 3. The end of its log:\n  .*broken"):
        run_builds([f'python -c "{program}"'], place, monotonic() + 60)
