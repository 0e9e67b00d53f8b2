"""`hwperf bisect`: sessions that were never run, in a real repository whose slow commit is known."""

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fakes import gates
from fakes import records as fake
from fakes.commands import Told
from fakes.repositories import commit, git, line_of, repository_with
from fakes.reruns import INI, QUICKLY, REPEATED, SIMULATED, WORK

from pytest_hwperf.cli import bisect, main
from pytest_hwperf.cli.bisect import Comparer, result_lines
from pytest_hwperf.cli.inputs import Session
from pytest_hwperf.cli.output import INTERRUPTED, USAGE
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.evidence import Evidence, Gate
from pytest_hwperf.records.messages import said
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Judgement, Policy, uncompared
from pytest_hwperf.stats.pairs.bisection import BisectionFile, BisectionQuestion, Suspect
from pytest_hwperf.stats.verdicts import judge

FOUND, NO_REGRESSION, INCONCLUSIVE = 0, 1, 3
TEST = "tests/test_models.py::test_0"


class Sessions:
    """Sessions of pytest as they would end: BAD is slower than each commit before the slow one."""

    def __init__(self, names: list[str], slow: int, change: float = 0.1) -> None:
        self.names, self.slow, self.change = names, slow, change
        self.broken = dict[str, str]()  # commit → what pytest says
        self.untested = dict[str, str]()  # commit → why its test cannot be compared
        self.interrupt_after = 100
        self.given = list[list[str]]()
        self.random = Random(1)

    def __call__(self, arguments: list[str], **_: Any) -> Session:
        self.given.append(arguments)
        if len(self.given) > self.interrupt_after:
            raise KeyboardInterrupt
        (against,) = (one.partition("=")[2] for one in arguments if one.startswith("--hwperf-against="))
        if against in self.broken:
            return Session(code=4, report=None, output=f"\n{self.broken[against]}\n\n")
        change = self.change if self.names.index(against) < self.slow else 0.0
        evidence = gates.build([change], self.random)
        report = fake.empty_report()
        if against in self.untested:
            cause = said(self.untested[against])
            run = fake.run(test=TEST)
            verdicts = judge(run, (), [uncompared(gates.LATENCY, "no baseline", cause)], (), Policy())
            report = replace(report, judgements=(Judgement(run=run, figures=(), verdicts=verdicts),))
            evidence = replace(evidence, pairs=())
        gate = Gate(against=against, revision=against, seed=1, evidence=evidence, shared={}, seconds={})
        return Session(code=1, report=replace(report, gates=(gate,)), output="1 failed")


History = Callable[..., Sessions]


@pytest.fixture
def sessions(repository: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """Make a history of so many commits after the first one, and the sessions of it."""

    def make(commits: int, slow: int, change: float = 0.1) -> Sessions:
        names = [git(repository, "rev-parse", "HEAD"), *line_of(repository, commits)]
        found = Sessions(names, slow, change)
        monkeypatch.setattr(bisect, "Comparer", functools.partial(Comparer, run=found))
        monkeypatch.chdir(repository)
        return found

    return make


@pytest.fixture
def interrupted(sessions: History, told: Told) -> Sessions:
    """A search among eight commits that was interrupted after two steps."""
    history = sessions(8, 5)
    history.interrupt_after = 3
    told(INTERRUPTED, "bisect", history.names[0], "HEAD", "--", TEST)
    history.interrupt_after = 100
    history.given.clear()
    return history


def state_of(repository: Path) -> list[Path]:
    return [*(repository / ".git" / "hwperf-bisect").glob("*.json")]


def test_the_slow_commit_is_found_and_shown(sessions: History, repository: Path, tmp_path: Path, told: Told) -> None:
    history = sessions(6, 4)
    before, worktrees = git(repository, "status", "--porcelain"), git(repository, "worktree", "list")
    result = tmp_path / "result.json"
    out, err = told(FOUND, "bisect", history.names[0], "HEAD", f"--json={result}", "--", TEST)
    lines = out.splitlines()
    assert lines[0].startswith(f"{history.names[4]} 20")
    assert lines[0].endswith(" t: more")
    assert lines[1].startswith(f"latency p50 of {TEST}: +")
    assert "; between GOOD and BAD +" in lines[1]
    assert lines[1].endswith(", 99.2 % confidence, 8 pairs")  # 1 - 2/256; of nine pairs 100 % would be untrue
    assert lines[2].startswith("confidence 9")
    assert lines[2].endswith(f"; see it with: git show {history.names[4]}")
    assert "comparing both ends of 6 commits" in err
    assert "step 1 of about 3, 6 commits left, confidence 17 %: comparing " in err
    found = from_json(BisectionFile, result.read_bytes())
    assert ("found", [history.names[4]]) == (found.outcome, [one.commit for one in found.suspects])
    assert (before, worktrees) == (git(repository, "status", "--porcelain"), git(repository, "worktree", "list"))
    assert [] == state_of(repository)


def test_a_step_has_the_pairs_of_a_screen_alone(sessions: History) -> None:
    history = sessions(4, 2)
    main(["bisect", history.names[0], "HEAD", "--", TEST, "-x"])
    ends, *steps = history.given
    assert [TEST, "-x", f"--hwperf-against={history.names[0]}"] == ends[2:5]
    assert all("--hwperf-margin=latency_p50=100000%" in one for one in steps)
    assert all(one[2:4] == [TEST, "-x"] for one in steps)
    assert all("--hwperf-explain=never" in one for one in history.given)  # the commit explains it


def test_ends_that_are_not_worse_are_not_searched(
    sessions: History, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    """Equal ones are no regression, and of inconclusive ones the detectable change is said."""
    history = sessions(3, 9, 0.0)
    good, bad = history.names[0], history.names[-1]
    out = told(NO_REGRESSION, "bisect", good, "HEAD", "--", TEST).out
    assert out.startswith(f"no regression between {good[:10]} and {bad[:10]} in what pairs")
    assert "EQUIVALENT  latency p50" in out
    build = gates.build
    monkeypatch.setattr(gates, "build", lambda changes, random: build([0.0] * len(changes), random, spread=0.05))
    out = told(INCONCLUSIVE, "bisect", good, "HEAD", "--", TEST).out
    assert out.startswith(f"inconclusive: {bad[:10]} is neither shown to be worse than {good[:10]} nor ")
    assert "INCONCLUSIVE  latency p50" in out
    assert len(history.given) == 2


def test_what_the_pairs_have_lost_is_no_evidence_of_equal_ends(
    sessions: History, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    """Of two tests one is equivalent, and of the other no pair has values."""
    history = sessions(3, 9)
    build = gates.build

    def half(_: list[float], random: Random) -> Evidence:
        whole = build([0.0], random)
        lost = gates.hypothesis(1)
        return replace(whole, hypotheses=(*whole.hypotheses, lost), dropped=(lost,))

    monkeypatch.setattr(gates, "build", half)
    out = told(INCONCLUSIVE, "bisect", history.names[0], "HEAD", "--", TEST).out
    assert "EQUIVALENT  latency p50" in out
    assert "not compared: latency p50 of tests/test_models.py::test_1: its pairs gave no values" in out


def test_commits_that_do_not_run_are_skipped_and_named(sessions: History, told: Told) -> None:
    """The culprit is one of them: both are named with the next one, from which nothing tells them."""
    history = sessions(8, 4)
    history.broken[history.names[4]] = "ERROR: hwperf: nothing could be compared"
    history.untested[history.names[5]] = "the test failed: no such \x1b[31mmodel"
    out = told(INCONCLUSIVE, "bisect", history.names[0], "HEAD", "--", TEST).out
    assert out.startswith("inconclusive: it is one of these 3 commits (confidence 9")
    assert "of which 2 cannot be compared; --restart tries all again\n" in out
    assert [name for name in history.names if name in out] == history.names[4:7]
    assert "(not compared: ERROR: hwperf: nothing could be compared)" in out
    assert r"(not compared: the test failed: no such \x1b[31mmodel)" in out


def test_ctrl_c_keeps_the_state_and_the_same_command_goes_on(
    interrupted: Sessions, repository: Path, told: Told
) -> None:
    (kept,) = state_of(repository)
    assert 2 == len(json.loads(kept.read_text())["steps"])
    assert 1 == len(git(repository, "worktree", "list").splitlines())
    assert interrupted.names[5] in told(FOUND, "bisect", interrupted.names[0], "HEAD", "--", TEST).out
    assert "--hwperf-margin=latency_p50=100000%" in interrupted.given[0]  # both ends are known
    assert 2 == len(interrupted.given)


def test_restart_starts_again(interrupted: Sessions, told: Told) -> None:
    told(FOUND, "bisect", interrupted.names[0], "HEAD", "--restart", "--", TEST)
    assert f"--hwperf-against={interrupted.names[0]}" in interrupted.given[0]  # both ends again


def test_a_damaged_state_is_named(interrupted: Sessions, repository: Path, told: Told) -> None:
    (kept,) = state_of(repository)
    text, command = kept.read_text(), ["bisect", interrupted.names[0], "HEAD", "--", TEST]
    for damaged, said_of_it in (
        ("", "is not whole JSON: start again with --restart"),
        (text.replace('"schema":', '"shcema":'), "holds no pytest-hwperf bisection"),
        (text.replace('"commit":"', '"commit":"0'), "is about other commits: start again with --restart"),
    ):
        kept.write_text(damaged)
        assert said_of_it in told(USAGE, *command).err
    kept.unlink()
    kept.mkdir()
    assert "cannot be read (not a regular file): start again with --restart" in told(USAGE, *command).err
    assert "cannot be written (Is a directory)" in told(USAGE, *command[:3], "--restart", *command[3:]).err


def test_when_the_time_is_up_the_most_likely_commit_is_shown(
    sessions: History, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    history = sessions(8, 5)
    late = functools.partial(Comparer, run=history, clock=lambda: 1e12 if len(history.given) > 2 else 0.0)
    monkeypatch.setattr(bisect, "Comparer", late)
    history.broken = dict.fromkeys(history.names[1:], "cut off")  # by the end of the time, which is no fault of it
    out = told(INCONCLUSIVE, "bisect", history.names[0], "HEAD", "--", TEST).out
    assert out.startswith("inconclusive when the time was up: ")
    assert "the same command continues, and with --restart it starts again; most likely:" in out
    assert "after 1 step; " in out


def test_only_suspects_that_are_sure_hold_the_culprit() -> None:
    """When the time is up, a commit that cannot be compared may be among the most likely ones."""
    question = BisectionQuestion(good="0" * 40, bad="f" * 40, first_parent=False, folder=".", arguments=(TEST,))
    suspects = tuple(
        Suspect(commit=one * 40, date="", author="t", subject="more", reason=reason)
        for one, reason in (("a", "no such module"), ("b", ""))
    )
    unsure = "inconclusive when the time was up: 5 commits left after 0 steps; the same command continues"
    for confidence, said_of_it in ((0.3, unsure), (0.95, "it is one of these")):
        found = BisectionFile(
            outcome="inconclusive", question=question, suspects=suspects, confidence=confidence, left=5
        )
        assert said_of_it in next(result_lines(found))


def test_foreign_text_in_the_file_is_visible(sessions: History, repository: Path, tmp_path: Path) -> None:
    history, result = sessions(3, 9), tmp_path / "result.json"
    git(repository, "commit", "--allow-empty", "--author=a\u202eb <t@example.org>", "--message=more")
    history.names.append(git(repository, "rev-parse", "HEAD"))
    history.slow = 4
    assert FOUND == main(["bisect", history.names[0], "HEAD", f"--json={result}", "--", TEST])
    assert rb"a\u202eb" in result.read_bytes()
    assert "a\u202eb" == from_json(BisectionFile, result.read_bytes()).suspects[0].author


def test_ends_that_cannot_be_compared_say_why(sessions: History, told: Told) -> None:
    history = sessions(3, 2)
    command = ["bisect", history.names[0], "HEAD", "--", TEST]
    history.broken[history.names[0]] = "ERROR: file or directory not found: tests"
    err = told(USAGE, *command).err
    assert "BAD cannot be compared with GOOD" in err
    assert "file or directory not found" in err
    history.broken.clear()
    history.untested[history.names[0]] = "it has no such test"
    assert "it has no such test" in told(USAGE, *command).err


REFUSED: Sequence[tuple[Sequence[str], str]] = (
    (["HEAD", "HEAD"], "no test is given: type hwperf bisect GOOD BAD -- tests"),
    (["HEAD", "HEAD", "--", TEST], "has no commit that"),
    (["nowhere", "HEAD", "--", TEST], "'nowhere' is no revision"),
    (["HEAD", "HEAD", "--confidence=40%", "--", TEST], "a percentage from 50% to 99.99%"),
    (["HEAD", "HEAD", "--confidence=much", "--", TEST], "a percentage from 50% to 99.99%"),
    (["HEAD", "HEAD", "--time=0", "--", TEST], "--time=0: a number of seconds above 0"),
    (["HEAD", "HEAD", "--json=/no/such/folder/x.json", "--", TEST], "cannot be written"),
    (["--all", "HEAD", "--", TEST], "required: BAD"),  # a revision that begins with a dash is none
    (["HEAD", "-x", "--", TEST], "required: BAD"),
)


def test_what_cannot_be_searched_is_a_usage_error(sessions: History, told: Told) -> None:
    sessions(1, 1)
    assert [] == [one for one in REFUSED if one[1] not in told(USAGE, "bisect", *one[0]).err]


@pytest.mark.live
@pytest.mark.usefixtures("fakes_in_reach")
def test_it_searches_with_real_sessions(temporary: Path, monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """Three commits of simulated time, of which the second is slow. Git has neither the test nor its helper.

    What a session of both ends finds is played; the one step between them is real.
    """
    found = to_json(gates.build([0.33], Random(1))).replace(TEST.encode(), b"tests/test_new.py::test_call")
    monkeypatch.setattr(Comparer, "ends", lambda *_: from_json(Evidence, found))
    project = repository_with(temporary.parent / "project", work__py=WORK, pytest__ini=INI)
    good, slow = git(project, "rev-parse", "HEAD"), commit(project, work__py=WORK.replace("300", "400"))
    commit(project, notes="nothing")
    monkeypatch.chdir(project)
    (tests := project / "tests").mkdir()
    (tests / "conftest.py").write_text("")
    (tests / "helper.py").write_text("import work\n\n\ndef called():\n    return work.call()\n")
    (tests / "test_new.py").write_text("import helper\n\n\ndef test_call(hwperf):\n    hwperf(helper.called)\n")
    command = ["bisect", good, "HEAD", "--", f"{tests}/test_new.py", *SIMULATED, REPEATED, *QUICKLY]
    out, err = told(FOUND, *command)
    assert out.startswith(f"{slow} 20")
    assert "latency p50 of tests/test_new.py::test_call: +3" in out
    used = "tests/conftest.py, tests/helper.py, tests/test_new.py"
    assert f"hwperf: used from your tree, since BAD lacks a test that you name: {used}\n" in err
    assert 1 == len(git(project, "worktree", "list").splitlines())
    assert "?? tests/" == git(project, "status", "--porcelain")
