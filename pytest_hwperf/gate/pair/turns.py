"""The worker's side of a pair: it reports what it has reached, and computes when it is its turn."""

import os
import socket
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Thread, current_thread, get_native_id
from typing import TYPE_CHECKING

from pytest_hwperf.gate.pair.channel import (
    AskEnergy,
    AskExact,
    BlockTimes,
    Bye,
    Collected,
    EnergyResult,
    ExactSamples,
    Finish,
    Frame,
    FromWorker,
    Hello,
    Message,
    Pinned,
    PinTo,
    Ready,
    Select,
    TimeBlock,
    decode_frame,
    encode_frame,
    read_exactly,
)
from pytest_hwperf.host.clocks import (
    clock_of,
    cpu_ns,
    cpu_ns_since,
    cpu_seconds_of_children,
    interruptions,
    ns_of_threads,
)
from pytest_hwperf.host.memory import Resident, resident
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.host.pinning import CpuPin
from pytest_hwperf.host.worker_protocol import PROTOCOL, WorkerTask
from pytest_hwperf.records.errors import MeasurementError, WorkerError
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.causes.changed_code import Usage

if TYPE_CHECKING:
    from pytest_hwperf.measure.pair_target import PairTarget


_STILL_NS = 200_000  # CPU time in a millisecond of idling below which no pool spins on
_ALONE_NS, _ALONE = 20_000, 0.02  # CPU time of other threads, and as a share of the caller's: below, none spins on
_LASTING = 0.9  # of the CPU time of others than the caller, that of threads which are still there
_LONGEST_PAUSE_S = 0.05  # an idle pool of ONNX Runtime spins for 35 ms
_SECOND = 1_000_000_000  # ns
_NONE = Opened()
_NO_MODULES: Mapping[str, str] = {}


@dataclass(slots=True)
class Turns:
    """The worker's end of the connection to its conductor; a conductor that is gone ends the process."""

    connection: socket.socket
    leave: Callable[[int], object] = os._exit
    pin: Callable[[], CpuPin] = CpuPin
    began_s: float = 0.0  # when this process was started, until its first measurement
    states: Mapping[str, str] = field(default_factory=dict)  # module → what it held before the first test, as digits
    memory: Resident | None = None  # opened at the beginning: on Linux that clears the peak

    @classmethod
    def connect(cls, task: WorkerTask) -> "Turns":
        """Take the socket that the conductor of this process has left open for it, and greet."""
        try:
            connection = socket.socket(fileno=int(task.reply_to))
            connection.set_inheritable(False)  # what a test starts has no part in it
        except (OSError, ValueError, OverflowError) as error:
            raise WorkerError(
                f"the conductor of this process cannot be reached by its descriptor {task.reply_to!r} ({error}): "
                "the interpreter of a process has to be started directly, and not by a program that closes what it "
                "inherits"
            ) from error
        turns = cls(connection, began_s=task.began_s, memory=_memory())
        turns.send(Hello(protocol=PROTOCOL, side=task.side or "baseline"))
        return turns

    def send(self, message: FromWorker, numbers: "array[int] | None" = None) -> None:
        frame = Frame(message=message, numbers=numbers if numbers is not None else array("q"))
        try:
            self.connection.sendall(encode_frame(frame))
        except OSError:
            self.leave(1)

    def receive(self) -> Message:
        """Wait for the conductor's next message; end the process when there will be none."""
        try:
            return decode_frame(partial(read_exactly, self.connection)).message
        except OSError:
            self.leave(1)
            raise

    def chosen(self, nodes: Sequence[str], errors: Mapping[str, str]) -> tuple[str, ...]:
        """Report what was collected, and return the node ids to run, in their order."""
        self.send(Collected(nodes=tuple(nodes), errors=errors))
        waits_s = time.monotonic()
        message = self.receive()
        self.began_s += (time.monotonic() - waits_s) * bool(self.began_s)  # the other side was still starting
        if not isinstance(message, Select):
            raise _unexpected(message)
        return message.nodes

    def serve(self, here: Ready, target: "PairTarget", caller: Thread | None = None) -> None:
        """Measure `target` whenever asked to, until the measurement is over."""
        start_s = max(0.0, time.monotonic() - self.began_s) if self.began_s else 0.0
        self.began_s = 0.0
        self.send(replace(here, start_s=start_s))
        other = caller if caller is not current_thread() else None
        pin = self.pin()
        pin.thread = (other.native_id or 0) if other else 0
        thread_ns = clock_of(other)
        computed = Computed(cpu_ns(), ns_of_threads(), cpu_seconds_of_children())
        try:
            while not isinstance(message := self.receive(), Finish):
                if isinstance(message, PinTo):
                    pin.release()
                    self.send(Pinned(reason=_pinned(pin, message.processors, computed)))
                else:
                    self._serve(message, target, thread_ns)
        finally:
            pin.release()

    def bye(
        self,
        files: Sequence[str],
        opened: Opened = _NONE,
        usage: Usage | None = None,
        modules: Mapping[str, str] = _NO_MODULES,
        asked: Mapping[str, str] = _NO_MODULES,
    ) -> None:
        """Send the files of every loaded module and those opened, and end at once: an interpreter's exit takes long."""
        peak = float(self.memory.high()) if self.memory else 0.0
        self.send(
            Bye(
                files=tuple(files),
                opened=opened,
                usage=usage,
                peak_bytes=peak,
                modules=modules,
                asked=asked,
                states=self.states,
            )
        )
        self.leave(0)

    def _serve(self, message: Message, target: "PairTarget", thread_ns: Callable[[], int]) -> None:
        match message:
            case TimeBlock():
                self._run(target, message, thread_ns)
            case AskExact():
                self.send(ExactSamples(samples=tuple(target.exact())))
            case AskEnergy(calls=calls, seconds=seconds):
                self.send(EnergyResult(window=target.energy(calls, seconds)))
                self._idle()
            case _:
                raise _unexpected(message)

    def _run(self, target: "PairTarget", asked: TimeBlock, thread_ns: Callable[[], int]) -> None:
        target.prepare()
        switches = interruptions()
        children_s, cpu, thread = cpu_seconds_of_children(), cpu_ns(), thread_ns()
        taken = target.block(asked.calls, asked.batch)
        thread, cpu = thread_ns() - thread, cpu_ns_since(cpu)
        cpu += max(0, round((cpu_seconds_of_children() - children_s) * _SECOND))  # some systems forget who has ended
        switches = None if switches is None else (interruptions() or 0) - switches
        # The other side is next.
        is_busy = asked.rest and cpu - thread > max(_ALONE_NS, _ALONE * thread) and not self._idle()
        cpu, thread = target.cpu_ns or (cpu, thread)
        times = BlockTimes(
            cpu_ns=cpu,
            thread_ns=thread,
            switches=switches,
            parts=target.parts(),
            pace_s=target.pace_s,
            is_busy=is_busy,
        )
        self.send(times, taken)

    def _idle(self) -> bool:
        """Wait until this process is idle, and return whether it is: a pool that spins on would disturb the next turn.

        It waits no longer than a pool spins.
        """
        deadline = time.perf_counter() + _LONGEST_PAUSE_S
        while time.perf_counter() < deadline:
            cpu = cpu_ns()
            time.sleep(0.001)
            if cpu_ns_since(cpu) < _STILL_NS:
                return True
        return False


@dataclass(frozen=True, slots=True)
class Computed:
    """What this process had computed when a measurement began."""

    process_ns: int
    threads_ns: Mapping[int, int]
    children_s: float

    def pool(self, caller: int) -> Sequence[int]:
        """Return the threads that have computed since beside the caller's, by their ids.

        None where others have computed too: children, or threads that have ended. Each new one of these would inherit
        the processor of the thread that starts it.
        """
        spent = {thread: ns - self.threads_ns.get(thread, 0) for thread, ns in ns_of_threads().items()}
        others_ns = cpu_ns_since(self.process_ns) - spent.get(caller, 0)
        least_ns = max(_ALONE_NS, _ALONE * spent.get(caller, 0))
        pool = [one for one in sorted(spent) if one not in {caller, get_native_id()} and spent[one] > least_ns]
        lasts = sum(spent[one] for one in pool) >= _LASTING * others_ns
        return pool if lasts and cpu_seconds_of_children() == self.children_s else ()


def _pinned(pin: CpuPin, numbers: Sequence[int], computed: Computed) -> str:
    """Pin a thread and, where there are more processors than one, its pool; return why not."""
    if not numbers:
        return ""
    pool = computed.pool(pin.thread or get_native_id()) if len(numbers) > 1 else ()
    return pin.pin(numbers, pool) if pool or len(numbers) == 1 else "it has no pool of threads that last"


def _memory() -> Resident | None:
    """Return what tells the most memory that this process holds from now on, None where the system does not."""
    try:
        return resident()
    except MeasurementError:
        return None


def _unexpected(message: Message) -> WorkerError:
    return WorkerError(f"the conductor sent {type(message).__name__!r}, which is not expected here")
