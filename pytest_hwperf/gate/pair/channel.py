"""The conductor's end of a connection to a process of a pair: an inherited socket, which nobody else can reach."""

import math
import selectors
import socket
import struct
import subprocess
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

from pytest_hwperf.host.launch import Launched
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.host.worker_protocol import PROTOCOL
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.errors import SerialisationError, WorkerError
from pytest_hwperf.records.evidence import EnergyWindow, Side
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.run import Sample
from pytest_hwperf.records.structs import Count, Record, Size
from pytest_hwperf.stats.causes.changed_code import Usage
from pytest_hwperf.stats.pairs.hypotheses import Facts, SideOutcome

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
    switches: Count | None  # involuntary context switches; None where the system does not count them
    parts: Mapping[str, Size] = {}  # metric → median over the block, in seconds, of what its calls consist of
    pace_s: Size = 0.0  # from the beginning of a call to that of the next, by a schedule or a setup; 0: none
    is_busy: bool = False  # whether its threads went on to compute when the next turn began


class PinTo(Record, frozen=True, kw_only=True, tag=True):
    """To a process: keep the calling thread on the first of these in your turns, and each thread of a pool on another.

    With one processor, only the calling thread is kept; with none, nothing is.
    """

    processors: tuple[Count, ...]


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
    modules: Mapping[
        str, str
    ] = {}  # in a rehearsal: those that code of the tree cannot have changed → their files, in order
    # Of these those that no installed module has imported → digits of what code of the tree had run before, in order.
    asked: Mapping[str, str] = {}
    states: Mapping[str, str] = {}  # module → digits of what it held before the first test, where that was asked for
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
    """Write a frame as bytes; both ends are on one machine, whose order of bytes that of its numbers is."""
    text, numbers = to_json(_Envelope(message=frame.message)), frame.numbers.tobytes()
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
    return Frame(message=message, numbers=numbers)


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


_SLICE_S = 0.2  # between two checks whether the process lives: a forked child may hold its end of the connection
_SEND_S = 30.0  # until a process has taken a message: one that is stopped takes none
_EXIT_S = 0.5  # from the end of a connection to the end of its process
_LARGEST_HELLO = 4096  # bytes: until its first message is understood, a process is trusted with no more


class WorkerLostError(WorkerError):
    """A process of a pair crashed, hung, or broke the protocol: `what` it did, and its `side`, None for both.

    One that hangs `is_silent`: it lives, and may wait for something that the other side has. One that `is_cut_off` was
    ended when the time of the gate was up: it may have been well.
    """

    def __init__(
        self,
        sentence: str,
        *,
        side: Side | None = None,
        log: str = "",
        is_silent: bool = False,
        is_cut_off: bool = False,
    ) -> None:
        super().__init__(f"{side}: {sentence}" if side else sentence, log=log)
        self.side = side
        self.what = sentence
        self.is_silent = is_silent
        self.is_cut_off = is_cut_off


def loss(error: WorkerLostError, calls: int = 0) -> Statement:
    """Return why a pair was lost, with the side that was, and the calls that it had been asked for."""
    return state("lost", why=str(error), side=error.side or "", calls=calls)


class Connection:
    """One process of a pair, as the conductor sees it."""

    def __init__(
        self,
        connection: socket.socket,
        launched: Launched,
        side: Side,
        until: float = math.inf,
        clock: Callable[[], float] = monotonic,
        stop: Event | None = None,
    ) -> None:
        """Exchange messages with `launched`, which is one side, over `connection`; `stop` ends its time."""
        self._side = side
        self._connection = connection
        self._launched = launched
        self._until = until
        self._clock = clock
        self._stop = stop
        self._greeted = False

    def send(self, message: ToWorker) -> None:
        until = self._due(_SEND_S)
        self._connection.settimeout(max(until - self._clock(), _SLICE_S))
        try:
            self._connection.sendall(encode_frame(Frame(message=message)))
        except TimeoutError as error:
            raise self._late(f"took no message for {_SEND_S:g} s") from error
        except OSError as error:
            raise self._gone() from error

    def receive(self, deadline_s: float) -> Frame:
        """Wait for the next message."""
        largest = LARGEST_FRAME if self._greeted else _LARGEST_HELLO
        wait = partial(self._wait, self._due(deadline_s), deadline_s)
        try:
            return decode_frame(lambda count: read_exactly(self._connection, count, wait), largest)
        except OSError as error:
            raise self._gone() from error

    def greet(self, deadline_s: float) -> None:
        """Wait until the process has said that it is the right side, and speaks this protocol."""
        is_silent = False
        try:
            problem = self._misgreeting(self.receive(deadline_s).message)
        except WorkerLostError as error:
            if self._is_late(self._until):
                raise
            problem, is_silent = error.what, error.is_silent
        except WorkerError as error:
            problem = str(error)
        if problem:
            log = self._launched.log_tail()
            raise WorkerLostError(f"{problem}.", side=self._side, log=log, is_silent=is_silent)
        self._greeted = True

    def _misgreeting(self, hello: Message) -> str:
        """Return what is wrong with the first message of a process, "" where nothing is."""
        if not isinstance(hello, Hello):
            return f"sent {type(hello).__name__!r} where {Hello.__name__!r} was due"
        if hello.protocol != PROTOCOL:
            return (
                f"uses protocol {hello.protocol} instead of {PROTOCOL}: both sides need the same version of "
                "pytest-hwperf"
            )
        return "" if hello.side == self._side else f"calls itself {hello.side}"

    def _wait(self, until: float, deadline_s: float) -> None:
        """Wait for more bytes of a message; it has to be whole in time, and not only to go on."""
        while True:
            if self._is_late(until):
                raise self._late(f"was silent for {deadline_s:.3g} s")
            if _readable(self._connection):
                return
            if self._launched.process.poll() is not None and not _readable(self._connection):
                raise self._gone()

    def _is_late(self, until: float) -> bool:
        """Whether an instant is over, or the pair has to end early: whatever is waited for is given up."""
        return self._clock() >= until or (self._stop is not None and self._stop.is_set())

    def _due(self, deadline_s: float) -> float:
        return self._clock() if self._is_late(self._until) else min(self._clock() + deadline_s, self._until)

    def _late(self, sentence: str) -> WorkerLostError:
        if self._is_late(self._until):
            return WorkerLostError("was cut off when the time was up", side=self._side, is_cut_off=True)
        return WorkerLostError(sentence, side=self._side, is_silent=True)

    def _gone(self) -> WorkerLostError:
        try:  # its end of the connection closes a moment before its code is known
            how = f"ended with code {self._launched.process.wait(_EXIT_S)}"
        except subprocess.TimeoutExpired:
            how = "closed its connection"
        when = "in the middle of the pair" if self._greeted else "before it had connected"
        return WorkerLostError(f"{how} {when}", side=self._side)


def _readable(connection: socket.socket) -> bool:
    with selectors.DefaultSelector() as selector:  # select() itself ends at 1024 open files
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(_SLICE_S))
