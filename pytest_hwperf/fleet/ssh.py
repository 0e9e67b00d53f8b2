"""Hosts over SSH: looked at first, one by one, so that whatever is wrong with one of them is told in its name."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pytest_hwperf import __version__
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.fleet.hosts import Entry

_LONGEST_S = 60.0  # until a host has answered
_ASK = "import json, distributed, pytest_hwperf as p; print(json.dumps([p.__version__, distributed.__version__]))"
_MOST = 300  # characters of what a host says
_MOST_OUTPUT = 10_000


def reachable(entries: Sequence[Entry]) -> tuple[list[Entry], list[str]]:
    """Ask every host which versions it has.

    Returns:
        Those that can be used, and of the others why not.
    """
    import asyncio

    async def ask_all() -> list[str]:
        return list(await asyncio.gather(*map(_why_not, entries)))

    problems = asyncio.run(ask_all())
    found = list(zip(entries, problems, strict=True))
    return [one for one, why in found if not why], [f"{one.host.name}: {why}" for one, why in found if why]


async def _why_not(entry: Entry) -> str:
    """Say why a host cannot be used, "" where it can."""
    import asyncio

    import asyncssh

    command = f"{shlex.quote(entry.python)} -c {shlex.quote(_ASK)}"
    try:
        async with asyncio.timeout(_LONGEST_S), asyncssh.connect(entry.address, **_connection(entry)) as connection:
            done = await connection.run(command, check=False)
    except TimeoutError:
        return f"it has not answered within {_LONGEST_S:g} s"
    except (OSError, asyncssh.Error, ValueError) as error:
        return f"SSH cannot reach it: {visible(str(error))[:_MOST]}"
    return _why_other(str(done.stdout or ""), str(done.stderr or ""), entry)


def _why_other(output: str, errors: str, entry: Entry) -> str:
    """Say in what the versions of a host differ from those here."""
    import distributed

    own = [__version__, distributed.__version__]
    try:
        versions = json.loads(output[:_MOST_OUTPUT])
    except ValueError:
        said = visible((errors.strip().splitlines() or ["nothing"])[-1])[:_MOST]
        return f"{entry.python} has no pytest-hwperf[fleet] there ({said}): install it, or name another with python ="
    if versions == own:
        return ""
    return (
        f"it has pytest-hwperf and distributed {visible(str(versions))[:_MOST]}, and here are {own}: install the same"
    )


@contextmanager
def ssh_cluster(entries: Sequence[Entry], worker: Mapping[str, Any], *, loopback: bool) -> Iterator[Any]:
    """Start a scheduler on the first host and a worker on each; end them all with it.

    Args:
        entries: hosts that answer.
        worker: options of a worker, as JSON takes them.
        loopback: whether nothing of it may be reached from other machines.

    Raises:
        UsageProblem: one cannot be started.
    """
    from distributed import SpecCluster
    from distributed.deploy import ssh

    place = {"host": "127.0.0.1"} if loopback else {}
    first = {"cls": ssh.Scheduler, "options": {**_process(entries[0]), "kwargs": _scheduler(place)}}
    workers = {
        one.host.name: {
            "cls": ssh.Worker,
            "options": {
                **_process(one),
                "kwargs": {**worker, "name": one.host.name, **place},
                "worker_class": "distributed.Worker",  # without a nanny: what has died stays so
            },
        }
        for one in entries
    }
    try:
        cluster = SpecCluster(workers, first, name="hwperf", silence_logs=False)
    except Exception as error:  # dask and asyncssh raise whatever a host makes of it
        raise UsageProblem(f"the workers of dask cannot be started over SSH: {visible(str(error))[:_MOST]}") from error
    with cluster:
        yield cluster


def _scheduler(place: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of a scheduler: whichever port is free, its pages for that host alone, TLS if it is there."""
    import dask

    tls = {"protocol": "tls"} if dask.config.get("distributed.comm.tls.client.cert", None) else {}
    return {"port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0", **place, **tls}


def _process(entry: Entry) -> dict[str, Any]:
    python = shlex.quote(entry.python)
    return {"address": entry.address, "connect_options": _connection(entry), "remote_python": python}


def _connection(entry: Entry) -> dict[str, Any]:
    """Return what asyncssh needs beside an address; keys of hosts are always checked."""
    given = {"port": entry.port, "username": entry.user, "client_keys": entry.key, "known_hosts": entry.known_hosts}
    return {name: value for name, value in given.items() if value}
