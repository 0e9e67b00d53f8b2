"""A pair that is stopped: it gives up what it waits for, and ends what it has started. The processes are none."""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from random import Random
from socket import socket
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_hwperf.gate.conductor import run_side_by_side
from pytest_hwperf.gate.pair import run as holding
from pytest_hwperf.gate.pair.lockstep import Chance, PairTrace, Program
from pytest_hwperf.gate.pair.run import Holder

SILENCE_S = 300.0
UNTIL = 1e9

Hold = Callable[[Event | None, Callable[[], None]], PairTrace]


@pytest.fixture
def ended() -> list[str]:
    """Sides whose processes were ended, in this order."""
    return []


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ended: list[str]) -> Iterator[Hold]:
    """Hold a pair of processes that live and say nothing; `waiting` is called whenever one is waited for."""
    theirs = list[socket]()

    def hold(stop: Event | None, waiting: Callable[[], None]) -> PairTrace:
        def launch(command: str, task: Any, place: Path, own: object, inherited: Sequence[int]) -> object:
            assert command == task.side
            assert own
            theirs.append(socket(fileno=os.dup(inherited[0])))
            (place / "log").write_text("started\n", encoding="utf-8")
            process = SimpleNamespace(poll=waiting)
            return SimpleNamespace(process=process, log_tail=lambda: "", end=lambda: ended.append(task.side))

        monkeypatch.setattr(holding, "launch", launch)
        ticks = count()
        holder = Holder(
            commands=cast("Any", {"baseline": "baseline", "candidate": "candidate"}),
            logs=tmp_path / "logs",
            plant=0.0,
            watches={},
            clock=lambda: 100.0 * next(ticks),
            numbers=count(1),
        )
        chance = Chance(Random(7))
        asked: dict[str, Any] = {"stage": "screen", "chance": chance, "until": UNTIL, "stop": stop}
        return holder.hold(Program(nodes=["t.py::test"], silence_s=SILENCE_S, **asked))

    yield hold
    for one in theirs:
        one.close()


def test_a_pair_that_is_stopped_while_it_waits_is_cut_off(hold: Hold, ended: list[str]) -> None:
    """One that nobody stops waits as long as a process may be silent."""
    stop = Event()
    for waiting, why, is_silent in (
        (stop.set, "was cut off when the time was up", False),
        (lambda: None, "was silent for 300 s", True),
    ):
        ended.clear()
        stop.clear()
        trace = hold(stop, waiting)
        assert why in str(trace.lost)
        assert is_silent == trace.is_silent
        assert {"baseline", "candidate"} == set(ended)


def test_an_error_of_another_pair_ends_the_processes_of_this_one(hold: Hold, ended: list[str]) -> None:
    """The error is what is raised, after the processes are gone."""
    stop, waits, lost = Event(), Event(), list[str]()

    def fail() -> None:
        assert waits.wait(SILENCE_S)
        raise OSError("no space")

    def wait_for_it() -> None:
        waits.set()
        assert stop.wait(SILENCE_S)

    with pytest.raises(OSError, match="no space"):
        run_side_by_side([fail, lambda: lost.append(str(hold(stop, wait_for_it).lost))], stop)
    assert "was cut off when the time was up" in lost[0]
    assert {"baseline", "candidate"} == set(ended)


def test_a_log_that_finds_no_room_ends_nothing(hold: Hold, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(holding, "new_folder", full)
    said = str(hold(None, lambda: None).lost)
    assert "was silent for 300 s (no log in " in said
    assert said.endswith("/logs: No space left on device)")
