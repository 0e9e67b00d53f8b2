"""Hosts over SSH: looked at first, one by one, so that whatever is wrong with one of them is told in its name."""

import asyncio
import json
import shlex
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import dask
import distributed
from distributed.deploy import ssh as of_dask
from distributed.deploy.spec import ProcessInterface

from pytest_hwperf import __version__
from pytest_hwperf.fleet.dask_cluster import STAYS, closing
from pytest_hwperf.fleet.hosts import SSH_PORT, HostEntry
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.text import visible

_TIDY_S = 10.0  # until a host has removed what is left there
_ASK = (
    "import json, shutil, tempfile, distributed, pytest_hwperf as p; "
    "tempfile.TemporaryFile(buffering=0).write(bytes(1 << 20)); "
    "print(json.dumps([p.__version__, distributed.__version__, bool(shutil.which('git'))]))"
)
_TIDY = "from pytest_hwperf.host.workdirs import sweep; sweep()"
_ATTACHED = "-m pytest_hwperf.fleet.on_host"
_MOST = 300  # characters of what a host says
_MOST_OUTPUT = 10_000
_NO_SUCH = ("No module named", "not found", "No such file", "cannot import")  # errors that an installation mends


def reachable(entries: Sequence[HostEntry], within_s: float) -> tuple[list[HostEntry], list[str]]:
    """Ask every host which versions it has, and whether it has git and room for files."""
    reached, unreached = list[HostEntry](), list[str]()
    for one, found in zip(entries, _of_all(entries, _ASK, within_s), strict=True):
        if why := found if isinstance(found, str) else _why_other(*found, one):
            unreached.append(f"{one.host.name}: {why}")
        else:
            reached.append(one)
    return reached, unreached


def tidy(entries: Sequence[HostEntry]) -> list[str]:
    """Let hosts remove what a killed gate has left there."""
    problems = zip(entries, _of_all(entries, _TIDY, _TIDY_S), strict=True)
    return [f"{one.host.name}: {STAYS}: {found}" for one, found in problems if isinstance(found, str)]


def _of_all(entries: Sequence[HostEntry], program: str, within_s: float) -> list[str | tuple[str, str]]:
    """Ask all hosts at once, in a thread, where Ctrl-C does not reach into the loop: it ends the wait for it."""
    future = Future[list[str | tuple[str, str]]]()

    async def ask_all() -> list[str | tuple[str, str]]:
        return list(await asyncio.gather(*(_asked(one, program, within_s) for one in entries)))

    def run() -> None:
        try:
            future.set_result(asyncio.run(ask_all()))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result()


async def _asked(entry: HostEntry, program: str, within_s: float) -> str | tuple[str, str]:
    """Return what a program of Python has written on a host, and its errors; a text says why it cannot be run there."""
    import asyncssh

    command = f"{shlex.quote(entry.python)} -c {shlex.quote(program)}"
    try:
        async with (
            asyncio.timeout(within_s),
            asyncssh.connect(entry.address, **_connection(entry)) as connection,
            connection.create_process(command) as process,
        ):
            output, errors = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            return output, errors
    except TimeoutError:
        return f"it has not answered within {within_s:g} s: try {_by_hand(entry)}"
    except (OSError, asyncssh.Error, ValueError) as error:
        said = visible(str(error) or type(error).__name__)[:_MOST]
        return f"SSH cannot reach it ({said}): try {_by_hand(entry)}"


async def _read(stream: Any) -> str:
    """Return what a host writes, and no more than it should."""
    found = ""
    while len(found) < _MOST_OUTPUT and (part := await stream.read(_MOST_OUTPUT)):
        found += part
    return found


def _by_hand(entry: HostEntry) -> str:
    """Return the command by which its user sees what SSH sees."""
    options = {"-p": "" if entry.port == SSH_PORT else str(entry.port), "-i": entry.key}
    words = [word for option, value in options.items() if value for word in (option, value)]
    known = [f"-oUserKnownHostsFile={entry.known_hosts}"] if entry.known_hosts else []
    address = f"{entry.user}@{entry.address}" if entry.user else entry.address
    python = shlex.quote(entry.python)  # once more for the shell of the host
    return f"`{shlex.join(['ssh', *words, *known, '--', address, python, '--version'])}`"


def _why_other(output: str, errors: str, entry: HostEntry) -> str:
    """Say in what a host differs from this machine."""
    own = [__version__, distributed.__version__]
    try:
        *versions, has_git = json.loads((output.strip().splitlines() or [""])[-1])  # a login may greet before it
    except (ValueError, TypeError, RecursionError):
        said = visible((errors.strip().splitlines() or ["it said nothing"])[-1])[:_MOST]
        if any(one in said for one in _NO_SUCH):
            return (
                f"{entry.python} has no pytest-hwperf[fleet] there ({said}): "
                "install it, or name another with python = in the list of hosts"
            )
        return f"{entry.python} cannot be used there ({said}): try {_by_hand(entry)}"
    if versions != own:
        there = visible(str(versions))[:_MOST]
        return f"it has pytest-hwperf and distributed {there}, and here are {own}: install the same"
    return "" if has_git is True else "it has no git, which unpacks the project: install it there"


@contextmanager
def ssh_cluster(
    entries: Sequence[HostEntry], worker: Mapping[str, Any], *, loopback: bool, within_s: float
) -> Iterator[Any]:
    """Start a scheduler on the first host and a worker on each; end them all with it."""
    place = {"host": "127.0.0.1"} if loopback else {}
    # Whichever port is free, its pages for that host alone, and TLS if it is there.
    tls = {"protocol": "tls"} if dask.config.get("distributed.comm.tls.client.cert", None) else {}
    given = {"port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0", **place, **tls}
    scheduler = {**_process(entries[0]), "kwargs": given, "within_s": within_s}
    workers = {
        one.host.name: {
            "cls": Worker,
            "options": {
                **_process(one),
                "kwargs": {**worker, "name": one.host.name, **place},
                "worker_class": "distributed.Worker",  # without a nanny: what has died stays so
                "within_s": within_s,
            },
        }
        for one in entries
    }
    first = {"cls": Scheduler, "options": scheduler}
    try:
        cluster = distributed.SpecCluster(workers, first, name="hwperf", silence_logs=False)
    except Exception as error:  # dask and asyncssh raise whatever a host makes of it
        raise UsageProblem(f"no fleet can be started over SSH: {visible(str(error))[:_MOST]}") from error
    with closing(cluster):
        yield cluster


def _process(entry: HostEntry) -> dict[str, Any]:
    python = f"{shlex.quote(entry.python)} {_ATTACHED}"
    return {"address": entry.address, "connect_options": _connection(entry), "remote_python": python}


def _connection(entry: HostEntry) -> dict[str, Any]:
    """Return what asyncssh needs beside an address; keys of hosts are always checked."""
    given = {"port": entry.port, "username": entry.user, "client_keys": entry.key, "known_hosts": entry.known_hosts}
    return {name: value for name, value in given.items() if value}


class Scheduler(of_dask.Scheduler):  # type: ignore[misc]  # dask is not typed
    """The scheduler, without which there is no fleet."""

    def __init__(self, *, within_s: float, **given: Any) -> None:
        super().__init__(**given)
        self._within_s = within_s

    async def start(self) -> None:
        host = self.address  # which will be that of the scheduler
        if problem := await _started(super().start(), self._within_s):
            raise OSError(f"{host}: the scheduler {problem}; put another host first")


class Worker(of_dask.Worker):  # type: ignore[misc]
    """A worker, without which the others go on."""

    def __init__(self, scheduler: str, *, within_s: float, **given: Any) -> None:
        super().__init__(scheduler, **given)
        self._within_s = within_s
        self.problem = ""  # why it has not been started

    async def start(self) -> None:
        """Start it, or note why it cannot be."""
        self.problem = await _started(super().start(), self._within_s)
        if self.problem:
            await ProcessInterface.start(self)  # for dask it is one that is about to come


async def _started(start: Any, within_s: float) -> str:
    """Say why something has not been started, "" where it has."""
    try:
        async with asyncio.timeout(within_s):
            await start
    except TimeoutError:
        return f"has not started within {within_s:g} s"
    except Exception as error:  # noqa: BLE001 - dask and asyncssh raise whatever a host makes of it
        return f"cannot be started ({visible(str(error) or type(error).__name__)[:_MOST]})"
    return ""
