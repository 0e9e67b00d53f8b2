"""The gate as a whole: tails, what is selected, mistakes of its own, and what is said where it cannot be had."""

import shutil
import sys
from typing import NoReturn

import pytest
from fakes.played_gates import play
from fakes.reruns import INI, WORK, Project, measured, repository

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.stats.stored.history import TrendFile

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("quick_pairs", "fakes_in_reach")]


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A repository with one commit: code, its measured test, and an ini file that leads to it."""
    return repository(pytester, {"work.py": WORK, "pytest.ini": INI, "test_work.py": measured("work", "work.call")})


class Broken(Conductor):
    """A conductor with a mistake in it."""

    def conduct(self, *_: object, **__: object) -> NoReturn:
        raise KeyError("planted")


def test_a_mistake_of_ours_ends_the_session_with_a_sentence(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither does anything pass unseen nor does pytest call it an internal error of its own."""
    play(monkeypatch)
    monkeypatch.setattr("pytest_hwperf.gate.preparing.Conductor", Broken)
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


@pytest.mark.usefixtures("other_plugins")
def test_a_baseline_that_cannot_be_rerun_is_history_and_it_is_said_why(project: Project) -> None:
    """Beside test workers; saved with changes; saved at a commit that is gone; saved outside of git."""
    project.run("--hwperf-save", against="")
    beside = project.run("--hwperf-compare", "-n", "2", against="")
    revision = project.git("rev-parse", "HEAD")
    shutil.rmtree(project.path / ".git")
    project.git("init")
    project.commit({})
    gone = project.run("--hwperf-compare", against="")
    shutil.rmtree(project.path / ".hwperf")
    project.write({"work.py": WORK.replace("300", "310")})
    project.run("--hwperf-save", against="")
    changed = project.run("--hwperf-compare", against="")
    shutil.rmtree(project.path / ".git")
    shutil.rmtree(project.path / ".hwperf")
    project.run("--hwperf-save", against="")
    outside = project.run("--hwperf-compare", against="")

    assert "historical" in project.compared("test_work").how
    for result, why in (
        (beside, "test workers run side by side (-n):"),
        (gone, f"this repository does not have its revision {revision[:10]} (git fetch --unshallow):"),
        (changed, "it was saved with changes that were not "),
        (outside, "it was saved outside of git, or before the first commit:"),
    ):
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines([f"hwperf: baseline main is not rerun, since {why}*"])


def test_a_pinned_release_is_rerun_with_its_part_of_the_rate_and_remembered(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change from it is a series of its own in a database; twice as many builds have half of the rate each."""
    play(monkeypatch, slower="test_work")
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
    assert 0.5 == pytest.approx(series.values[0].estimate.value)
    assert not series.values[0].accepted
