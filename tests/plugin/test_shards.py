"""`--hwperf-shard`: each test is run by exactly one shard, with its part of the false-alarm rate."""

import re
from itertools import chain
from typing import Any

import pytest
from fakes.reruns import INI, Project, repository

from pytest_hwperf.cli import main
from pytest_hwperf.cli.output import FAILED, INCONCLUSIVE, OK
from pytest_hwperf.gate.preparing import GateRequest
from pytest_hwperf.plugin.session.settings import read_settings
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.report import Report, ReportFile
from pytest_hwperf.stats.stored.compare import Criteria, compare_with_stored

TESTS = """
import pytest

@pytest.mark.parametrize("number", range(12))
def test_measured(hwperf, number):
    hwperf.record("tokens", 4.0, better="lower")
    assert number != FAILING

@pytest.mark.parametrize("number", range(4))
def test_plain(number):
    pass
"""
SWEPT = """
import pytest

@pytest.fixture(params=["sklearn_fp32", "onnx_fp32", "onnx_int8"])
def scenario(request):
    return request.param

@pytest.mark.parametrize("rows", [1, 8])
def test_scenarios(hwperf, scenario, rows):
    hwperf.record("tokens", 4.0, better="lower")

@pytest.mark.hwsweep(batch_size=[1, 8, 32])
def test_sweep(hwperf, batch_size):
    hwperf.record("tokens", 4.0, better="lower")
"""


def run(pytester: pytest.Pytester, number: int, *options: str, of: int = 3) -> tuple[pytest.RunResult, list[str]]:
    """Run one shard; return its result, and the ids of the tests that passed or failed in it."""
    result = pytester.runpytest_inprocess(
        f"--hwperf-shard={number}/{of}", f"--hwperf-report={number}.json", "-v", "--hwperf-energy=off", *options
    )
    return result, re.findall(r"^(test_\w+\.py::\S+) (?:PASSED|FAILED)", result.stdout.str(), re.MULTILINE)


def report(pytester: pytest.Pytester, number: int) -> Report:
    return from_json(ReportFile, (pytester.path / f"{number}.json").read_text(encoding="utf-8")).report


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_a=TESTS.replace("FAILING", "-1"))
    return pytester


def test_every_selected_test_is_run_by_one_shard_and_a_failed_one_fails_the_merged_build(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is compared with each other, the scenarios of a test and the points of a sweep, stays together."""
    pytester.makepyfile(test_a=TESTS.replace("FAILING", "7"), test_b=SWEPT)
    found = [run(pytester, number, "--hwperf-only") for number in (1, 2, 3)]
    files = [str(pytester.path / f"{number}.json") for number in (1, 2, 3)]
    ran = [ids for _, ids in found]
    capsys.readouterr()
    assert 21 == len({*chain.from_iterable(ran)}) == sum(map(len, ran))
    for alike in (r"test_sweep\[", r"test_scenarios\[.*1\]", r"test_scenarios\[.*8\]"):
        assert [0, 0, 3] == sorted(sum(bool(re.search(alike, one)) for one in ids) for ids in ran)
    for number, (result, ids) in enumerate(found, 1):
        assert f"hwperf: shard {number} of 3 runs {len(ids)} of 21 tests" in result.outlines
        (shard,) = report(pytester, number).shards
        failed = tuple(one for one in ids if "measured[7]" in one)
        assert (number, 3, 0.01, 21, len(failed)) == (
            shard.number, shard.of, shard.alpha, shard.selected, shard.exit_code,
        )  # fmt: skip
        assert failed == shard.failed
    assert [0, 0, 1] == sorted(result.ret for result, _ in found)
    assert FAILED == main(["report", *files])
    assert "1 test failed without a verdict (test_a.py::test_measured[7])" in capsys.readouterr().out.replace("\n", " ")
    assert INCONCLUSIVE == main(["report", *(file for file, (one, _) in zip(files, found, strict=True) if not one.ret)])


def test_a_shard_that_compares_says_its_part_of_the_rate(suite: pytest.Pytester) -> None:
    result, ids = run(suite, 2, "--hwperf-compare", "-ohwperf_rerun=never")
    said = f"hwperf: shard 2 of 3 runs {len(ids)} of 16 tests, with 0.333333 % of the false-alarm rate of 1 %"
    assert said in result.outlines


def test_a_kind_of_machine_is_told_and_merged(suite: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """Without shards a kind runs all tests; its figures say in JUnit too of which kind they are."""
    for number, kind in enumerate(("arm", "x86/1"), 1):
        result = suite.runpytest_inprocess(
            f"--hwperf-machine-kind={kind}", f"--hwperf-report={number}.json", "--hwperf-energy=off", "--junitxml=j.xml"
        )
        assert f"hwperf: on machine kind {kind[:3]} runs 16 of 16 tests" in result.outlines
        assert f"test_measured[3] on {kind[:3]}" in result.stdout.str()
    assert '<property name="hwperf.machine_kind" value="x86"' in (suite.path / "j.xml").read_text(encoding="utf-8")
    assert {("arm", 1, 1)} == {(one.kind, one.number, one.of) for one in report(suite, 1).shards}
    capsys.readouterr()
    files = [str(suite.path / f"{number}.json") for number in (1, 2)]
    assert OK == main(["report", *files, "--kinds=arm,x86"])
    assert INCONCLUSIVE == main(["report", *files, "--kinds=arm,x86,gpu"])
    assert "gpu is missing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("conftest", "code", "said"),
    [
        (
            "def pytest_runtest_teardown():\n    pytest.exit('enough', returncode=0)",
            INCONCLUSIVE,
            "the run was interrupted",
        ),
        (
            "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtestloop(session):\n    del session.items[1:]",
            INCONCLUSIVE,
            "the run was interrupted",
        ),
        ("def pytest_sessionfinish(session):\n    session.exitstatus = 7", INCONCLUSIVE, "pytest's exit code was 7"),
        ("def pytest_sessionfinish(session):\n    session.exitstatus = 1", FAILED, ""),
        ("def pytest_sessionfinish():\n    raise OSError", INCONCLUSIVE, "pytest's exit code was 3"),
    ],
    ids=["exit", "left out", "another code", "failed later", "raised"],
)
def test_a_shard_that_ended_otherwise_than_its_tests_is_not_green(
    suite: pytest.Pytester, capsys: pytest.CaptureFixture[str], conftest: str, code: int, said: str
) -> None:
    suite.makeconftest(f"import pytest\n\n{conftest}\n")
    suite.runpytest_inprocess("--hwperf-shard=1/1", "--hwperf-report=1.json", "--hwperf-energy=off", "-k", "1 or 2")
    capsys.readouterr()
    assert code == main(["report", str(suite.path / "1.json")])
    assert said in capsys.readouterr().out


def test_an_empty_shard_passes_with_a_report(pytester: pytest.Pytester) -> None:
    """One test belongs to one of two shards; the other has nothing to do, and says so to `hwperf report`."""
    pytester.makepyfile(test_a="def test_one(hwperf):\n    hwperf.record('tokens', 4.0, better='lower')\n")
    found = [run(pytester, number, of=2) for number in (1, 2)]
    assert [0, 1] == sorted(len(ids) for _, ids in found)
    assert [0, 0] == [int(result.ret) for result, _ in found]
    assert [0, 1] == sorted(len(report(pytester, number).judgements) for number in (1, 2))
    assert pytest.ExitCode.NO_TESTS_COLLECTED == run(pytester, 1, "-k", "nothing")[0].ret


def test_a_shard_of_a_kind_gets_its_part_of_the_rate(pytester: pytest.Pytester) -> None:
    parts = {("arm", "1%"): 0.01, ("arm/2", "2%"): 0.01, ("", "2%"): 0.02}
    for (kind, alpha), part in parts.items():
        given = [f"--hwperf-machine-kind={kind}"] if kind else []
        assert part == read_settings(pytester.parseconfig(*given, f"--hwperf-alpha={alpha}")).own_alpha


def test_pairs_and_stored_accuracies_get_a_part_of_the_rate(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pairs an eighth of 4 %, and stored accuracies 1 % over four times as many comparisons."""
    asked, criteria = list[float](), list[Criteria]()

    def gate(request: GateRequest) -> None:
        asked.append(request.alpha)
        raise UsageProblem("stopped here")

    def kept(*given: Any) -> Any:
        criteria.append(next(one for one in given if isinstance(one, Criteria)))
        return compare_with_stored(*given)

    monkeypatch.setattr("pytest_hwperf.plugin.judging.gate.run_gate", gate)
    monkeypatch.setattr("pytest_hwperf.plugin.judging.judge.compare_with_stored", kept)
    project: Project = repository(pytester, {"pytest.ini": INI, "test_a.py": TESTS.replace("FAILING", "-1")})
    project.run("--hwperf-machine-kind=arm/2", "--hwperf-shard=1/4", "--hwperf-alpha=4%")
    project.run("--hwperf-shard=1/4", "--hwperf-compare", against="")
    assert [0.005] == asked
    assert {(0.01, 4)} == {(one.alpha, one.family) for one in criteria}


def test_a_rate_too_small_for_so_many_shards_is_refused(pytester: pytest.Pytester) -> None:
    repository(pytester, {"pytest.ini": INI, "test_a.py": TESTS.replace("FAILING", "-1")})
    result = pytester.runpytest_inprocess(
        "--hwperf-against=HEAD", "--hwperf-shard=1/256", "--hwperf-alpha=0.0000000000001%"
    )
    assert pytest.ExitCode.USAGE_ERROR == result.ret


def test_a_shard_without_a_measured_test_needs_no_baseline(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The measured test is in the other shard; where no shard has any, each of them refuses."""
    monkeypatch.setattr("pytest_hwperf.plugin.judging.gate.run_gate", None)
    one = "def test_one(hwperf):\n    hwperf.record('tokens', 4.0, better='lower')\n"
    repository(pytester, {"pytest.ini": INI, "test_a.py": one, "test_b.py": "def test_plain(): pass\n"})
    against = ("--hwperf-against=HEAD", "--hwperf-energy=off")
    runs = [run(pytester, number, *against, "test_a.py", of=2)[0] for number in (1, 2)]
    assert 1 == sum(result.ret == pytest.ExitCode.OK for result in runs)
    assert pytest.ExitCode.USAGE_ERROR == run(pytester, 1, *against, "test_b.py")[0].ret
