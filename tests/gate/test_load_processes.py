"""Loads whose calls processes make: what they are asked, and what is made of their answers."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic

import pytest

from pytest_hwperf.gate.models import load
from pytest_hwperf.gate.models.load import asked_share, check_processes, command_again, reply_share, run_by_processes
from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, WorkerResult, WorkerTask, encode
from pytest_hwperf.loads.local import Times
from pytest_hwperf.measure.stream import OwnLoop, Stream
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import Load

LOAD = Load(kind="offline", calls=6, in_flight=2, carriers="processes")
TASK = WorkerTask(role="load", node="test_it.py::test_it")


def share(*calls: tuple[float, float, float], notes: Sequence[str] = ()) -> WorkerResult:
    columns = zip(*calls, strict=True)
    series = {name: [*column] for name, column in zip(("due", "issued", "ended"), columns, strict=True)}
    return WorkerResult(values={"cpu_time": 0.25}, reasons={}, notes=[*notes], runs=[], series=series)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[WorkerResult]:
    """What the processes answer."""
    given = list[WorkerResult]()

    def ask(task: WorkerTask, commands: Sequence[Command], *, at_once: int, until: float) -> list[WorkerResult]:
        assert until > monotonic() + 3600
        assert (task, 2, 2) == (TASK, len(commands), at_once)
        return given

    monkeypatch.setattr(load, "ask", ask)
    return given


def test_calls_of_all_processes_are_put_together_in_their_order(answers: list[WorkerResult]) -> None:
    answers += [share((0.0, 0.1, 0.5), (2.0, 2.0, 2.5)), share((1.0, 1.0, 1.25))]
    times = Times()
    spent = run_by_processes(LOAD, TASK, command_again((), LOAD), times)
    served = times.served()
    assert 0.5 == spent
    assert [0.0, 1.0, 2.0] == list(served.due)
    assert [0.5, 1.25, 2.5] == list(served.ended)
    assert served.issued[0] == 0.1


def test_what_was_over_is_kept_where_they_were_interrupted(answers: list[WorkerResult]) -> None:
    answers += [share((0.0, 0.0, 0.5), notes=["interrupted"]), share((1.0, 1.0, 1.25))]
    times = Times()
    with pytest.raises(KeyboardInterrupt):
        run_by_processes(LOAD, TASK, command_again((), LOAD), times)
    assert 2 == times.made


def begun(monkeypatch: pytest.MonkeyPatch, calls: Iterator[int]) -> None:
    monkeypatch.setattr(load, "ready", lambda _: 0.0)
    monkeypatch.setattr(load, "numbers", lambda _: calls)


def test_a_process_replies_with_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    begun(monkeypatch, iter([0, 2, 5, 7]))
    made = list[int]()
    result = reply_share(LOAD, Stream(lambda: made.append(1), None), WorkerTask(role="load", reply_to="0/result.json"))
    assert ([1, 1, 1], [0.0, 0.0, 0.0], []) == (made, list(result.series["due"]), result.notes)
    assert 0 <= result.values["cpu_time"] < 60


def test_a_call_that_fails_ends_its_process_with_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    begun(monkeypatch, iter([0, 1, 7]))
    with pytest.raises(ZeroDivisionError) as caught:
        reply_share(LOAD, Stream(lambda: 1 / 0, None), TASK)
    assert ["hwperf: 2 of 2 calls failed under the load offline calls=6 in_flight=2 carriers=processes"] == (
        caught.value.__notes__
    )


def test_an_interrupted_process_tells_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    begun(monkeypatch, iter([0, 1, 7]))
    calls = iter([None])

    def call() -> None:
        for _ in calls:
            return
        raise KeyboardInterrupt

    result = reply_share(LOAD, Stream(call, None), TASK)
    assert (["interrupted"], 1) == (result.notes, len(result.series["due"]))


def test_async_calls_are_carried_by_no_process() -> None:
    async def call() -> None: ...

    with closing(OwnLoop()) as loop:
        stream = Stream(call, None, loop)
        stream.first()
        with pytest.raises(UsageProblem, match="async calls only wait, and are tasks of one loop: leave carriers= out"):
            check_processes(LOAD, stream)


def test_a_process_of_the_command_is_the_command_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the rate and the seed that a search has come to: the last one given counts."""
    monkeypatch.chdir(tmp_path)
    given = ["load", "m:call", "--qps=5"]
    load = Load(kind="server", qps=7.5, seconds=3.0, seed=9, in_flight=2, carriers="processes")
    command = command_again(given, load)
    assert command.directory == tmp_path
    assert command.line(tmp_path)[1:] == [
        "-P", "-m", "pytest_hwperf.cli", *given, "--qps=7.5", "--seconds=3.0", "--seed=9",
    ]  # fmt: skip
    assert given == [*command_again(given, LOAD).arguments]


def test_a_share_is_asked_by_the_environment_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    assert asked_share() is None
    monkeypatch.setenv(ENVIRONMENT, encode(TASK))
    assert TASK == asked_share()
    assert ENVIRONMENT not in os.environ
    monkeypatch.setenv(ENVIRONMENT, encode(WorkerTask(role="memory", node="x")))
    assert asked_share() is None
    assert ENVIRONMENT in os.environ
