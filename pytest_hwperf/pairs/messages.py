"""Messages between the conductor and the two processes of a pair: records, decoded strictly and never unpickled.

A frame is two little-endian u32 (bytes of the message, bytes of the numbers), the message as JSON, and the numbers as
little-endian int64.
"""

import socket
import struct
import sys
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pytest_hwperf.core.affected import Usage
from pytest_hwperf.core.errors import SerialisationError, WorkerError
from pytest_hwperf.core.evidence import EnergyWindow, Side
from pytest_hwperf.core.hypotheses import Facts, SideOutcome
from pytest_hwperf.core.records import Sample
from pytest_hwperf.core.serialisation import from_json, to_json
from pytest_hwperf.core.structs import Count, Record, Size
from pytest_hwperf.host.opened_files import Opened

if TYPE_CHECKING:
    Numbers = array[int]
else:
    Numbers = array  # not subscriptable at run time before Python 3.12

_LENGTHS = struct.Struct("<II")
_WIDTH = 8  # bytes of an int64
LARGEST_FRAME = 64 * 2**20  # bytes of either part: thousands of loaded files, eight million times


class Hello(Record, frozen=True, kw_only=True, tag=True):
    """A process of a pair has started."""

    protocol: int
    side: Side


class Collected(Record, frozen=True, kw_only=True, tag=True):
    """It knows which tests there are."""

    nodes: tuple[str, ...]  # node ids
    errors: Mapping[str, str]  # file that cannot be collected → why


class Select(Record, frozen=True, kw_only=True, tag=True):
    """To a process: run these tests in this order."""

    nodes: tuple[str, ...]


class Ready(Record, frozen=True, kw_only=True, tag=True):
    """It has reached a measurement, has called it once, and waits."""

    node: str
    index: Count  # of the measurement in its test, from 0
    label: str
    facts: Facts = Facts()
    start_s: Size = 0.0  # of the first one of a process: since it was started; 0: not known


class TimeBlock(Record, frozen=True, kw_only=True, tag=True):
    """To a process: time a block of calls."""

    calls: Count  # times to take
    batch: Count  # calls that share a time
    rest: bool  # wait afterwards until the process is idle: the other side is next


class BlockTimes(Record, frozen=True, kw_only=True, tag=True):
    """Such a block; the numbers are nanoseconds, of each call or batch."""

    cpu_ns: Count  # of the whole process
    thread_ns: Count  # of the thread that calls
    switches: Count  # involuntary context switches
    parts: Mapping[str, Size] = {}  # metric → median over the block, in seconds, of what its calls consist of
    pace_s: Size = 0.0  # from the beginning of a call to that of the next, by a schedule or a setup; 0: none


class PinTo(Record, frozen=True, kw_only=True, tag=True):
    """To a process: stay on a processor in your turns; None: run wherever you may."""

    processor: Count | None


class Pinned(Record, frozen=True, kw_only=True, tag=True):
    """It does, or says why not."""

    reason: str = ""


class AskExact(Record, frozen=True, kw_only=True, tag=True):
    """To a process: give what needs no clock."""


class ExactSamples(Record, frozen=True, kw_only=True, tag=True):
    """Values that need no clock: accuracy by example, sizes."""

    samples: tuple[Sample, ...]


class AskEnergy(Record, frozen=True, kw_only=True, tag=True):
    """To a process: fill one window of the energy meter."""

    calls: Count
    seconds: Size  # that they are expected to take


class EnergyResult(Record, frozen=True, kw_only=True, tag=True):
    """Such a window."""

    window: EnergyWindow


class Finish(Record, frozen=True, kw_only=True, tag=True):
    """To a process: this measurement is over."""


class Ended(Record, frozen=True, kw_only=True, tag=True):
    """A test is over."""

    node: str
    ended: SideOutcome


class Bye(Record, frozen=True, kw_only=True, tag=True):
    """All tests are over; the process ends."""

    files: tuple[str, ...]  # of loaded modules
    modules: Mapping[str, str] = {}  # in a rehearsal: name of each, in the order of their import → its file, as it says
    usage: Usage | None = None  # of what it was to watch
    opened: Opened = Opened()  # in a rehearsal
    peak_bytes: Size = 0.0  # that the process has held; 0: not known


FromWorker: TypeAlias = Hello | Collected | Ready | BlockTimes | Pinned | ExactSamples | EnergyResult | Ended | Bye
ToWorker: TypeAlias = Select | TimeBlock | PinTo | AskExact | AskEnergy | Finish
Message: TypeAlias = FromWorker | ToWorker


class _Envelope(Record, frozen=True, kw_only=True):
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One message, and the numbers that come with it."""

    message: Message
    numbers: Numbers = field(default_factory=lambda: array("q"))


def encode_frame(frame: Frame) -> bytes:
    """Write a frame as bytes."""
    text = to_json(_Envelope(message=frame.message))
    numbers = _little_endian(frame.numbers).tobytes()
    return _LENGTHS.pack(len(text), len(numbers)) + text + numbers


def decode_frame(receive: Callable[[int], bytes], largest: int = LARGEST_FRAME) -> Frame:
    """Read one frame."""
    text_length, numbers_length = _LENGTHS.unpack(receive(_LENGTHS.size))
    if max(text_length, numbers_length) > largest or numbers_length % _WIDTH:
        raise WorkerError(f"a message of {text_length} + {numbers_length} bytes is none of this protocol")
    text, raw = receive(text_length), receive(numbers_length)
    try:
        message = from_json(_Envelope, text).message
    except SerialisationError as error:
        raise WorkerError(f"a message cannot be read ({error}): both sides need the same pytest-hwperf") from error
    numbers = array("q")
    numbers.frombytes(raw)
    return Frame(message=message, numbers=_little_endian(numbers))


def read_exactly(connection: socket.socket, count: int, wait: Callable[[], None] = lambda: None) -> bytes:
    """Return the next `count` bytes of a connection; `wait` is called before each part of them is read."""
    parts = bytearray()
    while len(parts) < count:
        wait()
        part = connection.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise ConnectionResetError("the other end of the connection is closed")
        parts += part
    return bytes(parts)


def _little_endian(numbers: Numbers) -> Numbers:
    """Swap the bytes on a big-endian machine; the same way back."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
