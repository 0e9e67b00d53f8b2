"""A regression that the pairs have decided fails the build, whatever becomes of its test in the session after them."""

import pytest
from fakes.reruns import INI, REHEARSED, REPEATED, SIMULATED, WORK, Project, repository

from pytest_hwperf.reports.headline import headline_of

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("quick_pairs", "fakes_in_reach")]

IN_PAIRS = "import os, signal\nimport pytest, work\nHERE = 'PYTHONHASHSEED' not in os.environ\n"
SLOW = "\n\ndef test_{0}(hwperf):\n    {1}\n    hwperf(work.call)\n"
BREAKS = "\n\n@pytest.fixture\ndef broken():\n    assert not HERE\n"
FIXTURE = BREAKS + SLOW.format("broken", "").replace("(", "(broken, ", 1)
MARKED = "\n\n@pytest.mark.xfail{0}\n"
LATER = """
@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    if HERE:
        session.items[:] = []
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A repository with one commit, and code that has become slower since; its tests are written by each test."""
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)  # it tells a process of a pair from the session
    known = IN_PAIRS + MARKED.format("") + SLOW.format("known", "").lstrip()
    found = repository(pytester, {"work.py": WORK, "pytest.ini": INI, "test_known.py": known})
    found.write({"work.py": WORK.replace("300", "900")})
    return found


def test_a_decided_regression_fails_though_its_test_is_skipped_breaks_or_expected_to_fail(project: Project) -> None:
    """An `xfail` that the baseline has stays what it is; one that the candidate adds is named, and fails if strict."""
    added = MARKED.format("(reason='slow')") + SLOW.format("added", "").lstrip()
    project.write(
        {"test_work.py": IN_PAIRS + SLOW.format("skips", "HERE and pytest.skip('no time')") + FIXTURE + added}
    )
    result = project.run(REPEATED)
    lines = result.stdout.lines
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.assert_outcomes(skipped=1, failed=1, errors=1, xfailed=2)
    result.stdout.fnmatch_lines(
        [
            "warning: 1 failing test hidden by a new xfail: test_work.py::test_added",
            "FAILED test_work.py::test_skips - latency p50 ×[23]*",
        ]
    )
    assert "1 xfail added" in lines[-1]
    assert "regressed" == project.compared("test_skips").outcome
    assert "regressed" == project.compared("test_broken").outcome


def test_a_test_that_measures_and_then_skips_or_expects_to_fail_is_listed(project: Project) -> None:
    """On both sides: the pairs cannot compare it, and nothing in the session judges it."""
    tests = [SLOW.format(name, "") + f"    pytest.{name}('later')\n" for name in ("skip", "xfail")]
    project.write({"test_work.py": IN_PAIRS + "".join(tests) + SLOW.format("fine", "")})
    for options, failed in (((), 0), (("--hwperf-strict",), 2)):
        result = project.run(REPEATED, "--hwperf-margin=900%", *options)
        assert failed == str(result.stdout).count("\nFAILED test_work.py::")
        assert "2 not comparable" in result.stdout.lines[-1]
        result.stdout.fnmatch_lines(["warning: 2 tests not compared, since the pairs could not run them;*"])
        assert "2 comparisons not made" in headline_of(project.report()).sentence


def test_what_only_the_baseline_measures_is_listed(project: Project) -> None:
    """Its test passes, or skips itself, by the candidate's own code."""
    stops = [
        SLOW.format(name, f"if work.LATER: {how}") for name, how in (("returns", "return"), ("skips", "pytest.skip()"))
    ]
    project.commit({"work.py": f"LATER = False\n{WORK}"})
    project.write(
        {"work.py": f"LATER = True\n{WORK}", "test_work.py": IN_PAIRS + "".join(stops) + SLOW.format("fine", "")}
    )
    project.run(REPEATED, "--hwperf-margin=900%")
    assert ["not comparable"] * 2 == [project.compared(test).outcome for test in ("returns", "skips")]
    assert "2 comparisons not made" in headline_of(project.report()).sentence


def test_with_strict_an_xfail_that_the_candidate_adds_fails(project: Project) -> None:
    """Of a parameter too."""
    mark = "\n\n@pytest.mark.parametrize('x', [1, pytest.param(2, marks=pytest.mark.xfail)])\n"
    project.write(
        {
            "test_known.py": (project.path / "test_known.py").read_text()
            + mark
            + SLOW.format("x", "").lstrip().replace("(hwperf", "(x, hwperf")
        }
    )
    result = project.run(REPEATED, "--hwperf-strict")
    result.assert_outcomes(failed=2, xfailed=1)
    result.stdout.fnmatch_lines(["FAILED test_known.py::test_x?2? - latency p50 ×3*"])


def test_an_xfail_of_a_module_that_tests_import_is_seen_as_new_too(project: Project) -> None:
    """Of one that has changed, and of one that the baseline is given."""
    helped, text = IN_PAIRS + "import {0}\n\n\n@{0}.slow\n" + SLOW.format("helped", "").lstrip(), "import pytest\n"
    project.commit({"marks.py": "def slow(test):\n    return test\n", "work.py": WORK})
    project.write(
        {"marks.py": f"{text}slow = pytest.mark.xfail\n", "tests/fresh.py": f"{text}slow = pytest.mark.xfail\n"}
    )
    project.write({"test_known.py": helped.format("marks"), "tests/test_more.py": helped.format("fresh")})
    project.write({"work.py": WORK.replace("300", "900")})
    result = project.run(REPEATED)

    result.stdout.fnmatch_lines(["warning: 2 failing tests hidden by a new xfail: test_known.py::test_helped, *"])
    assert "2 xfail added" in result.stdout.lines[-1]


HOOK = """
from pathlib import Path
import pytest

LIST = Path(__file__).with_name("known.txt")

def pytest_itemcollected(item):
    if item.name in LIST.read_text().split():
        item.add_marker(pytest.mark.xfail)
"""


def test_an_xfail_that_no_file_of_the_baseline_shows_is_new(project: Project) -> None:
    """One of a hook is old where the hook and its data are."""
    tests = IN_PAIRS + SLOW.format("old", "") + SLOW.format("listed", "")
    project.commit({"work.py": WORK, "sub/conftest.py": HOOK, "sub/known.txt": "test_old\n", "sub/test_sub.py": tests})
    hidden = IN_PAIRS + "\n\n@getattr(pytest.mark, 'xf' + 'ail')\n" + SLOW.format("hidden", "").lstrip()
    project.write({"sub/known.txt": "test_old\ntest_listed\n", "test_hidden.py": hidden})
    project.write({"work.py": WORK.replace("300", "900")})
    result = project.run(REPEATED)

    said = "2 failing tests hidden by a new xfail: sub/test_sub.py::test_listed, test_hidden.py::test_hidden"
    result.stdout.fnmatch_lines([f"warning: {said}"])
    assert "2 xfail added" in result.stdout.lines[-1]


@pytest.mark.parametrize(
    ("first", "conftest", "code"),
    [
        ("HERE and pytest.exit('enough', returncode=0)", "", pytest.ExitCode.TESTS_FAILED),
        ("", LATER, pytest.ExitCode.TESTS_FAILED),
        ("assert not HERE", "", pytest.ExitCode.TESTS_FAILED),
        ("HERE and os.kill(os.getpid(), signal.SIGTERM)", "", pytest.ExitCode.INTERRUPTED),
    ],
    ids=["exit", "deselected", "maxfail", "SIGTERM"],
)
def test_what_the_session_does_not_reach_is_listed_and_fails(
    project: Project, first: str, conftest: str, code: pytest.ExitCode
) -> None:
    """In a process of its own, which a signal may end."""
    project.write(
        {
            "test_known.py": IN_PAIRS + SLOW.format("first", first) + SLOW.format("second", ""),
            "conftest.py": IN_PAIRS + conftest,
        }
    )
    result = project.pytester.runpytest_subprocess(
        "--hwperf-against=HEAD", *SIMULATED, "--hwperf-energy=off", "--hwperf-explain=never", REPEATED, "-x",
        "--hwperf-report=report.json",
    )  # fmt: skip
    assert code == result.ret
    result.stdout.fnmatch_lines(["FAILED test_known.py::test_second - latency p50 ×3*"])
    assert "regressed" == project.compared("test_second").outcome
    assert project.report().partial


def test_ctrl_c_in_the_pairs_prints_what_was_decided_so_far(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_hwperf.gate.gate.Explainer.explanations", interrupted)
    options = ("--hwperf-against=HEAD", *SIMULATED, "--hwperf-energy=off", REPEATED)
    result = project.pytester.runpytest_inprocess(*options, no_reraise_ctrlc=True)
    assert pytest.ExitCode.INTERRUPTED == result.ret
    result.stdout.fnmatch_lines(["test_known.py", "*test_known *×3*", "*regressed: latency p50"])


def test_the_same_code_on_both_sides_is_named(project: Project) -> None:
    """Not where a file has changed or is new, or the other commit is meant."""

    def is_named(against: str = "HEAD") -> bool:
        result = project.run(REHEARSED, against=against)
        return "without changes: both sides run the same code" in result.stdout.str()

    assert not is_named()
    project.commit({".gitignore": "report.json\n.*\n__pycache__\n"})
    assert is_named()
    assert not is_named("HEAD~1")
    project.write({"new.py": ""})
    assert not is_named()
