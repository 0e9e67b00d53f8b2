"""Projects that pip has really installed, each in a virtual environment of its own, through the whole gate."""

import importlib.metadata
import os
import site
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from fakes.repositories import commit, git
from fakes.reruns import COMPARED, REHEARSED

from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.report import ReportFile

FAKES = str(Path(__file__).parents[1])
_ALONE = (70, 1)  # the first setuptools that builds wheels by itself

# A search for the module pip would make setuptools leave distutils to Python, which PyTorch's compiler then cannot use.
_HAS_PIP = any(importlib.metadata.distributions(name="pip"))

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not _HAS_PIP, reason="pip is not installed here"),
]

FILES = {
    "pyproject.toml": (
        "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n"
        "[project]\nname = 'pkg'\nversion = '0.1'\n"
    ),
    "src/pkg/__init__.py": "",
    "src/pkg/model.py": "SIDE = 'baseline'\n\n\ndef call():\n    return sum(range(3000))\n",
    "tests/test_pkg.py": (
        "import os, pathlib\nimport pkg.model\n\n\ndef test_pkg(hwperf):\n"
        "    with pathlib.Path(os.environ['NOTES']).open('a') as notes:\n"
        "        print(os.path.basename(os.path.dirname(os.getcwd())).startswith('hwperf-base-'), pkg.model.SIDE,"
        " file=notes)\n"
        "    hwperf(pkg.model.call)\n"
    ),
    ".gitignore": ".venv\n__pycache__\nbuild\n*.egg-info\n",
}


@pytest.fixture(autouse=True, scope="module")
def _backend() -> None:
    """Installing from a folder takes setuptools, here and not from an index."""
    try:
        found = importlib.metadata.version("setuptools")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("setuptools is not installed here")
    if tuple(map(int, found.split(".")[:2])) < _ALONE and find_spec("wheel") is None:
        pytest.skip(f"setuptools {found} cannot build a wheel by itself")


def made(folder: Path) -> Path:
    """Make a repository whose working tree differs from its commit; its environment sees this one's packages."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(folder, "init")
    commit(folder)
    model = folder / "src" / "pkg" / "model.py"
    model.write_text(model.read_text(encoding="utf-8").replace("baseline", "candidate"), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=folder, check=True)
    (sites,) = (folder / ".venv" / "lib").glob("python3*/site-packages")
    here = "".join(f"import site; site.addsitedir({place!r})\n" for place in site.getsitepackages())
    (sites / "outer.pth").write_text(here, encoding="utf-8")
    return folder


def install(project: Path, *how: str) -> None:
    """Let pip install the project from its folder."""
    command = [sys.executable, "-m", "pip", "--python", ".venv/bin/python", "--disable-pip-version-check", "install"]
    quiet = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", *how]
    done = subprocess.run([*command, *quiet], cwd=project, check=False, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that is installed as it stands; tests write `tests/test_pkg.py` anew."""
    project = made(tmp_path_factory.mktemp("editable") / "project")
    install(project, "--editable", ".")
    return project


def rehearse(project: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run the project's pytest against its commit, as far as the rehearsal."""
    # Under the last of these both sides compile every library again.
    left_out = ("PYTHONPATH", "PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    beside = {name: str(project.with_name(name)) for name in ("notes", "cache")}
    own = {"PYTHONPATH": FAKES, "NOTES": beside["notes"], "HWPERF_CACHE_DIR": beside["cache"]}
    return subprocess.run(
        [".venv/bin/python", "-m", "pytest", "--hwperf-against=HEAD", "--hwperf-report=r.json", REHEARSED, *options],
        cwd=project, env={**kept, **own}, check=False, capture_output=True, text=True,
    )  # fmt: skip


def noted(project: Path) -> list[str]:
    """Return what tests have noted, and forget it."""
    notes = project.with_name("notes")
    lines = notes.read_text(encoding="ascii").splitlines()
    notes.unlink()
    return sorted(lines)


def test_an_editable_install_is_led_to_the_code_of_each_side(editable: Path) -> None:
    (editable / "tests" / "test_pkg.py").write_text(FILES["tests/test_pkg.py"], encoding="utf-8")
    done = rehearse(editable)
    report = from_json(ReportFile, (editable / "r.json").read_text(encoding="utf-8")).report
    (judgement,) = report.judgements
    assert 0 == done.returncode, done.stdout
    assert [COMPARED] == [comparison.reason for comparison in judgement.comparisons]
    assert ["False candidate", "False candidate", "True baseline"] == noted(editable)  # the session's own test too


def test_an_installed_copy_is_compared_with_one_that_is_built_of_the_baseline(tmp_path: Path) -> None:
    """Both sides would import the same copy."""
    project = made(tmp_path / "project")
    install(project, ".")
    done = rehearse(project)
    assert 0 == done.returncode, done.stderr
    assert ["False candidate", "False candidate", "True baseline"] == noted(project)
    assert "the package under test is installed as a copy" in done.stdout


STARTING = """
import os, subprocess, sys

def start(isolated="-B", env=None):
    command = [sys.executable, isolated, "-c", "import pkg.model; print(pkg.model.SIDE)"]
    done = subprocess.run(command, env=env, cwd="/", check=True, capture_output=True, text=True)
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(done.stdout)

def test_pkg(hwperf):
    start(HOW)
    hwperf(sum, [1, 2])
"""
STARTS = (  # how; an environment of its own is the last one
    "env={k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}",
    "isolated='-I'",
    "env={'PATH': os.environ['PATH']}",
)


def test_a_process_that_would_run_the_present_code_on_both_sides_is_refused(editable: Path) -> None:
    """By the editable install; in an environment that is built of the baseline it runs the baseline's."""
    for how in STARTS:
        (editable / "tests" / "test_pkg.py").write_text(STARTING.replace("HOW", how), encoding="utf-8")
        done = rehearse(editable)
        assert pytest.ExitCode.USAGE_ERROR == done.returncode, done.stdout
        assert "not comparable: a test starts `" in done.stderr
        assert "your tree's pkg, by the editable install. Start it with os.environ, or build" in done.stderr
        noted(editable)
    done = rehearse(editable, "-ohwperf_base_env=build")
    assert 0 == done.returncode, done.stderr
    assert ["baseline", "candidate", "candidate"] == noted(editable)


ASKING = """
import importlib.metadata, os, pathlib
import pkg.model

def test_pkg(hwperf):
    (point,) = importlib.metadata.entry_points(group="app.engines") or [None]
    with pathlib.Path(os.environ["NOTES"]).open("a") as notes:
        print("hwperf-base-" in os.getcwd(), point and point.value, importlib.metadata.version("pkg"), file=notes)
    hwperf(pkg.model.call)
"""
POINTS = "[project.entry-points.'app.engines']\nmain = 'pkg.model:{}'\n"


@pytest.mark.parametrize(
    ("old", "new", "baseline"),
    [(POINTS.format("call"), POINTS.format("slow"), "pkg.model:call 0.1"), ("", "# a comment\n", "None 0.1")],
)
def test_each_side_reads_what_its_own_files_say_of_the_package(
    tmp_path: Path, old: str, new: str, baseline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editable install says on both sides what the candidate's files say; where these are alike nothing is built."""
    project_file = FILES["pyproject.toml"]
    monkeypatch.setitem(FILES, "pyproject.toml", project_file + old)
    monkeypatch.setitem(FILES, "tests/test_pkg.py", ASKING)
    project = made(tmp_path / "project")
    (project / "pyproject.toml").write_text(project_file + new, encoding="utf-8")
    install(project, "--editable", ".")
    done = rehearse(project)
    assert 0 == done.returncode, done.stderr
    lines = noted(project)
    assert f"True {baseline}" in lines
    told = "since the tests ask for the entry points app.engines of the installed pkg" in done.stdout
    assert told == (len(lines) > 3) == bool(old)  # the trial run is repeated
