"""The conductor's ends of the lines, over real sockets to a process that is none: who is let in, who is given up."""

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_hwperf.core.evidence import Side
from pytest_hwperf.host.launch import Launched
from pytest_hwperf.host.worker_protocol import PROTOCOL
from pytest_hwperf.pairs.channel import Connection, Listener, WorkerLostError
from pytest_hwperf.pairs.messages import Bye, Finish, Frame, Hello, encode_frame


def launched(code: int | None = None) -> Launched:
    """A process that runs (None) or has ended with `code`."""

    def wait(seconds: float) -> int:
        if code is None:
            raise subprocess.TimeoutExpired("worker", seconds)
        return code

    process = SimpleNamespace(poll=lambda: code, returncode=code, wait=wait)
    return Launched(process=cast("Any", process), log=Path("unused"))


def hello(token: str = "", *, side: Side = "baseline", protocol: int = PROTOCOL) -> bytes:
    return encode_frame(Frame(message=Hello(protocol=protocol, token=token, side=side)))


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    listener = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(listener.getsockname())
    theirs = listener.accept()[0]
    yield ours, theirs
    for one in (listener, ours, theirs):
        one.close()


def coming(listener: Listener, *hellos: bytes) -> list[socket.socket]:
    """Connect once for each hello, in this order."""
    lines = []
    for hello in hellos:
        line = socket.create_connection(("127.0.0.1", listener.port))
        line.sendall(hello)
        lines.append(line)
    return lines


def test_the_process_that_was_started_is_let_in(listener: Listener) -> None:
    (theirs,) = coming(listener, hello(token=listener.token))
    line = listener.accept("baseline", launched(), 5)
    theirs.sendall(encode_frame(Frame(message=Bye(files=()))))

    assert Bye(files=()) == line.receive(5).message
    line.close()
    theirs.close()


def test_strangers_are_turned_away(listener: Listener) -> None:
    """Noise, a wrong token, the other side's process, then the right one."""
    strangers = coming(
        listener,
        b"GET / HTTP/1.1\r\n\r\n" + b"x" * 64,
        hello(token="wrong"),  # noqa: S106 - no secret
        hello(token=listener.token, side="candidate"),
        encode_frame(Frame(message=Bye(files=()))),
        hello(token=listener.token),
    )
    line = listener.accept("baseline", launched(), 5)

    line.close()
    assert strangers[-1].recv(1) == b""  # the last one's line was open until now
    for stranger in strangers:
        stranger.close()


def test_another_protocol_is_named(listener: Listener) -> None:
    (theirs,) = coming(listener, hello(token=listener.token, protocol=PROTOCOL + 1))
    with pytest.raises(
        WorkerLostError, match=f"uses protocol {PROTOCOL + 1} instead of {PROTOCOL}: both sides need the same version"
    ):
        listener.accept("baseline", launched(), 5)
    theirs.close()


def test_a_process_that_ends_before_it_connects_is_not_waited_for(listener: Listener) -> None:
    with pytest.raises(WorkerLostError, match="ended with code 3 before it had connected"):
        listener.accept("baseline", launched(3), 60)


def test_a_process_that_never_connects_is_given_up(listener: Listener) -> None:
    with pytest.raises(WorkerLostError, match=r"did not connect within 0\.1 s"):
        listener.accept("baseline", launched(), 0.1)


def test_a_message_may_come_in_pieces(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    content = hello("x" * 5000)

    def trickle() -> None:
        for start in range(0, len(content), 999):
            theirs.sendall(content[start : start + 999])

    thread = threading.Thread(target=trickle)
    thread.start()
    found = Connection(ours, launched()).receive(5)
    thread.join()

    assert Hello(protocol=PROTOCOL, token="x" * 5000, side="baseline") == found.message


def test_silence_ends_at_the_deadline(pair: tuple[socket.socket, socket.socket]) -> None:
    """By the conductor's clock, here one that jumps."""
    ticks = iter(range(0, 1000, 40))
    line = Connection(pair[0], launched(), clock=lambda: next(ticks))

    with pytest.raises(WorkerLostError, match="was silent for 60 s"):
        line.receive(60)


def test_a_dead_process_is_seen_though_a_child_holds_its_line(pair: tuple[socket.socket, socket.socket]) -> None:
    """Its end of the line is open still, so that nothing but its own death tells."""
    with pytest.raises(WorkerLostError, match="ended with code -11 in the middle of the pair"):
        Connection(pair[0], launched(-11)).receive(60)


def test_what_a_dead_process_has_said_is_heard_first(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(hello())
    theirs.close()
    line = Connection(ours, launched(0))

    assert isinstance(line.receive(5).message, Hello)
    with pytest.raises(WorkerLostError, match="ended with code 0 in the middle of the pair"):
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

    with pytest.raises(WorkerLostError, match="closed its connection in the middle of the pair"):
        act(Connection(ours, launched()))


def test_a_line_that_breaks_is_a_lost_process(pair: tuple[socket.socket, socket.socket]) -> None:
    class Broken:
        def fileno(self) -> int:
            return pair[0].fileno()

        def setsockopt(self, *_: object) -> None:
            return None

        def recv(self, _: int) -> bytes:
            raise ConnectionResetError("reset by peer")

    pair[1].sendall(b"x")
    with pytest.raises(WorkerLostError, match="closed its connection"):
        Connection(cast("Any", Broken()), launched()).receive(5)
