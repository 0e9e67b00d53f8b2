"""Frames come back as they were sent; anything else is refused before it is believed."""

import io
import json
import struct
from array import array

import pytest
from fakes import records as fake

from pytest_hwperf.gate.channel import (
    AskEnergy,
    AskExact,
    BlockTimes,
    Bye,
    Collected,
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
    decode_frame,
    encode_frame,
)
from pytest_hwperf.records.errors import SerialisationError, WorkerError
from pytest_hwperf.records.evidence import EnergyWindow
from pytest_hwperf.stats.hypotheses import Facts, Recorded, SideOutcome

NODE = "t.py::test[é ✓]"
OWN = Recorded(value=0.4, better="higher", margin=0.02, label="")
EVERY: tuple[Message, ...] = (
    Hello(protocol=4, side="baseline"),
    Collected(nodes=(NODE,), errors={"t.py": "ImportError"}),
    Select(nodes=(NODE,)),
    Ready(node=NODE, index=1, label="x", facts=Facts(conditions={"batch_size": "1"}, scenario="onnx_fp32")),
    TimeBlock(calls=20, batch=1, rest=True),
    BlockTimes(cpu_ns=2**40, thread_ns=1, switches=0),
    PinTo(processor=3),
    PinTo(processor=None),
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


def framed(text: bytes) -> bytes:
    return struct.pack("<II", len(text), 0) + text


@pytest.mark.parametrize("message", EVERY, ids=lambda message: type(message).__name__)
def test_a_frame_reads_back(message: Message) -> None:
    frame = Frame(message=message, numbers=array("q", [1, -2, 2**62]))
    assert frame == read(encode_frame(frame))


@pytest.mark.parametrize("lengths", [(2**32 - 1, 0), (2, 2**32 - 8), (2, 7)])
def test_lengths_that_no_frame_has_are_refused(lengths: tuple[int, int]) -> None:
    """Before anything of that length is read or held in memory."""
    with pytest.raises(WorkerError, match="is none of this protocol"):
        read(struct.pack("<II", *lengths) + b"{}")


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
def test_what_is_no_message_is_refused_in_one_way(text: bytes) -> None:
    with pytest.raises(WorkerError, match=r"a message cannot be read \(.*\): both sides need the same pytest-hwperf"):
        read(framed(text))


def test_a_recorded_value_is_a_number() -> None:
    plain = json.loads(encode_frame(Frame(message=EVERY[-2]))[8:])
    plain["message"]["ended"]["recorded"]["rouge"]["value"] = "5"
    with pytest.raises(WorkerError, match="value"):
        read(framed(json.dumps(plain).encode()))


def test_what_json_cannot_say_is_not_sent() -> None:
    with pytest.raises(SerialisationError, match="nan"):
        encode_frame(Frame(message=AskEnergy(calls=1, seconds=float("nan"))))
