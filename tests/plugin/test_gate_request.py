"""What the options of the command line ask of a gate."""

import pytest
from fakes.reruns import INI, repository

from pytest_hwperf.gate.preparing import GateRequest
from pytest_hwperf.records.errors import UsageProblem

TEST = "def test_call(hwperf):\n    hwperf(sum, [1, 2])\n"


def test_options_reach_the_gate(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = list[GateRequest]()

    def gate(request: GateRequest) -> None:
        requests.append(request)
        raise UsageProblem("stopped here")

    monkeypatch.setattr("pytest_hwperf.plugin.gate.run_gate", gate)
    project = repository(pytester, {"pytest.ini": INI, "test_a.py": TEST})
    project.run()
    project.run("--hwperf-prove-equal", "-ohwperf_silence=7", "--hwperf-time-limit=33", "--hwperf-share=models/*.bin")
    asked = [(one.prove_equal, one.silence_s, one.time_s, one.share) for one in requests]
    assert [(False, 60.0, 600.0, ()), (True, 7.0, 33.0, ("models/*.bin",))] == asked
