"""Both sides of the gate differ where they should: what would lead one to the files of the other is seen or turned."""

import shutil
import sys
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import pytest
from fakes.played_gates import play
from fakes.reruns import INI, REHEARSED, REPEATED, WORK, measured, repository

from pytest_hwperf.records.text import named

pytestmark = [
    pytest.mark.live,
    pytest.mark.usefixtures("quick_pairs", "fakes_in_reach"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

STARTING = """
import subprocess, sys
import work

def test_a(hwperf):
    subprocess.run([sys.executable, "-c", "pass"], env={}, cwd="{root}", check=True)
    hwperf(work.call)
"""


def test_a_program_that_is_started_in_the_present_tree_is_refused(pytester: pytest.Pytester) -> None:
    """Without PYTHONPATH, and with no editable install, it would run the present code on both sides."""
    project = repository(
        pytester, {"work.py": WORK, "pytest.ini": INI, "test_model.py": STARTING.replace("{root}", str(pytester.path))}
    )
    project.write({"work.py": f"{WORK}#\n"})
    result = project.run(REHEARSED)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(["*not comparable: a test starts `*` in your tree, or with a path of it.*"])


UNSEEN = """
import os, subprocess, sys
import work

def test_a(hwperf):
    subprocess.run([sys.executable, "-"], input="import sys; sys.path.insert(0, '{root}'); import work", text=True)
    if not (pid := os.fork()):
        os._exit(0)
    os.waitpid(pid, 0)
    subprocess.run(["ls"], check=True)
    hwperf(work.call)
"""


CACHES = """
import contextlib, os, sqlite3, sys, tempfile
from pathlib import Path

import numpy as np
import work

CACHE = Path(os.environ["HOME"], "cache")
OWN = CACHE.with_name(f"{os.getpid()}.npy")  # not where names are listed


def replaced(file):
    if not file.exists():
        np.save(OWN, np.ones(3))
        os.replace(OWN, file)


def linked(file):
    if file.name not in os.listdir(CACHE):
        np.save(OWN, np.ones(3))
        with contextlib.suppress(FileExistsError):  # the other side was faster
            os.link(OWN, file)


def removed(file):
    if not file.exists():
        file.write_text("1")
    file.unlink(missing_ok=True)


def in_a_database(file):
    sqlite3.connect(file).execute("create table if not exists t(x)")


def taken(file):
    if file.exists():
        file.rename(Path(tempfile.gettempdir(), "taken"))


def built(file):
    if not file.is_dir():
        os.system(f"mkdir {file}")


def named(file):
    os.system(f"echo 1 > {os.fspath(file)}")  # as a library in native code is given its path


def unseen(file):
    if not file.exists():
        os.system(f"echo 1 > {file}")


def unseen_in_a_folder(file):
    file.parent.mkdir(exist_ok=True)
    os.system(f"echo 1 > {file}")


def test_cached(hwperf):
    for make in ({ways}):
        make(CACHE / make.__name__ / "model" if "folder" in make.__name__ else CACHE / make.__name__)
    hwperf(work.call)
"""


def test_sides_share_nothing_that_either_has_made(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Outside of temporary folders too, by Python and by native code: both sides would be measured as one of them."""
    ways = "built, in_a_database, linked, named, removed, replaced, taken, unseen, unseen_in_a_folder"
    monkeypatch.setattr("pytest_hwperf.checkout.opened.named", partial(named, most=ways.count(",") + 1))
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "taken").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    project = repository(pytester, {"work.py": WORK, "pytest.ini": INI, "test_it.py": CACHES.replace("{ways}", ways)})
    result = project.run(REHEARSED)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    files = ", ".join(f"{cache}/{way}" for way in ways.split(", ")) + "*"
    result.stderr.fnmatch_lines([f"*not comparable: both sides use {files}each side has its own*"])


ORDINARY = """
import logging, os, socket, tempfile
from logging.handlers import RotatingFileHandler
from pathlib import Path

import work

HOME = Path(os.environ["HOME"])


def test_ordinary(hwperf, tmp_path):
    HOME.joinpath("logs").mkdir(exist_ok=True)
    if not (HOME / "plots").exists():
        os.makedirs(HOME / "plots", exist_ok=True)  # both sides may come here at once
    (HOME / "plots/call.csv").write_text("1")
    logging.getLogger().addHandler(RotatingFileHandler(HOME / "logs/runs.log", maxBytes=1000))
    logging.warning("one line")
    (HOME / "logs" / f"{os.getpid()}.txt").write_text("own")
    (HOME / "logs" / f"{os.getpid()}.txt").read_text()
    if not (HOME / "a.lock").exists():
        (HOME / "a.lock").touch()
    (tmp_path / "model").write_text("own")
    Path(tempfile.gettempdir(), "model").write_text("own")
    Path(tempfile.gettempdir(), "model").read_text()
    assert (HOME / "old.txt").exists()
    (HOME / "old.txt").read_text()
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(f"{HOME}/{os.getpid()}")
        hwperf(work.call)
"""


OWN = """
import os, tempfile
from pathlib import Path

import pytest
import work

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def written():
    path = Path(tempfile.gettempdir(), "hwperf-model.txt")
    path.write_text((HERE / "model.txt").read_text())
    return path


def test_environment(hwperf, written):
    hwperf(work.call)
    Path("{root}/labels.txt").read_text()
    hwperf.record("named", int(Path(os.environ["MODEL"]).read_text()), better="lower")
    hwperf.record("written", int(written.read_text()), better="lower")
"""


def test_each_side_reads_its_own_model_and_what_it_does_not_learn_from_the_other_is_not_shared(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One model is named in the environment, one is written to a fixed path; one that tests name cannot be turned.

    Logs, locks, files that are older, own names and own temporary folders are no trouble. Processes that are not seen
    into are named: they could run the present code on both sides.
    """
    (tmp_path / "home").mkdir()
    (tmp_path / "home/old.txt").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    files = {"test_model.py": OWN, "model.txt": "1", "labels.txt": "", "test_it.py": ORDINARY}
    project = repository(pytester, {"work.py": WORK, "pytest.ini": INI, **files})
    tests = {"test_unseen.py": UNSEEN, "test_model.py": OWN}
    project.write(
        {"model.txt": "2", **{name: text.replace("{root}", str(project.path)) for name, text in tests.items()}}
    )
    monkeypatch.setenv("MODEL", f"{project.path}/model.txt")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # this session runs the tests too
    result = project.run(REPEATED)

    result.assert_outcomes(failed=1, passed=2)
    outcomes = [project.compared("test_environment", metric).outcome for metric in ("named", "written")]
    assert ["regressed", "regressed"] == outcomes
    said = f"both sides have read {project.path}/labels.txt of the present tree"
    assert any(one.startswith(said) for one in project.gate().warnings)
    said = "your tests or their packages start processes, and hwperf does not check what these load: "
    assert [f"{said}`{sys.executable} -`, `os.fork()`. Make sure that they find files by `Path(__file__)`"] == [
        one for one in project.gate().warnings if said in one
    ]
    result.stdout.fnmatch_lines(["*hwperf does not check what these load*"])


USES = """
from fakes.simulated_time import spend

try:
    from hwdependency import VALUE
except ImportError:
    VALUE = 3


def test_dependency(hwperf):
    hwperf(lambda: spend(300))
    hwperf.record("value", VALUE, better="lower")
"""


def test_another_version_of_a_dependency_is_the_only_difference(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The present code is compared with itself, also where tests import none of it."""
    wheel = tmp_path / "hwdependency-1.0-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("hwdependency.py", "VALUE = 2\n")
        notes = "hwdependency-1.0.dist-info"
        archive.writestr(f"{notes}/METADATA", "Metadata-Version: 2.1\nName: hwdependency\nVersion: 1.0\n")
        archive.writestr(f"{notes}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{notes}/RECORD", "")
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    project = repository(pytester, {"pytest.ini": INI, "test_use.py": USES})
    result = project.run(REPEATED, f"--hwperf-base-with=hwdependency @ {wheel.as_uri()}", against="")

    result.assert_outcomes(failed=1)
    assert "regressed" == project.compared("test_dependency", "value").outcome
    assert "equivalent" == project.compared("test_dependency").outcome
    assert any("has hwdependency 1.0 (here none); it was made in" in one for one in project.gate().warnings)
    assert not any("only files that they read" in one for one in project.gate().warnings)


@pytest.mark.parametrize("options", [[], pytest.param(["--hwperf-affected"], marks=pytest.mark.monitoring)])
def test_a_test_that_is_named_twice_is_compared_once(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    project = repository(pytester, {"work.py": WORK, "test_it.py": measured("it", "work.call"), "pytest.ini": INI})
    project.write({"work.py": WORK + "\n\nMORE = 1\n"})
    if not options:  # what is affected is seen by real processes alone
        play(monkeypatch)
    result = project.run(REHEARSED, "--keep-duplicates", *options, "test_it.py", "test_it.py")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*1 of 1 tests compared*"])
