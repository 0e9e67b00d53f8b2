"""Hosts over SSH: whatever is wrong with one is said in its name, with what to type; none is waited for too long."""

import asyncio
import json
import shlex
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fakes.ssh_hosts import Connection, Hanging, Ssh, Stream

pytest.importorskip("distributed", reason="the extra fleet is not installed")
import distributed
from distributed.deploy import ssh as of_dask
from distributed.deploy.spec import ProcessInterface

from pytest_hwperf import __version__
from pytest_hwperf.fleet import ssh
from pytest_hwperf.fleet.hosts import HostEntry
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.report import Host

GOOD = f'["{__version__}", "{distributed.__version__}", true]'
TRY = "try `ssh -- a python3 --version`"


def entry(address: str, **given: Any) -> HostEntry:
    return HostEntry(host=Host(name=address, kind="arm", machine=address), address=address, **given)


def answering(output: str, errors: str = "") -> Connection:
    return Connection(Stream(output), Stream(errors))


def install(monkeypatch: pytest.MonkeyPatch, **hosts: Any) -> Ssh:
    fake = Ssh(**hosts)
    monkeypatch.setitem(sys.modules, "asyncssh", fake)
    return fake


NO_USE = "python3 cannot be used there (it said nothing)"
WRONG: list[tuple[Any, str]] = [
    (answering(GOOD), ""),
    (answering(f"Welcome to a\n{GOOD}\n"), ""),
    (Connection(Stream(GOOD[:9], GOOD[9:]), Stream()), ""),
    (answering(GOOD.replace("true", "false")), "it has no git, which unpacks the project: install it there"),
    (answering(GOOD.replace(__version__, "0.0")), "it has pytest-hwperf and distributed ['0.0', "),
    (
        answering("", "Traceback\nModuleNotFoundError: No module named 'distributed'\n"),
        "python3 has no pytest-hwperf[fleet] there (ModuleNotFoundError: No module named 'distributed'): inst",
    ),
    (answering("", "bash: python3: command not found"), "python3 has no pytest-hwperf[fleet] there (bash: python3"),
    (
        answering("", "OSError: [Errno 28] No space left on device\n"),
        f"python3 cannot be used there (OSError: [Errno 28] No space left on device): {TRY}",
    ),
    (answering("", ""), f"{NO_USE}: {TRY}"),
    (answering("3"), NO_USE),
    (answering("[" * 9_999), NO_USE),
    (answering("[]"), NO_USE),
    (Connection(Stream(endless=True), Stream(endless=True)), "python3 cannot be used there"),
    (ConnectionResetError(), f"SSH cannot reach it (ConnectionResetError): {TRY}"),
    (Ssh.Error("Host key is not\x1b trusted"), "SSH cannot reach it (Host key is not"),
    (ValueError("no key"), f"SSH cannot reach it (no key): {TRY}"),
    (Hanging(), f"it has not answered within 0.01 s: {TRY}"),
]


def test_what_is_wrong_with_a_host_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that writes without end is read no further."""
    for host, why in WRONG:
        install(monkeypatch, a=host, b=answering(GOOD))
        reached, unreached = ssh.reachable([entry("a"), entry("b")], 0.01 if isinstance(host, Hanging) else 9.0)
        assert (["b"] if why else ["a", "b"]) == [one.address for one in reached]
        assert bool(why) == any(one.startswith(f"a: {why}") for one in unreached)
        assert "\x1b" not in "".join(unreached)
        if isinstance(host, Connection) and host.stdout.endless:
            assert host.stdout.read_bytes == host.stderr.read_bytes == 10_000


def test_the_look_finds_what_is_there() -> None:
    """The program that hosts are asked by, on this machine."""
    done = subprocess.run([sys.executable, "-c", ssh._ASK], check=True, capture_output=True, text=True)
    assert [__version__, distributed.__version__, True] == json.loads(done.stdout)


def test_hosts_are_told_to_remove_what_is_left_and_those_that_cannot_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    good = answering("")
    install(monkeypatch, a=good, b=OSError("gone"))
    [said] = ssh.tidy([entry("a"), entry("b")])
    assert said.startswith("b: what its gate has left stays until the next gate there: SSH cannot reach it (gone)")
    assert ["python3 -c 'from pytest_hwperf.host.workdirs import sweep; sweep()'"] == good.commands


def test_ssh_gets_what_was_given_and_always_checks_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, a=answering(GOOD))
    host = entry("a", user="ci", key="/k", port=2222, known_hosts="/h", python="/opt/my env/python")
    ssh.reachable([host], 9.0)
    assert {"port": 2222, "username": "ci", "client_keys": "/k", "known_hosts": "/h"} == fake.given["a"]
    command = ["ssh", "-p", "2222", "-i", "/k", "-oUserKnownHostsFile=/h", "--", "ci@a", "'/opt/my env/python'"]
    assert [*command, "--version"] == shlex.split(ssh._by_hand(host).strip("`"))
    assert "'/opt/my env/python' -m pytest_hwperf.fleet.on_host" == ssh._process(host)["remote_python"]


class Cluster:
    """What a cluster of processes over SSH was asked for."""

    def __init__(self, workers: dict[str, Any], scheduler: dict[str, Any], **_: object) -> None:
        if scheduler["options"]["address"] == "bad":
            raise RuntimeError("Cluster failed to start: bad: the scheduler\x1b has not started")
        self.spec, self.first = workers, scheduler
        self.closed = False

    def close(self, timeout: float) -> None:
        self.closed = timeout > 0


@pytest.mark.parametrize(("loopback", "certificate"), [(True, None), (False, "cert.pem")])
def test_a_scheduler_and_a_worker_on_each_host_are_started_and_closed(
    monkeypatch: pytest.MonkeyPatch, loopback: bool, certificate: str | None
) -> None:
    import dask

    monkeypatch.setattr(distributed, "SpecCluster", Cluster)
    hosts = [entry("a"), entry("b")]
    with (
        dask.config.set({"distributed.comm.tls.client.cert": certificate}),
        ssh.ssh_cluster(hosts, {"nthreads": 1}, loopback=loopback, within_s=3.0) as cluster,
    ):
        [worker, _] = [one["options"] for one in cluster.spec.values()]
        scheduler = cluster.first["options"]
    assert ["a", "b"] == [*cluster.spec]
    assert ("a", "a", 3.0) == (scheduler["address"], worker["address"], scheduler["within_s"])
    given = worker["kwargs"]
    assert ("distributed.Worker", 1, "a") == (worker["worker_class"], given["nthreads"], given["name"])
    assert ("127.0.0.1" if loopback else None) == scheduler["kwargs"].get("host") == worker["kwargs"].get("host")
    assert ("tls" if certificate else None) == scheduler["kwargs"].get("protocol")
    assert cluster.closed


def test_a_scheduler_that_cannot_be_started_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "SpecCluster", Cluster)
    with (
        pytest.raises(UsageProblem, match="no fleet can be started over SSH: Cluster failed to start: bad: the sched"),
        ssh.ssh_cluster([entry("bad")], {}, loopback=True, within_s=3.0),
    ):
        pass


GIVEN = {"address": "a", "connect_options": {}, "kwargs": {"name": "a"}, "remote_python": "python3"}


async def hang(_: object) -> None:
    await asyncio.Event().wait()


async def fail(_: object) -> None:
    raise ValueError("Worker failed\x1b to start")


async def work(process: Any) -> None:
    await ProcessInterface.start(process)


def started(cls: str, start: Callable[[object], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(getattr(of_dask, cls), "start", start)

    async def begin() -> Any:
        place = ("tcp://s",) if cls == "Worker" else ()
        return await getattr(ssh, cls)(*place, within_s=0.01, **GIVEN)

    return asyncio.run(begin())


def test_a_worker_that_does_not_start_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for start, problem in (
        (work, ""),
        (hang, "has not started within 0.01 s"),
        (fail, "cannot be started (Worker failed"),
    ):
        found = started("Worker", start, monkeypatch)
        assert "running" == found.status.name
        assert found.problem.startswith(problem)
        assert bool(found.problem) == bool(problem)
        assert "\x1b" not in found.problem


def test_without_a_scheduler_there_is_no_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "running" == started("Scheduler", work, monkeypatch).status.name
    with pytest.raises(OSError, match=r"a: the scheduler has not started within 0.01 s; put another host first"):
        started("Scheduler", hang, monkeypatch)
