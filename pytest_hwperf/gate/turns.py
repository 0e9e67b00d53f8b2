"""The worker's side of a pair: it reports what it has reached, and computes when it is its turn."""

import os
import resource
import socket
import time
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread, current_thread, get_native_id
from typing import TYPE_CHECKING

from pytest_hwperf.gate.channel import (
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
from pytest_hwperf.host.clocks import cpu_ns, cpu_ns_since, cpu_seconds_of_children, ns_of_threads, threads_here
from pytest_hwperf.host.files import read_text
from pytest_hwperf.host.memory import Resident, resident
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.host.worker_protocol import PROTOCOL, WorkerTask
from pytest_hwperf.records.errors import MeasurementError, WorkerError
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.units import counted
from pytest_hwperf.stats.changed_code import Usage

if TYPE_CHECKING:
    from pytest_hwperf.measure.pair_target import PairTarget


def processors(thread: int = 0) -> tuple[int, ...]:
    """Return the processors that a thread may run on, by number; none where the platform does not say."""
    return tuple(sorted(os.sched_getaffinity(thread))) if hasattr(os, "sched_getaffinity") else ()


def cores_first(numbers: Sequence[int], root: str | Path = "/") -> tuple[int, ...]:
    """Return processors in an order in which neighbours are on different cores, as far as Linux tells.

    Threads of a pool are put on neighbours: two of them on one core would slow each other down.
    """
    seats = Counter[str]()  # processors of a core, by those that it has

    def seat(number: int) -> int:
        core = read_text(Path(root, f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list"))
        seats[core or str(number)] += 1
        return seats[core or str(number)]

    return tuple(sorted(numbers, key=seat))


def _allow(thread: int, numbers: Iterable[int]) -> None:
    os.sched_setaffinity(thread, numbers)  # looked up now: some platforms have none


@dataclass(slots=True)
class CpuPin:
    """Keeps a thread on one processor for a while, those of its pool on one each, and leaves all others alone.

    References:
        sched_setaffinity(2): a process id of 0 is the calling thread, that of a thread another one; threads that a
        thread starts inherit its processors.
    """

    allowed: Callable[[int], Collection[int]] = processors  # returns the processors of a thread, 0 = the calling one
    allow: Callable[[int, Iterable[int]], None] = _allow  # sets them
    threads: Callable[[], Iterable[int]] = threads_here  # returns the ids of all threads of this process
    thread: int = 0  # id of the one to keep, 0 = the calling one
    _before: frozenset[int] = frozenset()  # processors to go back to
    _older: frozenset[int] = frozenset()  # threads that were there before
    _pinned: dict[int, int] = field(default_factory=dict)  # thread → its processor; empty: not pinned

    def pin(self, numbers: Sequence[int], pool: Sequence[int] = ()) -> str:
        """Stay on the first processor until `release`, threads of a pool on the next; return why not, "" where it can.

        A thread of the pool that has processors of its own keeps them, and no other one is put there.
        """
        self._before, self._older = frozenset(self.allowed(self.thread)), frozenset(self.threads())
        if not self._before.issuperset(numbers):
            return f"may run on processors {', '.join(map(str, sorted(self._before))) or 'unknown'} only"
        try:
            own = {thread: of for thread in pool if (of := frozenset(self.allowed(thread))) != self._before}
            seats = [number for number in numbers if not any(number in of for of in own.values())]
            threads = [self.thread, *(thread for thread in pool if thread not in own)]
            if len(threads) > len(seats):
                return f"more than {counted(len(numbers), 'thread')} compute"
            for thread, number in zip(threads, seats, strict=False):
                self.allow(thread, {number})
                self._pinned[thread] = number
        except OSError as error:
            self.release()
            return f"cannot choose its processor ({error.strerror})"
        return ""

    def release(self) -> None:
        """Let all run where they were allowed to before, and threads that have inherited the pin meanwhile."""
        pinned, self._pinned = self._pinned, {}
        if not pinned:
            return
        seats = [frozenset({number}) for number in pinned.values()]
        for thread in (*pinned, *(thread for thread in self.threads() if thread not in self._older)):
            # A thread that has ended meanwhile is no loss; a cpuset that has shrunk has set the processors itself.
            with suppress(OSError):
                if frozenset(self.allowed(thread)) in seats:
                    self.allow(thread, self._before)


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
    memory: Resident | None = None  # opened at the beginning: that clears the peak

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
        thread_ns = _cpu_clock(other)
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
    ) -> None:
        """Send the files of every loaded module and those opened, and end at once: an interpreter's exit takes long."""
        peak = float(self.memory.high()) if self.memory else 0.0
        self.send(Bye(files=tuple(files), opened=opened, usage=usage, peak_bytes=peak, modules=modules))
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
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        children_s, cpu, thread = cpu_seconds_of_children(), cpu_ns(), thread_ns()
        taken = target.block(asked.calls, asked.batch)
        thread, cpu = thread_ns() - thread, cpu_ns_since(cpu)
        cpu += round((cpu_seconds_of_children() - children_s) * _SECOND)
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - switches
        if asked.rest and cpu - thread > max(_ALONE_NS, _ALONE * thread):  # the other side is next
            self._idle()
        cpu, thread = target.cpu_ns or (cpu, thread)
        times = BlockTimes(cpu_ns=cpu, thread_ns=thread, switches=switches, parts=target.parts(), pace_s=target.pace_s)
        self.send(times, taken)

    def _idle(self) -> None:
        """Wait until this process is idle: a pool that spins on would disturb the other side's turn."""
        deadline = time.perf_counter() + _LONGEST_PAUSE_S
        while time.perf_counter() < deadline:
            cpu = cpu_ns()
            time.sleep(0.001)
            if cpu_ns_since(cpu) < _STILL_NS:
                return


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


def _cpu_clock(thread: Thread | None) -> Callable[[], int]:
    """Return what reads the CPU time of a thread, None = the calling one; of another one where the system tells it."""
    if thread is None or thread.ident is None or not hasattr(time, "pthread_getcpuclockid"):
        return time.thread_time_ns
    return partial(time.clock_gettime_ns, time.pthread_getcpuclockid(thread.ident))


def _unexpected(message: Message) -> WorkerError:
    return WorkerError(f"the conductor sent {type(message).__name__!r}, which is not expected here")
