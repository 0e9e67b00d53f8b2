"""How a fleet reaches its hosts, names those that it cannot, and tidies up after those that did not answer."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.dask_clients import Client, order_for
from fakes.repositories import repository_with

from pytest_hwperf.cli.output import OK

pytest.importorskip("distributed", reason="the extra fleet is not installed")

from pytest_hwperf.fleet import reaching, ssh
from pytest_hwperf.fleet.dask_cluster import DaskCluster
from pytest_hwperf.fleet.hosts import HostEntry
from pytest_hwperf.fleet.reaching import check_tools, clustered, looked_at
from pytest_hwperf.host import extras
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.report import Host, Task


def entry(address: str, number: int = 1, **given: Any) -> HostEntry:
    name = address if number == 1 else f"{address} #{number}"
    return HostEntry(host=Host(name=name, kind=f"k{number}", machine=address), address=address, **given)


def test_hosts_of_a_network_are_not_reached_without_encryption() -> None:
    with pytest.raises(UsageProblem, match="who can reach an unencrypted scheduler"):
        looked_at([entry("10.0.0.7")], encrypted=True, within_s=9.0)


def test_hosts_that_ssh_cannot_use_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = [entry("127.0.0.1"), entry("127.0.0.2")]
    asked: list[float] = []

    def reachable(given: list[HostEntry], within_s: float) -> tuple[list[HostEntry], list[str]]:
        asked.append(within_s)
        return given[:1], ["127.0.0.2: no answer"]

    monkeypatch.setattr(ssh, "reachable", reachable)
    assert (hosts[:1], ["127.0.0.2: no answer"]) == looked_at(hosts, encrypted=True, within_s=9.0)
    assert [9.0] == asked

    monkeypatch.setattr(ssh, "reachable", lambda *_: ([], ["127.0.0.2: no answer"]))
    with pytest.raises(UsageProblem, match=r"no host can be used:\n  127.0.0.2: no answer"):
        looked_at(hosts, encrypted=True, within_s=9.0)


class Dask:
    """A cluster of dask and its client."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str, problems: dict[str, str] | None = None) -> None:
        self.client = Client(**{name: {} for name in names})
        self.workers = {name: SimpleNamespace(problem=why) for name, why in (problems or {}).items()}
        self.tidied: list[str] = []
        self.within_s = 0.0
        monkeypatch.setattr(reaching, "_client_of", lambda _: self.client)
        monkeypatch.setattr(reaching, "_started", self._started)
        monkeypatch.setattr(reaching, "looked_at", lambda given, **_: (given, ["z: no answer"]))
        monkeypatch.setattr(ssh, "tidy", self._tidy)
        monkeypatch.setattr(reaching, "sweep", lambda: self.tidied.append("here"))

    def _tidy(self, given: list[HostEntry]) -> list[str]:
        self.tidied += [one.address for one in given]
        return [f"{one.address}: something stays" for one in given]

    @contextmanager
    def _started(self, _: object, __: Path, within_s: float) -> Iterator["Dask"]:
        self.within_s = within_s
        yield self


@contextmanager
def reached(*addresses: str, silence_s: float = 120.0) -> Iterator[DaskCluster]:
    entries = [entry(address, number) for number, address in enumerate(addresses, 1)]
    with clustered(entries, None, Path(), encrypted=True, silence_s=silence_s) as cluster:
        cluster.load(b"", order_for)
        yield cluster


def test_hosts_whose_workers_have_not_come_are_named_and_their_kinds_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    dask = Dask(monkeypatch, "a", problems={"a": "", "b #2": "cannot be started (why)", "c #3": ""})
    with reached("a", "b", "c", silence_s=7.0) as cluster:
        hosts, kinds, unreached = cluster.hosts, cluster.kinds, cluster.unreached
    assert (["a"], ("k1", "k2", "k3")) == ([one.name for one in hosts], kinds)
    assert [
        "z: no answer",
        "b #2: its worker cannot be started (why)",
        "c #3: its worker has not come within 7 s",
    ] == unreached
    assert 7.0 == dask.within_s
    assert dask.client.closed_within_s > 0
    assert [] == dask.tidied
    Dask(monkeypatch, "other")
    with (
        pytest.raises(UsageProblem, match=r"no host can be used:\n  z: no answer\n  a: its worker has not come within"),
        reached("a"),
    ):
        pass


@pytest.mark.parametrize(("address", "tidied"), [("a", ["a"]), ("local", ["here"])])
def test_what_hosts_that_did_not_answer_have_left_is_removed(
    address: str, tidied: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for error in (None, KeyboardInterrupt):
        dask = Dask(monkeypatch, "0" if address == "local" else address)
        with pytest.raises(error) if error else nullcontext(), reached(address) as cluster:
            cluster.start("j", cluster.hosts[0], Task(kind="k1"))
            if error:
                raise error
        assert tidied == dask.tidied
        assert (["a: something stays"] if address == "a" else []) == cluster.left


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import distributed

    def gone(*_: object, **__: object) -> None:
        raise TimeoutError("no answer")

    monkeypatch.setattr(distributed, "Client", gone)
    with pytest.raises(UsageProblem, match=r"the scheduler of dask cannot be reached \(no answer\)"):
        reaching._client_of(None)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "asyncssh" else object())
    check_tools(ssh=False)
    with pytest.raises(UsageProblem, match=r"a fleet needs asyncssh: .*pytest-hwperf\[fleet\]"):
        check_tools(ssh=True)


def test_hosts_of_ssh_get_one_thread_and_the_resource_that_a_gate_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: dict[str, Any] = {}

    @contextmanager
    def ssh_cluster(_: object, worker: dict[str, Any], **how: Any) -> Iterator[str]:
        given.update(worker, **how)
        yield "cluster"

    monkeypatch.setattr(ssh, "ssh_cluster", ssh_cluster)
    monkeypatch.setattr(reaching, "refuse_pickles", lambda: given.update(refused=True))
    with reaching._started([entry("127.0.0.1")], tmp_path, 9.0) as cluster:
        assert "cluster" == cluster
    found = [given[name] for name in ("nthreads", "resources", "loopback", "within_s", "refused")]
    assert [1, {"hwperf": 1}, True, 9.0, True] == found


def test_local_workers_write_to_the_folder_of_the_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    import dask
    import distributed

    found: list[object] = []

    class Local:
        def __init__(self, **given: Any) -> None:
            found.extend([given["n_workers"], given["host"], dask.config.get("temporary-directory")])

        def close(self, timeout: float) -> None:
            found.append(timeout)

    monkeypatch.setattr(distributed, "LocalCluster", Local)
    with workdir() as place, reaching._started([entry("local"), entry("local", 2)], place, 9.0):
        assert [2, "127.0.0.1", str(place)] == found
    assert 10.0 == found[-1]


def test_a_scheduler_is_reached_by_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []

    @contextmanager
    def at_scheduler(address: str, *, encrypted: bool) -> Iterator[str]:
        given.extend([address, encrypted])
        yield "cluster"

    monkeypatch.setattr(reaching, "at_scheduler", at_scheduler)
    with clustered([], "tcp://127.0.0.1:1", Path(), encrypted=False, silence_s=9.0) as cluster:
        assert "cluster" == cluster  # type: ignore[comparison-overlap]
    assert ["tcp://127.0.0.1:1", False] == given


TEST = "def test_one(hwperf):\n    hwperf.record('tokens', 4.0, better='lower')\n"


@pytest.mark.live
def test_a_fleet_of_this_machine(tmp_path: Path) -> None:
    """In a process of its own: what dask has started, such as multiprocessing's tracker, outlives its cluster."""
    root = repository_with(tmp_path / "project", test_one__py=TEST, pytest__ini="[pytest]\n")
    words = ("fleet", "--no-install", "--", "--hwperf-energy=off", "-pno:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest_hwperf.cli", *words], cwd=root, check=False, capture_output=True, text=True
    )
    assert OK == done.returncode, done.stderr
    assert "test_one.py::test_one on local" in done.stdout
    assert "local: local: ended with pytest's exit code 0" in done.stderr
