"""A scheduler of dask that is there already: how it is reached, and which of its workers are hosts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from pytest_hwperf.fleet.dask_cluster import RESOURCE, STAYS, DaskCluster, closing, refuse_pickles, workers_of
from pytest_hwperf.fleet.hosts import LOCAL, machine_of
from pytest_hwperf.host.interruption import uninterrupted
from pytest_hwperf.host.workdirs import sweep
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.fleet import Host
from pytest_hwperf.records.report import parse_kind
from pytest_hwperf.records.text import visible

if TYPE_CHECKING:
    from distributed import Client

_CONNECT_S = 10.0
_TIDY_S = 10.0  # until hosts have removed what is left there
_PAUSE_S = 0.5  # before a look at which workers have come
_MOST = 300  # characters of what dask says
_START = f'start it with --nthreads 1 --resources "{RESOURCE}.KIND=1"'


@contextmanager
def at_scheduler(address: str, *, encrypted: bool) -> Iterator[DaskCluster]:
    """Reach the workers of a scheduler, and let go of them at the end."""
    check_encrypted(address if "://" in address else f"tcp://{address}", encrypted=encrypted)
    _check_certificates(address)
    refuse_pickles()
    with closing(_client_of(address)) as client:
        cluster = of_scheduler(client)
        try:
            yield cluster
        finally:
            with uninterrupted():
                cluster.left += _tidied(client, [one for one in cluster.hosts if one.name in cluster.unanswered])


def _client_of(address: str) -> "Client":
    from distributed import Client

    try:
        return Client(address, timeout=_CONNECT_S, set_as_default=False)
    except Exception as error:  # dask raises whatever an address or a certificate makes of it
        said = visible(str(error) or type(error).__name__)[:_MOST]
        raise UsageProblem(
            f"--scheduler={address} cannot be reached ({said}): give the address that `dask scheduler` has printed, "
            "tls://… if it was started with certificates, which distributed.comm.tls of dask has to name here too"
        ) from error


def _check_certificates(address: str) -> None:
    """Refuse to begin without what TLS needs here: a client of dask that fails would hold the end of this program."""
    from distributed.security import Security

    try:
        context, problem = Security().get_connection_args("client").get("ssl_context"), ""
    except (OSError, ValueError, TypeError) as error:  # a file that cannot be read, or is no certificate
        context, problem = None, f" ({visible(str(error))[:_MOST]})"
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
            "who can reach an unencrypted scheduler of dask can run code on its hosts: configure distributed.comm.tls "
            "of dask and give tls://…, or --unencrypted in a network where everyone is trusted"
        )


def known_workers(client: "Client") -> Mapping[str, Any]:
    """Return what is known of each worker when a fleet begins."""
    try:
        return workers_of(client)
    except (OSError, TimeoutError) as error:
        said = visible(str(error))[:_MOST]
        raise UsageProblem(
            f"the scheduler of dask does not say which workers it has ({said}): start it again"
        ) from error


def of_scheduler(client: "Client") -> DaskCluster:
    """Take the workers of a scheduler that say of which kind of machine they are."""
    hosts, workers = list[Host](), dict[str, str]()
    for address, one in sorted(known_workers(client).items()):
        kinds = [name.partition(".")[2] for name in one["resources"] if name.partition(".")[0] == RESOURCE]
        if not kinds:
            continue
        name, machine = str(one["name"]), machine_of(str(one["host"]))
        kind = parse_kind(kinds[0])
        if len(kinds) > 1 or kind is None or one["nthreads"] != 1 or one["resources"][f"{RESOURCE}.{kinds[0]}"] != 1:
            raise UsageProblem(f"worker {name}: {_START}, one kind each")
        hosts.append(Host(name=name, kind=kind[0], machine=machine))
        workers[name] = address
    if not hosts:
        raise UsageProblem(f"the scheduler has no worker for a fleet: {_START}")
    kinds_of_all = tuple(dict.fromkeys(host.kind for host in hosts))
    return DaskCluster(client, workers, hosts, kinds_of_all, resource=f"{RESOURCE}.{{}}")


def _tidied(client: "Client", hosts: Sequence[Host]) -> list[str]:
    try:
        done = tidy(client, {one.machine for one in hosts})
    except (OSError, TimeoutError) as error:
        return [f"{one.name}: {STAYS} ({visible(str(error))[:_MOST]})" for one in hosts]
    return [f"{one.name}: {STAYS}: its machine has no worker any more" for one in hosts if one.machine not in done]


def tidy(client: "Client", machines: set[str]) -> set[str]:
    """Let the workers of machines remove what a killed gate has left there."""
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
