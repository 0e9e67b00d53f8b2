"""Utilisation and memory of a GPU in tests: where they are asked for, judged, and never 0 where there is no GPU."""

from itertools import repeat
from typing import Any

import pytest
from fakes.streams import FakeMeter

from pytest_hwperf.host.worker_protocol import WorkerResult, WorkerTask
from pytest_hwperf.plugin.measuring import fresh
from pytest_hwperf.records.run import Reading

QUICK = ("--hwperf-sample-time=0.05", "--hwperf-energy=off")
UTILISATION = """
import pytest
@pytest.mark.parametrize("most", [
    pytest.param(80, marks=pytest.mark.hwbudget(gpu_max_percent=80)),
    pytest.param(95, marks=pytest.mark.hwbudget(gpu_max_percent=95)),
])
def test_it(hwperf, most):
    run = hwperf(sum, [1])
    assert SOURCES == [sample.source for sample in run.samples if sample.metric == "gpu_utilisation"]
"""


def test_a_budget_of_utilisation_is_judged_by_the_boards_own_shares(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: object, **__: object) -> FakeMeter:
        shares = repeat(Reading(value=0.9))
        return FakeMeter("gpu_utilisation", shares, source="nvml:0", covers="boards", shortest_window_s=0.01)

    monkeypatch.setattr("pytest_hwperf.meters.gpu.utilisation_meter", opened)
    pytester.makepyfile(UTILISATION.replace("SOURCES", "['nvml:0']"))
    result = pytester.runpytest_inprocess(*QUICK)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*gpu_utilisation 90.0 %*limit 80 %; *nvml:0*"])


def test_without_a_gpu_the_budget_is_unmeasured(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_hwperf.meters.gpu.uses_cuda", lambda _modules: False)
    pytester.makepyfile(UTILISATION.replace("SOURCES", "[]"))
    result = pytester.runpytest_inprocess(*QUICK)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*gpu_utilisation*unmeasured*this process uses no GPU*"])


def test_memory_on_a_gpu_is_that_of_fresh_processes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    def answered(task: WorkerTask, commands: list[Any], **_: object) -> list[WorkerResult]:
        assert "memory" == task.role
        told = WorkerResult(
            values={"gpu_memory": 5e6} if task.node.endswith("test_with") else {},
            reasons={"memory_leak": "not asked"},
            notes=[],
            runs=[],
            sources={"gpu_memory": "fake boards"},
        )
        return [told] * len(commands)

    monkeypatch.setattr(fresh, "ask", answered)
    pytester.makepyfile(
        """
        import pytest
        pytestmark = pytest.mark.hwbudget(gpu_memory_max_mb=4)
        def test_with(hwperf): hwperf(sum, [1])
        def test_without(hwperf): hwperf(sum, [1])
        """
    )
    result = pytester.runpytest_inprocess(*QUICK)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*gpu_memory*5.00 MB*limit 4 MB; *fake boards*",
            "*gpu_memory*unmeasured*it needs what runs on an NVIDIA GPU*",
        ]
    )
