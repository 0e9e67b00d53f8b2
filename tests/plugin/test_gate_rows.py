"""What pairs have to bear: options and plugins of the session, and what a baseline's tree lacks."""

import json
from pathlib import Path

import pytest
from fakes.reruns import COMPARED, INI, REHEARSED, REPEATED, WORK, Project, measured, repository

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("quick_pairs", "fakes_in_reach")]


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A repository with one commit: code, and an ini file that leads to it."""
    return repository(pytester, {"work.py": WORK, "pytest.ini": INI})


TRACED = """
import os, pathlib, sys
import coverage
import work


def test_traced(hwperf):
    where = "session" if "PYTHONHASHSEED" not in os.environ else "pair"
    traced = coverage.Coverage.current() is not None or sys.gettrace() is not None
    with pathlib.Path(os.environ["NOTES"]).open("a") as notes:
        print(where, traced, file=notes)
    hwperf(work.call)
"""


@pytest.mark.usefixtures("other_plugins")
def test_options_and_plugins_of_the_session_disturb_no_pair(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the first failure nor a long wait ends a pair: one test fails in the baseline, another is slower there.

    Coverage is measured in the session and off in the pairs: a traced call takes many times as long, and not the same
    on both sides. It would begin by its plugin, and in every process by itself.
    """
    pytest.importorskip("pytest_timeout")
    notes = tmp_path / "notes"  # outside of the tree, each side of which has its own files
    for name in ("PYTHONHASHSEED", "COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START", "COVERAGE_FILE"):
        monkeypatch.delenv(name, raising=False)  # PYTHONHASHSEED tells a process of a pair from the session
    monkeypatch.setenv("NOTES", str(notes))
    alone = "-x --maxfail=1 --lf --timeout=3 -n0 --strict-config --junitxml=junit.xml"
    project.write(
        {
            "pytest.ini": f"{INI}addopts = {alone} --cov=work --cov-report=json --cov-fail-under=100\n",
            ".coveragerc": "[run]\npatch = subprocess\n",
            "work.py": f"{WORK}\n\ndef new():\n    spend(300)\n",
            "test_1_fails.py": measured("new", "work.new"),
            "test_2_waits.py": measured("wait", "work.call", "time.sleep(3.5 * BASE)"),
            "test_3_last.py": TRACED,
        }
    )
    quick = ("--hwperf-energy=off", "--hwperf-sample-time=0.1", "--hwperf-explain=never")
    result = project.pytester.runpytest_subprocess(
        "--hwperf-against=HEAD", "--hwperf-report=report.json", REHEARSED, *quick
    )
    report = json.loads((project.path / "coverage.json").read_text(encoding="utf-8"))

    result.assert_outcomes(passed=3)
    assert "no baseline" == project.compared("test_new").outcome
    assert COMPARED == project.compared("test_wait").reason
    assert COMPARED == project.compared("test_traced").reason
    traced = notes.read_text(encoding="ascii").splitlines()
    assert (["pair False"], "session True") == (sorted({*traced[:-1]}), traced[-1])
    assert 100 == report["files"]["work.py"]["summary"]["percent_covered"]


def test_what_the_candidates_tests_have_lost_slows_no_baseline(project: Project) -> None:
    """Each doubled the baseline's time, so that candidates slower by a third were called improved."""
    work = (
        "from fakes.simulated_time import spend\n\nSLOW = set()\n\n\ndef call(n):\n    spend({} + 300 * (n in SLOW))\n"
    )
    names = {"conftest": "tests/conftest.py", "package": "tests/__init__.py", "helper": "tests/helper.py"}
    tests = "import work\n\ntry:\n    from {} import helper\nexcept ImportError:\n    pass\n"
    each = "\n\ndef test_{0}(hwperf):\n    hwperf(lambda: work.call({0!r}))\n"
    project.commit(
        {
            "work.py": work.format(300),
            "pytest.ini": "[pytest]\nusefixtures = slow\n",
            "conftest.py": "import pytest, work\n\n\n@pytest.fixture\ndef slow():\n    work.SLOW.add('ini')\n",
            **{file: f"import work\n\nwork.SLOW.add({name!r})\n" for name, file in names.items()},
        }
    )
    for file in (*names.values(), "pytest.ini"):
        (project.path / file).unlink()
    texts = (tests.format("tests"), *(each.format(name) for name in (*names, "ini")))
    project.write({"work.py": work.format(400), "tests/test_work.py": "".join(texts)})
    result = project.run(REPEATED)
    assert ["regressed"] * 4 == [project.compared(f"test_{name}").outcome for name in (*names, "ini")]
    gone = "tests/__init__.py, tests/conftest.py, tests/helper.py"
    result.stdout.fnmatch_lines([f"hwperf: not in your tree any more, and removed from the baseline's: {gone}"])


def test_a_folder_that_the_baseline_lacks_is_no_place_to_start_in(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One without tests of its own: a folder of tests is laid over."""
    project.commit({"test_old.py": measured("old", "work.call")})
    (project.path / "new").mkdir()
    monkeypatch.chdir(project.path / "new")
    result = project.run("../test_old.py")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(
        ["ERROR: hwperf: the baseline has no folder new, in which pytest was started: start it in one that both have"]
    )


def test_what_the_pairs_see_beside_is_said_on_every_surface_and_fails_nothing(project: Project) -> None:
    """40 MB for a moment and two seconds more at import, and several times the CPU time of a call as long as before."""
    work = f"SIZE = len(b'')\n{WORK}    return sum(range({{}}))\n"
    project.commit({"work.py": work.format(1000), "test_beside.py": measured("beside", "work.call")})
    heavier = "import time\n" + work.replace("b''", "b'x' * 40_000_000").replace("\n\n\n", "\ntime.sleep(2)\n\n\n", 1)
    project.write({"work.py": heavier.format(100_000)})
    result = project.run(REPEATED, "--hwperf-strict", "--hwperf-report=report.html", "--hwperf-report=report.md")

    result.assert_outcomes(passed=1)
    expected = ["*seen, not judged: peak memory * → * MB *start * → * s *CPU time of *test_beside * → *cpu_time=*"]
    result.stdout.fnmatch_lines(expected)
    assert pytest.ExitCode.OK == result.ret
    assert any("seen, not judged" in warning for warning in project.gate().warnings)
    for name in ("report.html", "report.md"):
        assert "seen, not judged: peak memory" in (project.path / name).read_text(encoding="utf-8")
