"""What one rehearsal of a changed project finds out of each test: whether it can be compared, and why it cannot."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from fakes.processes import ends
from fakes.repositories import commit, git, repository_with
from fakes.reruns import COMPARED, REHEARSED, SIMULATED, Project

from pytest_hwperf.records.verdict import Comparison

pytestmark = pytest.mark.live

LOCKED = """
import fcntl
import pytest

@pytest.fixture(scope="session")
def board():
    with open(PLACE, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
"""
WORK = """
import ctypes
import numpy as np
import pytest
from fakes.simulated_time import spend

ROWS = 10
SIZES = ["small"]

def call(): spend(300)
def crashes(): ctypes.string_at(0)
def skips(): pytest.skip("no such card")
def fails(): raise KeyError("gone")

WIDTH = 2
DATA = dict.fromkeys(["values", "rows", "labels"], (np.zeros((20, 2)), np.ones(20)))
"""
NOW = """
import numpy as np
from fakes.simulated_time import spend

ROWS = 5
SIZES = ["small", "large"]

def call(): spend(300)
crashes = skips = fails = fresh = call

WIDTH = 3
DATA = {
    "values": (np.ones((20, 2)), np.ones(20)),
    "rows": (np.zeros((30, 2)), np.ones(30)),
    "labels": (np.zeros((20, 2)), np.zeros(20)),
}
"""
INI = """
[pytest]
pythonpath = . tests
markers =
    fresh: new here
    slow: left out
addopts = --strict-markers -m 'not slow'
"""
OLD = "import work\n\ndef test_kept(hwperf): hwperf(work.call)\n"
TESTS = """
import os, pathlib, random, time
from itertools import count
import numpy as np
import pytest
import model, work

BASE = "hwperf-base-" in os.getcwd()
X, Y = np.zeros((200, 1), dtype=np.float32), np.ones(200, dtype=int)

def test_fork(hwperf):
    if BASE and not os.fork():
        with pathlib.Path(CHILDREN).open("a") as notes: print(os.getpid(), file=notes)
        time.sleep(600)
    hwperf(work.call)

def test_more(hwperf): hwperf(work.call)

def test_fresh(hwperf): hwperf(work.fresh)

@pytest.mark.hwregression(accuracy="1pp")
def test_crashes(hwperf): hwperf(work.crashes)

def test_skips(hwperf): hwperf(work.skips)

def test_fails(hwperf): hwperf(work.fails)

@pytest.mark.fresh
@pytest.mark.slow
@pytest.mark.parametrize("x", ["a b", "é::✓", "-k", "a/b[c]", "$(touch pwned)", ""])
def test_odd(hwperf, x): hwperf(work.call)

def test_reads(hwperf):
    run = hwperf(work.call)
    assert run.sample("latency").values[0] < 60

def test_renamed(hwperf): hwperf(work.call, label=str(os.getpid()))

@pytest.mark.hwbudget(latency_p95_ms=1)
@pytest.mark.hwregression(latency_p95="10%")
def test_silent(hwperf): pass

def test_rows(hwperf): hwperf(lambda X: work.call(), np.ones((20, 3)), batch_size=work.ROWS)

def test_sizes(hwperf):
    for size in work.SIZES:
        hwperf(work.call, label=size)

def predict(X):
    work.call()
    return np.where(X[:, 0] < model.WRONG, 1, 0)

def test_labels(hwperf):
    X = np.arange(400.0).reshape(-1, 1)
    hwperf(predict, X, y_true=np.zeros(400, dtype=int))

def test_unseeded(hwperf):
    right = random.randrange(190, 201) if BASE else random.randrange(100, 170)  # as by a model trained in each process
    def answer(rows):
        work.call()
        return np.array([1] * right + [0] * (200 - right))[: len(rows)]
    hwperf(answer, X, y_true=Y)

@pytest.mark.parametrize("size", [200, 50])
def test_ageing(hwperf, size):
    calls = count()
    def answer(rows):
        work.call()
        return np.full(len(rows), BASE or next(calls) < 20)
    hwperf(answer, X, y_true=Y, batch_size=size)

def ones(rows):
    work.call()
    return np.ones(len(rows), dtype=int)

@pytest.mark.parametrize("other", ["values", "rows", "labels"])
def test_data(hwperf, other):
    rows, labels = work.DATA[other]
    hwperf(ones, rows, y_true=labels, batch_size=10)

def test_wider(hwperf): hwperf(ones, np.zeros((20, work.WIDTH)), y_true=np.ones(20), batch_size=10)

def test_killed(hwperf):
    killed = pathlib.Path(KILLED)
    if BASE and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), 9)
    hwperf(work.call)

def test_linked(hwperf):
    spent = int(pathlib.Path("linked").read_text())
    hwperf(lambda: work.spend(spent))

@pytest.mark.parametrize("file", ["weights.bin", "cached.bin", "vendored/weights"])
def test_file(hwperf, file): hwperf(lambda: work.spend(int(pathlib.Path(file).read_text())))

def test_board(hwperf, board): hwperf(work.call)
"""


class Rehearsed(NamedTuple):
    project: Project
    lines: list[str]


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    """The run of pytest against the commit before."""
    folder = tmp_path_factory.mktemp("rehearsed") / "project"
    standing: Any = SimpleNamespace(path=folder)  # for `pytester`, which no module shares
    project, conftest = Project(standing), LOCKED.replace("PLACE", repr(str(folder.with_name("lock"))))
    project.write(
        {
            "work.py": WORK,
            "pytest.ini": "[pytest]\npythonpath = . tests\n",
            "tests/conftest.py": conftest,
            "tests/model.py": "WRONG = 20\n",
            "weights.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n",
            ".gitignore": "cached.bin\n",
            "tests/test_old.py": f"{OLD}\ndef test_removed(hwperf): hwperf(work.call)\n",
        }
    )
    folder.with_name("data").write_text("300")
    (folder / "linked").symlink_to("../data")
    git(folder, "init")
    git(folder, "submodule", "add", str(repository_with(folder.with_name("inner"), weights="3000")), "vendored")
    commit(folder)
    git(folder, "submodule", "deinit", "--force", "vendored")
    project.write(
        {
            "work.py": NOW,
            "brand_new.py": "from work import call\n",
            "pytest.ini": INI,
            "tests/conftest.py": f"{conftest}# changed\n",
            "tests/model.py": "WRONG = 60\n",
            **dict.fromkeys(("weights.bin", "cached.bin", "vendored/weights"), "3000"),
            "tests/test_old.py": OLD,
            "tests/test_new.py": "import brand_new\n\ndef test_new(hwperf): hwperf(brand_new.call)\n",
            "tests/test_now.py": re.sub(
                "KILLED|CHILDREN", lambda found: repr(str(folder.with_name(found[0].lower()))), TESTS
            ),
        }
    )
    # Under the last of these both sides compile every library again.
    left_out = ("PYTEST_", "HWPERF_WORKER", "COVERAGE_", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    own = {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"}
    options = (
        "--hwperf-energy=estimate",
        "--hwperf-sample-time=0.2",
        "--hwperf-explain=never",
        "--hwperf-share=none",
        "-m",
        "slow or not slow",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "pytest_hwperf.plugin", *SIMULATED, REHEARSED, *options,
         "--hwperf-against=HEAD", "--hwperf-report=report.json", "--hwperf-report=report.md"],
        cwd=folder, env={**environment, **own}, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert pytest.ExitCode.TESTS_FAILED == done.returncode, done.stdout + done.stderr
    return Rehearsed(project, done.stdout.splitlines())


def latency(rehearsed: Rehearsed) -> dict[str, Comparison]:
    """Return the comparisons of latencies by test and label, without what is another number in each process."""
    return {
        re.sub(r"\d{3,}", "PID", f"{one.run.test.partition('::')[2]} {one.run.label} {compared.reason}")
        if one.run.label.isdecimal()
        else f"{one.run.test.partition('::')[2]} {one.run.label}".strip(): compared
        for one in rehearsed.project.report().judgements
        for compared in one.comparisons
        if compared.metric == "latency"
    }


def test_what_can_be_compared_is(rehearsed: Rehearsed) -> None:
    """A new test of old code, odd ids, markers that the baseline does not know and the ini leaves out here.

    A body that reads its run, a test that is killed once, other data of the same shape, and a link out of the tree.
    """
    odd = {f"test_odd[{name}]" for name in ("a b", r"\xe9::\u2713", "-k", "a/b[c]", "$(touch pwned)", "")}
    labelled = {"test_labels", "test_unseeded", "test_ageing[200]", "test_ageing[50]"}
    data = {f"test_data[{other}]" for other in ("values", "rows", "labels")}
    others = {f"test_{name}" for name in ("more", "kept", "reads", "sizes small", "killed", "linked", "board", "fork")}
    found = {name for name, one in latency(rehearsed).items() if (one.outcome, one.reason) == ("equivalent", COMPARED)}
    assert odd | labelled | data | others == found
    assert not [*rehearsed.project.path.parent.rglob("pwned")]
    assert rehearsed.project.path.with_name("killed").exists()


def test_what_cannot_be_compared_says_why(rehearsed: Rehearsed) -> None:
    """What the baseline lacks or cannot run, what is another quantity, and what was not measured."""
    expected = {
        "test_new": ("no baseline", r"HEAD cannot run this test: .*No module named 'brand_new'"),
        "test_fresh": ("no baseline", r"failed in HEAD: AttributeError: module 'work' has no attribute 'fresh'"),
        "test_crashes": ("no baseline", r"baseline: ended with code -11 in the middle of the pair \(log: .*\)"),
        "test_skips": ("no baseline", r"skipped in HEAD: Skipped: no such card"),
        "test_fails": ("no baseline", r"failed in HEAD: KeyError: 'gone'"),
        "test_file[weights.bin]": ("no baseline", r"failed in HEAD: ValueError: .*"),
        "test_file[cached.bin]": ("no baseline", r"failed in HEAD: FileNotFoundError: .*"),
        "test_file[vendored/weights]": ("no baseline", r"failed in HEAD: FileNotFoundError: .*"),
        "test_sizes large": ("no baseline", r"only the candidate makes the measurement 'large'"),
        "test_rows": ("not comparable", r"batch_size: 10, 5 \(baseline, now\)"),
        "test_wider": ("not comparable", r"data: .*"),
        "test_silent": ("not comparable", r"the test never called hwperf\(...\)"),
    }
    of_renamed = {
        r"the pairs did not meet this measurement: its label differs between processes",
        r"only the baseline makes the measurement 'PID'",
    }
    found = latency(rehearsed)
    renamed = {name for name in found if name.startswith("test_renamed PID ")}
    rest = {name: one for name, one in found.items() if name not in renamed and one.outcome != "equivalent"}
    assert {f"test_renamed PID {why}" for why in of_renamed} == renamed
    assert {"not comparable"} == {found[name].outcome for name in renamed}
    assert {name: outcome for name, (outcome, _) in expected.items()} == {n: one.outcome for n, one in rest.items()}
    assert [] == [(name, one.reason) for name, one in rest.items() if not re.fullmatch(expected[name][1], one.reason)]


def test_a_hard_end_leaves_its_log_and_no_child(rehearsed: Rehearsed) -> None:
    """A child of a test holds the line of its process when that crashes, and when it ends.

    Answers are due for what was measured, and for margins that were named: not for whatever could have been asked.
    """
    crash = latency(rehearsed)["test_crashes"].reason
    log = Path(crash.rpartition("log: ")[2].rstrip(")"), "baseline.log").read_text(encoding="utf-8")
    children = rehearsed.project.path.with_name("children").read_text(encoding="ascii").split()
    answers = {
        name: [one.metric for one in judgement.comparisons]
        for judgement in rehearsed.project.report().judgements
        if (name := judgement.run.test.partition("::")[2]) in ("test_crashes", "test_skips")
    }
    assert "Segmentation fault" in log
    assert len(children) >= 3  # of the pair that crashed, the baseline alone, and the pair that was repeated
    assert [] == [pid for pid in map(int, children) if not ends(pid)]
    assert {"test_crashes": ["latency", "accuracy"], "test_skips": ["latency"]} == answers


def test_accuracy_is_compared_example_by_example(rehearsed: Rehearsed) -> None:
    """40 of 400 rows are newly wrong; the model's file lies beside the tests and is not laid over."""
    found = rehearsed.project.compared("test_labels", "accuracy", "mean")
    assert "regressed" == found.outcome
    assert found.change is not None
    assert pytest.approx(-0.1) == found.change.value
    assert 2.0**-40 == found.p_value


def test_answers_that_differ_between_processes_or_calls_are_counted(rehearsed: Rehearsed) -> None:
    """A model without a seed that is worse in every process, and one that gets worse from call to call."""
    accuracy = {
        name: rehearsed.project.compared(f"test_{name}", "accuracy", "mean")
        for name in ("unseeded", "ageing[200]", "ageing[50]")
    }
    assert ["regressed"] * 3 == [one.outcome for one in accuracy.values()]
    assert "worse in each of its 7 than the baseline in any" in accuracy["unseeded"].warnings[0]
    for size in (200, 50):
        note = f"candidate: {size} of the first call's {size} answers were others after the last call"
        assert accuracy[f"ageing[{size}]"].warnings[0].startswith(note)


def test_answers_on_other_data_are_not_comparable_and_counted(rehearsed: Rehearsed) -> None:
    """Other values, more rows, or other labels; the times of calls on them are, except where rows are wider."""
    names = ("data[values]", "data[rows]", "data[labels]", "wider", "rows")
    found = [rehearsed.project.compared(f"test_{name}", "accuracy", "mean").outcome for name in names]
    assert ["not comparable"] * 5 == found
    assert " 28 passed, 5 not comparable in " in rehearsed.lines[-1]
    said = "5 tests not comparable (3 in part), data or conditions changed: "
    assert said in (rehearsed.project.path / "report.md").read_text(encoding="utf-8")


def test_what_differs_beside_the_code_is_named(rehearsed: Rehearsed) -> None:
    """Files that are laid over, and those of which each side has its own; no energy that is only estimated is told."""
    told = "\n".join(rehearsed.lines)
    data = rehearsed.project.path.with_name("data")
    alone = "since they failed next to the other side and passed alone: tests/test_now.py::test_board (the "
    for said in (
        "hwperf: submodules of the baseline are missing: vendored: your tree has not filled it either: ",
        "hwperf: not there in the baseline, only a git-LFS pointer: weights.bin; ",
        "`git lfs fetch origin ",
        f"hwperf: links lead out of the tree, so that both sides use the same there: linked (to {data})\n",
        "is not compared: tests/conftest.py, tests/test_old.py\n",
        "hwperf: changed since the baseline, and each side runs its own: tests/model.py\n",
        "hwperf: measured by the baseline, and deleted or renamed since: tests/test_old.py::test_removed\n",
        f"hwperf: measured with one side at a time, {alone}",
        " failed: BlockingIOError",
        "comparisons: 4 regressed, 21 equivalent, 10 no baseline, 20 not comparable",
    ):
        assert said in told
