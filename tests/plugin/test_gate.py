"""The paired gate in real repositories: what is compared, what cannot be, and why.

Pairs take few and short turns here, so that a build is quick, and calls take simulated time.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.reruns import COMPARED, REHEARSED, REPEATED, SIMULATED

from pytest_hwperf.cli import main
from pytest_hwperf.gate.turns import processors
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.report import Report, ReportFile
from pytest_hwperf.records.verdict import Comparison

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
TAIL = """
from itertools import count

from fakes.simulated_time import spend

CALLS = count()


def steady():
    return spend(300 if next(CALLS) % 10 else 2700)
"""
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

LOCKED = """
import fcntl

import pytest

@pytest.fixture(scope="session")
def board():
    with open(PLACE, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
"""
ON_A_BOARD = "import work\n\n\ndef test_board(hwperf, board):\n    hwperf(work.steady)\n"

Git = Callable[..., str]


@pytest.fixture
def git(pytester: pytest.Pytester) -> Git:
    """Run git in the test's own repository."""

    def run(*arguments: str) -> str:
        identity = ("-c", "user.name=tests", "-c", "user.email=tests@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=pytester.path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    run("init", "--quiet", "--initial-branch=main", ".")
    return run


@pytest.fixture
def project(pytester: pytest.Pytester, git: Git) -> pytest.Pytester:
    """A repository with one commit: code beside its tests."""
    write(pytester, "work.py", WORK.format(units=3))
    write(pytester, "tests/test_work.py", TESTS)
    write(pytester, "pytest.ini", "[pytest]\npythonpath = .\n")
    commit(git)
    return pytester


def write(pytester: pytest.Pytester, name: str, content: str) -> Path:
    path = pytester.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def commit(git: Git) -> None:
    git("add", "--all")
    git("commit", "--quiet", "--message=state")


def run(
    pytester: pytest.Pytester, *options: str, against: str = "HEAD", clock: tuple[str, ...] = SIMULATED
) -> pytest.RunResult:
    chosen = [f"--hwperf-against={against}"] if against else []
    quick = ("--hwperf-energy=off", "--hwperf-sample-time=0.2", "--hwperf-explain=never")
    return pytester.runpytest_inprocess(*chosen, *quick, "--hwperf-report=report.json", *clock, *options)


def report(pytester: pytest.Pytester) -> Report:
    return from_json(ReportFile, (pytester.path / "report.json").read_text(encoding="utf-8")).report


def compared(pytester: pytest.Pytester, test: str, metric: str = "latency") -> Comparison:
    """Return the comparison of one metric of the test whose id ends so."""
    found = [
        comparison
        for judgement in report(pytester).judgements
        if judgement.run.test.endswith(test)
        for comparison in judgement.comparisons
        if comparison.metric == metric
    ]
    (comparison,) = found
    return comparison


def leftovers(git: Git) -> list[str]:
    return [line for line in git("worktree", "list").splitlines() if "hwperf-base-" in line]


def test_slower_code_fails_its_own_test_alone_and_says_what_moved(
    project: pytest.Pytester, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One profile of each side: where it is spent, and how often `slow` is called."""
    monkeypatch.setattr("pytest_hwperf.gate.explaining.REPEATS", 1)
    write(project, "work.py", WORK.format(units=9))
    result = run(project, "--junitxml=junit.xml", "--hwperf-explain=auto", "--hwperf-report=written")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.re_match_lines([r"latency p50 ×\d+\.\d ", r"  p=.*, \d+ fresh pairs, exact signed-rank.*Holm"])
    shares = "imported once for both sides" if hasattr(os, "pidfd_open") else "each side imports everything itself"
    assert shares in report(project).gates[0].imports
    assert '<failure message="latency p50 ×' in (project.path / "junit.xml").read_text(encoding="utf-8")
    assert compared(project, "test_slow").p_value in {2.0**-8, 2.0**-9}  # the other test may be screened by chance
    assert compared(project, "test_steady").outcome != "regressed"
    assert {coin.processor for pair in report(project).gates[0].evidence.pairs for coin in pair.assignments} <= {
        *processors()
    }
    assert leftovers(git) == []
    assert str(compared(project, "test_slow").moved).startswith("slow (work.py:7")
    assert compared(project, "test_steady").moved is None
    (explanation,) = report(project).gates[0].explanations
    assert (1.0, 1.0) == (explanation.movers[0].baseline_calls, explanation.movers[0].candidate_calls)
    assert 3 == len([*(project.path / "written" / "explain").iterdir()])
    assert main(["report", str(project.path / "report.json"), "--verify"]) == 0


def test_where_pairs_alone_judge_few_calls_are_made_beside_them(project: pytest.Pytester) -> None:
    """A budget is judged by the calls of the session itself, and a saved run is made of them."""
    budget = "import pytest\nimport work\n\n@pytest.mark.hwbudget(latency_p50_ms=60_000)\n"
    write(project, "tests/test_budget.py", budget + "def test_budget(hwperf):\n    hwperf(work.steady)\n")
    calls = dict[str, int]()
    for option in ("--hwperf-energy=off", "--hwperf-save"):
        run(project, "-k", "steady or budget", option)
        for run_ in (judgement.run for judgement in report(project).judgements):
            (made,) = (len(sample.values) for sample in run_.samples if sample.metric == "latency")
            calls[f"{run_.test.rpartition('_')[2]} {option}"] = made

    few = calls.pop("steady --hwperf-energy=off")
    assert 20 <= few < min(calls.values())


def test_the_present_commit_and_the_one_before_are_reported_apart(project: pytest.Pytester, git: Git) -> None:
    write(project, "work.py", WORK.format(units=1))
    commit(git)
    head = r"HEAD [0-9a-f]{10} \(20\d\d-\d\d-\d\d\) against HEAD~1 [0-9a-f]{10} \(20\d\d-\d\d-\d\d\)"
    result = run(project, "-k", "slow", against="HEAD~1")

    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.re_match_lines([rf"hwperf: {head}, in pairs", rf"hwperf: {head}: 6 screen.*"])
    change = compared(project, "test_slow").change
    assert change is not None
    assert change.value < -0.4


def test_planted_work_is_found_and_named(project: pytest.Pytester) -> None:
    result = run(project, "--hwperf-plant=200%", "-k", "steady", REPEATED)
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["hwperf: 200 % of work was added to each call of the present code (--hwperf-plant)"])


def test_a_tail_that_costs_calls_per_second_fails_throughput_and_not_the_median(
    project: pytest.Pytester, git: Git
) -> None:
    """Every tenth call of the candidate takes nine times as long: +80 % in the mean."""
    marker = "import pytest\n\npytestmark = pytest.mark.hwregression(throughput='5%')\n"
    write(project, "tests/test_work.py", marker + TESTS)
    commit(git)
    write(project, "work.py", TAIL)
    result = run(project, "-k", "steady", REPEATED)

    result.assert_outcomes(failed=1, deselected=1)
    change = compared(project, "test_steady", "throughput").change
    assert change is not None
    assert -0.8 / 1.8 == pytest.approx(change.value, abs=0.05)
    assert "equivalent" == compared(project, "test_steady").outcome


def test_a_fixture_that_blocks_is_cut_off_at_the_time_limit(project: pytest.Pytester, git: Git) -> None:
    """In processes of pairs, which nothing else would end for five minutes."""
    write(project, "tests/conftest.py", BLOCKING)
    commit(git)
    result = run(project, "--hwperf-time-limit=4", "-k", "slow")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    begins = "ERROR: hwperf: the time of 4 s was up in the rehearsal of HEAD with the present code"
    ends = "at least * s are needed. Give --hwperf-time-limit=*, or select fewer tests with -k"
    # Silent for half of the time, or, where ending it takes the other half, cut off: by which one, the load decides.
    told = pytest.LineMatcher([" ".join(result.errlines)])  # with an empty log, where it had not even begun
    told.fnmatch_lines([f"*{begins}*: was *(log: *); {ends}*"])
    assert leftovers(git) == []


def test_selected_tests_only_are_rerun(project: pytest.Pytester) -> None:
    result = run(project, REHEARSED, "-k", "steady")
    result.assert_outcomes(passed=1, deselected=1)
    (gate,) = report(project).gates
    assert {"tests/test_work.py::test_steady"} == {
        hypothesis.measurement.test for hypothesis in gate.evidence.hypotheses
    }


@pytest.mark.parametrize("option", ["--collect-only", "--hwperf-disable"])
def test_nothing_is_rerun_where_nothing_is_measured(project: pytest.Pytester, option: str) -> None:
    result = run(project, option)
    result.stdout.no_fnmatch_line("*rehearsal*")
    assert not (project.path / "report.json").exists()


def test_a_new_test_of_old_code_has_a_baseline(project: pytest.Pytester) -> None:
    """The benchmark code is the candidate's on both sides."""
    write(project, "tests/test_more.py", "import work\n\n\ndef test_more(hwperf):\n    hwperf(work.steady)\n")
    run(project, REHEARSED, "-k", "more")
    assert COMPARED == compared(project, "test_more").reason


def test_a_test_of_what_the_baseline_lacks_has_none(project: pytest.Pytester) -> None:
    """A missing function, and a module that cannot even be imported; the other tests are compared."""
    write(project, "work.py", WORK.format(units=3) + "\n\ndef fast():\n    return spend(200)\n")
    write(project, "brand_new.py", "from work import slow as call\n")
    write(project, "tests/test_fast.py", "import work\n\n\ndef test_fast(hwperf):\n    hwperf(work.fast)\n")
    write(project, "tests/test_new.py", "import brand_new\n\n\ndef test_new(hwperf):\n    hwperf(brand_new.call)\n")
    result = run(project, REHEARSED, "--hwperf-energy=estimate")

    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*comparisons: *, 2 no baseline"])  # no estimate, which is never compared, among them
    assert compared(project, "test_fast").outcome == "no baseline"
    assert (
        "failed in HEAD: AttributeError: module 'work' has no attribute 'fast'" in compared(project, "test_fast").reason
    )
    assert compared(project, "test_new").outcome == "no baseline"
    assert "HEAD cannot run this test: " in compared(project, "test_new").reason
    assert "No module named 'brand_new'" in compared(project, "test_new").reason
    assert COMPARED == compared(project, "test_steady").reason


def test_a_removed_test_leaves_the_others_alone(project: pytest.Pytester) -> None:
    write(project, "tests/test_work.py", TESTS.partition("\n\ndef test_steady")[0] + "\n")
    result = run(project, REHEARSED)
    result.assert_outcomes(passed=1)
    assert COMPARED == compared(project, "test_slow").reason


def test_a_baseline_that_crashes_takes_one_test_along(project: pytest.Pytester, git: Git) -> None:
    """The others are rehearsed again without it."""
    write(project, "work.py", WORK.format(units=3).replace("return spend(300)", "import os; os._exit(7)"))
    commit(git)
    write(project, "work.py", WORK.format(units=3))
    result = run(project, REHEARSED)

    result.assert_outcomes(passed=2)
    comparison = compared(project, "test_steady")
    assert comparison.outcome == "no baseline"
    assert "baseline: ended with code 7 in the middle of the pair (log: " in comparison.reason
    assert COMPARED == compared(project, "test_slow").reason


def test_a_skip_on_the_baseline_is_named(project: pytest.Pytester, git: Git) -> None:
    write(
        project,
        "work.py",
        WORK.format(units=3)
        .replace("UNITS = 3", "UNITS = 3\nimport pytest")
        .replace("return spend(300)", "pytest.skip('no such card')"),
    )
    commit(git)
    write(project, "work.py", WORK.format(units=3))
    run(project, REHEARSED)
    assert compared(project, "test_steady").reason == "skipped in HEAD: Skipped: no such card"


def test_odd_ids_are_rerun(project: pytest.Pytester) -> None:
    write(
        project,
        "tests/test_work.py",
        "import pytest, work\n\n\n"
        "@pytest.mark.parametrize('x', ['a b', 'é::✓', '-k', 'a/b[c]', '$(touch pwned)', ''])\n"
        "def test_odd(hwperf, x):\n    hwperf(work.steady)\n",
    )
    result = run(project, REHEARSED)
    result.assert_outcomes(passed=6)
    assert len({hypothesis.measurement.test for hypothesis in report(project).gates[0].evidence.hypotheses}) == 6
    assert not list(project.path.rglob("pwned"))


@pytest.mark.usefixtures("other_plugins")
def test_options_that_would_stop_a_worker_do_not(project: pytest.Pytester) -> None:
    """`-x`, `--maxfail`, `--lf`, a timeout and a coverage plugin in addopts, a junit file of the asking session."""
    addopts = "-x --maxfail=1 --lf --strict-markers --strict-config -p no:randomly"
    write(
        project, "pytest.ini", f"[pytest]\npythonpath = .\naddopts = {addopts} --timeout=20 -n0 --junitxml=junit.xml\n"
    )
    result = run(project, REHEARSED)
    result.assert_outcomes(passed=2)
    assert COMPARED == compared(project, "test_slow").reason


def test_a_selection_in_the_ini_does_not_reach_the_pairs(project: pytest.Pytester) -> None:
    """The command line's own wins in the session, and ids travel over the line."""
    ini = "[pytest]\npythonpath = .\nmarkers =\n    perf: slow\naddopts = -m 'not perf'\n"
    write(project, "pytest.ini", ini)
    write(project, "tests/test_work.py", f"import pytest\npytestmark = pytest.mark.perf\n{TESTS}")
    run(project, "-m", "perf", REHEARSED)
    assert COMPARED == compared(project, "test_steady").reason


def test_a_changed_conftest_is_named(project: pytest.Pytester, git: Git) -> None:
    write(project, "tests/conftest.py", "import pytest\n")
    commit(git)
    write(project, "tests/conftest.py", "import pytest  # changed\n")
    result = run(project, REHEARSED)
    result.stdout.fnmatch_lines(["hwperf: changed since the baseline, and run on both sides*: tests/conftest.py"])


def test_a_body_may_read_its_run_in_the_pairs(project: pytest.Pytester) -> None:
    write(
        project,
        "tests/test_work.py",
        "import work\n\n\ndef test_read(hwperf):\n"
        "    run = hwperf(work.steady)\n    assert run.sample('latency').values[0] < 60\n",
    )
    run(project, REHEARSED)
    assert COMPARED == compared(project, "test_read").reason


def test_a_measurement_that_the_pairs_did_not_meet_says_so(project: pytest.Pytester) -> None:
    write(
        project,
        "tests/test_work.py",
        "import os\nimport work\n\n\ndef test_odd(hwperf):\n    hwperf(work.steady, label=str(os.getpid()))\n"
        "\n\ndef test_even(hwperf):\n    hwperf(work.steady)\n",
    )
    run(project, REHEARSED)

    odd = [one for judged in report(project).judgements if "odd" in judged.run.test for one in judged.comparisons]
    assert {"not comparable"} == {one.outcome for one in odd}
    ours, of_the_baseline = sorted(one.reason for one in odd)[::-1]
    assert "the pairs did not meet this measurement" in ours
    assert "only the baseline makes the measurement" in of_the_baseline


def test_a_test_that_never_measures_keeps_its_reason(project: pytest.Pytester) -> None:
    """Its margin was named, and the pairs have met nothing of it."""
    marks = "@pytest.mark.hwbudget(latency_p95_ms=1)\n@pytest.mark.hwregression(latency_p95='10%')\n"
    write(project, "tests/test_more.py", f"import pytest\nimport work\n\n\n{marks}def test_more(hwperf):\n    pass\n")
    run(project, REHEARSED)
    assert "not comparable" == compared(project, "test_more").outcome
    assert "the test never called hwperf(...)" == compared(project, "test_more").reason


def test_a_gate_that_can_compare_nothing_is_an_error(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate's own processes collect no test: something of the set-up does not reach them."""
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)  # Ours is set for the workers; tox sets one for everybody.
    write(
        project,
        "conftest.py",
        "import os\n\n\ndef pytest_collection_modifyitems(items):\n"
        "    if 'PYTHONHASHSEED' in os.environ:\n        items.clear()\n",
    )
    result = run(project)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*nothing could be compared with HEAD: a fresh process of the candidate does not collect this*"]
    )


def test_the_baseline_may_have_its_own_interpreter(project: pytest.Pytester) -> None:
    """Its path is relative to where pytest was started."""
    script = write(project, "tools/python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    run(project, "--hwperf-base-python=tools/python", REHEARSED, "-k", "steady")
    assert COMPARED == compared(project, "test_steady").reason


def test_markers_that_the_baseline_does_not_know_are_no_error(project: pytest.Pytester) -> None:
    """The candidate's ini is laid over, but for its pythonpath."""
    write(
        project, "pytest.ini", "[pytest]\npythonpath = .\nmarkers =\n    fresh: new here\naddopts = --strict-markers\n"
    )
    write(project, "tests/test_work.py", f"import pytest\npytestmark = pytest.mark.fresh\n{TESTS}")
    run(project, REHEARSED, "-k", "steady")
    assert COMPARED == compared(project, "test_steady").reason


@pytest.mark.usefixtures("other_plugins")
@pytest.mark.parametrize(
    ("against", "option", "said"),
    [
        ("HEAD", ("-n", "2"), "*-n starts test workers side by side: run measured tests alone with -n0 *"),
        ("no-such-branch", (), "ERROR: --hwperf-against: 'no-such-branch' is no revision*"),
        ("--upload-pack=x", (), "ERROR: --hwperf-against: '--upload-pack=x' is no revision*"),
        ("HEAD", ("--hwperf-base-python=no/python",), "ERROR: --hwperf-base-python='no/python' is no file; give an *"),
        ("HEAD", ("--hwperf-base-python=work.py",), "*work.py cannot be started in *"),
    ],
)
def test_what_cannot_be_rerun_is_a_usage_error(
    project: pytest.Pytester, against: str, option: tuple[str, ...], said: str
) -> None:
    result = run(project, *option, against=against)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])


def test_a_folder_is_a_baseline(project: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory, git: Git) -> None:
    """It is only read: the tests are laid over a copy."""
    other = tmp_path_factory.mktemp("other") / "clone"
    git("clone", "--quiet", ".", str(other))
    (other / "work.py").write_text(WORK.format(units=9), encoding="utf-8")
    write(project, "tests/test_work.py", f"{TESTS}\n# changed here\n")
    before = {path: path.read_bytes() for path in other.rglob("*.py")}
    run(project, "-k", "slow", against=str(other))

    change = compared(project, "test_slow").change
    assert change is not None
    assert change.value < -0.4
    assert before == {path: path.read_bytes() for path in other.rglob("*.py")}


def test_accuracy_is_compared_example_by_example(project: pytest.Pytester, git: Git) -> None:
    """40 of 400 rows are newly wrong; the model's file lies beside the tests and is not laid over."""
    write(project, "tests/model.py", "WRONG = 20\n")
    write(
        project,
        "tests/test_labels.py",
        "import numpy as np\nimport model\nimport work\n\n\n"
        "def predict(X):\n    work.steady()\n    return np.where(X[:, 0] < model.WRONG, 1, 0)\n\n\n"
        "def test_labels(hwperf):\n"
        "    X = np.arange(400.0).reshape(-1, 1)\n"
        "    hwperf(predict, X, y_true=np.zeros(400, dtype=int))\n",
    )
    write(project, "pytest.ini", "[pytest]\npythonpath = . tests\n")
    commit(git)
    write(project, "tests/model.py", "WRONG = 60\n")
    result = run(project, REHEARSED, "-k", "labels")

    result.assert_outcomes(failed=1, deselected=2)
    comparison = compared(project, "test_labels", "accuracy")
    assert comparison.outcome == "regressed"
    assert comparison.change is not None
    assert comparison.change.value == pytest.approx(-0.1)
    assert comparison.p_value == 2.0**-40


def test_what_is_another_quantity_is_not_compared(project: pytest.Pytester, git: Git) -> None:
    write(project, "work.py", WORK.format(units=3) + "\n\nROWS = 10\n")
    write(
        project,
        "tests/test_rows.py",
        "import numpy as np\nimport work\n\n\n"
        "def test_rows(hwperf):\n    hwperf(lambda X: work.steady(), np.ones((20, 3)), batch_size=work.ROWS)\n",
    )
    commit(git)
    write(project, "work.py", WORK.format(units=3) + "\n\nROWS = 5\n")
    run(project, REHEARSED)

    comparison = compared(project, "test_rows")
    assert (comparison.outcome, comparison.reason) == ("not comparable", "batch_size: 10, 5 (baseline, now)")


def test_uneven_measurements_are_named(project: pytest.Pytester, git: Git) -> None:
    write(project, "work.py", WORK.format(units=3) + "\n\nSIZES = ['small']\n")
    write(
        project,
        "tests/test_sizes.py",
        "import work\n\n\ndef test_sizes(hwperf):\n"
        "    for size in work.SIZES:\n        hwperf(work.steady, label=size)\n",
    )
    commit(git)
    write(project, "work.py", WORK.format(units=3) + "\n\nSIZES = ['small', 'large']\n")
    run(project, REHEARSED, "-k", "sizes")

    found = {j.run.label: j.comparisons[0] for j in report(project).judgements}
    assert COMPARED == found["small"].reason
    assert found["large"].reason == "only the candidate makes the measurement 'large'"


def test_own_numbers_are_compared(project: pytest.Pytester, git: Git) -> None:
    """A number that never differs on a side is compared exactly."""
    write(project, "work.py", WORK.format(units=3) + "\n\nROUGE = 0.50\n")
    write(
        project,
        "tests/test_own.py",
        "import work\n\n\ndef test_own(hwperf):\n"
        "    hwperf(work.steady)\n    hwperf.record('rouge', work.ROUGE, better='higher')\n",
    )
    commit(git)
    write(project, "work.py", WORK.format(units=3) + "\n\nROUGE = 0.45\n")
    result = run(project, "-k", "own", REPEATED)

    result.assert_outcomes(failed=1, deselected=2)
    assert compared(project, "test_own", "rouge").outcome == "regressed"


def test_memory_is_compared_in_fresh_processes(project: pytest.Pytester, git: Git) -> None:
    write(
        project,
        "work.py",
        WORK.format(units=3) + "\n\nMIB = 4\n\n\ndef hold():\n    return bytearray(MIB << 20).count(1)\n",
    )
    write(
        project,
        "tests/test_hold.py",
        "import pytest, work\n\n\n@pytest.mark.hwregression(memory='5%')\n"
        "def test_hold(hwperf):\n    hwperf(work.hold)\n",
    )
    commit(git)
    write(project, "work.py", (project.path / "work.py").read_text(encoding="utf-8").replace("MIB = 4", "MIB = 6"))
    result = run(project, REHEARSED, "-k", "hold", "--hwperf-alpha=20%", clock=())  # which takes fewer processes

    result.assert_outcomes(failed=1, deselected=2)
    comparison = compared(project, "test_hold", "memory")
    assert comparison.outcome == "regressed"
    assert comparison.change is not None
    assert comparison.change.value == pytest.approx(0.5, abs=0.05)


def test_a_gate_that_decided_nothing_in_its_time_is_an_error_that_says_how_long_it_takes(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every test looks slower in the screen, and the time is up before any is confirmed."""
    monkeypatch.setenv("SUSPECT", "")
    result = run(project, REHEARSED)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.assert_outcomes()
    (error,) = (line for line in result.stderr.lines if line.startswith("ERROR: "))
    said = re.fullmatch(
        r"ERROR: hwperf: none of 2 tests was decided: the time of 600 s was too short, and about (\d+) s are needed. "
        r"Give --hwperf-time-limit=(\d+), or select fewer tests with -k",
        error,
    )
    assert said
    assert said[1] == said[2]


@pytest.mark.parametrize("strict", [False, True])
def test_a_gate_that_decided_some_says_first_how_many(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *, strict: bool
) -> None:
    """The screen clears one test, and the time is up before the other is confirmed."""
    monkeypatch.setenv("SUSPECT", "test_slow")
    result = run(project, REHEARSED, "-q", *["--hwperf-strict"] * strict)

    result.assert_outcomes(passed=2 - strict, failed=int(strict))
    result.stdout.re_match_lines(
        [r"=+ hwperf =+", r"1 of 2 tests decided, 1 not: the time of 600 s was too short"], consecutive=True
    )
    assert "inconclusive" == compared(project, "test_slow").outcome
    assert "equivalent" == compared(project, "test_steady").outcome


@pytest.mark.parametrize("strict", [False, True])
def test_a_test_that_the_baseline_could_not_run_is_a_warning_and_fails_strictly(
    project: pytest.Pytester, git: Git, *, strict: bool
) -> None:
    """A new test of a function that was there before is another matter: the baseline runs it."""
    write(project, "work.py", WORK.format(units=3).replace("return spend(300)", "raise KeyError('gone')"))
    commit(git)
    write(project, "work.py", WORK.format(units=3))
    result = run(project, REHEARSED, *["--hwperf-strict"] * strict)

    result.assert_outcomes(passed=2 - strict, failed=int(strict))
    expected = (
        "warning: 1 test not compared, since the baseline could not run them; --hwperf-strict fails them: "
        "tests/test_work.py::test_steady: failed in HEAD: KeyError: 'gone'"
    )
    result.stdout.fnmatch_lines([expected])


def test_tests_that_cannot_bear_both_sides_are_compared_with_one_at_a_time(project: pytest.Pytester, git: Git) -> None:
    """A lock that no marker tells of is found by the rehearsal, which says so."""
    write(project, "tests/conftest.py", LOCKED.replace("PLACE", repr(str(project.path / "lock"))))
    write(project, "tests/test_board.py", ON_A_BOARD)
    commit(git)
    result = run(project, REHEARSED, "-k", "board or steady", "--hwperf-strict")

    result.assert_outcomes(passed=2)
    assert {COMPARED} == {compared(project, name).reason for name in ("test_board", "test_steady")}
    (said,) = (line for line in result.outlines if line.startswith("hwperf: measured with one side at a time"))
    assert "tests/test_board.py::test_board (the " in said
    assert "failed: BlockingIOError" in said


def test_a_baseline_that_cannot_run_any_test_is_an_error(project: pytest.Pytester, git: Git) -> None:
    write(project, "work.py", "import nothing_of_this_name\n")
    commit(git)
    write(project, "work.py", WORK.format(units=3))
    result = run(project, "-q")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    expected = "nothing could be compared with HEAD: HEAD cannot run this test: *'nothing_of_this_name'* (2 tests); *"
    result.stderr.fnmatch_lines([f"ERROR: hwperf: {expected}"])


def test_a_generated_module_is_shared_before_the_rehearsal(project: pytest.Pytester, git: Git) -> None:
    """With a fallback for it in the code, the baseline would run something else without a word."""
    write(project, ".gitignore", "_version.py\n")
    fallback = "try:\n    from _version import COST\nexcept ImportError:\n    COST = 1\n"
    write(project, "work.py", fallback + WORK.format(units=3))
    commit(git)
    write(project, "_version.py", "COST = 2\n")
    refused = run(project, REHEARSED, "--hwperf-share=none")
    shared = run(project, REHEARSED)
    assert pytest.ExitCode.USAGE_ERROR == refused.ret
    refused.stderr.fnmatch_lines(["ERROR: hwperf: _version.py: loaded by the tests and *--hwperf-share=_version.py"])
    shared.assert_outcomes(passed=2)
    assert ["_version.py"] == list(report(project).gates[0].shared)


def test_ignored_files_that_are_met_while_tests_run_are_shared_and_the_rehearsal_is_repeated(
    project: pytest.Pytester, git: Git
) -> None:
    """Data that the baseline cannot open; code that is imported late, with a fallback for it."""
    write(project, ".gitignore", "*.csv\n_version.py\n")
    reads = "def test_rows(hwperf):\n    open('data/rows.csv').close()\n    hwperf(work.steady)\n"
    write(project, "tests/test_rows.py", f"import work\n\n\n{reads}")
    late = (
        "def late():\n    try:\n        import _version\n    except ImportError:\n        pass\n    return spend(300)\n"
    )
    write(project, "work.py", f"{WORK.format(units=3)}\n\n{late}")
    write(project, "tests/test_late.py", "import work\n\n\ndef test_late(hwperf):\n    hwperf(work.late)\n")
    commit(git)
    write(project, "data/rows.csv", "1,2\n")
    write(project, "_version.py", "COST = 2\n")
    run(project, REHEARSED, "-k", "rows or late or steady")
    refused = run(project, REHEARSED, "-k", "late or steady", "--hwperf-share=none")
    assert [COMPARED] * 3 == [compared(project, name).reason for name in ("test_rows", "test_late", "test_steady")]
    gate = report(project).gates[0]
    assert ["_version.py", "data/rows.csv"] == list(gate.shared)
    given = "the baseline was given _version.py, data/rows.csv, which git does not have; "
    assert any(one.startswith(given) for one in gate.warnings)
    assert pytest.ExitCode.USAGE_ERROR == refused.ret
    refused.stderr.fnmatch_lines(["ERROR: hwperf: _version.py: loaded by the tests and *--hwperf-share=_version.py"])


@pytest.mark.parametrize(("option", "code"), [("-v", pytest.ExitCode.USAGE_ERROR), ("--hwperf-skip", 0)])
def test_a_comparison_of_no_test_at_all_is_an_error(project: pytest.Pytester, option: str, code: int) -> None:
    """Unless measured tests are left out on purpose."""
    write(project, "tests/test_plain.py", "def test_plain():\n    pass\n")
    result = run(project, "-k", "plain", option)
    assert code == result.ret
    if code:
        result.stderr.fnmatch_lines(
            ["ERROR: --hwperf-against=HEAD: nothing to compare: 1 test selected, none of them measured: *"]
        )


def test_large_files_are_shared_on_request(project: pytest.Pytester, git: Git) -> None:
    """A git-LFS pointer is no file; what is shared stands in the report."""
    write(project, "weights.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")
    write(
        project,
        "tests/test_weights.py",
        "import pathlib\nimport work\n\n\n"
        "def call():\n    work.spend(int(pathlib.Path('weights.bin').read_text()))\n\n\n"
        "def test_weights(hwperf):\n    hwperf(call)\n",
    )
    write(project, "unchanged.py", "unused = 1\n")
    write(
        project,
        "tests/test_code.py",
        "import unchanged as _\nimport work\n\n\ndef test_code(hwperf):\n    hwperf(work.steady)\n",
    )
    commit(git)
    write(project, "weights.bin", "3000")
    run(project, REHEARSED, "-k", "weights or code")
    missing = compared(project, "test_weights")
    run(project, REHEARSED, "-k", "weights or code", "--hwperf-share=*.bin")
    assert missing.outcome == "no baseline"
    assert "failed in HEAD: ValueError" in missing.reason
    assert COMPARED == compared(project, "test_weights").reason
    assert ["weights.bin"] == list(report(project).gates[0].shared)


def test_a_stored_baseline_is_rerun_where_git_has_it(project: pytest.Pytester) -> None:
    run(project, "--hwperf-save", against="")
    write(project, "work.py", WORK.format(units=9))
    result = run(project, "--hwperf-compare", REPEATED, against="")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.re_match_lines(
        [r"hwperf: working tree on [0-9a-f]{10} \(.*\) against baseline main [0-9a-f]{10} \(.*\): .*"]
    )
    assert "signed-rank" in compared(project, "test_slow").how


def test_a_test_that_itself_got_slower_is_found_by_its_history(project: pytest.Pytester, git: Git) -> None:
    """Both sides of a rerun run the present test: its own work is compared with the stored runs."""
    body = "import pytest, work\n\n\n@pytest.mark.hwbudget(latency_p95_ms=1000)\ndef test_body():\n    {calls}\n"
    write(project, "tests/test_body.py", body.format(calls="work.spend(100); work.steady()"))
    commit(git)
    run(project, "-k", "body", "--hwperf-save", against="")
    write(project, "tests/test_body.py", body.format(calls="work.spend(3000); work.steady()"))
    result = run(project, "-k", "body", "--hwperf-compare", REHEARSED, against="")

    result.assert_outcomes(failed=1, deselected=2)
    result.stdout.fnmatch_lines(["hwperf: changed since the baseline, *: tests/test_body.py"])
    assert "historical" in compared(project, "test_body").how


def test_a_stored_baseline_is_history_where_it_cannot_be_rerun(project: pytest.Pytester) -> None:
    write(project, "work.py", WORK.format(units=4))
    run(project, "--hwperf-save", against="")
    result = run(project, "--hwperf-compare", against="")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["hwperf: baseline main is not rerun, since it was saved with changes that were not *"])
    assert "historical" in compared(project, "test_slow").how


def test_a_rerun_can_be_declined(project: pytest.Pytester) -> None:
    run(project, "--hwperf-save", against="")
    result = run(project, "--hwperf-compare", "-ohwperf_rerun=never", against="")
    result.stdout.no_fnmatch_line("*rehearsal*")
    assert "historical" in compared(project, "test_slow").how


def test_tests_without_any_code_of_the_trees_are_warned_about(pytester: pytest.Pytester, git: Git) -> None:
    """Nothing but tests lies in the repository: both sides measure the same."""
    write(
        pytester,
        "test_sum.py",
        "from fakes.simulated_time import spend\n\n\ndef test_sum(hwperf):\n    hwperf(lambda: spend(100))\n",
    )
    commit(git)
    result = run(pytester, REHEARSED)

    result.stdout.fnmatch_lines(["hwperf: nothing to compare: your tests import no code of this repository*"])
    same, nothing = report(pytester).gates[0].warnings
    assert same.endswith("both sides run the same code")
    assert nothing.startswith("nothing to compare: ")


def test_unchanged_code_passes_with_an_interval_and_lines_tell_where_the_pairs_are(project: pytest.Pytester) -> None:
    result = run(project, "-k", "steady")

    result.assert_outcomes(passed=1, deselected=1)
    change = compared(project, "test_steady").change
    assert change is not None
    assert change.low is not None
    assert change.high is not None
    result.stdout.re_match_lines(
        [
            r"hwperf: rehearsal of both sides",
            r"hwperf: screen pair 1 of 6, tests/test_work.py::test_steady",
            r"hwperf: screen pair 2 of 6, about \d+ s left, tests/test_work.py::test_steady",
            r"hwperf: HEAD .* against HEAD .*: 6 screen.* pairs .*, 1 of 1 tests compared: checkout .*",
        ]
    )


ARENA = """
import numpy as np
import pytest
import work
from sklearn.neural_network import MLPClassifier

X = np.random.default_rng(0).random((64, 8), dtype=np.float32)


@pytest.fixture(scope="module")
def hwperf_model():
    return MLPClassifier((work.UNITS * 16,), max_iter=1, random_state=0).fit(X, X[:, 0] > 0.5)


@pytest.fixture(scope="module")
def hwperf_data():
    return X


@pytest.mark.filterwarnings("ignore")
@pytest.mark.hwregression(MARGIN)
@pytest.mark.hwscenarios("onnx_fp32")
def test_session(hwperf, scenario):
    hwperf(scenario, batch_size=64)
"""


def test_the_runtimes_own_memory_is_compared_where_a_margin_names_it(project: pytest.Pytester, git: Git) -> None:
    """A layer four times as wide holds more; equal to the byte otherwise, so that no pair is needed."""
    write(project, "tests/test_work.py", ARENA.replace("MARGIN", 'arena_in_use="1%"'))
    commit(git)
    write(project, "work.py", WORK.format(units=12))
    result = run(project, REHEARSED, "--hwperf-alpha=20%", clock=())  # which takes fewer processes
    arena = compared(project, "test_session[onnx_fp32]", "arena_in_use")

    result.assert_outcomes(failed=1)
    assert "regressed" == arena.outcome
    assert arena.change is not None
    assert arena.change.value > 0.5


def test_the_runtimes_own_memory_is_not_asked_for_otherwise(project: pytest.Pytester, git: Git) -> None:
    write(project, "tests/test_work.py", ARENA.replace("MARGIN", 'latency_p50="2%"'))
    commit(git)
    run(project, REHEARSED, clock=())

    metrics = {v.subject.metric for j in report(project).judgements for v in j.verdicts}
    assert "arena_in_use" not in metrics
    assert "latency" in metrics
