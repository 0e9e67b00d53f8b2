"""Gates on the workers of dask, with a client that is none; the real one is started once, on this machine."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes.repositories import repository_with

from pytest_hwperf import __version__
from pytest_hwperf.cli.merge import OK
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.fleet import Answer, Host, Order, Task
from pytest_hwperf.core.serialisation import from_json
from pytest_hwperf.fleet import dask_cluster, ssh
from pytest_hwperf.fleet.dask_cluster import DaskCluster, check_tools
from pytest_hwperf.fleet.dask_task import parts_of
from pytest_hwperf.fleet.hosts import Entry

TASK, HOST = Task(kind="arm"), Host(name="a1", kind="arm", machine="a1")


class Future:
    status = "pending"

    def __init__(self) -> None:
        self.cancelled = False
        self.told: Callable[[Any], None] = print

    def add_done_callback(self, told: Callable[[Any], None]) -> None:
        self.told = told

    def cancel(self, *, force: bool) -> None:
        self.cancelled = force

    def end(self, status: str) -> None:
        self.status = status
        self.told(self)


class Client:
    """A scheduler with workers, and what it was asked."""

    def __init__(self, **workers: dict[str, Any]) -> None:
        usual = {"nthreads": 1, "host": "10.0.0.1", "resources": {"hwperf": 1}}
        self.workers = {
            f"tcp://{name}": {"name": name, **usual, "host": name, **given} for name, given in workers.items()
        }
        self.submitted: list[dict[str, Any]] = []
        self.futures: list[Future] = []
        self.hear: Callable[[Any], None] = print

    def scheduler_info(self) -> dict[str, Any]:
        if not self.workers:
            raise OSError
        return {"workers": self.workers}

    def nthreads(self) -> dict[str, int]:
        if not self.workers:
            raise OSError
        return dict.fromkeys(self.workers, 1)

    def subscribe_topic(self, topic: str, handler: Callable[[Any], None]) -> None:
        self.topic, self.hear = topic, handler

    def submit(self, *arguments: Any, **given: Any) -> Future:
        self.submitted.append({"arguments": arguments, **given})
        self.futures.append(Future())
        return self.futures[-1]


def order_for(job: str, task: Task) -> Order:
    kind = (f"--hwperf-machine-kind={task.kind}",)
    return Order(version="1", job=job, arguments=kind, folder=".", candidate="", snapshot="", install=None, limit_s=9.0)


def cluster_of(client: Client) -> DaskCluster:
    cluster = DaskCluster(client, {"a1": "tcp://a1"}, [HOST], ["arm"])
    cluster.load(b"parcel", order_for)
    return cluster


@pytest.fixture
def started() -> tuple[Client, DaskCluster]:
    client = Client(a1={}, a2={})
    cluster = cluster_of(client)
    cluster.start("j", HOST, TASK)
    return client, cluster


def test_a_gate_is_bound_to_its_worker_and_takes_all_of_it(started: tuple[Client, DaskCluster]) -> None:
    [given] = started[0].submitted

    assert (["tcp://a1"], {"hwperf": 1}, 0, False) == (
        given["workers"],
        given["resources"],
        given["retries"],
        given["pure"],
    )
    _, order, parcel, topic = given["arguments"]
    assert ("j", b"parcel", started[0].topic) == (from_json(Order, order).job, parcel, topic)


def test_news_are_heard_from_the_worker_of_their_job_alone(started: tuple[Client, DaskCluster]) -> None:
    client, cluster = started
    client.hear((0.0, {"job": "j", "sign": "alive", "worker": "tcp://a1"}))
    client.hear((0.0, {"job": "j", "sign": "forged", "worker": "tcp://a2"}))
    client.hear((0.0, {"job": "k", "sign": "unknown", "worker": "tcp://a1"}))
    client.hear((0.0, {"job": "j", "sign": "nobody's"}))
    client.hear((0.0, "text"))
    for part in parts_of(Answer(problem="none")):
        client.hear((0.0, {"job": "j", "worker": "tcp://a1", **part}))
    signs, answers = zip(*((one.sign, one.answer) for one in cluster.wait(0.01)), strict=True)

    assert ("alive", "") == signs
    assert answers[1] is not None
    assert "none" == from_json(Answer, answers[1]).problem


@pytest.mark.parametrize(("status", "died"), [("error", 1), ("lost", 1), ("finished", 0), ("cancelled", 0)])
def test_a_task_that_dask_gives_up_has_died(started: tuple[Client, DaskCluster], status: str, died: int) -> None:
    client, cluster = started
    client.futures[0].end(status)

    assert died == len(cluster.wait(0.01))


def test_a_worker_that_is_gone_and_a_scheduler_that_is(
    started: tuple[Client, DaskCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, cluster = started
    monkeypatch.setattr(dask_cluster, "_EVERY_S", -1.0)

    assert [] == cluster.wait(0.01)
    del client.workers["tcp://a1"]
    assert ["its worker is gone"] == [one.died for one in cluster.wait(0.01)]
    client.workers.clear()
    assert [] == cluster.wait(0.01)  # it may be busy
    monkeypatch.setattr(dask_cluster, "_UNREACHED_S", -1.0)
    assert ["the scheduler cannot be reached"] == [one.died for one in cluster.wait(0.01)]


def test_a_gate_is_taken_back(started: tuple[Client, DaskCluster]) -> None:
    client, cluster = started
    cluster.stop("j")
    cluster.stop("unknown")

    assert client.futures[0].cancelled


ONE = {"nthreads": 1, "resources": {"hwperf.arm": 1}}


def test_workers_of_a_scheduler_say_of_which_kind_they_are() -> None:
    other = Client(a1=ONE, plain={"resources": {}}, x1={"resources": {"hwperf.x86": 1}})
    cluster = dask_cluster._of_scheduler(other)
    cluster.load(b"", order_for)
    cluster.start("j", cluster.hosts[0], TASK)

    assert [("a1", "arm"), ("x1", "x86")] == [(one.name, one.kind) for one in cluster.hosts]
    assert {"hwperf.arm": 1} == other.submitted[0]["resources"]


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        ({"a1": {"resources": {}}}, "no worker of this scheduler was started with --nthreads 1"),
        ({"a1": {**ONE, "nthreads": 2}}, "worker a1: start it with --nthreads 1 --resources hwperf.KIND=1"),
        ({"a1": {"resources": {"hwperf.arm": 2}}}, "start it with --nthreads 1"),
        ({"a1": {"resources": {"hwperf": 1}}}, "start it with --nthreads 1"),
        ({"a1": {"resources": {"hwperf.arm": 1, "hwperf.x86": 1}}}, "one kind each"),
        ({"a1": {"resources": {"hwperf.3": 1}}}, "is no kind of machine"),
    ],
)
def test_workers_that_could_run_two_gates_are_refused(workers: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        dask_cluster._of_scheduler(Client(**workers))

    assert said in str(caught.value)


def test_two_workers_on_a_machine_share_it() -> None:
    cluster = dask_cluster._of_scheduler(Client(a1={**ONE, "host": "10.0.0.1"}, a2={**ONE, "host": "10.0.0.1"}))

    assert ["10.0.0.1"] * 2 == [one.machine for one in cluster.hosts]


def entry(address: str, **given: Any) -> Entry:
    return Entry(host=Host(name=address, kind="arm", machine=address), address=address, **given)


def test_hosts_of_a_network_are_not_reached_without_encryption() -> None:
    pytest.importorskip("dask")
    with pytest.raises(UsageProblem, match="who can reach an unencrypted scheduler"):
        dask_cluster._looked_at([entry("10.0.0.7")], encrypted=True)
    for address in ("tcp://10.0.0.7:8786", "tcp://box:1"):
        with pytest.raises(UsageProblem, match="--unencrypted"):
            dask_cluster._check_encrypted(address, encrypted=True)
    dask_cluster._check_encrypted("tcp://127.0.0.1:8786", encrypted=True)
    dask_cluster._check_encrypted("tcp://10.0.0.7:8786", encrypted=False)


def test_hosts_that_ssh_cannot_use_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = [entry("127.0.0.1"), entry("127.0.0.2")]
    monkeypatch.setattr(dask_cluster, "reachable", lambda given: (given[:1], ["127.0.0.2: no answer"]))
    assert (hosts[:1], ["127.0.0.2: no answer"]) == dask_cluster._looked_at(hosts, encrypted=True)

    monkeypatch.setattr(dask_cluster, "reachable", lambda _: ([], ["127.0.0.2: no answer"]))
    with pytest.raises(UsageProblem, match=r"no host can be used:\n  127.0.0.2: no answer"):
        dask_cluster._looked_at(hosts, encrypted=True)


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ('["{own}", "{dask}"]', ""),
        ('["0.0", "{dask}"]', "it has pytest-hwperf and distributed"),
        ("Welcome", "python3 has no pytest-hwperf[fleet] there (no module): install it"),
    ],
)
def test_a_host_with_other_versions_is_named(output: str, why: str) -> None:
    dask = pytest.importorskip("distributed")
    given = output.replace("{own}", __version__).replace("{dask}", dask.__version__)

    assert ssh._why_other(given, "Traceback\nno module\n", entry("a")).startswith(why)
    assert (not why) == (not ssh._why_other(given, "", entry("a")))


def test_ssh_gets_what_was_given_and_always_checks_the_host() -> None:
    given = ssh._connection(entry("a", user="ci", key="/k", port=2222))

    assert {"port": 2222, "username": "ci", "client_keys": "/k"} == given
    assert "'/opt/my env/python'" == ssh._process(entry("a", python="/opt/my env/python"))["remote_python"]


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "find_spec", lambda name: None if name == "asyncssh" else object())
    check_tools(ssh=False)

    with pytest.raises(UsageProblem, match=r"a fleet needs asyncssh: .*pytest-hwperf\[fleet\]"):
        check_tools(ssh=True)


TEST = "def test_one(hwperf):\n    hwperf.record('tokens', 4.0, better='lower')\n"


@pytest.mark.live
def test_a_fleet_of_this_machine(tmp_path: Path) -> None:
    """In a process of its own: what dask has started, such as multiprocessing's tracker, outlives its cluster."""
    pytest.importorskip("distributed", reason="the extra fleet is not installed")
    root = repository_with(tmp_path / "project", test_one__py=TEST, pytest__ini="[pytest]\n")
    words = ("fleet", "--no-install", "--", "--hwperf-energy=off", "-pno:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest_hwperf.cli", *words], cwd=root, check=False, capture_output=True, text=True
    )

    assert OK == done.returncode, done.stderr
    assert "test_one.py::test_one on local" in done.stdout
    assert "local: local: ended with pytest's exit code 0" in done.stderr
