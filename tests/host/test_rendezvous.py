"""Processes that begin together, without processes: their files, and what becomes of one that has ended."""

import signal
from itertools import islice
from pathlib import Path
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_hwperf.host import one_shot, signals
from pytest_hwperf.host.launch import Command, Launched
from pytest_hwperf.host.one_shot import begin_together, numbers, ready
from pytest_hwperf.host.worker_protocol import WorkerResult, WorkerTask, encode
from pytest_hwperf.records.errors import WorkerError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator


class Process:
    def __init__(self, code: int | None) -> None:
        self._code = code

    def poll(self) -> int | None:
        return self._code


def launched(place: Path, code: int | None = None) -> Launched:
    place.mkdir()
    (place / "log").write_text("a line of it", encoding="utf-8")
    return Launched(process=cast("subprocess.Popen[bytes]", Process(code)), log=place / "log")


def test_those_that_are_ready_begin_at_one_instant(tmp_path: Path) -> None:
    places = [tmp_path / "0", tmp_path / "1"]
    processes = [launched(place) for place in places]
    for place in places:
        (place / "ready").touch()
    begin_together(processes, places, monotonic())
    (begins,) = {ready(place) for place in places}
    assert begins == pytest.approx(perf_counter(), abs=30)


@pytest.mark.parametrize(
    ("code", "said"), [(3, "ended with code 3 before its load"), (None, "was not ready for its load in time")]
)
def test_one_that_does_not_come_ends_the_wait_with_its_log(tmp_path: Path, code: int | None, said: str) -> None:
    """Also where it is not the one that is waited for."""
    places = [tmp_path / "0", tmp_path / "1"]
    processes = [launched(places[0]), launched(places[1], code)]
    with pytest.raises(WorkerError, match=said) as caught:
        begin_together(processes, places, monotonic())
    assert "a line of it" in cast("Any", caught.value).log
    assert not (tmp_path / "begin").exists()


def test_each_number_is_taken_once(tmp_path: Path) -> None:
    takers: list[Iterator[int]] = [numbers(tmp_path / name) for name in "abc"]
    taken = [next(takers[turn]) for turn in (0, 1, 0, 2, 2, 1, 0)]
    assert [*range(7)] == taken
    assert [7, 8] == [*islice(takers[2], 2)]
    for taker in takers:
        cast("Any", taker).close()


def test_where_the_asking_process_is_interrupted_the_others_tell_what_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, interrupts = list[int](), iter([True])
    answer = WorkerResult(values={"cpu_time": 1.0}, reasons={}, notes=["interrupted"], runs=[])

    class Interrupted(Process):
        pid = 7

        def wait(self, _timeout: float) -> int:
            if next(interrupts, False):
                raise KeyboardInterrupt
            return 0

    def send(number: int, kind: int) -> None:
        assert number == Interrupted.pid
        sent.append(kind)
        if len(sent) == 2:
            raise ProcessLookupError  # it has ended meanwhile

    def launch(command: Command, task: WorkerTask, place: Path, environment: object) -> Launched:
        assert ({}, "asked") == (environment, command.module)
        (place / "ready").touch()
        (place / "result.json").write_text(encode(answer), encoding="utf-8")
        process = cast("subprocess.Popen[bytes]", Interrupted(None))
        return Ended(process=process, log=Path(task.reply_to))

    class Ended(Launched):
        def end(self) -> None:
            sent.append(0)

    monkeypatch.setattr(signals, "send", send)
    monkeypatch.setattr(one_shot, "launch", launch)
    command = Command(arguments=(), directory=tmp_path, environment={}, module="asked")
    assert [answer] * 2 == one_shot.ask(WorkerTask(role="load"), [command] * 2, at_once=2)
    assert [signal.SIGINT, signal.SIGINT, 0, 0] == sent
