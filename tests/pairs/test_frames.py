"""Frames come back as they were sent; anything else is refused before it is believed."""

import io
import struct
from array import array

import pytest

from pytest_hwperf.core.errors import WorkerError
from pytest_hwperf.pairs.frames import Frame, pack, unpack


def read(content: bytes) -> Frame:
    return unpack(io.BytesIO(content).read)


def test_a_frame_reads_back() -> None:
    frame = Frame(
        kind="latencies", fields={"node": "t.py::test[é ✓]", "cpu_ns": 2**40}, numbers=array("q", [1, -2, 2**62])
    )

    assert frame == read(pack(frame))


def test_numbers_are_little_endian_on_every_machine() -> None:
    assert pack(Frame(kind="x", numbers=array("q", [1]))).endswith(b"\x01" + b"\0" * 7)


def test_swapped_machines_write_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of the other byte order swaps before it writes and after it reads."""
    frame = Frame(kind="x", numbers=array("q", [258]))
    monkeypatch.setattr("sys.byteorder", "big")

    assert pack(frame).endswith(b"\0" * 6 + b"\x01\x02")
    assert frame == read(pack(frame))
    assert frame.numbers == array("q", [258])  # the sender's own numbers are left alone


@pytest.mark.parametrize("lengths", [(2**32 - 1, 0), (2, 2**32 - 8), (2, 7)])
def test_lengths_that_no_frame_has_are_refused(lengths: tuple[int, int]) -> None:
    """Before anything of that length is read or held in memory."""
    with pytest.raises(WorkerError, match="is none of this protocol"):
        read(struct.pack("<II", *lengths) + b"{}")


@pytest.mark.parametrize("header", [b"[]", b"5", b'{"node": "x"}', b'{"kind": 5}'])
def test_a_header_without_a_kind_is_refused(header: bytes) -> None:
    with pytest.raises(WorkerError, match="a message has no kind: both sides need the same pytest-hwperf"):
        read(struct.pack("<II", len(header), 0) + header)


def test_a_header_that_is_no_json_is_refused() -> None:
    with pytest.raises(WorkerError, match="a message is not JSON"):
        read(struct.pack("<II", 3, 0) + b"{'x")


def test_what_json_cannot_say_is_not_sent() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        pack(Frame(kind="x", fields={"value": float("nan")}))
