"""Gates on the workers of dask, with a client that is none."""

from typing import Any

import pytest
from fakes.dask_clients import Client

from pytest_hwperf.fleet import dask_cluster
from pytest_hwperf.fleet.dask_cluster import DaskCluster
from pytest_hwperf.fleet.dask_task import parts_of
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.fleet import Host, HostAnswer, Order, Task

TASK, HOST = Task(kind="arm"), Host(name="a1", kind="arm", machine="a1")


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
    client.hear((0.0, {"job": "j", "worker": "tcp://a2", "part": 0, "of": 2, "bytes": b"forged"}))
    assert {"a1"} == cluster.unanswered
    for part in parts_of(HostAnswer(problem="none")):
        client.hear((0.0, {"job": "j", "worker": "tcp://a1", **part}))
    signs, answers = zip(*((one.sign, one.answer) for one in cluster.wait(0.01)), strict=True)
    assert ("alive", "") == signs
    assert answers[1] is not None
    assert "none" == from_json(HostAnswer, answers[1]).problem
    assert set() == cluster.unanswered


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


def test_a_scheduler_that_dask_has_given_up_is_no_mistake_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(Client):
        scheduler = None  # type: ignore[assignment]

        def submit(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("closed")

    cluster = cluster_of(Closed(a1={}))
    monkeypatch.setattr(dask_cluster, "_EVERY_S", -1.0)
    monkeypatch.setattr(dask_cluster, "_UNREACHED_S", -1.0)
    cluster.start("j", HOST, TASK)
    cluster.stop("j")
    assert ["it cannot be given its task (closed)", "the scheduler cannot be reached"] == [
        one.died for one in cluster.wait(0.01)
    ]


def test_a_gate_is_taken_back(started: tuple[Client, DaskCluster]) -> None:
    client, cluster = started
    cluster.stop("j")
    cluster.stop("unknown")
    assert client.futures[0].cancelled
