"""`hwperf load`: what it is given, what it shows, and how it ends."""

import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import records as fake
from fakes.commands import Told

from pytest_hwperf.cli import USAGE, load, main
from pytest_hwperf.cli.output import FAILED, INCONCLUSIVE, INTERRUPTED, OK
from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, WorkerTask, decode_result, encode
from pytest_hwperf.loads.local import Times, schedule
from pytest_hwperf.measure.subjects import Subject, subject_of_callable
from pytest_hwperf.records.markers import Load
from pytest_hwperf.records.verdict import Judgement

OFFLINE, ROWS = ("--kind=offline",), ("--data=rows.npy",)
CALL = """
import threading
def call(rows=None): pass
def broken(): 1 / 0
async def waits(): pass
def fails(): 1 / (threading.current_thread() is threading.main_thread())
"""


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "loaded_here.py").write_text(CALL, encoding="utf-8")
    np.save(tmp_path / "rows.npy", np.zeros((8, 2)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("pytest_hwperf.gate.models.requests._WARM_UP_S", 0.02)


def test_every_kind_of_load_is_shown_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """And calls are tasks of an async function."""
    for called, options, arrivals in (
        ("call", ["--qps=2000", "--seconds=0.05"], "from a schedule of 2000/s"),
        ("call", ["--kind=single_stream", "--seconds=0.02", *ROWS, "--batch-size=2"], "calls one after the other"),
        ("call", ["--kind=concurrency", "--in-flight=2", "--seconds=0.02"], "a closed loop of 2"),
        ("call", [*OFFLINE, "--calls=50"], "50 calls due at once"),
        ("call", ["--kind=multi_stream", "--rows=4", "--seconds=0.02", *ROWS], "calls of 4 rows"),
        ("waits", [*OFFLINE, "--calls=60", "--in-flight=2"], "tasks, at most 2 at once"),
    ):
        assert main(["load", f"loaded_here:{called}", *options]) in (OK, INCONCLUSIVE)  # of so few calls
        shown = capsys.readouterr().out
        assert arrivals in " ".join(shown.split())
        assert "latency p50" in shown
        assert "throughput" in shown


def test_a_doubt_that_voids_nothing_leaves_the_exit_code_alone() -> None:
    kept = Judgement(run=fake.run(), figures=(), verdicts=())
    doubts = ("degrades", "generator adds", "generator late")
    assert [OK, OK, INCONCLUSIVE] == [load.exit_code(kept, 0, [doubt]) for doubt in doubts]


def test_budgets_decide_the_exit_code_and_the_report_is_written() -> None:
    for limit, codes in (("1e-9", [FAILED]), ("1e6", [OK, INCONCLUSIVE])):
        given = ["--kind=single_stream", "--seconds=0.02", f"--budget=latency_p50_ms={limit}", "--json=out.json"]
        assert main(["load", "loaded_here:call", *given]) in codes
        (judgement,) = json.loads(Path("out.json").read_text(encoding="utf-8"))["report"]["judgements"]
        assert {"loaded_here:call"} == {judgement["run"]["test"]}
        assert judgement["verdicts"]


@pytest.mark.live
def test_the_highest_rate_is_searched_and_confirmed(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """A server that takes a millisecond a call, without a clock."""

    def run(asked: Load, _stream: Any, times: Times) -> None:
        free = 0.0
        for number, due in enumerate(schedule(asked)):
            free = max(free, due) + 0.001
            times.note(number, due, due, free)

    monkeypatch.setattr(load, "run_load", run)
    shown = told(OK, "load", "loaded_here:call", "--find-peak", "--p95-ms=5", "--seconds=10").out
    (peak,) = re.findall(r"^peak: (\S+) calls a second with p95 within 5 ms, confirmed$", shown, re.MULTILINE)
    assert 600 < float(peak) < 850  # an M/D/1 queue keeps it up to a utilisation of about three quarters
    assert "800/s: not served" in shown
    answer = told(USAGE, "load", "loaded_here:call", "--find-peak", "--p95-ms=0.5", "--qps=100").err
    assert "nothing is served within 0.5 ms even at " in answer


def elsewhere(*_: Any) -> Subject:
    """Return calls that another process answers."""
    return replace(subject_of_callable(len, ([],), {}, y_true=None, batch_size=None), elsewhere=True)


def answered_below_400(asked: Load, _stream: Any, times: Times) -> None:
    """Answer each call in 0.1 ms; from 400 a second on every one fails."""
    for number, due in enumerate(schedule(asked)):
        if asked.qps < 400:
            times.note(number, due, due, due + 1e-4)
        else:
            times.note_failure(TimeoutError("too late"))


def test_a_peak_keeps_its_budgets_too(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """A rate at which every request fails is not served."""
    monkeypatch.setattr(load, "run_load", answered_below_400)
    monkeypatch.setattr(load, "_subject", elsewhere)
    searched = ["load", "http://127.0.0.1:9", "--find-peak", "--p95-ms=5", "--seconds=10"]
    assert "400/s: not served, too few calls, 0 calls" in told(OK, *searched, "--budget=latency_p50_ms=1").out
    told(FAILED, *searched, "--budget=latency_p50_ms=0.05")


def test_a_peak_that_a_late_generator_has_found_is_inconclusive(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """Below 400 a second all calls keep 5 ms; each is issued 1 ms late, and half a millisecond would not matter."""

    def run(asked: Load, _stream: Any, times: Times) -> None:
        for number, due in enumerate(schedule(asked)):
            times.note(number, due, due + 1e-3, due + (1.1e-3 if asked.qps < 400 else 6e-3))

    monkeypatch.setattr(load, "run_load", run)
    shown = told(INCONCLUSIVE, "load", "loaded_here:call", "--find-peak", "--p95-ms=5", "--seconds=10").out
    assert "confirmed, p95 within 1.10 ms" in shown
    assert max(map(len, shown.splitlines())) <= 100  # columns, where there is no terminal


def test_ctrl_c_shows_the_calls_that_were_over(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    def interrupted(_load: Any, _stream: Any, times: Times) -> None:
        for number in range(200):
            times.note(number, number / 100, number / 100, number / 100 + 0.001)
        raise KeyboardInterrupt

    monkeypatch.setattr(load, "run_load", interrupted)
    shown = told(INTERRUPTED, "load", "loaded_here:call", "--qps=100", "--json=out.json").out
    assert "200 calls" in shown
    assert "interrupted: these are the calls that were over" in shown
    assert json.loads(Path("out.json").read_text(encoding="utf-8"))["report"]["partial"]


def test_ctrl_c_before_any_call_and_during_a_search(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(load, "run_load", interrupted)
    assert "interrupted before a call was over" in told(INTERRUPTED, "load", "loaded_here:call", "--qps=100").out
    answer = told(INTERRUPTED, "load", "loaded_here:call", "--find-peak", "--p95-ms=5").out
    assert "interrupted: the rates above are all that were tried" in answer


REFUSED: Sequence[tuple[Sequence[str], str]] = (
    (["loaded_here:call"], "a server load needs qps, the calls a second, such as qps=200"),
    (["loaded_here:call", "--kind=servr"], "kind='servr' is no load. Did you mean 'server'?"),
    (["loaded_here:call", "--find-peak"], "--find-peak takes a server load and the bound of its p95"),
    (["http://127.0.0.1:9", "--find-peak", "--engine=locust"], "leave --engine=locust and --locustfile out"),
    (["loaded_here:call", "--qps=1", "--json=/proc/r.json"], "--json=/proc/r.json cannot be written"),
    (["loaded_here:none", "--qps=1"], "loaded_here:none cannot be imported"),
    (["loaded_here:broken", "--qps=1"], "the target cannot be called: ZeroDivisionError: division by zero"),
    (["rows.npy", "--qps=1"], "rows.npy: an ONNX file needs rows: give --data=FILE"),
    (["model.onnx", "--qps=1"], "model.onnx is neither a file nor of the form module:function"),
    (["grpc://127.0.0.1:8001/m", "--qps=1"], "Triton: http://127.0.0.1:8000/v2/models/MODEL/infer"),
    (["loaded_here:call", "--qps=1", "--body=x"], "--body, --header and --method are of requests"),
    (["http://127.0.0.1:9", "--qps=1", "--body=x", "--data=rows.npy"], "both what is sent: give one"),
    (["http://127.0.0.1:9", "--qps=1", "--body=@none"], "--body=@none cannot be read (No such file"),
    (["http://127.0.0.1:9", "--qps=1", "--header=none"], "write NAME: VALUE"),
    (["loaded_here:call", "--qps=1", "--budget=latncy_p95_ms=1"], "Did you mean 'latency_p95_ms'?"),
    (["loaded_here:fails", *OFFLINE, "--calls=40", "--in-flight=2"], "40 of 40 calls failed: ZeroDivisionError: "),
    (
        ["loaded_here:call", *OFFLINE, "--calls=30", "--json=pipe"],
        "--json=pipe cannot be written (not a regular file): give another place",
    ),
    (["loaded_here:waits", *OFFLINE, "--calls=60", "--in-flight=2", "--carriers=processes"], "leave carriers= out"),
)


def test_what_cannot_be_meant_is_a_usage_error(told: Told) -> None:
    """A pipe, as a device, stays what it is."""
    if sys.platform == "win32":
        pytest.skip("there is no mkfifo")
    os.mkfifo("pipe")
    assert [] == [one for one in REFUSED if one[1] not in told(USAGE, "load", *one[0]).err]
    assert Path("pipe").is_fifo()


@pytest.mark.skipif(sys.platform == "win32", reason="processes carry loads on POSIX only")
def test_processes_make_the_calls_of_a_function(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """Each is this command again, where it finds its task."""

    def run(asked: Load, task: WorkerTask, command: Command, times: Times) -> float:
        assert ("load", 2) == (task.role, asked.processes)
        assert ["load", "loaded_here:call", *given] == [*command.arguments]
        for number in range(60):
            times.note(number, 0.0, 0.0, 0.001 * (number + 1))
        return 0.1

    monkeypatch.setattr(load, "run_by_processes", run)
    given = ["--kind=offline", "--calls=60", "--in-flight=2", "--carriers=processes"]
    assert "60 calls due at once, 2 processes" in " ".join(told(OK, "load", "loaded_here:call", *given).out.split())


def test_a_process_that_is_asked_for_a_share_replies_and_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "begin").write_text("0.0", encoding="ascii")
    task = WorkerTask(role="load", reply_to=str(tmp_path / "0" / "result.json"))
    monkeypatch.setenv(ENVIRONMENT, encode(task))
    ended = main(["load", "loaded_here:call", "--kind=offline", "--calls=9", "--in-flight=2", "--carriers=processes"])
    result = decode_result((tmp_path / "0" / "result.json").read_bytes())
    assert (OK, "") == (ended, capsys.readouterr().out)
    assert 9 == len(result.series["due"])
