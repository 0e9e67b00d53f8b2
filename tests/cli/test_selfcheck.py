"""`hwperf selfcheck`: what it counts, what it keeps, and one real run of it."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from fakes import gates
from fakes import records as fake
from fakes.commands import Told
from fakes.repositories import git
from fakes.reruns import QUICKLY, REPEATED, SIMULATED, WORK

from pytest_hwperf.cli import USAGE, selfcheck
from pytest_hwperf.cli.inputs import Session
from pytest_hwperf.cli.output import FAILED, OK
from pytest_hwperf.cli.selfcheck import Build, build_of, needed, read_record, render, tree, write_record
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.run import replace


def builds(red: int, green: int, *, planted: float = 0.0) -> list[Build]:
    """Builds of two tests each, of which the red ones called the first slower."""
    return [
        Build(alpha=0.01, planted=planted, questions=2, alarms=int(n < red), tests=("a",) * (n < red))
        for n in range(red + green)
    ]


def test_equal_code_is_counted_by_builds_and_planted_work_by_tests() -> None:
    """Surely too many alarms are said to be."""
    how = "Clopper-Pearson 95 %)"
    equal = [f"equal code: 1 false alarm in 40 builds (0.1 % .. 13.2 %, {how}, stated 1.0 %"]
    planted = [f"5 % work planted: found in 9 of 20 tests (23.1 % .. 68.5 %, {how}"]
    assert (equal, False) == render(builds(1, 39), 0.01)
    assert (planted, False) == render(builds(9, 1, planted=0.05), 0.01)
    lines, too_many = render(builds(5, 15), 0.01)
    assert too_many
    assert "more false alarms than stated" in lines[1]


def test_a_report_is_counted_by_its_paired_latencies() -> None:
    report = gates.report(3)
    regressed = sum(c.outcome == "regressed" for j in report.judgements for c in j.comparisons if c.metric == "latency")
    build = build_of(report, 0.05, 0.01)
    assert (4, regressed, regressed) == (build.questions, build.alarms, len(build.tests))
    with pytest.raises(UsageProblem, match="no pairs were run"):
        build_of(fake.empty_report(), 0.0, 0.01)


def test_the_pairs_that_a_change_needs_follow_from_the_noise() -> None:
    """2 % is the margin itself; 10 % takes as few as the level allows. Too few pairs tell nothing of later ones."""
    line = needed([gates.report(seed) for seed in range(3)], 0.01)[0]
    assert line.startswith("pairs that a change needs (tests/test_models.py::test_0): 2 %: within the margin, 5 %: ")
    assert line.endswith(", 10 %: 8")
    assert needed([gates.report(3)], 0.01)[0].endswith("5 %: too few pairs to say, 10 %: too few pairs to say")


def test_the_time_of_a_pair_is_told_without_that_of_the_rehearsal() -> None:
    report = gates.report(3)
    gate = report.gates[0]
    pairs = len([pair for pair in gate.evidence.pairs if pair.stage != "rehearsal"])
    slow = replace(gate, at_once=2, seconds={"rehearsal": 100.0, "screen": 2.0 * pairs, "confirm": 1.0 * pairs})
    line = needed([replace(report, gates=(slow,))], 0.01)[-1]
    assert line == f"a pair (2 side by side) took 3.00 s, in the mean of {pairs} pairs"


def test_the_record_adds_up_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "record" / "machine.json"
    assert read_record(path) == []
    write_record(path, builds(1, 1))
    assert builds(1, 1) == read_record(path)
    assert [path] == list(path.parent.iterdir())
    for content in ("", "{}", '{"builds": [{}]}', '{"builds": 5}'):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(UsageProblem, match="is no record of hwperf selfcheck: start over with --forget"):
            read_record(path)


def test_what_cannot_be_meant_is_refused(told: Told) -> None:
    numbers = "--builds and --planted are numbers from 0 on, not both 0"
    assert numbers in told(USAGE, "selfcheck", "--builds=0", "--planted=0").err
    assert numbers in told(USAGE, "selfcheck", "--builds=-1").err
    work = "hwperf: --work='5': work is a percentage of the call, such as 5%"
    assert work in told(USAGE, "selfcheck", "--work=5").err


def test_the_whole_tree_is_copied(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a hook of another repository too, which git tells in variables."""
    (repository / "tests").mkdir()
    monkeypatch.chdir(repository / "tests")
    monkeypatch.setenv("GIT_DIR", str(repository.parent / "elsewhere" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(repository.parent))
    assert repository == tree()


def test_without_git_this_folder_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert tmp_path == tree()


def test_builds_of_equal_code_come_first_and_are_added_to_those_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    given, seeds = list[Sequence[str]](), iter([0, 7, 1, 1, 1])

    def run(arguments: Sequence[str]) -> Session:
        given.append(arguments)
        return Session(code=1, report=gates.report(next(seeds)), output="")

    monkeypatch.setattr(selfcheck, "run_pytest", run)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    checked = ("selfcheck", "--builds=1", "--parallel=2", "--alpha=2%", "--work=50%")
    first = told(FAILED, *checked, "--planted=1", "--", "-k", "one").out.splitlines()
    assert "build 1, equal code: 1 of 4 tests regressed" == first[0]
    assert "build 2, 50 % work planted: 2 of 4 tests regressed" == first[1]
    options = ["--hwperf-alpha=2%", "--hwperf-parallel=2", "-o", "hwperf_affected=false", "-k", "one"]
    for share, passed_on in zip((0, 50), given, strict=True):
        assert [f"--hwperf-against={tmp_path}", options[0], f"--hwperf-plant={share}%", *options[1:]] == passed_on
    for builds in ("2 builds", "3 builds"):
        again = told(OK, *checked, "--planted=0").out
        assert f"equal code: 1 false alarm in {builds} (" in again
        assert "50 % work planted: found in 2 of 4 tests (" in again
    assert "equal code: 0 false alarms in 1 build (" in told(OK, *checked, "--planted=0", "--forget").out


@pytest.mark.live
@pytest.mark.usefixtures("fakes_in_reach")
def test_it_runs_the_users_own_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """One build with three times the work, which the one pair sees that counts as often as is asked."""
    (project := tmp_path / "project").mkdir()
    (project / "work.py").write_text(WORK, encoding="utf-8")
    code = "import work\n\n\ndef test_call(hwperf):\n    hwperf(work.call)\n"
    (project / "test_work.py").write_text(code, encoding="utf-8")
    git(project, "init")  # without a commit
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    out = told(0, "selfcheck", "--builds=0", "--planted=1", "--work=200%", "--", *SIMULATED, REPEATED, *QUICKLY).out
    assert "build 1, 200 % work planted: 1 of 1 test regressed" in out
    assert "pairs that a change needs (test_work.py::test_call): 2 %: within the margin, 5 %: " in out
    assert len(list((tmp_path / "data").rglob("*.json"))) == 1


@pytest.mark.live
def test_a_run_without_a_report_says_what_pytest_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = told(USAGE, "selfcheck", "--builds=1", "--planted=0", "--", "no_such_file.py").err
    assert "pytest ended with code 4 and wrote no report" in answer
