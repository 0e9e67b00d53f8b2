"""A budget whose interval holds the limit is measured again in fresh processes, where that is asked for."""

import json
from array import array
from fnmatch import fnmatchcase
from typing import Any

import pytest
from fakes.records import run as run_of
from fakes.records import sample

from pytest_hwperf.host.worker_protocol import WorkerResult
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.run import Run, replace

CALLS_S = [0.001, 0.002] * 200  # the interval of the median goes from the one to the other
OPTIONS = ("--hwperf-energy=off", "--hwperf-sample-time=0.05")
TEST = """
    import pytest

    @pytest.mark.hwbudget(latency_p50_ms=1.5, accuracy_min=0.5)
    def test_it(hwperf):
        hwperf(lambda rows: rows, [1, 1], y_true=[1, 0])
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Medians of the processes that are still to be asked, and none that is started."""
    medians = list[float]()

    def ask(*_: object, **__: object) -> list[WorkerResult]:
        if not medians:
            raise WorkerError("none is left")
        again = replace(run_of(samples=(sample(values=[medians.pop(0)] * 9),)), label="")
        return [WorkerResult(values={}, reasons={}, notes=[], runs=[again])]

    def measured(item: pytest.Item, *_: object) -> Run:
        from pytest_hwperf.plugin.measurement import empty_run

        correct = sample("accuracy", [1.0, 0.0], per="example", source="callable")
        return replace(empty_run(item.config, item.nodeid), samples=(sample(values=array("d", CALLS_S)), correct))

    monkeypatch.setattr("pytest_hwperf.plugin.fresh.ask", ask)
    monkeypatch.setattr("pytest_hwperf.plugin.measurement.measure", measured)
    return medians


@pytest.mark.parametrize(
    ("medians", "outcome", "left"),
    [
        ([0.001] * 6, "5 of 5 fresh processes kept the limit", 1),
        ([0.002] * 6, "0 of 5 fresh processes kept the limit", 1),
        ([0.001, 0.002, 0.001], "*inconclusive*; 1 of 2 fresh processes kept the limit", 1),
    ],
)
def test_processes_are_asked_as_long_as_they_agree(
    pytester: pytest.Pytester, asked: list[float], medians: list[float], outcome: str, left: int
) -> None:
    """Accuracy is the same in every process, and is not asked for again."""
    asked.extend(medians)
    pytester.makepyfile(TEST)
    verdicts = verdicts_of(pytester, "--hwperf-undecided=retry")
    assert left == len(asked)
    assert fnmatchcase(verdicts[0]["reason"], f"*; {outcome}")
    assert verdicts[0]["decided_by"][-1]["numbers"].keys() == {"kept", "processes"}
    assert "fresh process" not in verdicts[1]["reason"]


def test_none_is_asked_by_default(pytester: pytest.Pytester, asked: list[float]) -> None:
    asked.append(0.001)
    pytester.makepyfile(TEST)
    verdicts = verdicts_of(pytester)
    assert "inconclusive" == verdicts[0]["outcome"]
    assert [0.001] == asked


@pytest.mark.usefixtures("asked")
def test_a_process_that_is_lost_fails_the_test(pytester: pytest.Pytester) -> None:
    """And the budget stays inconclusive."""
    pytester.makepyfile(TEST)
    result = pytester.runpytest_inprocess(*OPTIONS, "--hwperf-undecided=retry")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*none is left*", "*inconclusive: latency p50 *"])


def verdicts_of(pytester: pytest.Pytester, *options: str) -> list[Any]:
    pytester.runpytest_inprocess(*OPTIONS, "--hwperf-report=report.json", *options)
    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]
    verdicts: list[Any] = report["judgements"][0]["verdicts"]
    return verdicts
