"""The workers of a scheduler of dask as the hosts of a fleet: orders go to them, and events come back.

Nothing that a scheduler or a host sends is unpickled in this process. dask unpickles results, exceptions and whatever a
message marks as pickled, wherever it comes from. Hosts run what this process sends them; the reverse must not hold.
"""

import queue
import secrets
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_hwperf.fleet.on_host import carry_out
from pytest_hwperf.host.interruption import uninterrupted
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.report import Host, Order, Task

if TYPE_CHECKING:
    from distributed import Client

RESOURCE = "hwperf"  # of a worker, of which a gate takes all; of others' workers "hwperf.KIND"
STAYS = "what its gate has left stays until the next gate there"
_EVERY_S = 2.0  # between looks at which workers are there
_ANSWER_S = 10.0  # for a scheduler to say so
_UNREACHED_S = 60.0  # of a scheduler, until its hosts count as lost
_CLOSE_S = 10.0
_ERRORS_OF_CLOSE = (TimeoutError, OSError, RuntimeError, AssertionError)  # what dask raises of a half-closed one
_LARGEST = 1 << 29  # bytes of an answer, unpacked: as of any report
_LARGEST_PACKED = 1 << 27
_LONGEST_SIGN = 1000  # characters
_REFUSED = "(pickled by a host, and not read)"

OrderFor = Callable[[str, Task], Order]
Closed = TypeVar("Closed")  # a client or a cluster of dask, which is not typed


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What has become known of a job; of several at once the last that is set counts."""

    job: str
    sign: str = ""  # it lives, and this is what it does
    answer: bytes | None = None  # it has ended, and this is what it sent
    died: str = ""  # why no answer will come any more


def workers_of(client: "Client") -> Mapping[str, Any]:
    """Return what the scheduler says of each worker that is there; `scheduler_info()` swallows that it cannot."""
    scheduler = client.scheduler
    if scheduler is None:
        raise OSError("dask has given the scheduler up")
    found: Mapping[str, Any] = client.sync(scheduler.identity, callback_timeout=_ANSWER_S)["workers"]
    return found


def news_of(job: str, message: Mapping[Any, Any]) -> News | None:
    """Return what a message of a host tells, None where it tells nothing."""
    sign, packed = message.get("sign"), message.get("answer")
    if isinstance(sign, str):
        return News(job=job, sign=sign[:_LONGEST_SIGN])
    if not isinstance(packed, bytes):
        return None
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(packed, _LARGEST) if len(packed) <= _LARGEST_PACKED else b""
    except zlib.error as error:
        return News(job=job, died=f"its answer is damaged ({error})")
    if not unpacker.eof:
        return News(job=job, died="its answer is cut off, or larger than any report")
    return News(job=job, answer=content)


class DaskCluster:
    """What runs gates on the workers of a scheduler, one thread each."""

    def __init__(
        self,
        client: "Client",
        workers: Mapping[str, str],
        hosts: Sequence[Host],
        kinds: Sequence[str],
        unreached: Sequence[str] = (),
        *,
        resource: str = RESOURCE,
    ) -> None:
        self._resource = resource
        self.hosts, self.kinds, self.unreached = hosts, kinds, unreached
        self._client, self._workers = client, workers
        self._topic = f"hwperf-{secrets.token_hex(8)}"
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._futures: dict[str, Any] = {}
        self._addresses: dict[str, str] = {}  # job → address of the worker that may speak of it
        self._names: dict[str, str] = {}  # job → name of its host
        self.left: list[str] = []  # hosts on which something of a gate stays, each with the reason
        self.unanswered: set[str] = set()  # names of hosts that may not have removed what their gate has made
        self._looked_s = self._reached_s = monotonic()
        client.subscribe_topic(self._topic, self._receive)

    @property
    def addresses(self) -> Collection[str]:
        return self._workers.values()

    def load(self, parcel: bytes, order_for: OrderFor) -> None:
        """Take the project, and what makes the order of a job."""
        self._parcel, self._order_for = parcel, order_for

    def start(self, job: str, host: Host, task: Task) -> None:
        """Let a worker run a gate; its only resource keeps it from any other, also of another fleet."""
        address = self._workers[host.name]
        self._addresses[job], self._names[job] = address, host.name
        self.unanswered.add(host.name)
        order = to_json(self._order_for(job, task))
        try:
            future = self._client.submit(
                carry_out,
                order,
                self._parcel,
                self._topic,
                key=f"{self._topic}-{secrets.token_hex(4)}",
                workers=[address],
                resources={self._resource.format(host.kind): 1},
                pure=False,
                retries=0,
            )
        except (OSError, RuntimeError) as error:  # dask has given the scheduler up
            self._news.put(News(job=job, died=f"it cannot be given its task ({error})"))
            return
        self._futures[job] = future
        future.add_done_callback(lambda done: self._done(job, done.status))

    def stop(self, job: str) -> None:
        """Take the task back: the host notices within a second."""
        if future := self._futures.get(job):
            with suppress(OSError, RuntimeError):
                future.cancel(force=True)

    def wait(self, seconds: float) -> list[News]:
        found = []
        with suppress(queue.Empty):
            found.append(self._news.get(timeout=seconds))
            while True:
                found.append(self._news.get_nowait())
        return [*found, *self._lost()]

    def _receive(self, event: tuple[float, object]) -> None:
        """Take a message that the scheduler says is of the worker whose job it names."""
        message = event[1]
        if not isinstance(message, Mapping) or not isinstance(job := message.get("job"), str):
            return
        if job not in self._addresses or message.get("worker") != self._addresses[job]:
            return
        if news := news_of(job, message):
            if news.answer is not None:
                self.unanswered.discard(self._names[job])
            self._news.put(news)

    def _done(self, job: str, status: str) -> None:
        if status in ("error", "lost"):
            self._news.put(News(job=job, died="its worker died, or dask could not run it"))

    def _lost(self) -> list[News]:
        """Return the jobs whose workers are gone."""
        if monotonic() - self._looked_s < _EVERY_S:
            return []
        self._looked_s = monotonic()
        try:
            there = workers_of(self._client)
        except (OSError, TimeoutError):  # on a busy machine once in a while
            gone = monotonic() - self._reached_s > _UNREACHED_S
            return [News(job=job, died="the scheduler cannot be reached") for job in self._addresses if gone]
        self._reached_s = monotonic()
        return [
            News(job=job, died="its worker is gone") for job, address in self._addresses.items() if address not in there
        ]


@contextmanager
def closing(what: Closed) -> Iterator[Closed]:
    """Close something of dask on exit, for which signals wait; what does not answer is let go of.

    What cannot be closed ends by itself: processes over SSH with their connection, local ones with this process.
    """
    closed: Any = what
    try:
        yield what
    finally:
        with uninterrupted(), suppress(*_ERRORS_OF_CLOSE):
            closed.close(timeout=_CLOSE_S)


class _Refusing:
    """Stands where dask's own module finds Python's: it writes as ever, and reads nothing."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def loads(self, *_: object, **__: object) -> str:
        """Return a text in place of what was sent."""
        return _REFUSED


def refuse_pickles() -> None:
    """Let dask unpickle nothing in this process from now on: all its ways lead through one module."""
    from distributed.protocol import pickle as module

    if not isinstance(module.pickle, _Refusing):
        module.pickle = _Refusing(module.pickle)
