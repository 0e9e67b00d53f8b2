"""The schedule of a load for Locust, and what Locust reports of it; no process is started."""

import ast
import json
import random
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.host import extras
from pytest_hwperf.loads.http import Request
from pytest_hwperf.loads.local import schedule
from pytest_hwperf.loads.locust import drive_locust, locustfile_of, read_statistics
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.markers import Load

LOAD = Load(kind="server", qps=80, seconds=2, seed=4, shape=2)
REQUEST = Request(url="http://127.0.0.1:9/it's", headers={"a": '"b"'})


def statistics(name: str, times: dict[str, int]) -> dict[str, Any]:
    count = sum(times.values())
    return {
        "name": name,
        "num_requests": count,
        "num_failures": 0,
        "response_times": times,
        "start_time": 100.0,
        "last_request_timestamp": 102.0,
    }


def reported(*found: dict[str, Any]) -> str:
    """Return what three processes write, of which two are workers."""
    return f"[]\n[]\n{json.dumps(found, indent=4)}\n"


def test_the_schedule_of_the_file_is_that_of_the_load() -> None:
    """The function is taken out of the file, which imports Locust."""
    tree = ast.parse(locustfile_of(LOAD, REQUEST, [b"[[1]]"], 2))
    kept: list[ast.stmt] = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.Assign)]
    names: dict[str, Any] = {"json": json, "random": random}
    exec(compile(ast.Module(kept, []), "locustfile", "exec"), names)  # noqa: S102 - a file of this package
    assert list(schedule(LOAD)) == list(names["schedule"]())
    assert names["GIVEN"]["url"] == REQUEST.url
    assert names["GIVEN"]["headers"] == {"a": '"b"'}


def test_what_locust_cannot_share_is_a_usage_error() -> None:
    with pytest.raises(UsageProblem, match="share the schedule of a server load"):
        locustfile_of(Load(kind="offline"), REQUEST, [b""], 2)
    with pytest.raises(UsageProblem, match=r"bodies .* are text"):
        locustfile_of(LOAD, REQUEST, [b"\xff"], 2)


def test_what_failed_is_counted_and_is_in_no_latency() -> None:
    found = read_statistics(reported(statistics("served", {"2": 3, "150": 1}), statistics("failed", {"9": 5})))
    assert [0.002, 0.002, 0.002, 0.15] == list(found.latencies)
    assert (5, 2.0) == (found.failed, found.rate)


def test_a_load_without_an_answer_is_an_error() -> None:
    with pytest.raises(MeasurementError, match="5 of 5 requests failed"):
        read_statistics(reported(statistics("failed", {"9": 5})))
    for text in (reported(), "[{broken"):
        with pytest.raises(MeasurementError, match="Locust has reported no calls"):
            read_statistics(text)


ADDRESS = ["load", "http://127.0.0.1:9/predict", "--body=[[1]]", "--qps=20", "--seconds=1"]


def test_the_command_writes_the_file_or_runs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = list[list[str]]()

    def run(command: list[str], **_: Any) -> Any:
        asked.append(command)
        return SimpleNamespace(returncode=0, stdout=reported(statistics("served", {"2": 300})), stderr="")

    monkeypatch.setattr(extras, "find_spec", lambda _: object())
    monkeypatch.setattr("pytest_hwperf.loads.locust.subprocess.run", run)
    assert 0 == main([*ADDRESS, "--locustfile"])
    assert "class Share(User)" in capsys.readouterr().out
    assert 0 == main([*ADDRESS, "--engine=locust", "--workers=3", "--budget=latency_p95_ms=50"])
    shown = capsys.readouterr().out
    assert "locust: from a schedule of 20/s, 3 workers" in " ".join(shown.split())
    assert "Locust rounds times to 1 ms" in shown
    assert ["-u", "3", "-r", "3"] == asked[0][asked[0].index("-u") :][:4]


def test_what_cannot_be_run_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    for arguments, said in (
        ([*ADDRESS, "--engine=locust"], "pip install 'pytest-hwperf[locust]'"),
        ([*ADDRESS, "--engine=locust", "--workers=0"], "--workers=0: processes of Locust, from 1 to 256"),
        (["load", "a:b", "--qps=1", "--engine=locust"], "Locust sends requests: give an address"),
    ):
        assert USAGE == main(arguments)
        assert said in capsys.readouterr().err


def test_a_locust_that_fails_shows_its_log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    done = SimpleNamespace(returncode=1, stdout="", stderr="no such port")
    monkeypatch.setattr(extras, "find_spec", lambda _: object())
    monkeypatch.setattr("pytest_hwperf.loads.locust.subprocess.run", lambda *_, **__: done)
    assert USAGE == main([*ADDRESS, "--engine=locust"])
    assert "Locust ended with code 1\nno such port" in capsys.readouterr().err


def test_a_locust_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def hang(*_: object, timeout: float, **_named: object) -> None:
        raise subprocess.TimeoutExpired("locust", timeout)

    monkeypatch.setattr(extras, "find_spec", lambda _: True)
    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(MeasurementError, match="Locust has not ended within 72 s"):
        drive_locust("", 2, 2.0, 10.0, tmp_path)
