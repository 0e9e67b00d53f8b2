"""A process of a pair, seen from its conductor's end of a real socket."""

import socket
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_hwperf.core.errors import WorkerError
from pytest_hwperf.host.worker_protocol import PROTOCOL, WorkerTask
from pytest_hwperf.pairs.cpu_pin import CpuPin, processors
from pytest_hwperf.pairs.frames import Frame, pack, unpack
from pytest_hwperf.pairs.turns import Position, Turns

ORDER = WorkerTask(role="pair", node="", label="baseline", answer="0", token="secret")  # noqa: S106 - no secret
HERE = Position(node="t.py::test", index=0, label="")


class Left(Exception):  # noqa: N818 - no error: what `os._exit` does to a real process
    pass


def leave(code: int) -> None:
    raise Left(code)


class FakeSubject:
    """Takes five nanoseconds for each call."""

    def prepare(self) -> None:
        pass

    def block(self, calls: int, batch: int) -> "array[int]":
        return array("q", [5 * batch] * calls)

    def exact(self) -> Mapping[str, Any]:
        return {"samples": [], "missing": {"accuracy": "no labels"}}

    def energy(self, calls: int, seconds: float) -> Mapping[str, Any]:
        return {"joules": 0.25 * calls, "seconds": seconds}


@pytest.fixture
def line() -> Iterator[tuple[Turns, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield Turns(ORDER, theirs, leave), ours
    ours.close()
    theirs.close()


def receive(end: socket.socket) -> Frame:
    return unpack(lambda count: end.recv(count, socket.MSG_WAITALL))


def send(end: socket.socket, kind: str, **fields: Any) -> None:
    end.sendall(pack(Frame(kind=kind, fields=fields)))


def test_it_greets_with_its_token_and_protocol() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = Turns.connect(replace(ORDER, answer=str(listener.getsockname()[1])))
        with listener.accept()[0] as end:
            hello = receive(end)
            found._line.close()

    assert hello.kind == "hello"
    assert hello.fields["token"] == "secret"  # noqa: S105 - no secret
    assert (PROTOCOL, "baseline") == (hello.fields["protocol"], hello.fields["side"])


@pytest.mark.parametrize("answer", ["1", "no port"])
def test_a_conductor_that_is_gone_is_a_clear_error(answer: str) -> None:
    with pytest.raises(WorkerError, match="the conductor of this process does not answer"):
        Turns.connect(replace(ORDER, answer=answer))


def test_it_runs_what_was_selected(line: tuple[Turns, socket.socket]) -> None:
    turns, end = line
    send(end, "select", nodes=["b", "a"])

    assert turns.chosen(["a", "b", "c"], {"x.py": "ImportError"}) == ["b", "a"]
    assert receive(end).fields == {"nodes": ["a", "b", "c"], "errors": {"x.py": "ImportError"}}


def test_anything_else_than_a_selection_is_refused(line: tuple[Turns, socket.socket]) -> None:
    turns, end = line
    send(end, "run")

    with pytest.raises(WorkerError, match="said 'run' where 'select' was due"):
        turns.chosen([], {})


def test_it_measures_until_it_is_told_to_go_on(line: tuple[Turns, socket.socket]) -> None:
    turns, end = line
    send(end, "run", calls=3, batch=2, rest=True)
    send(end, "exact")
    send(end, "energy", calls=4, seconds=0.6)
    send(end, "finish")
    turns.serve(HERE, {"scenario": "onnx_fp32"}, FakeSubject())

    ready, latencies, exact, energy = (receive(end) for _ in range(4))
    assert {"node": HERE.node, "index": 0, "label": "", "facts": {"scenario": "onnx_fp32"}} == ready.fields
    assert [10, 10, 10] == list(latencies.numbers)
    assert {"cpu_ns", "thread_ns", "switches"} == set(latencies.fields)
    assert exact.fields["missing"] == {"accuracy": "no labels"}
    assert energy.fields == {"joules": 1.0, "seconds": 0.6}


def test_what_is_prepared_belongs_to_no_call(
    line: tuple[Turns, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0]

    class Preparing(FakeSubject):
        def prepare(self) -> None:
            now[0] += 80_000_000

        def block(self, calls: int, batch: int) -> "array[int]":
            now[0] += 5 * batch * calls
            return super().block(calls, batch)

    clock = SimpleNamespace(process_time_ns=lambda: now[0], thread_time_ns=lambda: now[0])
    monkeypatch.setattr("pytest_hwperf.pairs.turns.time", clock)
    turns, end = line
    send(end, "run", calls=3, batch=2, rest=False)
    send(end, "finish")
    turns.serve(HERE, {}, Preparing())

    _, latencies = receive(end), receive(end)
    assert {"cpu_ns": 30, "thread_ns": 30} == {name: latencies.fields[name] for name in ("cpu_ns", "thread_ns")}


def test_it_stays_on_a_processor_until_it_is_told_to_go_on() -> None:
    allowed = [{0, 1, 2}]  # the latest is the present
    seen: list[set[int]] = []

    class Watched(FakeSubject):
        def block(self, calls: int, batch: int) -> "array[int]":
            seen.append(allowed[-1])
            return super().block(calls, batch)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        pin = CpuPin(lambda _: allowed[-1], lambda _, numbers: allowed.append({*numbers}), lambda: ())
        turns = Turns(ORDER, theirs, leave, lambda: pin)
        for number in (1, 2):
            send(ours, "pin", processor=number)
            send(ours, "run", calls=1, batch=1, rest=False)
        send(ours, "pin", processor=7)
        send(ours, "run", calls=1, batch=1, rest=False)
        send(ours, "pin", processor=1)
        send(ours, "finish")
        turns.serve(HERE, {}, Watched())
        answers = [receive(ours) for _ in range(8)]

    assert seen == [{1}, {2}, {0, 1, 2}]
    assert [frame.fields["reason"] for frame in answers if frame.kind == "pin"] == [
        "",
        "",
        "may run on processors 0, 1, 2 only",
        "",
    ]
    assert allowed[-1] == {0, 1, 2}


def test_a_call_that_fails_frees_its_thread(line: tuple[Turns, socket.socket]) -> None:
    class Failing(FakeSubject):
        def block(self, calls: int, batch: int) -> "array[int]":
            raise ZeroDivisionError(f"{calls} calls in {batch}")

    before = processors()
    turns, end = line
    send(end, "pin", processor=before[0])
    send(end, "run", calls=1, batch=1, rest=True)
    with pytest.raises(ZeroDivisionError):
        turns.serve(HERE, {}, Failing())

    assert processors() == before


def test_what_it_does_not_know_it_refuses(line: tuple[Turns, socket.socket]) -> None:
    turns, end = line
    send(end, "dance")

    with pytest.raises(WorkerError, match="asked for 'dance', which this version does not know"):
        turns.serve(HERE, {}, FakeSubject())


@pytest.mark.parametrize(
    ("busy_ms", "rest", "waited_ms"),
    [(0, True, 1), (35, True, 36), (1000, True, 50), (1000, False, 0)],
    ids=["stands still", "a pool that spins on for a while", "one that never stops", "no hand-over"],
)
def test_it_waits_for_its_own_threads_before_it_gives_the_turn_away(
    line: tuple[Turns, socket.socket], monkeypatch: pytest.MonkeyPatch, busy_ms: int, *, rest: bool, waited_ms: int
) -> None:
    """By a clock that only sleeping moves: other threads compute for the first `busy_ms` of it."""
    turns, end = line
    slept = [0]  # milliseconds

    def sleep(seconds: float) -> None:
        slept[0] += round(seconds * 1000)

    clock = SimpleNamespace(
        sleep=sleep,
        perf_counter=lambda: slept[0] / 1000,
        thread_time_ns=lambda: 0,
        process_time_ns=lambda: min(slept[0], busy_ms) * 1_000_000,
    )
    monkeypatch.setattr("pytest_hwperf.pairs.turns.time", clock)
    send(end, "run", calls=1, batch=1, rest=rest)
    send(end, "finish")
    turns.serve(HERE, {}, FakeSubject())

    assert [waited_ms] == slept


def test_a_conductor_that_is_gone_ends_the_process(line: tuple[Turns, socket.socket]) -> None:
    turns, end = line
    end.close()

    with pytest.raises(Left):
        turns.receive()
    with pytest.raises(Left):
        turns.send("tested")


def test_it_leaves_at_once_when_it_has_said_farewell(line: tuple[Turns, socket.socket]) -> None:
    turns, end = line
    with pytest.raises(Left):
        turns.bye(["a.py"])

    assert receive(end).fields == {"files": ["a.py"]}
