"""A process of a pair, seen from inside: it says what it has reached, and computes when it is its turn.

Standard library only: what it imported would be weighed and timed with the user's code.
"""

import os
import resource
import socket
import sys
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_hwperf.core.errors import WorkerError
from pytest_hwperf.host.worker_protocol import PROTOCOL, WorkerTask
from pytest_hwperf.pairs.cpu_pin import CpuPin
from pytest_hwperf.pairs.frames import Frame, pack, unpack

_STILL_NS = 200_000  # CPU time in a millisecond of idling below which no pool spins on
_LONGEST_PAUSE_S = 0.05  # an idle pool of ONNX Runtime spins for 35 ms
_SECOND = 1_000_000_000  # ns


class Measurable(Protocol):
    """What can be measured when it is this side's turn."""

    def prepare(self) -> None:
        """Do what has to be done before a block, and belongs to none of its calls."""
        ...

    def block(self, calls: int, batch: int) -> "array[int]":
        """Time `calls` calls one by one, or in batches of `batch`; return nanoseconds of each call or batch."""
        ...

    def exact(self) -> Mapping[str, Any]:
        """Return what needs no clock, as plain data: correctness by example, sizes."""
        ...

    def energy(self, calls: int, seconds: float) -> Mapping[str, Any]:
        """Return joules per row over a window of `calls` calls, or the reason why not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where in the session a process is."""

    node: str
    index: int  # of the measurement in its test, from 0
    label: str


class Turns:
    """The worker's end of the line to its conductor; a conductor that is gone ends the process."""

    def __init__(
        self,
        order: WorkerTask,
        line: socket.socket,
        leave: Callable[[int], object] = os._exit,
        pin: Callable[[], CpuPin] = CpuPin,
    ) -> None:
        """Speak for the process that `order` has summoned, over an open connection."""
        self._order = order
        self._line = line
        self._leave = leave
        self._pin = pin

    @classmethod
    def connect(cls, order: WorkerTask) -> "Turns":
        """Open the line and greet.

        Raises:
            WorkerError: nobody listens there any more.
        """
        try:
            line = socket.create_connection(("127.0.0.1", int(order.answer)), timeout=30)
        except (OSError, ValueError) as error:
            raise WorkerError(f"the conductor of this process does not answer: {error}") from error
        line.settimeout(None)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        turns = cls(order, line)
        turns.send("hello", protocol=PROTOCOL, token=order.token, side=order.label, pid=os.getpid(), python=sys.version)
        return turns

    def send(self, kind: str, numbers: "array[int] | None" = None, **fields: Any) -> None:
        """Send one message."""
        frame = Frame(kind=kind, fields=fields, numbers=numbers if numbers is not None else array("q"))
        try:
            self._line.sendall(pack(frame))
        except OSError:
            self._leave(1)

    def receive(self) -> Frame:
        """Wait for the conductor's next message; end the process when there will be none."""
        try:
            return unpack(self._receive)
        except OSError:
            self._leave(1)
            raise

    def chosen(self, nodes: Sequence[str], errors: Mapping[str, str]) -> list[str]:
        """Say what was collected, and return the node ids to run, in their order."""
        self.send("collected", nodes=list(nodes), errors=dict(errors))
        return list(self._expect("select").fields["nodes"])

    def serve(self, place: Position, facts: Mapping[str, Any], subject: Measurable) -> None:
        """Measure `subject` whenever asked to, until told to go on."""
        self.send("ready", node=place.node, index=place.index, label=place.label, facts=dict(facts))
        pin = self._pin()
        try:
            while (frame := self.receive()).kind != "finish":
                self._serve(frame, subject, pin)
        finally:
            pin.release()

    def bye(self, files: Sequence[str]) -> None:
        """Say farewell with the files of every loaded module, and leave at once: an interpreter's exit takes long."""
        self.send("bye", files=list(files))
        self._leave(0)

    def _serve(self, frame: Frame, subject: Measurable, pin: CpuPin) -> None:
        if frame.kind == "run":
            self._run(subject, **frame.fields)
        elif frame.kind == "pin":
            pin.release()
            number = frame.fields["processor"]
            self.send("pin", reason="" if number is None else pin.pin(number))
        elif frame.kind == "exact":
            self.send("exact", **subject.exact())
        elif frame.kind == "energy":
            self.send("energy", **subject.energy(frame.fields["calls"], frame.fields["seconds"]))
            self._come_to_rest()
        else:
            raise WorkerError(f"the conductor asked for {frame.kind!r}, which this version does not know")

    def _run(self, subject: Measurable, calls: int, batch: int, *, rest: bool) -> None:
        subject.prepare()
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        cpu, thread = time.process_time_ns(), time.thread_time_ns()
        taken = subject.block(calls, batch)
        thread, cpu = time.thread_time_ns() - thread, time.process_time_ns() - cpu
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - switches
        if rest:  # the other side is next
            self._come_to_rest()
        self.send("latencies", taken, cpu_ns=cpu, thread_ns=thread, switches=switches)

    def _come_to_rest(self) -> None:
        """Wait until this process stands still: a pool that spins on would disturb the other side's turn."""
        deadline = time.perf_counter() + _LONGEST_PAUSE_S
        while time.perf_counter() < deadline:
            cpu = time.process_time_ns()
            time.sleep(0.001)
            if time.process_time_ns() - cpu < _STILL_NS:
                return

    def _expect(self, kind: str) -> Frame:
        frame = self.receive()
        if frame.kind != kind:
            raise WorkerError(f"the conductor said {frame.kind!r} where {kind!r} was due")
        return frame

    def _receive(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._line.recv(min(count - len(parts), 1 << 20))
            if not part:
                raise ConnectionResetError("the conductor is gone")
            parts += part
        return bytes(parts)
