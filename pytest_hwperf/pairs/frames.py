"""Messages between the conductor and the two processes of a pair: a JSON header and raw whole numbers, never pickle.

A frame is two little-endian u32 (bytes of the header, bytes of the numbers), the header, and the numbers as
little-endian int64. Standard library only: the worker imports it before its cold imports are weighed.
"""

import json
import struct
import sys
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_hwperf.core.errors import WorkerError

if TYPE_CHECKING:
    Numbers = array[int]
else:
    Numbers = array  # not subscriptable at run time before Python 3.12

_LENGTHS = struct.Struct("<II")
_WIDTH = 8  # bytes of an int64
_LARGEST_HEADER = 64 * 2**20  # bytes: thousands of node ids and loaded files, and no more than memory bears
_LARGEST_NUMBERS = 512 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One message."""

    kind: str  # "hello", "run", "latencies", …: see docs/gate.md for all of them
    fields: Mapping[str, Any] = field(default_factory=dict)  # plain data
    numbers: Numbers = field(default_factory=lambda: array("q"))


def pack(frame: Frame) -> bytes:
    """Write a frame as bytes."""
    header = json.dumps({"kind": frame.kind, **frame.fields}, allow_nan=False).encode()
    numbers = _little_endian(frame.numbers).tobytes()
    return _LENGTHS.pack(len(header), len(numbers)) + header + numbers


def unpack(receive: Callable[[int], bytes]) -> Frame:
    """Read one frame.

    Args:
        receive: returns exactly as many bytes as it is asked for, or raises.

    Raises:
        WorkerError: not a frame; its sender speaks something else.
    """
    header_length, numbers_length = _LENGTHS.unpack(receive(_LENGTHS.size))
    if header_length > _LARGEST_HEADER or numbers_length > _LARGEST_NUMBERS or numbers_length % _WIDTH:
        raise WorkerError(f"a message of {header_length} + {numbers_length} bytes is none of this protocol")
    header, raw = receive(header_length), receive(numbers_length)
    try:
        plain = json.loads(header)
    except ValueError as error:
        raise WorkerError(f"a message is not JSON: {error}") from error
    if not isinstance(plain, dict) or not isinstance(plain.get("kind"), str):
        raise WorkerError("a message has no kind: both sides need the same pytest-hwperf")
    numbers = array("q")
    numbers.frombytes(raw)
    return Frame(kind=plain.pop("kind"), fields=plain, numbers=_little_endian(numbers))


def _little_endian(numbers: Numbers) -> Numbers:
    """Swap the bytes on a big-endian machine; the same way back."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
