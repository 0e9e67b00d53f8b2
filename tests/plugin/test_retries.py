"""A budget whose interval holds the limit is measured again in fresh processes, where that is asked for."""

import json
from array import array
from fnmatch import fnmatchcase
from typing import Any

import pytest
from fakes.records import run as run_of
from fakes.records import sample

from pytest_hwperf.host.worker_protocol import WorkerResult, WorkerTask
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.run import Run, replace

CALLS_S = [0.001, 0.002] * 200  # the interval of the median goes from the one to the other
OPTIONS = ("--hwperf-energy=off", "--hwperf-sample-time=0.05")
TEST = """
    import pytest

    @pytest.mark.parametrize("case", {cases})
    @pytest.mark.hwbudget(latency_p50_ms=1.5, accuracy_min=0.5)
    def test_it(hwperf, case):
        hwperf(lambda rows: rows, [1, 1], y_true=[1, 0], label={label!r})
"""
MEDIANS = {"kept": [0.001] * 6, "missed": [0.002] * 6, "apart": [0.001, 0.002, 0.001], "lost": []}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    """Medians of the processes of each case that are still to be asked, and none that is started."""
    medians = {case: [*values] for case, values in MEDIANS.items()}

    def ask(task: WorkerTask, *_: object, **__: object) -> list[WorkerResult]:
        left = medians[task.node.partition("[")[2].rstrip("]")]
        if not left:
            raise WorkerError("none is left")
        again = replace(run_of(samples=(sample(values=[left.pop(0)] * 9),)), label="")
        return [WorkerResult(values={}, reasons={}, notes=[], runs=[again])]

    def measured(item: pytest.Item, _: object, label: str) -> Run:
        from pytest_hwperf.plugin.measuring.run import empty_run

        correct = sample("accuracy", [1.0, 0.0], per="example", source="callable")
        return replace(
            empty_run(item.config, item.nodeid, label), samples=(sample(values=array("d", CALLS_S)), correct)
        )

    monkeypatch.setattr("pytest_hwperf.plugin.measuring.fresh.ask", ask)
    monkeypatch.setattr("pytest_hwperf.plugin.measuring.run.measure", measured)
    return medians


def judged(
    pytester: pytest.Pytester, cases: list[str], *options: str, label: str = ""
) -> tuple[pytest.RunResult, list[list[Any]]]:
    """Return the run, and the verdicts of each test."""
    pytester.makepyfile(TEST.format(cases=cases, label=label))
    result = pytester.runpytest_inprocess(*OPTIONS, "--hwperf-report=report.json", *options)
    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]
    return result, [judgement["verdicts"] for judgement in report["judgements"]]


def test_processes_are_asked_as_long_as_they_agree(pytester: pytest.Pytester, asked: dict[str, list[float]]) -> None:
    """Accuracy is the same in every process, and is not asked for again."""
    reasons = {
        "kept": "*; 5 of 5 fresh processes kept the limit",
        "missed": "*; 0 of 5 fresh processes kept the limit",
        "apart": "*inconclusive*; 1 of 2 fresh processes kept the limit",
    }
    _, verdicts = judged(pytester, [*reasons], "--hwperf-undecided=retry")
    assert [1, 1, 1] == [len(asked[case]) for case in reasons]
    for reason, (latency, accuracy) in zip(reasons.values(), verdicts, strict=True):
        assert fnmatchcase(latency["reason"], reason)
        assert {"kept", "processes"} == latency["decided_by"][-1]["numbers"].keys()
        assert "fresh process" not in accuracy["reason"]


def test_none_is_asked_by_default(pytester: pytest.Pytester, asked: dict[str, list[float]]) -> None:
    _, [[latency, _]] = judged(pytester, ["kept"])
    assert "inconclusive" == latency["outcome"]
    assert MEDIANS == asked


@pytest.mark.usefixtures("asked")
def test_a_label_that_no_other_process_gives_is_named(pytester: pytest.Pytester) -> None:
    """The test fails with what to do, and the budget stays inconclusive."""
    result, _ = judged(pytester, ["kept"], "--hwperf-undecided=retry", label="run 7")
    result.assert_outcomes(failed=1)
    told = ["*did not measure label='run 7': give label= a fixed name*", "*inconclusive: latency p50 *"]
    result.stdout.fnmatch_lines(told)


@pytest.mark.usefixtures("asked")
def test_a_process_that_is_lost_fails_the_test(pytester: pytest.Pytester) -> None:
    """And the budget stays inconclusive."""
    result, _ = judged(pytester, ["lost"], "--hwperf-undecided=retry")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*none is left*", "*inconclusive: latency p50 *"])
