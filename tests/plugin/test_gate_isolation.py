"""Both sides of the gate differ where they should: what would lead one to the files of the other is seen or turned."""

import shutil

import pytest
from fakes.reruns import INI, REPEATED, WORK, Project, repository

pytestmark = [
    pytest.mark.live,
    pytest.mark.usefixtures("quick_pairs", "fakes_in_reach"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

TESTS = """
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
    hwperf.record("named", int(Path(os.environ["MODEL"]).read_text()), better="lower")
    hwperf.record("written", int(written.read_text()), better="lower")
"""


def test_each_side_reads_its_own_model(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is named in the environment, and one is written to a fixed path in the temporary folder."""
    files = {"work.py": WORK, "pytest.ini": INI, "test_model.py": TESTS, "model.txt": "1"}
    project: Project = repository(pytester, files)
    project.write({"model.txt": "2"})
    monkeypatch.setenv("MODEL", f"{project.path}/model.txt")
    result = project.run(REPEATED)

    result.assert_outcomes(failed=1)
    outcomes = [project.compared("test_environment", metric).outcome for metric in ("named", "written")]
    assert ["regressed", "regressed"] == outcomes
