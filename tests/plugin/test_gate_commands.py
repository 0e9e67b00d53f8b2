"""The gate as a whole: tails, what is selected, mistakes of its own, and what is said where it cannot be had."""

import shutil
import sys
from functools import partial
from typing import NoReturn

import pytest
from fakes.reruns import INI, QUICK, REPEATED, WORK, Project, measured, repository

from pytest_hwperf.cli import main
from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.stats.history import TrendFile

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("quick_pairs", "fakes_in_reach")]


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A repository with one commit: code, its measured test, and an ini file that leads to it."""
    return repository(pytester, {"work.py": WORK, "pytest.ini": INI, "test_work.py": measured("work", "work.call")})


TAILED = """
from itertools import count

from fakes.simulated_time import spend

NUMBERS = count()


def call():
    spend(300 * ({tail} if next(NUMBERS) % 10 == 0 else 1))
"""
PLAIN = "def test_plain():\n    raise NotImplementedError\n"


def test_a_longer_tail_alone_fails_its_margin_among_the_measured_tests_only(project: Project) -> None:
    """Every tenth call takes six times as long: p95 sees it and the median does not."""
    marked = f"import pytest\npytestmark = pytest.mark.hwregression(latency_p95='10%')\n{measured('tail', 'work.call')}"
    project.commit({"work.py": TAILED.format(tail=1), "test_work.py": marked, "test_plain.py": PLAIN})
    project.write({"work.py": TAILED.format(tail=6)})
    result = project.run("--hwperf-only", REPEATED)
    tail = project.compared("test_tail", statistic="p95")

    result.assert_outcomes(failed=1, deselected=1)
    assert "regressed" == tail.outcome
    assert tail.p_value in {2.0**-8, 2.0**-9}  # the median may be screened by chance
    assert tail.change is not None
    assert tail.change.value > 1
    assert "regressed" != project.compared("test_tail").outcome
    assert {"test_work.py::test_tail"} == {
        hypothesis.measurement.test for hypothesis in project.gate().evidence.hypotheses
    }
    assert main(["report", str(project.path / "report.json"), "--verify"]) == 0


class Broken(Conductor):
    """A conductor with a mistake in it."""

    def conduct(self, *_: object, **__: object) -> NoReturn:
        raise KeyError("planted")


def test_a_mistake_of_ours_ends_the_session_with_a_sentence(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither does anything pass unseen nor does pytest call it an internal error of its own."""
    monkeypatch.setattr("pytest_hwperf.gate.preparing.Conductor", partial(Broken, plan=QUICK))
    result = project.run()
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(
        [
            "ERROR: hwperf: nothing was compared, by a mistake of pytest-hwperf itself: KeyError: 'planted'. *",
            "Traceback (most recent call last):",
            "*test_gate_commands.py*, in conduct",
        ]
    )
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    result.assert_outcomes()
    assert "hwperf-base-" not in project.git("worktree", "list")


NOT_RERUN = "hwperf: baseline main is not rerun, since {}: its timings are compared with the stored runs, *"


def stored(project: Project, *options: str) -> pytest.RunResult:
    return project.run("--hwperf-compare", *options, against="")


def test_a_baseline_without_a_revision_at_hand_is_not_rerun_and_it_is_said_why(project: Project) -> None:
    """Saved at a commit that is gone; then saved outside of git."""
    project.run("--hwperf-save", against="")
    revision = project.git("rev-parse", "HEAD")
    shutil.rmtree(project.path / ".git")
    project.git("init")
    project.commit({})
    gone = stored(project)
    shutil.rmtree(project.path / ".git")
    shutil.rmtree(project.path / ".hwperf")
    project.run("--hwperf-save", against="")
    outside = stored(project)
    assert "historical" in project.compared("test_work").how
    lacking = f"this repository does not have its revision {revision[:10]} (git fetch --unshallow)"
    gone.stdout.fnmatch_lines([NOT_RERUN.format(lacking)])
    outside.stdout.fnmatch_lines([NOT_RERUN.format("it was saved outside of git, or before the first commit")])


@pytest.mark.usefixtures("other_plugins")
def test_a_baseline_is_not_rerun_beside_test_workers_and_it_is_said_why(project: Project) -> None:
    project.run("--hwperf-save", against="")
    result = stored(project, "-n", "2")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([NOT_RERUN.format("test workers run side by side (-n)")])


def test_a_pinned_release_is_rerun_with_its_part_of_the_rate_and_remembered(project: Project) -> None:
    """The change from it is a series of its own in a database; twice as many builds have half of the rate each."""
    project.git("tag", "v1")
    project.write({"work.py": WORK.replace("300", "600")})
    project.git("commit", "--quiet", "--all", "--message=slower")
    database = "sql:sqlite:///team.db"
    anchor = ("-ohwperf_anchor=v1", "-ohwperf_anchor_builds=2", f"--hwperf-store={database}", "--hwperf-save")
    result = project.run(*anchor, against="anchor")
    gate = project.gate()

    result.assert_outcomes(failed=1)
    assert ("anchor v1", 0.005) == (gate.against, gate.evidence.alpha)
    assert any("1 commit; search them with hwperf bisect v1 HEAD -- " in one for one in project.report().warnings)
    assert 9 == sum(pair.stage == "confirm" for pair in gate.evidence.pairs)
    shown = project.pytester.run(
        sys.executable, "-m", "pytest_hwperf.cli", "history", "*", f"--store={database}", "--output=history.json"
    )
    trends = from_json(TrendFile, (project.path / "history.json").read_bytes()).trends
    assert pytest.ExitCode.OK == shown.ret
    (series,) = (one.series for one in trends if one.series.anchor and one.series.key == MEDIAN_LATENCY)
    assert project.git("rev-parse", "v1").strip() == series.anchor
    assert series.values[0].estimate.value == pytest.approx(1.0, abs=0.1)
    assert not series.values[0].accepted


def test_an_unknown_release_is_refused_by_its_option(project: Project) -> None:
    result = project.run("-ohwperf_anchor=v9", against="anchor")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(["*hwperf_anchor: *v9*"])
