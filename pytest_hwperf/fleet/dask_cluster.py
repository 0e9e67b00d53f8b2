"""Hosts reached by dask: this machine's processes, SSH, or the workers of a scheduler that is there already."""

import logging
import queue
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING, Any

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.fleet import Host, Order, Task
from pytest_hwperf.core.serialisation import to_json
from pytest_hwperf.core.shards import parse_kind
from pytest_hwperf.fleet.dask_task import carry_out
from pytest_hwperf.fleet.dispatch import News
from pytest_hwperf.fleet.hosts import Entry, machine_of
from pytest_hwperf.fleet.mail import Mail
from pytest_hwperf.fleet.plain_data import refuse_pickles
from pytest_hwperf.fleet.ssh import reachable, ssh_cluster

if TYPE_CHECKING:
    from distributed import Client

_RESOURCE = "hwperf"  # of a worker, of which a gate takes all; of others' workers "hwperf.KIND"
_EVERY_S = 2.0  # between looks at which workers are there
_UNREACHED_S = 60.0  # of a scheduler, until its hosts count as lost
_CLOSE_S = 10.0
_ASKED = 100  # times
_START_S = 120.0  # until all workers have come
_PAGES = "127.0.0.1:0"  # where dask shows its pages: nobody else's
_WORKER: Mapping[str, Any] = {"nthreads": 1, "memory_limit": 0, "death_timeout": 60, "dashboard_address": _PAGES}

OrderFor = Callable[[str, Task], Order]


def check_tools(*, ssh: bool) -> None:
    """Refuse what needs a package that is not there.

    Raises:
        UsageProblem: says what to install.
    """
    for name in ("distributed", *(["asyncssh"] if ssh else [])):
        if find_spec(name) is None:
            raise UsageProblem(f"a fleet needs {name}: install it with pip install 'pytest-hwperf[fleet]'")


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
        resource: str = _RESOURCE,
    ) -> None:
        """Listen to what hosts say.

        Args:
            client: of the scheduler.
            workers: name of a host → address of its worker.
            hosts: that can be used.
            kinds: of machine that the fleet is for, also where no host of one can be reached.
            unreached: hosts that cannot be used, each with the reason.
            resource: of which a worker has one, with {} for its kind of machine.
        """
        self._resource = resource
        self.hosts, self.kinds, self.unreached = hosts, kinds, unreached
        self._client, self._workers = client, workers
        self._topic = f"hwperf-{secrets.token_hex(8)}"
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._mail = Mail()
        self._futures: dict[str, Any] = {}
        self._addresses: dict[str, str] = {}  # job → address of the worker that may speak of it
        self._looked_s = self._reached_s = monotonic()
        client.subscribe_topic(self._topic, self._receive)

    def load(self, parcel: bytes, order_for: OrderFor) -> None:
        """Take the project, and what makes the order of a job."""
        self._parcel, self._order_for = parcel, order_for

    def start(self, job: str, host: Host, task: Task) -> None:
        """Let a worker run a gate; its only resource keeps it from any other, also of another fleet."""
        address = self._workers[host.name]
        self._addresses[job] = address
        future = self._client.submit(
            carry_out,
            to_json(self._order_for(job, task)),
            self._parcel,
            self._topic,
            key=f"{self._topic}-{secrets.token_hex(4)}",
            workers=[address],
            resources={self._resource.format(host.kind): 1},
            pure=False,
            retries=0,
        )
        self._futures[job] = future
        future.add_done_callback(lambda done: self._done(job, done.status))

    def stop(self, job: str) -> None:
        """Take the task back: the host notices within a second."""
        if future := self._futures.get(job):
            with suppress(OSError):
                future.cancel(force=True)

    def wait(self, seconds: float) -> list[News]:
        """Return what has arrived."""
        found = []
        with suppress(queue.Empty):
            found.append(self._news.get(timeout=seconds))
            while True:
                found.append(self._news.get_nowait())
        return [*found, *self._lost()]

    def _receive(self, event: tuple[float, object]) -> None:
        """Take a message that the scheduler says is of the worker whose job it names."""
        message = event[1]
        worker = message.get("worker") if isinstance(message, Mapping) else None
        news = self._mail.open(message)
        if news is not None and worker == self._addresses.get(news.job):
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
            there = self._client.nthreads()  # scheduler_info() may be a copy without workers
        except (OSError, TimeoutError):  # on a busy machine once in a while
            gone = monotonic() - self._reached_s > _UNREACHED_S
            return [News(job=job, died="the scheduler cannot be reached") for job in self._addresses if gone]
        self._reached_s = monotonic()
        return [
            News(job=job, died="its worker is gone") for job, address in self._addresses.items() if address not in there
        ]


@contextmanager
def clustered(entries: Sequence[Entry], scheduler: str | None, *, encrypted: bool) -> Iterator[DaskCluster]:
    """Reach the hosts of a fleet, and let go of them at the end.

    Args:
        entries: hosts, unless a scheduler is given.
        scheduler: address of one that is there already.
        encrypted: whether what leaves this machine has to be.

    Raises:
        UsageProblem: hosts cannot be reached, or only without encryption; says what to type.
    """
    import dask
    from distributed import Client

    for name in ("distributed", "asyncssh", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        if scheduler:
            _check_encrypted(scheduler if "://" in scheduler else f"tcp://{scheduler}", encrypted=encrypted)
            refuse_pickles()
            with _explained(scheduler), Client(scheduler, timeout=_CLOSE_S, set_as_default=False) as client:
                yield _of_scheduler(client)
            return
        reached, unreached = _looked_at(entries, encrypted=encrypted)
        with (
            _cluster_of(reached) as cluster,
            Client(cluster, timeout=_START_S, set_as_default=False) as client,
        ):
            client.wait_for_workers(len(reached), timeout=_START_S)
            there = {str(one["name"]): address for address, one in _workers_of(client).items()}
            workers = {one.host.name: there[_name(number, one)] for number, one in enumerate(reached)}
            kinds = tuple(dict.fromkeys(one.host.kind for one in entries))
            yield DaskCluster(client, workers, [one.host for one in reached], kinds, unreached)


def _name(number: int, entry: Entry) -> str:
    """Return how dask calls the worker of a host: local ones it counts."""
    return str(number) if entry.is_local else entry.host.name


@contextmanager
def _explained(scheduler: str) -> Iterator[None]:
    try:
        yield
    except (OSError, TimeoutError) as error:
        raise UsageProblem(f"--scheduler={scheduler} cannot be reached ({error})") from error


def _looked_at(entries: Sequence[Entry], *, encrypted: bool) -> tuple[Sequence[Entry], Sequence[str]]:
    """Return the hosts that can be used, and of the others why not.

    Raises:
        UsageProblem: there is none, or what they are sent would not be encrypted.
    """
    if entries[0].is_local:
        return entries, ()
    if not all(one.is_loopback for one in entries):
        _check_encrypted("", encrypted=encrypted)
    reached, unreached = reachable(entries)
    if not reached:
        raise UsageProblem("\n".join(["no host can be used:", *(f"  {one}" for one in unreached)]))
    return reached, unreached


@contextmanager
def _cluster_of(entries: Sequence[Entry]) -> Iterator[Any]:
    """Start a worker on each host."""
    if entries[0].is_local:
        from distributed import LocalCluster

        with LocalCluster(
            n_workers=len(entries),
            threads_per_worker=1,
            memory_limit=0,
            host="127.0.0.1",
            dashboard_address=_PAGES,
            worker_dashboard_address=_PAGES,
            silence_logs=logging.CRITICAL,
            resources={_RESOURCE: 1},
        ) as cluster:
            yield cluster
        return
    refuse_pickles()
    alone = all(one.is_loopback for one in entries)
    with ssh_cluster(entries, {**_WORKER, "resources": {_RESOURCE: 1}}, loopback=alone) as cluster:
        yield cluster


def _check_encrypted(address: str, *, encrypted: bool) -> None:
    """Refuse to send orders over a network where anyone could send others.

    Raises:
        UsageProblem: says how dask encrypts.
    """
    import dask

    host = address.partition("://")[2].rpartition(":")[0]
    if not encrypted or (address and machine_of(host.strip("[]")) == "local"):
        return
    certificate = dask.config.get("distributed.comm.tls.client.cert", None)
    if not certificate or (address and not address.startswith("tls://")):
        raise UsageProblem(
            "who can reach an unencrypted scheduler of dask can run code on its hosts: configure distributed.comm.tls "
            "of dask and give tls://…, or --unencrypted in a network where everyone is trusted"
        )


def _workers_of(client: "Client") -> Mapping[str, Any]:
    """Return what is known of each worker; dask answers with a copy without workers once in a while."""
    there = client.nthreads()
    for _ in range(_ASKED):
        found: Mapping[str, Any] = client.scheduler_info()["workers"]
        if {*there} <= {*found}:
            return found
    return {}


def _of_scheduler(client: "Client") -> DaskCluster:
    """Take the workers of a scheduler that say of which kind of machine they are.

    Raises:
        UsageProblem: there are none, or two on a machine, or one with several threads.
    """
    hosts, workers = list[Host](), dict[str, str]()
    for address, one in sorted(_workers_of(client).items()):
        kinds = [name.partition(".")[2] for name in one["resources"] if name.partition(".")[0] == _RESOURCE]
        if not kinds:
            continue
        name, machine = str(one["name"]), machine_of(str(one["host"]))
        kind = parse_kind(kinds[0])
        if len(kinds) > 1 or kind is None or one["nthreads"] != 1 or one["resources"][f"{_RESOURCE}.{kinds[0]}"] != 1:
            raise UsageProblem(
                f"worker {name}: start it with --nthreads 1 --resources {_RESOURCE}.KIND=1, one kind each"
            )
        hosts.append(Host(name=name, kind=kind[0], machine=machine))
        workers[name] = address
    if not hosts:
        raise UsageProblem(f"no worker of this scheduler was started with --nthreads 1 --resources {_RESOURCE}.KIND=1")
    kinds_of_all = tuple(dict.fromkeys(host.kind for host in hosts))
    return DaskCluster(client, workers, hosts, kinds_of_all, resource=f"{_RESOURCE}.{{}}")
