"""How a fleet reaches its hosts: as processes of this machine, by SSH, or by a scheduler that is there already."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from pytest_hwperf.fleet.dask_cluster import RESOURCE, STAYS, DaskCluster, closing, refuse_pickles, workers_of
from pytest_hwperf.fleet.hosts import LOCAL, HostEntry, machine_of
from pytest_hwperf.host.extras import require
from pytest_hwperf.host.interruption import signals_blocked, uninterrupted
from pytest_hwperf.host.workdirs import sweep
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.report import Host, parse_kind
from pytest_hwperf.records.text import visible

if TYPE_CHECKING:
    from distributed import Client

_LOOK_S = 60.0  # until all hosts have answered, and all workers have come, if a silence may last as long
_SILENT = ("distributed", "distributed.client", "asyncssh", "tornado", "tornado.application")  # loggers
_CONNECT_S = 10.0
_TIDY_S = 10.0  # until the hosts of a scheduler have removed what is left there
_PAUSE_S = 0.5  # before a look at which workers have come
_MOST = 300  # characters of what dask says
_START = f'start it with --nthreads 1 --resources "{RESOURCE}.KIND=1"'
_PAGES = "127.0.0.1:0"  # where dask shows its pages: nobody else's
_WORKER: Mapping[str, Any] = {"nthreads": 1, "memory_limit": 0, "death_timeout": 60, "dashboard_address": _PAGES}


def check_tools(*, ssh: bool) -> None:
    """Refuse what needs a package that is not there."""
    require("fleet", "a fleet needs {}", "distributed", *(["asyncssh"] if ssh else []))


@contextmanager
def clustered(
    entries: Sequence[HostEntry], scheduler: str | None, place: Path, *, encrypted: bool, silence_s: float
) -> Iterator[DaskCluster]:
    """Reach the hosts of a fleet; at the end let go of them, and remove what killed gates have left where it can be."""
    import dask
    import distributed  # noqa: F401 - before its levels are set, since it sets them itself

    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        if scheduler:
            with at_scheduler(scheduler, encrypted=encrypted) as cluster:
                yield cluster
            return
        within_s = min(_LOOK_S, silence_s)
        reached, unreached = looked_at(entries, encrypted=encrypted, within_s=within_s)
        kinds = tuple(dict.fromkeys(one.host.kind for one in entries))
        made: DaskCluster | None = None
        try:
            with _started(reached, place, within_s) as cluster, closing(_client_of(cluster)) as client:
                workers, missing = _workers_of(client, cluster, reached, within_s)
                unreached = [*unreached, *missing]
                hosts = [one.host for one in reached if one.host.name in workers]
                _check_any(hosts, unreached)
                made = DaskCluster(client, workers, hosts, kinds, unreached)
                yield made
        finally:
            left = [one for one in reached if made is not None and one.host.name in made.unanswered]
            if made is not None and left:
                with uninterrupted():
                    made.left += _tidied(left)


def looked_at(
    entries: Sequence[HostEntry], *, encrypted: bool, within_s: float
) -> tuple[Sequence[HostEntry], Sequence[str]]:
    """Return the hosts that can be used, and of the others why not."""
    if entries[0].is_local:
        return entries, ()
    if not all(one.is_loopback for one in entries):
        check_encrypted("", encrypted=encrypted)
    from pytest_hwperf.fleet import ssh

    reached, unreached = ssh.reachable(entries, within_s)
    _check_any(reached, unreached)
    return reached, unreached


def _check_any(reached: Sequence[object], unreached: Sequence[str]) -> None:
    if not reached:
        raise UsageProblem("\n".join(["no host can be used:", *(f"  {one}" for one in unreached)]))


@contextmanager
def _started(entries: Sequence[HostEntry], place: Path, within_s: float) -> Iterator[Any]:
    """Start a worker on each host."""
    import dask
    from distributed import LocalCluster

    if not entries[0].is_local:
        from pytest_hwperf.fleet import ssh

        refuse_pickles()
        alone = all(one.is_loopback for one in entries)
        given = {**_WORKER, "resources": {RESOURCE: 1}}
        with ssh.ssh_cluster(entries, given, loopback=alone, within_s=within_s) as cluster:
            yield cluster
        return
    with dask.config.set({"temporary-directory": str(place)}), ExitStack() as stack:
        with uninterrupted(), signals_blocked():  # else some of them may be left
            started = LocalCluster(
                n_workers=len(entries),
                threads_per_worker=1,
                memory_limit=0,
                host="127.0.0.1",
                dashboard_address=_PAGES,
                worker_dashboard_address=_PAGES,
                silence_logs=logging.CRITICAL,
                resources={RESOURCE: 1},
                preload=["pytest_hwperf.fleet.on_host"],
            )
            stack.enter_context(closing(started))
        yield started


def _client_of(cluster: Any) -> "Client":
    from distributed import Client

    try:
        return Client(cluster, timeout=_LOOK_S, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise UsageProblem(f"the scheduler of dask cannot be reached ({_said(error)})") from error


def _said(error: Exception) -> str:
    return visible(str(error) or type(error).__name__)[:_MOST]


def _workers_of(
    client: "Client", cluster: Any, entries: Sequence[HostEntry], within_s: float
) -> tuple[dict[str, str], list[str]]:
    """Return the addresses of the workers that have come, by the names of hosts, and why others have not."""
    problems = {name: getattr(one, "problem", "") for name, one in cluster.workers.items()}
    with suppress(TimeoutError):
        client.wait_for_workers(max(sum(not one for one in problems.values()), 1), timeout=within_s)
    there = {str(one["name"]): address for address, one in known_workers(client).items()}
    found, missing = dict[str, str](), list[str]()
    for number, one in enumerate(entries):
        name = str(number) if one.is_local else one.host.name  # dask counts local ones
        if name in there:
            found[one.host.name] = there[name]
        else:
            why = problems.get(name) or f"has not come within {within_s:g} s"
            missing.append(f"{one.host.name}: its worker {why}")
    return found, missing


def _tidied(entries: Sequence[HostEntry]) -> list[str]:
    """Remove what gates have left on hosts that did not answer; return where it stays, each with the reason."""
    if entries[0].is_local:
        sweep()
        return []
    from pytest_hwperf.fleet import ssh

    return ssh.tidy(entries)


@contextmanager
def at_scheduler(address: str, *, encrypted: bool) -> Iterator[DaskCluster]:
    """Reach the workers of a scheduler, and let go of them at the end."""
    check_encrypted(address if "://" in address else f"tcp://{address}", encrypted=encrypted)
    _check_certificates(address)
    refuse_pickles()
    with closing(_client_at(address)) as client:
        cluster = of_scheduler(client)
        for worker in cluster.addresses:  # which may be farther away than the scheduler
            check_encrypted(worker, encrypted=encrypted)
        try:
            yield cluster
        finally:
            hosts = [one for one in cluster.hosts if one.name in cluster.unanswered]
            with uninterrupted():
                try:
                    done, why = tidy(client, {one.machine for one in hosts}), ": its machine has no worker any more"
                except (OSError, TimeoutError) as error:
                    done, why = set(), f" ({_said(error)})"
                cluster.left += [f"{one.name}: {STAYS}{why}" for one in hosts if one.machine not in done]


def _client_at(address: str) -> "Client":
    from distributed import Client

    try:
        return Client(address, timeout=_CONNECT_S, set_as_default=False)
    except Exception as error:  # dask raises whatever an address or a certificate makes of it
        raise UsageProblem(
            f"--scheduler={address} cannot be reached ({_said(error)}): give the address that `dask scheduler` has "
            "printed, tls://… if it was started with certificates, which distributed.comm.tls of dask has to name here "
            "too"
        ) from error


def _check_certificates(address: str) -> None:
    """Refuse to begin without what TLS needs here: a client of dask that fails would hold the end of this program."""
    from distributed.security import Security

    try:
        context, problem = Security().get_connection_args("client").get("ssl_context"), ""
    except (OSError, ValueError, TypeError) as error:  # a file that cannot be read, or is no certificate
        context, problem = None, f" ({_said(error)})"
    if problem or (context is None and address.startswith("tls://")):
        raise UsageProblem(
            f"TLS of dask is not configured for this program{problem}: give the files distributed.comm.tls.ca-file, "
            "client.cert and client.key, such as DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT=cert.pem"
        )


def check_encrypted(address: str, *, encrypted: bool) -> None:
    """Refuse to send orders over a network where anyone could send others."""
    import dask

    host = address.partition("://")[2].rpartition(":")[0]
    if not encrypted or (address and machine_of(host.strip("[]")) == LOCAL):
        return
    certificate = dask.config.get("distributed.comm.tls.client.cert", None)
    if not certificate or (address and not address.startswith("tls://")):
        raise UsageProblem(
            f"who can reach {address or 'an unencrypted scheduler of dask'} can run code there: configure "
            "distributed.comm.tls of dask and give tls://…, or --unencrypted in a network where everyone is trusted"
        )


def known_workers(client: "Client") -> Mapping[str, Any]:
    """Return what is known of each worker when a fleet begins."""
    try:
        return workers_of(client)
    except (OSError, TimeoutError) as error:
        raise UsageProblem(
            f"the scheduler of dask does not say which workers it has ({_said(error)}): start it again"
        ) from error


def of_scheduler(client: "Client") -> DaskCluster:
    """Take the workers of a scheduler that say of which kind of machine they are."""
    hosts, workers = list[Host](), dict[str, str]()
    for address, one in sorted(known_workers(client).items()):
        kinds = [name.partition(".")[2] for name in one["resources"] if name.partition(".")[0] == RESOURCE]
        if not kinds:
            continue
        name, kind = str(one["name"]), parse_kind(kinds[0])
        if len(kinds) > 1 or kind is None or one["nthreads"] != 1 or one["resources"][f"{RESOURCE}.{kinds[0]}"] != 1:
            raise UsageProblem(f"worker {name}: {_START}, one kind each")
        hosts.append(Host(name=name, kind=kind[0], machine=machine_of(str(one["host"]))))
        workers[name] = address
    if not hosts:
        raise UsageProblem(f"the scheduler has no worker for a fleet: {_START}")
    return DaskCluster(client, workers, hosts, [*dict.fromkeys(one.kind for one in hosts)], resource=f"{RESOURCE}.{{}}")


def tidy(client: "Client", machines: set[str]) -> set[str]:
    """Let the workers of machines remove what a killed gate has left there; return the machines that have."""
    from distributed import wait

    until, there = monotonic() + _TIDY_S, dict[str, str]()  # address → machine
    while not machines <= {*there.values()} and monotonic() < until:
        sleep(_PAUSE_S)
        found = {address: machine_of(str(one["host"])) for address, one in workers_of(client).items()}
        there = {address: machine for address, machine in found.items() if machine in machines}
    if there:
        with client.as_current():
            wait([client.submit(sweep, workers=[one], pure=False, retries=0) for one in there], timeout=_TIDY_S)
    return {*there.values()}
