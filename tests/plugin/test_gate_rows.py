"""What pairs have to bear: options and plugins of the session, hard ends of tests, and what a baseline's tree lacks."""

import json
import signal
from pathlib import Path

import pytest
from fakes.processes import ends
from fakes.repositories import repository_with
from fakes.reruns import COMPARED, INI, REHEARSED, REPEATED, WORK, Project, measured, repository

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("quick_pairs", "fakes_in_reach")]


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A repository with one commit: code, and an ini file that leads to it."""
    return repository(pytester, {"work.py": WORK, "pytest.ini": INI})


@pytest.mark.usefixtures("other_plugins")
def test_neither_the_first_failure_nor_a_long_wait_ends_a_pair(project: Project) -> None:
    """A test fails in the baseline, another keeps the candidate waiting for longer than its timeout allows."""
    pytest.importorskip("pytest_timeout")
    project.write(
        {
            "pytest.ini": f"{INI}addopts = -x --maxfail=1 --lf --timeout=3 -n0 --strict-config --junitxml=junit.xml\n",
            "work.py": f"{WORK}\n\ndef new():\n    spend(300)\n",
            "test_1_fails.py": measured("new", "work.new"),
            "test_2_waits.py": measured("wait", "work.call", "time.sleep(3.5 * BASE)"),
            "test_3_last.py": measured("last", "work.call"),
        }
    )
    result = project.run(REHEARSED)

    result.assert_outcomes(passed=3)
    assert "no baseline" == project.compared("test_new").outcome
    assert COMPARED == project.compared("test_wait").reason
    assert COMPARED == project.compared("test_last").reason


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
@pytest.mark.parametrize("patch", ["", "patch = subprocess\n"], ids=["by the plugin", "in every process"])
def test_coverage_is_measured_in_the_session_and_off_in_the_pairs(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patch: str
) -> None:
    """A traced call takes many times as long, and not the same on both sides."""
    notes = tmp_path / "notes"  # outside of the tree, each side of which has its own files
    for name in ("PYTHONHASHSEED", "COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START", "COVERAGE_FILE"):
        monkeypatch.delenv(name, raising=False)  # PYTHONHASHSEED tells a process of a pair from the session
    monkeypatch.setenv("NOTES", str(notes))
    project.write(
        {
            "pytest.ini": f"{INI}addopts = --cov=work --cov-report=json --cov-fail-under=100\n",
            ".coveragerc": f"[run]\n{patch}",
            "test_traced.py": TRACED,
        }
    )
    result = project.pytester.runpytest_subprocess("--hwperf-against=HEAD", "--hwperf-report=report.json", REHEARSED)
    report = json.loads((project.path / "coverage.json").read_text(encoding="utf-8"))

    result.assert_outcomes(passed=1)
    assert COMPARED == project.compared("test_traced").reason
    assert ["pair False", "pair False", "session True"] == sorted(notes.read_text(encoding="ascii").splitlines())
    assert 100 == report["files"]["work.py"]["summary"]["percent_covered"]


CHILD = """
def wait_as_child():
    import os, time
    with open(os.environ["NOTES"], "a") as notes:
        print(os.getpid(), file=notes)
    time.sleep(600)
"""


def test_hard_ends_take_their_own_tests_along_and_leave_nothing(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the baseline a test hangs, one crashes, one dies while its child holds the line, and one just has a child."""
    silence_s = 5  # more than a busy machine takes to start a process
    monkeypatch.setenv("NOTES", str(tmp_path / "children"))
    named = "import pytest\npytestmark = pytest.mark.hwregression(accuracy='1pp')"
    child = "BASE and (os.fork() or work.wait_as_child())"
    project.write(
        {
            "test_1_hangs.py": f"{named}\n{measured('hang', 'work.call', 'time.sleep(600 * BASE)')}",
            "test_2_crashes.py": measured("crash", "work.call", "import ctypes", "BASE and ctypes.string_at(0)"),
            "test_3_dies.py": measured("die", "work.call", child, "BASE and os.kill(os.getpid(), 9)"),
            "test_4_forks.py": measured("fork", "work.call", child),
        }
    )
    project.commit({"work.py": f"{WORK}\n{CHILD}"})
    result = project.run(REHEARSED, f"-ohwperf_worker_time={silence_s}")
    crash = project.compared("test_crash").reason
    log = Path(crash.rpartition("log: ")[2].rstrip(")"), "baseline.log").read_text(encoding="utf-8")
    children = (tmp_path / "children").read_text(encoding="ascii").split()

    result.assert_outcomes(passed=4)
    assert f"baseline: was silent for {silence_s} s (log: " in project.compared("test_hang").reason
    assert f"baseline: ended with code {-signal.SIGSEGV} in the middle of the pair (log: " in crash
    assert "Segmentation fault" in log
    assert f"baseline: ended with code {-signal.SIGKILL} in " in project.compared("test_die").reason
    assert COMPARED == project.compared("test_fork").reason
    assert {"no baseline"} == {project.compared(f"test_{name}").outcome for name in ("hang", "crash", "die")}
    # Answers are due for what was measured, and for margins that were named: not for whatever could have been asked.
    rows = [(j.run.test[5], c.metric) for j in project.report().judgements for c in j.comparisons]
    assert [("1", "latency"), ("1", "accuracy"), ("2", "latency"), ("3", "latency"), ("4", "latency")] == rows
    assert len(children) == 3  # the test that dies is tried twice
    assert [] == [pid for pid in map(int, children) if not ends(pid)]


def test_what_the_baseline_cannot_have_is_reported_and_has_no_baseline(project: Project, tmp_path: Path) -> None:
    """A git-LFS pointer, a file that git ignores, and a submodule that is not filled, until it is."""
    read = "lambda: work.spend(int(pathlib.Path({!r}).read_text()))"
    repository_with(tmp_path / "inner", weights="3000")
    project.git("submodule", "add", str(tmp_path / "inner"), "vendored")
    project.commit(
        {
            "weights.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n",
            ".gitignore": "cached.bin\n",
            "test_lfs.py": measured("lfs", read.format("weights.bin")),
            "test_ignored.py": measured("ignored", read.format("cached.bin")),
            "test_submodule.py": measured("submodule", read.format("vendored/weights")),
            "test_whole.py": measured("whole", "work.call"),
        }
    )
    project.write({"weights.bin": "3000", "cached.bin": "3000"})
    project.git("submodule", "deinit", "--force", "vendored")
    project.write({"vendored/weights": "3000"})
    result = project.run(REHEARSED, "--hwperf-share=none")

    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "hwperf: submodules of the baseline are missing: vendored: your tree has not filled it either: *",
            "hwperf: not there in the baseline, only a git-LFS pointer: weights.bin; *`git lfs fetch origin *`",
        ]
    )
    for test, why in (("lfs", "ValueError"), ("ignored", "FileNotFoundError"), ("submodule", "FileNotFoundError")):
        assert "no baseline" == project.compared(f"test_{test}").outcome
        assert f"failed in HEAD: {why}: " in project.compared(f"test_{test}").reason

    (project.path / "vendored" / "weights").unlink()
    project.git("submodule", "update", "--init", "vendored")
    project.run(REHEARSED, "-k", "submodule").stdout.no_fnmatch_line("*submodules*missing*")
    assert COMPARED == project.compared("test_submodule").reason


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
