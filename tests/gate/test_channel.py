"""The conductor's ends of the lines, over real sockets to a process that is none: who is believed, who is given up."""

import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_hwperf.gate.channel import (
    Bye,
    Connection,
    Finish,
    Frame,
    Hello,
    Select,
    WorkerLostError,
    encode_frame,
    sockets,
)
from pytest_hwperf.host.launch import Launched
from pytest_hwperf.host.worker_protocol import PROTOCOL
from pytest_hwperf.records.evidence import Side


def launched(code: int | None = None, log: Path = Path("unused")) -> Launched:
    """A process that runs (None) or has ended with `code`."""

    def wait(seconds: float) -> int:
        if code is None:
            raise subprocess.TimeoutExpired("worker", seconds)
        return code

    process = SimpleNamespace(poll=lambda: code, returncode=code, wait=wait)
    return Launched(process=cast("Any", process), log=log)


def hello(side: Side = "baseline", protocol: int = PROTOCOL) -> bytes:
    return encode_frame(Frame(message=Hello(protocol=protocol, side=side)))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    found = tmp_path / "log"
    found.write_text("no module named x\n", encoding="utf-8")
    return found


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = sockets()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_the_process_that_was_started_is_believed(pair: tuple[socket.socket, socket.socket], log: Path) -> None:
    ours, theirs = pair
    line = Connection(ours, launched(log=log), "baseline")
    theirs.sendall(hello() + encode_frame(Frame(message=Bye(files=()))))
    line.greet(5)
    assert Bye(files=()) == line.receive(5).message


def test_nobody_can_connect_to_a_pair(pair: tuple[socket.socket, socket.socket]) -> None:
    """Neither end has an address, and no process inherits one that it is not given."""
    for end in pair:
        assert (socket.AF_UNIX, "") == (end.family, end.getsockname())
        assert not end.get_inheritable()


def test_the_end_of_a_process_is_no_standard_stream(pair: tuple[socket.socket, socket.socket]) -> None:
    assert pair[1].fileno() > 2


def framed(text: bytes) -> bytes:
    return struct.pack("<II", len(text), 0) + text


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        (b"GET / HTTP/1.1\r\n\r\n" + b"x" * 64, "is none of this protocol"),
        (framed(b"[" * 4000), "a message cannot be read"),
        (framed(b'{"message":{"type":"Hello","protocol":4,"side":"\\ud800"}}'), "a message cannot be read"),
        (framed(b"\xff\xfe"), "a message cannot be read"),
        (struct.pack("<II", 50 << 20, 0), "a message of 52428800 \\+ 0 bytes is none of this protocol"),
        (struct.pack("<II", 2, 50 << 20) + b"{}", "a message of 2 \\+ 52428800 bytes is none of this protocol"),
        (hello(side="candidate"), "calls itself candidate"),
        (encode_frame(Frame(message=Bye(files=()))), "sent 'Bye' where 'Hello' was due"),
        (
            hello(protocol=PROTOCOL + 1),
            f"uses protocol {PROTOCOL + 1} instead of {PROTOCOL}: both sides need the same version of pytest-hwperf",
        ),
    ],
)
def test_another_greeting_is_refused(
    pair: tuple[socket.socket, socket.socket], log: Path, content: bytes, reported: str
) -> None:
    """Also one that is no JSON that Python could read, or claims to be large: nothing of that is waited for."""
    ours, theirs = pair
    theirs.sendall(content)
    with pytest.raises(
        WorkerLostError, match=f"^baseline: .*{reported}.*\\.\nThe end of its log:\n  no module named x$"
    ):
        Connection(ours, launched(log=log), "baseline").greet(5)


def test_a_process_that_ends_before_it_connects_is_not_waited_for(
    pair: tuple[socket.socket, socket.socket], log: Path
) -> None:
    with pytest.raises(WorkerLostError, match="baseline: ended with code 3 before it had connected"):
        Connection(pair[0], launched(3, log), "baseline").greet(60)


def test_a_message_that_never_ends_is_given_up(pair: tuple[socket.socket, socket.socket]) -> None:
    """A byte now and then does not hold the conductor: the whole message is due at the deadline."""
    ours, theirs = pair
    ticks = iter(range(0, 1000, 10))

    def clock() -> float:
        theirs.sendall(b"\x01")
        return next(ticks)

    with pytest.raises(WorkerLostError, match="was silent for 30 s"):
        Connection(ours, launched(), "baseline", clock=clock).receive(30)
    assert next(ticks) <= 60


def test_a_message_may_come_in_pieces(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    content = encode_frame(Frame(message=Bye(files=("x" * 5000,))))

    def trickle() -> None:
        for start in range(0, len(content), 999):
            theirs.sendall(content[start : start + 999])

    thread = threading.Thread(target=trickle)
    line = Connection(ours, launched(), "baseline")
    theirs.sendall(hello())
    line.greet(5)
    thread.start()
    found = line.receive(5)
    thread.join()
    assert Bye(files=("x" * 5000,)) == found.message


def test_silence_ends_at_the_deadline(pair: tuple[socket.socket, socket.socket]) -> None:
    """By the conductor's clock, here one that jumps."""
    ticks = iter(range(0, 1000, 40))
    line = Connection(pair[0], launched(), "baseline", clock=lambda: next(ticks))
    with pytest.raises(WorkerLostError, match="was silent for 60 s"):
        line.receive(60)


def test_no_message_is_waited_for_when_the_time_of_all_is_up(pair: tuple[socket.socket, socket.socket]) -> None:
    ticks = iter(range(0, 1000, 40))
    line = Connection(pair[0], launched(), "candidate", until=100, clock=lambda: next(ticks))
    with pytest.raises(WorkerLostError, match="candidate: was cut off when the time was up"):
        line.receive(300)
    assert next(ticks) <= 240


def test_a_process_that_takes_no_message_is_given_up(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is stopped: what is sent to it fills its socket, which nobody empties."""
    monkeypatch.setattr("pytest_hwperf.gate.channel._SEND_S", 0.2)
    line = Connection(pair[0], launched(), "baseline")
    with pytest.raises(WorkerLostError, match=r"baseline: took no message for 0\.2 s"):
        line.send(Select(nodes=("x" * 1000,) * 10_000))


def test_a_dead_process_is_seen_though_a_child_holds_its_line(pair: tuple[socket.socket, socket.socket]) -> None:
    """Its end of the line is open still, so that nothing but its own death tells."""
    with pytest.raises(WorkerLostError, match="ended with code -11 before it had connected"):
        Connection(pair[0], launched(-11), "baseline").receive(60)


def test_what_a_dead_process_has_said_is_heard_first(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(hello())
    theirs.close()
    line = Connection(ours, launched(0), "baseline")
    line.greet(5)
    with pytest.raises(WorkerLostError, match="baseline: ended with code 0 in the middle of the pair"):
        line.receive(5)


@pytest.mark.parametrize(
    "act", [lambda line: line.receive(5), lambda line: line.send(Finish())], ids=["receive", "send"]
)
def test_a_closed_line_is_a_lost_process(
    pair: tuple[socket.socket, socket.socket], act: Callable[[Connection], object]
) -> None:
    ours, theirs = pair
    theirs.close()
    ours.shutdown(socket.SHUT_RDWR)
    with pytest.raises(WorkerLostError, match="closed its connection before it had connected"):
        act(Connection(ours, launched(), "baseline"))


def test_a_line_that_breaks_is_a_lost_process(pair: tuple[socket.socket, socket.socket]) -> None:
    class Broken:
        def fileno(self) -> int:
            return pair[0].fileno()

        def setsockopt(self, *_: object) -> None:
            return None

        def recv(self, _: int) -> bytes:
            raise ConnectionResetError("reset by peer")

    pair[1].sendall(b"x")
    with pytest.raises(WorkerLostError, match="baseline: closed its connection"):
        Connection(cast("Any", Broken()), launched(), "baseline").receive(5)
