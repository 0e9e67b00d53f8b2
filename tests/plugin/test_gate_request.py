"""What the options of the command line ask of a gate."""

from typing import Any

import pytest
from fakes.reruns import INI, Project, repository

from pytest_hwperf.gate.preparing import GateRequest
from pytest_hwperf.records.errors import UsageProblem

TEST = "def test_call(hwperf):\n    hwperf(sum, [1, 2])\n"


@pytest.mark.parametrize(
    ("option", "field", "usual", "asked"),
    [
        ("--hwperf-prove-equal", "prove_equal", False, True),
        ("-ohwperf_silence=7", "silence_s", 60.0, 7.0),
        ("--hwperf-time-limit=33", "time_s", 600.0, 33.0),
        ("--hwperf-share=models/*.bin", "share", (), ("models/*.bin",)),
    ],
)
def test_an_option_reaches_the_gate(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, option: str, field: str, usual: Any, asked: Any
) -> None:
    requests = list[GateRequest]()

    def gate(request: GateRequest) -> None:
        requests.append(request)
        raise UsageProblem("stopped here")

    monkeypatch.setattr("pytest_hwperf.plugin.gate.run_gate", gate)
    project: Project = repository(pytester, {"pytest.ini": INI, "test_a.py": TEST})
    project.run()
    project.run(option)
    assert [usual, asked] == [getattr(one, field) for one in requests]
