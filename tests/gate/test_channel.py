"""The conductor's ends of the lines, over real sockets to a process that is none: who is believed, who is given up."""

import io
import re
import socket
import struct
import subprocess
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes import records as fake

from pytest_hwperf.gate.pair.channel import (
    AskEnergy,
    AskExact,
    BlockTimes,
    Bye,
    Collected,
    Connection,
    Ended,
    EnergyResult,
    ExactSamples,
    Finish,
    Frame,
    Hello,
    Message,
    Pinned,
    PinTo,
    Ready,
    Select,
    TimeBlock,
    WorkerLostError,
    decode_frame,
    encode_frame,
)
from pytest_hwperf.host.launch import Launched, sockets
from pytest_hwperf.host.worker_protocol import PROTOCOL
from pytest_hwperf.records.errors import SerialisationError, WorkerError
from pytest_hwperf.records.evidence import EnergyWindow, Side
from pytest_hwperf.stats.pairs.hypotheses import Facts, Recorded, SideOutcome


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


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often whether a process lives."""
    for name in ("_SLICE_S", "_EXIT_S"):
        monkeypatch.setattr(f"pytest_hwperf.gate.pair.channel.{name}", 0.01)


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
    """Neither end has an address or is inherited unasked; that of the process is no standard stream."""
    assert [(socket.AF_UNIX, "", False)] * 2 == [(end.family, end.getsockname(), end.get_inheritable()) for end in pair]
    assert pair[1].fileno() > 2


def framed(text: bytes) -> bytes:
    return struct.pack("<II", len(text), 0) + text


OTHERS = [
    (b"GET / HTTP/1.1\r\n\r\n" + b"x" * 64, "is none of this protocol"),
    (framed(b"[" * 4000), "a message cannot be read"),
    (framed(b'{"message":{"type":"Hello","protocol":4,"side":"\\ud800"}}'), "a message cannot be read"),
    (framed(b"\xff\xfe"), "a message cannot be read"),
    (struct.pack("<II", 50 << 20, 0), "a message of 52428800 + 0 bytes is none of this protocol"),
    (struct.pack("<II", 2, 50 << 20) + b"{}", "a message of 2 + 52428800 bytes is none of this protocol"),
    (hello(side="candidate"), "calls itself candidate"),
    (encode_frame(Frame(message=Bye(files=()))), "sent 'Bye' where 'Hello' was due"),
    (hello(protocol=PROTOCOL + 1), f"uses protocol {PROTOCOL + 1} instead of {PROTOCOL}: both sides need the same"),
]


def greeted_by(content: bytes, log: Path) -> str:
    ours, theirs = sockets()
    with ours, theirs:
        theirs.sendall(content)
        with pytest.raises(WorkerLostError) as caught:
            Connection(ours, launched(log=log), "baseline").greet(5)
    return str(caught.value)


def test_another_greeting_is_refused(log: Path) -> None:
    """Also one that is no JSON that Python could read, or claims to be large: nothing of that is waited for."""
    found = [(greeted_by(content, log), reported) for content, reported in OTHERS]
    assert [] == [
        (text, reported)
        for text, reported in found
        if not (text.startswith("baseline: ") and reported in text)
        or not text.endswith(".\nThe end of its log:\n  no module named x")
    ]


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


@pytest.mark.parametrize(
    ("asked_s", "why"), [(60, "was silent for 60 s"), (300, "candidate: was cut off when the time was up")]
)
def test_silence_ends_at_the_deadline_or_when_the_time_of_all_is_up(
    pair: tuple[socket.socket, socket.socket], asked_s: float, why: str
) -> None:
    """By the conductor's clock, here one that jumps: until 200 s."""
    ticks = iter(range(0, 1000, 40))
    line = Connection(pair[0], launched(), "candidate", until=200, clock=lambda: next(ticks))
    with pytest.raises(WorkerLostError, match=why):
        line.receive(asked_s)
    assert next(ticks) <= 320


def test_a_process_that_takes_no_message_is_given_up(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is stopped: what is sent to it fills its socket, which nobody empties."""
    monkeypatch.setattr("pytest_hwperf.gate.pair.channel._SEND_S", 0.2)
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


def test_a_closed_line_is_a_lost_process(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.close()
    ours.shutdown(socket.SHUT_RDWR)
    line = Connection(ours, launched(), "baseline")
    for act in (lambda: line.receive(5), lambda: line.send(Finish())):
        with pytest.raises(WorkerLostError, match="closed its connection before it had connected"):
            act()


def test_a_line_that_breaks_is_a_lost_process(pair: tuple[socket.socket, socket.socket]) -> None:
    def reset(_: int) -> bytes:
        raise ConnectionResetError("reset by peer")

    broken = SimpleNamespace(fileno=pair[0].fileno, setsockopt=lambda *_: None, recv=reset)
    pair[1].sendall(b"x")
    with pytest.raises(WorkerLostError, match="baseline: closed its connection"):
        Connection(cast("Any", broken), launched(), "baseline").receive(5)


NODE = "t.py::test[é ✓]"
OWN = Recorded(value=0.4, better="higher", margin=0.02, label="")
EVERY: tuple[Message, ...] = (
    Hello(protocol=4, side="baseline"),
    Collected(nodes=(NODE,), errors={"t.py": "ImportError"}),
    Select(nodes=(NODE,)),
    Ready(node=NODE, index=1, label="x", facts=Facts(conditions={"batch_size": "1"}, scenario="onnx_fp32")),
    TimeBlock(calls=20, batch=1, rest=True),
    BlockTimes(cpu_ns=2**40, thread_ns=1, switches=0),
    PinTo(processors=(3, 4)),
    PinTo(processors=()),
    Pinned(reason="no"),
    AskExact(),
    ExactSamples(samples=(fake.sample("accuracy", [1.0, 0.0], per="example"),)),
    AskEnergy(calls=5, seconds=0.6),
    EnergyResult(window=EnergyWindow(joules=0.5, source="rapl:package-0")),
    Finish(),
    Ended(node=NODE, ended=SideOutcome(outcome="failed", reason="ValueError", recorded={"rouge": OWN})),
    Bye(files=("/a.py",)),
)


def read(content: bytes) -> Frame:
    return decode_frame(io.BytesIO(content).read)


def test_a_frame_reads_back() -> None:
    frames = [Frame(message=message, numbers=array("q", [1, -2, 2**62])) for message in EVERY]
    assert frames == [read(encode_frame(frame)) for frame in frames]


def refusal(content: bytes) -> str:
    with pytest.raises(WorkerError) as caught:
        read(content)
    return str(caught.value)


def test_lengths_that_no_frame_has_are_refused() -> None:
    """Before anything of that length is read or held in memory."""
    lengths = [(2**32 - 1, 0), (2, 2**32 - 8), (2, 7)]
    refusals = {one: refusal(struct.pack("<II", *one) + b"{}") for one in lengths}
    assert [] == [one for one, said in refusals.items() if "is none of this protocol" not in said]


NONE = [
    b"{'x",
    b"[]",
    b"5",
    b"\xff",
    b"[" * 100_000,
    b'{"message": {"type": "Dance"}}',
    b'{"message": {"type": "Finish", "now": true}}',
    b'{"message": {"type": "Collected", "nodes": [5], "errors": {}}}',
    b'{"message": {"type": "Collected", "nodes": [], "errors": [1, 2]}}',
    b'{"message": {"type": "BlockTimes", "cpu_ns": "5", "thread_ns": 1, "switches": 0}}',
    b'{"message": {"type": "BlockTimes", "cpu_ns": -5, "thread_ns": 1, "switches": 0}}',
    b'{"message": {"type": "EnergyResult", "window": {"joules": 1e999}}}',
    b'{"message": {"type": "EnergyResult", "window": {"joules": true}}}',
    encode_frame(Frame(message=EVERY[-2]))[8:].replace(b"0.4", b'"5"'),
]


def test_what_is_no_message_is_refused_in_one_way() -> None:
    refusals = {text[:80]: refusal(framed(text)) for text in NONE}
    one_way = re.compile(r"a message cannot be read \(.*\): both sides need the same pytest-hwperf")
    assert [] == [(text, said) for text, said in refusals.items() if not one_way.search(said)]


def test_what_json_cannot_say_is_not_sent() -> None:
    with pytest.raises(SerialisationError, match="nan"):
        encode_frame(Frame(message=AskEnergy(calls=1, seconds=float("nan"))))
