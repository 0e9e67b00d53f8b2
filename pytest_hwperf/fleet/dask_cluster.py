"""The workers of a scheduler of dask as the hosts of a fleet: orders go to them, and events come back."""

import queue
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from pytest_hwperf.fleet.dask_task import carry_out
from pytest_hwperf.fleet.dispatch import Mail, News
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.fleet import Host, Order, Task

if TYPE_CHECKING:
    from distributed import Client

RESOURCE = "hwperf"  # of a worker, of which a gate takes all; of others' workers "hwperf.KIND"
STAYS = "what its gate has left stays until the next gate there"
_EVERY_S = 2.0  # between looks at which workers are there
_ANSWER_S = 10.0  # for a scheduler to say so
_UNREACHED_S = 60.0  # of a scheduler, until its hosts count as lost

OrderFor = Callable[[str, Task], Order]


def asked(client: "Client") -> Mapping[str, int]:
    """Return the threads of each worker that is there; scheduler_info() may be a copy without workers."""
    scheduler = client.scheduler
    if scheduler is None:
        raise OSError("dask has given the scheduler up")
    found: Mapping[str, int] = client.sync(scheduler.ncores, callback_timeout=_ANSWER_S)
    return found


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
        self._mail = Mail()
        self._futures: dict[str, Any] = {}
        self._addresses: dict[str, str] = {}  # job → address of the worker that may speak of it
        self._names: dict[str, str] = {}  # job → name of its host
        self.left: list[str] = []  # hosts on which something of a gate stays, each with the reason
        self.unanswered: set[str] = set()  # names of hosts that may not have removed what their gate has made
        self._looked_s = self._reached_s = monotonic()
        client.subscribe_topic(self._topic, self._receive)

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
        if job not in self._addresses or message.get("worker") != self._addresses[job]:  # also not a part of an answer
            return
        if news := self._mail.open(message):
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
            there = asked(self._client)
        except (OSError, TimeoutError):  # on a busy machine once in a while
            gone = monotonic() - self._reached_s > _UNREACHED_S
            return [News(job=job, died="the scheduler cannot be reached") for job in self._addresses if gone]
        self._reached_s = monotonic()
        return [
            News(job=job, died="its worker is gone") for job, address in self._addresses.items() if address not in there
        ]
