"""A regression that the pairs have decided fails the build, whatever becomes of its test in the session after them.

One gate runs for all of these tests; later sessions are told what it has found.
"""

import dataclasses
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.repositories import commit
from fakes.reruns import INI, REPEATED, WORK, Project, repository

from pytest_hwperf.checkout.both import both_trees, xfails_of
from pytest_hwperf.gate import gate as stages
from pytest_hwperf.gate.gate import run_gate
from pytest_hwperf.gate.preparing import GateRequest
from pytest_hwperf.gate.result import GateResult
from pytest_hwperf.records.evidence import Evidence
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace

BEFORE = "import os\nimport pytest, work\nHERE = 'PYTHONHASHSEED' not in os.environ\n"
FIXTURE = "\n\n@pytest.fixture\ndef broken():\n    assert not HERE\n"
HOOK = """
from pathlib import Path
import pytest

LIST = Path(__file__).with_name("known.txt")

def pytest_itemcollected(item):
    if item.name in LIST.read_text().split():
        item.add_marker(pytest.mark.xfail)
"""


def slow(name: str, before: str = "", after: str = "", *, argument: str = "") -> str:
    """Write a test that measures, and what it does before and after that."""
    lines = "".join(f"    {line}\n" for line in (before, "hwperf(work.call)", after) if line)
    return f"\n\ndef test_{name}({argument}hwperf):\n{lines}"


def marked(mark: str, test: str) -> str:
    return f"\n\n@{mark}\n{test.lstrip()}"


KNOWN = BEFORE + marked("pytest.mark.xfail", slow("known"))
LISTED = BEFORE + slow("old") + slow("listed")
BASELINE = {
    "work.py": f"LATER = False\n{WORK}",
    "pytest.ini": INI,
    "test_known.py": KNOWN,
    "sub/conftest.py": HOOK,
    "sub/known.txt": "test_old\n",
    "sub/test_sub.py": LISTED,
}
PARAMETERS = "pytest.mark.parametrize('x', [1, pytest.param(2, marks=pytest.mark.xfail)])"
CANDIDATE = {
    "work.py": f"LATER = True\n{WORK.replace('300', '900')}",
    "sub/known.txt": "test_old\ntest_listed\n",
    "test_hidden.py": BEFORE + marked("getattr(pytest.mark, 'xf' + 'ail')", slow("hidden")),
    "test_known.py": KNOWN + marked(PARAMETERS, slow("x", argument="x, ")),
    "test_work.py": BEFORE
    + slow("skips", "HERE and pytest.skip('no time')")
    + FIXTURE
    + slow("broken", argument="broken, ")
    + marked("pytest.mark.xfail(reason='slow')", slow("added"))
    + slow("late_skip", after="pytest.skip('later')")
    + slow("late_xfail", after="pytest.xfail('later')")
    + slow("returns", "if work.LATER: return")
    + slow("skips_now", "if work.LATER: pytest.skip()"),
}
NEW = ["sub/test_sub.py::test_listed", "test_hidden.py::test_hidden", "test_known.py::test_x[2]"]
NEW += ["test_work.py::test_added"]


class Gated:
    """A project whose gate has run, and its first session."""

    def __init__(self, pytester: pytest.Pytester, patch: pytest.MonkeyPatch) -> None:
        self.path, self.found = pytester.path, list[GateResult]()
        project = repository(pytester, BASELINE)
        project.write(CANDIDATE)

        def kept(request: GateRequest) -> GateResult:
            self.found.append(run_gate(request))
            return self.found[0]

        patch.setattr("pytest_hwperf.plugin.judging.gate.run_gate", kept)
        self.first = project.run(REPEATED)
        self.report = project.report()


@pytest.fixture(scope="module")
def _held() -> list[Gated]:
    return []


@pytest.fixture
def gated(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    _held: list[Gated],
    quick_pairs: None,  # noqa: ARG001 - of the one gate
    fakes_in_reach: None,  # noqa: ARG001 - the same
) -> Gated:
    """Run the gate once for all that look at it, and give later sessions its result."""
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)  # it tells a process of a pair from the session
    if not _held:
        with monkeypatch.context() as patch:
            _held.append(Gated(pytester, patch))
    monkeypatch.chdir(_held[0].path)
    monkeypatch.setattr("pytest_hwperf.plugin.judging.gate.run_gate", lambda _: _held[0].found[0])
    return _held[0]


@pytest.fixture
def project(pytester: pytest.Pytester, gated: Gated) -> Project:
    """Its folder, for sessions of this test."""
    here: Any = SimpleNamespace(path=gated.path, runpytest_inprocess=pytester.runpytest_inprocess)
    return Project(here)


def failed(result: pytest.RunResult) -> list[str]:
    lines = (line.removeprefix("FAILED ") for line in result.outlines if line.startswith("FAILED "))
    return sorted(line.partition(" - ")[0] for line in lines)


@pytest.mark.live
def test_a_decided_regression_fails_though_its_test_is_skipped_breaks_or_expected_to_fail(gated: Gated) -> None:
    """An `xfail` that the baseline has stays what it is; one that the candidate adds is named.

    Of a function, of a parameter, by a hook whose data names the test, or by an expression that no file shows.
    """
    assert pytest.ExitCode.TESTS_FAILED == gated.first.ret
    assert ["test_known.py::test_x[1]", "test_work.py::test_skips"] == failed(gated.first)
    gated.first.assert_outcomes(passed=1, failed=2, errors=1, skipped=3, xfailed=7)
    gated.first.stdout.fnmatch_lines(
        [
            f"warning: 4 failing tests hidden by a new xfail: {NEW[0]}, {NEW[1]}, {NEW[2].replace('[', '[[]')}*",
            "FAILED test_work.py::test_skips - latency p50 ×[23]*",
        ]
    )
    assert "4 xfail added" in gated.first.outlines[-1]
    for test in ("skips", "broken", "added"):
        (outcome,) = outcomes(gated, f"test_{test}")
        assert "regressed" == outcome


def outcomes(gated: Gated, test: str) -> list[str]:
    """Return those of a test's latency in the first session."""
    found = [one for one in gated.report.judgements if one.run.test.endswith(f"::{test}")]
    return [one.outcome for judgement in found for one in judgement.comparisons if one.statistic == "p50"]


@pytest.mark.live
def test_what_the_pairs_could_not_compare_and_the_session_does_not_judge_is_listed(gated: Gated) -> None:
    """What measures and then skips or expects to fail, on both sides; what returns or skips itself by the candidate."""
    unseen = ("late_skip", "late_xfail", "returns", "skips_now")
    assert [["not comparable"]] * 4 == [outcomes(gated, f"test_{test}") for test in unseen]
    gated.first.stdout.fnmatch_lines(["warning: 3 tests not compared, since the pairs could not run them;*"])
    assert "2 not comparable" in gated.first.outlines[-1]
    counted = "comparisons: 9 regressed, 4 not comparable"  # a busy machine adds a remark
    assert any(line.startswith(counted) for line in gated.first.outlines)
    assert {"returns", "skips_now"} == {one.test.partition("::test_")[2] for one in gated.found[0].gone}


@pytest.mark.live
def test_with_strict_what_is_not_compared_and_new_xfails_fail(project: Project) -> None:
    """All but the one that breaks, which is an error."""
    result = project.run("--hwperf-strict")
    more = ["added", "late_skip", "late_xfail", "returns", "skips", "skips_now"]
    named = [*NEW[:2], "test_known.py::test_x[1]", NEW[2], *(f"test_work.py::test_{one}" for one in more)]
    assert named == failed(result)
    result.assert_outcomes(passed=1, failed=10, errors=1, skipped=3, xfailed=3)


class Ending:
    """Ends a session early: it is done before its first test, or in place of all of them."""

    def __init__(self, first: Callable[[], object] = int, *, left_out: bool = False) -> None:
        self.first, self.left_out = first, left_out

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        if self.left_out:
            session.items[:] = []

    def pytest_runtest_call(self) -> None:
        self.first()


def leave() -> None:
    pytest.exit("enough", returncode=0)


def be_told_to_end() -> None:
    assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL  # it would end this process
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.live
@pytest.mark.parametrize(
    ("plugin", "options", "code"),
    [
        (Ending(leave), (), pytest.ExitCode.TESTS_FAILED),
        (Ending(left_out=True), (), pytest.ExitCode.TESTS_FAILED),
        (Ending(lambda: pytest.fail("no")), ("-x",), pytest.ExitCode.TESTS_FAILED),
        (Ending(be_told_to_end), (), pytest.ExitCode.INTERRUPTED),
    ],
    ids=["exit", "deselected", "maxfail", "SIGTERM"],
)
def test_what_the_session_does_not_reach_is_listed_and_fails(
    project: Project, plugin: Ending, options: tuple[str, ...], code: pytest.ExitCode
) -> None:
    played: Any = SimpleNamespace(
        path=project.path,
        runpytest_inprocess=lambda *given: project.pytester.runpytest_inprocess(
            *given, plugins=[plugin], no_reraise_ctrlc=True
        ),
    )
    result = Project(played).run(*options, "test_work.py", "test_known.py")
    assert code == result.ret
    result.stdout.fnmatch_lines(["FAILED test_known.py::test_x?1? - latency p50 ×[23]*"])
    assert "regressed" == project.compared("test_x[1]").outcome
    assert project.report().partial


@pytest.mark.live
def test_ctrl_c_in_the_pairs_prints_what_was_decided_so_far(
    project: Project, gated: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while it is explained; what is explained then is not begun again."""
    evidence, asked = gated.found[0].gate.evidence, list[Evidence]()

    def interrupted(given: Evidence, _: object = None) -> list[Any]:
        asked.append(given)
        raise KeyboardInterrupt

    explainer = SimpleNamespace(profiles=interrupted, explanations=interrupted, lost=[], seconds=0.0)
    run: Any = SimpleNamespace(
        evidence=evidence, explainer=explainer, trace=SimpleNamespace(facts={}), profiles=[], explanations=[],
        conductor=SimpleNamespace(seconds={}),
    )  # fmt: skip
    stages.explain(run)
    stages.explain(run)
    assert [evidence] == asked
    assert replace(evidence, stopped=state("interrupted")) == run.evidence

    stopped = dataclasses.replace(gated.found[0], gate=replace(gated.found[0].gate, evidence=run.evidence))
    monkeypatch.setattr("pytest_hwperf.plugin.judging.gate.run_gate", lambda _: stopped)
    options = ("--hwperf-against=HEAD", "--hwperf-energy=off", "test_known.py")
    result = project.pytester.runpytest_inprocess(*options, no_reraise_ctrlc=True)
    assert pytest.ExitCode.INTERRUPTED == result.ret
    result.stdout.fnmatch_lines(["test_known.py", "*test_known *×[23]*", "*regressed: latency p50"])


def test_the_same_code_on_both_sides_is_named(repository: Path) -> None:
    """Not where a file has changed or is new, or the other commit is meant."""

    def is_named(against: str = "HEAD") -> bool:
        with both_trees(repository, against, []) as trees:
            return any(one.endswith("without changes: both sides run the same code") for one in trees.warnings)

    assert is_named()
    (repository / "model.py").write_text("new")
    assert not is_named()
    commit(repository)
    assert [True, False] == [is_named(), is_named("HEAD~1")]
    (repository / "new.py").write_text("")
    assert not is_named()


@pytest.mark.parametrize("helper", ["marks.py", "fresh.py", "plain.py"])
def test_an_xfail_of_a_module_that_tests_import_is_seen_as_new_too(repository: Path, helper: str) -> None:
    """Of one that has changed, and of one that the baseline is given; one that it has is none."""
    mark = "import pytest\nslow = pytest.mark.xfail\n"
    (repository / "tests").mkdir()
    old = {"marks.py": "def slow(test): return test\n", "plain.py": mark, "test_it.py": "import {helper}\n"}
    for name, text in old.items():
        (repository / "tests" / name).write_text(text)
    commit(repository)
    (repository / "tests" / helper).write_text(mark)
    test = repository / "tests/test_it.py"
    with both_trees(repository, "HEAD", [test]) as trees:
        found: Any = SimpleNamespace(
            xfails=xfails_of(trees, {"candidate": [str(repository / "tests" / helper)]}, {}, [test], [])
        )
    assert (helper != "plain.py") == GateResult.has_new_xfail(found, test, "test_it")
