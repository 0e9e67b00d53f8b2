"""The paired gate in real repositories: what is compared, what cannot be, and why.

Pairs take few and short turns here, so that a build is quick, and calls take simulated time.
"""

import os
import re
import sys

import pytest
from fakes.played_gates import play
from fakes.reruns import COMPARED, INI, REHEARSED, REPEATED, Project, measured, repository

from pytest_hwperf.cli import main
from pytest_hwperf.host.pinning import processors
from pytest_hwperf.records.evidence import Measurement
from pytest_hwperf.stats.pairs.hypotheses import PROCESSES, SIDES, Facts, SideOutcome

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("quick_pairs", "fakes_in_reach")]

WORK = """
from fakes.simulated_time import spend

UNITS = {units}


def slow():
    for _ in range(UNITS):  # profiles go by real time, of which `spend` takes as much for any number
        spend(100)


def steady():
    return spend(300)
"""
AS_BEFORE = WORK.format(units=3)
TESTS = """
import work


def test_slow(hwperf):
    hwperf(work.slow)


def test_steady(hwperf):
    hwperf(work.steady)
"""
BLOCKING = """
import time

import pytest


@pytest.fixture(autouse=True)
def blocking():
    time.sleep(600)
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A repository with one commit: code beside its tests."""
    return repository(pytester, {"work.py": AS_BEFORE, "tests/test_work.py": TESTS, "pytest.ini": INI})


def leftovers(project: Project) -> list[str]:
    return [line for line in project.git("worktree", "list").splitlines() if "hwperf-base-" in line]


def test_slower_code_fails_its_own_test_alone_and_says_what_moved(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only selected tests are rerun. One profile of each side: where it is spent, and how often `slow` is called."""
    monkeypatch.setattr("pytest_hwperf.gate.explaining.REPEATS", 1)
    project.write({"work.py": WORK.format(units=9), "tests/test_other.py": measured("other", "work.steady")})
    result = project.run(
        "-k", "slow or steady", "--junitxml=junit.xml", "--hwperf-explain=auto", "--hwperf-report=written"
    )
    gate, slow, steady = project.gate(), project.compared("test_slow"), project.compared("test_steady")

    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.assert_outcomes(passed=1, failed=1, deselected=1)
    result.stdout.re_match_lines(
        [
            r"hwperf: rehearsal of both sides",
            r"hwperf: screen pair 1 of 6, tests/test_work.py::test_s\w+",
            r"hwperf: screen pair 2 of 6, about \d+ s left, tests/test_work.py::test_s\w+",
            r"hwperf: working tree on .* against HEAD .*: 6 screen.* pairs .*, 2 of 2 tests compared: checkout .*",
        ]
    )
    result.stdout.re_match_lines([r"latency p50 ×\d+\.\d ", r"  p=.*, \d+ fresh pairs, exact signed-rank.*Holm"])
    asked = {hypothesis.measurement.test for hypothesis in gate.evidence.hypotheses}
    assert {f"tests/test_work.py::test_{name}" for name in ("slow", "steady")} == asked
    shares = "imported once for both sides" if hasattr(os, "pidfd_open") else "each side imports everything itself"
    assert shares in gate.imports
    assert '<failure message="latency p50 ×' in (project.path / "junit.xml").read_text(encoding="utf-8")
    assert slow.p_value in {2.0**-8, 2.0**-9}  # the other test may be screened by chance
    assert "regressed" != steady.outcome
    assert steady.change is not None
    assert steady.change.low is not None
    assert steady.change.high is not None
    assert {coin.processor for pair in gate.evidence.pairs for coin in pair.assignments} <= {*(processors() or [None])}
    assert [] == leftovers(project)
    assert str(slow.moved).startswith("slow (work.py:7")
    assert steady.moved is None
    (explanation,) = gate.explanations
    assert (1.0, 1.0) == (explanation.movers[0].baseline_calls, explanation.movers[0].candidate_calls)
    assert 3 == len([*(project.path / "written" / "explain").iterdir()])
    assert main(["report", str(project.path / "report.json"), "--verify"]) == 0


def test_where_pairs_alone_judge_few_calls_are_made_beside_them(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A budget is judged by the calls of the session itself, and a saved run is made of them."""
    budget = "import pytest\nimport work\n\n@pytest.mark.hwbudget(latency_p50_ms=60_000)\n"
    project.write({"tests/test_budget.py": f"{budget}def test_budget(hwperf):\n    hwperf(work.steady)\n"})
    calls = dict[str, int]()
    play(monkeypatch)
    for option in ("--hwperf-energy=off", "--hwperf-save"):
        project.run("-k", "steady or budget", option)
        for run in (judgement.run for judgement in project.report().judgements):
            (made,) = (len(sample.values) for sample in run.samples if sample.metric == "latency")
            calls[f"{run.test.rpartition('_')[2]} {option}"] = made

    few = calls.pop("steady --hwperf-energy=off")
    assert 20 <= few < min(calls.values())


def test_the_baseline_is_an_earlier_commit_or_a_folder_that_is_only_read(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Both are slower; the present commit is named beside the one before, and tests are laid over a copy.

    The earlier one has an interpreter of its own, whose path is relative to where pytest was started, and each call of
    the present code has twice as much work added: of three units and one, as much is left.
    """
    other = tmp_path_factory.mktemp("other") / "clone"
    project.git("clone", "--quiet", ".", str(other))
    (other / "work.py").write_text(WORK.format(units=9), encoding="utf-8")
    project.commit({"work.py": WORK.format(units=1), "tests/test_work.py": f"{TESTS}\n# changed here\n"})
    before = {path: path.read_bytes() for path in other.rglob("*.py")}
    project.run(REPEATED, "-k", "slow", against=str(other)).assert_outcomes(passed=1, deselected=1)
    change = project.compared("test_slow").change
    assert 1 / 9 - 1 == pytest.approx(change and change.value, abs=0.05)
    assert before == {path: path.read_bytes() for path in other.rglob("*.py")}

    own = other.with_name("tools") / "python"
    own.parent.mkdir()
    own.write_text(f'#!/bin/sh\necho "$PWD" >> {own}.used\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    own.chmod(0o755)
    interpreter = f"--hwperf-base-python={os.path.relpath(own)}"
    result = project.run(REPEATED, interpreter, "--hwperf-plant=200%", against="HEAD~1")
    head = r"HEAD [0-9a-f]{10} \(20\d\d-\d\d-\d\d\) against HEAD~1 [0-9a-f]{10} \(20\d\d-\d\d-\d\d\)"
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.re_match_lines([rf"hwperf: {head}, in pairs", rf"hwperf: {head}: \d+ screen.*"])
    result.stdout.fnmatch_lines(["hwperf: 200 % of work was added to each call of the present code (--hwperf-plant)"])
    changes = [project.compared(f"test_{name}").change for name in ("slow", "steady")]
    assert [pytest.approx(0.0, abs=0.05), pytest.approx(2.0, abs=0.1)] == [one and one.value for one in changes]
    used = own.with_name("python.used").read_text(encoding="utf-8").split()
    assert any("hwperf-base-" in place for place in used)


TAILED = """
from itertools import count

from fakes.simulated_time import spend

NUMBERS = [count(), count()]
ROUGE = {rouge}


def tail():
    spend(300 * ({tail} if next(NUMBERS[0]) % 10 == 0 else 1))


def longer():
    spend(300 * ({longer} if next(NUMBERS[1]) % 10 == 0 else 1))


def steady():
    spend(300)
"""
MARGINS = """
import pytest
import work


@pytest.mark.hwregression(latency_p95="10%")
def test_tail(hwperf):
    hwperf(work.tail)


@pytest.mark.hwregression(throughput="5%")
def test_longer(hwperf):
    hwperf(work.longer)


def test_own(hwperf):
    hwperf(work.steady)
    hwperf.record("rouge", work.ROUGE, better="higher")
"""
PLAIN = "def test_plain():\n    raise NotImplementedError\n"


def test_what_got_worse_fails_its_own_margin_among_the_measured_tests_only(project: Project) -> None:
    """Every tenth call takes six times as long, which p95 sees, or nine times, +80 % in the mean; the medians do not.

    A number that never differs on a side is compared exactly.
    """
    files = {"tests/test_work.py": MARGINS, "tests/test_plain.py": PLAIN}
    project.commit({"work.py": TAILED.format(tail=1, longer=1, rouge=0.50), **files})
    project.write({"work.py": TAILED.format(tail=6, longer=9, rouge=0.45)})
    result = project.run("--hwperf-only", REPEATED)
    tail = project.compared("test_tail", statistic="p95")
    throughput = project.compared("test_longer", "throughput", "mean")

    result.assert_outcomes(failed=3, deselected=1)
    assert ["regressed"] * 3 == [one.outcome for one in (tail, throughput, project.compared("test_own", "rouge"))]
    assert tail.p_value in {2.0**-10, 2.0**-11}  # another one may be screened by chance
    assert tail.change is not None
    assert tail.change.value > 1
    assert throughput.change is not None
    assert -0.8 / 1.8 == pytest.approx(throughput.change.value, abs=0.05)
    assert {"equivalent"} == {project.compared(f"test_{name}").outcome for name in ("tail", "longer", "own")}
    tests = {hypothesis.measurement.test for hypothesis in project.gate().evidence.hypotheses}
    assert {f"tests/test_work.py::test_{name}" for name in ("tail", "longer", "own")} == tests
    assert main(["report", str(project.path / "report.json"), "--verify"]) == 0


def test_a_fixture_that_blocks_is_cut_off_at_the_time_limit(project: Project) -> None:
    """In processes of pairs, which nothing else would end for five minutes."""
    project.commit({"tests/conftest.py": BLOCKING})
    result = project.run("--hwperf-time-limit=4", "-k", "slow")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    begins = "ERROR: hwperf: the time of 4 s was up in the rehearsal of HEAD with the present code"
    ends = "at least * s are needed. Give --hwperf-time-limit=*, or select fewer tests with -k"
    # Silent for half of the time, or, where ending it takes the other half, cut off: by which one, the load decides.
    told = pytest.LineMatcher([" ".join(result.errlines)])  # with an empty log, where it had not even begun
    told.fnmatch_lines([f"*{begins}*: was *(log: *); {ends}*"])
    assert [] == leftovers(project)


def test_nothing_is_rerun_where_nothing_is_measured(project: Project) -> None:
    for option in ("--collect-only", "--hwperf-disable"):
        result = project.run(option)
        result.stdout.no_fnmatch_line("*rehearsal*")
        assert not (project.path / "report.json").exists()


def test_a_gate_that_can_compare_nothing_is_an_error(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate's own processes collect no test: something of the set-up does not reach them.

    Or the baseline cannot run any.
    """
    play(monkeypatch, collected={"baseline": [], "candidate": []})
    uncollected = project.run()
    there = [f"tests/test_work.py::test_{name}" for name in ("slow", "steady")]
    errors = {"baseline": {"tests/test_work.py": "No module named 'nothing'"}, "candidate": {}}
    play(monkeypatch, collected={"baseline": [], "candidate": there}, errors=errors)
    broken = project.run("-q")
    assert [pytest.ExitCode.USAGE_ERROR] * 2 == [uncollected.ret, broken.ret]
    begins = "ERROR: hwperf: nothing could be compared with HEAD:"
    uncollected.stderr.fnmatch_lines([f"{begins} a fresh process of the candidate does not collect this*"])
    broken.stderr.fnmatch_lines([f"{begins} HEAD cannot run this test: *'nothing'* (2 tests); *"])


@pytest.mark.usefixtures("other_plugins")
def test_what_cannot_be_rerun_is_a_usage_error(project: Project) -> None:
    for against, options, said in (
        ("HEAD", ("-n", "2"), "*-n starts test workers side by side: add -n0 to the same command; *"),
        ("no-such-branch", (), "ERROR: --hwperf-against: 'no-such-branch' is no revision*"),
        ("--upload-pack=x", (), "ERROR: --hwperf-against: '--upload-pack=x' is no revision*"),
        ("HEAD", ("--hwperf-base-python=no/python",), "ERROR: --hwperf-base-python='no/python' is no file; give an *"),
        ("HEAD", ("--hwperf-base-python=work.py",), "*work.py cannot be started in *"),
        ("anchor", ("-ohwperf_anchor=v9",), "*hwperf_anchor: *v9*"),
    ):
        result = project.run(*options, against=against)
        assert pytest.ExitCode.USAGE_ERROR == result.ret
        result.stderr.fnmatch_lines([said])


def test_a_gate_without_time_says_how_much_it_decided(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test looks slower in the screen, and the time is up before any is confirmed; then one of both does."""
    play(monkeypatch, slower="", is_late=True)
    none = project.run()
    play(monkeypatch, slower="test_slow", is_late=True)
    one = project.run("-q", "--hwperf-strict")
    lenient = project.run()

    assert {"passed": 2, "inconclusive": 1} == lenient.parseoutcomes()
    assert pytest.ExitCode.USAGE_ERROR == none.ret
    none.assert_outcomes()
    (error,) = (line for line in none.stderr.lines if line.startswith("ERROR: "))
    said = re.fullmatch(
        r"ERROR: hwperf: none of 2 tests was decided: the time of 600 s was too short, and about (\d+) s are needed. "
        r"Give --hwperf-time-limit=(\d+), or select fewer tests with -k",
        error,
    )
    assert said
    assert said[1] == said[2]
    one.assert_outcomes(passed=1, failed=1)
    one.stdout.re_match_lines(
        [r"=+ hwperf =+", r"1 of 2 tests decided, 1 not: the time of 600 s was too short"], consecutive=True
    )
    assert "inconclusive" == project.compared("test_slow").outcome
    assert "equivalent" == project.compared("test_steady").outcome


def test_a_test_that_the_baseline_could_not_run_is_a_warning_and_fails_strictly(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside one that it runs."""
    steady = "tests/test_work.py::test_steady"
    passed, gone = SideOutcome(outcome="passed"), SideOutcome(outcome="failed", reason="KeyError: 'gone'")
    play(monkeypatch, outcomes={steady: {"baseline": gone, "candidate": passed}})
    result = project.run("--hwperf-strict")

    result.assert_outcomes(passed=1, failed=1)
    expected = (
        "warning: 1 test not compared, since the baseline could not run them; --hwperf-strict fails them: "
        f"{steady}: failed in HEAD: KeyError: 'gone'"
    )
    result.stdout.fnmatch_lines([expected])


FALLBACK = "try:\n    from {} import COST\nexcept ImportError:\n    COST = 1\n"
LATE = """

def late():
    try:
        import _late
    except ImportError:
        pass
    return spend(300)
"""


def test_files_that_git_lacks_are_shared_and_others_only_on_request(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generated module, without which the baseline would run something else without a word, and a git-LFS pointer.

    A module that is imported late and data that the baseline cannot open, for which the rehearsal is repeated.
    """
    weights = "lambda: work.spend(int(pathlib.Path('weights.bin').read_text()))"
    project.commit(
        {
            ".gitignore": "*.csv\n_*.py\n",
            "work.py": FALLBACK.format("_version") + AS_BEFORE + LATE,
            "weights.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
            "tests/test_late.py": measured("late", "work.late"),
            "tests/test_rows.py": measured("rows", "work.steady", "open('data/rows.csv').close()"),
            "tests/test_weights.py": measured("weights", weights),
        }
    )
    project.write({"_version.py": "COST = 2\n", "_late.py": "", "data/rows.csv": "1,2\n", "weights.bin": "3000"})
    early = project.run(REHEARSED, "--hwperf-share=none")
    project.run(REHEARSED, "--hwperf-share=auto", "--hwperf-share=*.bin")
    gate = project.gate()
    names = ("late", "rows", "weights", "steady")
    assert [COMPARED] * 4 == [project.compared(f"test_{name}").reason for name in names]
    assert ["_late.py", "_version.py", "data/rows.csv", "weights.bin"] == sorted(gate.shared)
    told = [one.partition(", which git does not have; ")[0] for one in gate.warnings if "which git does not" in one]
    assert ["the baseline was given _version.py", "the baseline was given _late.py, data/rows.csv"] == told

    project.commit({"work.py": AS_BEFORE + LATE})
    play(monkeypatch, files={"baseline": [], "candidate": [str(project.path / "_late.py")]})
    late = project.run("-k", "late or steady", "--hwperf-share=none")
    assert [pytest.ExitCode.USAGE_ERROR] * 2 == [early.ret, late.ret]
    for refused, name in ((early, "_version"), (late, "_late")):
        said = f"ERROR: hwperf: {name}.py: loaded by the tests and *--hwperf-share={name}.py"
        refused.stderr.fnmatch_lines([said])


def test_a_comparison_of_no_test_at_all_is_an_error(project: Project) -> None:
    """Unless measured tests are left out on purpose."""
    project.write({"tests/test_plain.py": "def test_plain():\n    pass\n"})
    result = project.run("-k", "plain")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    said = "ERROR: --hwperf-against=HEAD: nothing to compare: 1 test selected, none of them measured: *"
    result.stderr.fnmatch_lines([said])
    assert pytest.ExitCode.OK == project.run("-k", "plain", "--hwperf-skip").ret


def test_tests_without_any_code_of_the_trees_are_warned_about(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides measure the same."""
    play(monkeypatch)
    result = project.run()

    result.stdout.fnmatch_lines(["hwperf: nothing to compare: your tests import no code of this repository*"])
    same, nothing = project.gate().warnings
    assert same.endswith("both sides run the same code")
    assert nothing.startswith("nothing to compare: ")


def test_a_stored_baseline_is_rerun_where_git_has_it_unless_that_is_declined(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its own revision, not at the present one."""
    play(monkeypatch, slower="test_slow")
    project.run("--hwperf-save", against="")
    stored = project.git("rev-parse", "HEAD")
    project.commit({"work.py": WORK.format(units=9)})
    declined = project.run("--hwperf-compare", "-ohwperf_rerun=never", against="")
    declined.stdout.no_fnmatch_line("*rehearsal*")
    assert "historical" in project.compared("test_slow").how

    result = project.run("--hwperf-compare", against="")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.re_match_lines(
        [r"hwperf: working tree on [0-9a-f]{10} \(.*\) against baseline main [0-9a-f]{10} \(.*\): .*"]
    )
    assert stored == project.gate().revision
    assert "signed-rank" in project.compared("test_slow").how


def test_a_margin_that_only_the_baseline_can_answer_is_not_comparable(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The present test has a margin of its own and measures nothing: strictly, it fails."""
    own = "import pytest\n\n\n@pytest.mark.hwregression(latency_p50='5%')\ndef test_silent(hwperf):\n    pass\n"
    project.commit({"tests/test_silent.py": own})
    silent, steady = (
        Measurement(test=f"tests/test_{name}", label="") for name in ("silent.py::test_silent", "work.py::test_steady")
    )
    play(monkeypatch, facts={steady: dict.fromkeys(SIDES, Facts())}, uneven={silent: "baseline"})
    result = project.run("--hwperf-strict", "-k", "silent or steady")

    result.assert_outcomes(passed=1, failed=1, deselected=1)
    found = project.compared("test_silent")
    assert ("not comparable", "the test never called hwperf(...)") == (found.outcome, found.reason)


def test_stored_runs_answer_where_the_baseline_fails_in_the_pairs(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times the work is beyond the limit of one stored run, and in two further processes too."""
    test = "tests/test_work.py::test_slow"
    project.commit({".gitignore": ".hwperf\n"})
    project.run("--hwperf-save", against="")
    project.commit({"work.py": WORK.format(units=9)})
    ended = {"baseline": SideOutcome(outcome="failed", reason="no file"), "candidate": SideOutcome(outcome="passed")}
    play(monkeypatch, outcomes={test: ended})
    result = project.run("--hwperf-compare", against="")

    result.assert_outcomes(passed=1, failed=1)
    found = project.compared("test_slow")
    assert ("regressed", "historical repeats") == (found.outcome, found.method and found.method.kind)
    assert ("compared with stored runs, since the pairs gave no answer: failed in baseline main: no file",) == (
        found.warnings
    )


def test_a_test_that_was_not_accepted_at_the_rerun_revision_is_no_part_of_the_pairs(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its regression would be on both sides: its own stored runs judge it, in another file than the others too."""
    with monkeypatch.context() as patch:
        play(patch, slower="test_slow")
        own = "import work\n\n\ndef test_own(hwperf):\n    hwperf(work.steady)\n"
        project.commit({"tests/test_own.py": own, ".gitignore": ".hwperf\n"})
        project.run("--hwperf-save", against="")
        project.commit({"note.txt": "a regression that nobody accepts"})
        failed = project.run("--hwperf-save", "--hwperf-compare", against="")
    accepted = project.git("rev-parse", "HEAD")
    play(monkeypatch)
    project.commit({"note.txt": "nothing"})
    result = project.run("--hwperf-compare", against="")

    failed.assert_outcomes(passed=2, failed=1)
    test = "tests/test_work.py::test_slow"
    why = f"is not rerun for 1 test ({test}), since the newest stored run is of another revision than {accepted[:10]}"
    result.stdout.fnmatch_lines([f"hwperf: baseline main {why}: timings are compared with the stored runs*"])
    assert accepted == project.gate().revision
    rerun = {one.measurement.test for one in project.gate().evidence.hypotheses}
    assert {"tests/test_own.py::test_own", "tests/test_work.py::test_steady"} == rerun
    hows = {name: project.compared(name).how for name in ("test_slow", "test_steady", "test_own")}
    assert {"test_slow"} == {name for name, how in hows.items() if "historical" in how}


def test_a_test_that_itself_got_slower_is_found_by_its_history(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides of a rerun run the present test: its own work is compared with the stored runs."""
    play(monkeypatch)
    body = "import pytest, work\n\n\n@pytest.mark.hwbudget(latency_p95_ms=1000)\ndef test_body():\n    {calls}\n"
    project.commit({"tests/test_body.py": body.format(calls="work.spend(100); work.steady()")})
    project.run("-k", "body", "--hwperf-save", against="")
    project.write({"tests/test_body.py": body.format(calls="work.spend(3000); work.steady()")})
    result = project.run("-k", "body", "--hwperf-compare", against="")

    result.assert_outcomes(failed=1, deselected=2)
    result.stdout.fnmatch_lines(["hwperf: changed since the baseline, *: tests/test_body.py"])
    assert "historical" in project.compared("test_body").how


HOLDING = """
import pytest, work


@pytest.mark.hwregression(memory="5%")
def test_hold(hwperf):
    hwperf(lambda: bytearray(work.UNITS << 22))
"""


def test_memory_is_compared_in_fresh_processes(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process a side asks, and another one answers, which are too few for a verdict."""
    play(monkeypatch)
    monkeypatch.setattr("pytest_hwperf.gate.processes.FEWEST_PROCESSES", 1)
    monkeypatch.setattr("pytest_hwperf.gate.processes.processes_needed", lambda *_: 1)
    monkeypatch.setitem(PROCESSES, "memory", 1)
    project.commit({"work.py": WORK.format(units=4), "tests/test_hold.py": HOLDING})
    project.write({"work.py": WORK.format(units=6)})
    result = in_real_time(project, "-k", "hold")

    assert pytest.ExitCode.OK == result.ret
    comparison = project.compared("test_hold", "memory")
    assert "inconclusive" == comparison.outcome
    assert comparison.change is not None
    assert pytest.approx(0.5, abs=0.05) == comparison.change.value


ARENA = """
import numpy as np
import pytest
import work
from fakes.onnx_models import save_onnx


@pytest.fixture
def hwperf_model(tmp_path):
    width = work.UNITS * 16
    nodes = [("MatMul", ["x", "wide"], "h"), ("MatMul", ["h", "narrow"], "y")]
    weights = {"wide": np.ones((8, width)), "narrow": np.ones((width, 1))}
    return save_onnx(tmp_path / "m.onnx", nodes, {"x": 8}, {"y": 1}, **weights)


@pytest.fixture
def hwperf_data():
    return np.ones((64, 8), dtype=np.float32)


@pytest.mark.hwregression(arena_in_use="1%")
@pytest.mark.hwscenarios("onnx_fp32")
def test_named(hwperf, scenario):
    hwperf(scenario, batch_size=64)


@pytest.mark.hwregression(latency_p50="2%")
@pytest.mark.hwscenarios("onnx_fp32")
def test_not_named(hwperf, scenario):
    hwperf(scenario, batch_size=64)
"""


def test_the_runtimes_own_memory_is_compared_where_a_margin_names_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer four times as wide holds more; equal to the byte otherwise, so that no pair is needed."""
    monkeypatch.setattr("pytest_hwperf.gate.gate.repeat_alarms", lambda *_, **__: None)
    project.commit({"tests/test_work.py": ARENA})
    project.write({"work.py": WORK.format(units=12)})
    result = in_real_time(project, REHEARSED)
    arena = project.compared("test_named[onnx_fp32]", "arena_in_use")
    (other,) = (one for one in project.report().judgements if "not_named" in one.run.test)

    result.assert_outcomes(failed=2)  # both by the size of the model too
    assert "regressed" == arena.outcome
    assert arena.change is not None
    assert arena.change.value > 0.5
    metrics = {verdict.subject.metric for verdict in other.verdicts}
    assert "latency" in metrics
    assert "arena_in_use" not in metrics


def in_real_time(project: Project, *options: str) -> pytest.RunResult:
    """Compare without simulated time; a rate of 20 % takes fewer processes."""
    quick = ("--hwperf-energy=off", "--hwperf-sample-time=0.2", "--hwperf-explain=never", "--hwperf-alpha=20%")
    return project.pytester.runpytest_inprocess(
        "--hwperf-against=HEAD", *quick, "--hwperf-report=report.json", *options
    )
