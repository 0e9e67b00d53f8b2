"""Gates on the workers of dask, with a client that is none; and no pickle is read, by the real protocol of dask."""

import signal
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fakes.dask_clients import Client, order_for

from pytest_hwperf.fleet import dask_cluster
from pytest_hwperf.fleet.dask_cluster import DaskCluster, News, closing, news_of, refuse_pickles
from pytest_hwperf.host.interruption import interruptible
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.report import Host, HostAnswer, Order, Task

TASK, HOST = Task(kind="arm"), Host(name="a1", kind="arm", machine="a1")


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
    client, cluster = started
    [given] = client.submitted
    found = [given[name] for name in ("workers", "resources", "retries", "pure")]
    assert [["tcp://a1"], {"hwperf": 1}, 0, False] == found
    _, order, parcel, topic = given["arguments"]
    assert ("j", b"parcel", client.topic) == (from_json(Order, order).job, parcel, topic)
    cluster.stop("unknown")
    assert not client.futures[0].cancelled
    cluster.stop("j")
    assert client.futures[0].cancelled


def test_news_are_heard_from_the_worker_of_their_job_alone(started: tuple[Client, DaskCluster]) -> None:
    client, cluster = started
    client.hear((0.0, {"job": "j", "sign": "alive", "worker": "tcp://a1"}))
    client.hear((0.0, {"job": "j", "sign": "forged", "worker": "tcp://a2"}))
    client.hear((0.0, {"job": "k", "sign": "unknown", "worker": "tcp://a1"}))
    client.hear((0.0, {"job": "j", "sign": "nobody's"}))
    client.hear((0.0, "text"))
    client.hear((0.0, {"job": "j", "worker": "tcp://a2", "answer": b"forged"}))
    assert {"a1"} == cluster.unanswered
    packed = zlib.compress(to_json(HostAnswer(problem="none")))
    client.hear((0.0, {"job": "j", "worker": "tcp://a1", "answer": packed}))
    signs, answers = zip(*((one.sign, one.answer) for one in cluster.wait(0.01)), strict=True)
    assert ("alive", "") == signs
    assert answers[1] is not None
    assert "none" == from_json(HostAnswer, answers[1]).problem
    assert set() == cluster.unanswered


def test_a_task_that_dask_gives_up_has_died() -> None:
    died = {"error": 1, "lost": 1, "finished": 0, "cancelled": 0}
    for status, count in died.items():
        cluster = cluster_of(client := Client(a1={}))
        cluster.start("j", HOST, TASK)
        client.futures[0].end(status)
        assert count == len(cluster.wait(0.01))


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


def test_what_is_no_message_tells_nothing_and_a_sign_is_cut() -> None:
    nothing: list[dict[str, object]] = [{}, {"sign": 7}, {"answer": "text"}, {"answer": None}]
    assert [None] * 4 == [news_of("a", message) for message in nothing]
    assert News(job="a", sign="x" * 1000) == news_of("a", {"sign": "x" * 5000})


def test_what_cannot_be_an_answer_ends_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "_LARGEST", 50_000)
    monkeypatch.setattr(dask_cluster, "_LARGEST_PACKED", 2000)
    for packed, died in (
        (b"no zlib", "its answer is damaged"),
        (zlib.compress(b"x" * 1000)[:-4], "its answer is cut off"),
        (zlib.compress(b"x" * 100_000), "its answer is cut off, or larger"),
        (b"x" * 3000, "its answer is cut off, or larger than any report"),
    ):
        news = news_of("a", {"answer": packed})
        assert news is not None
        assert news.died.startswith(died)


@dataclass
class Closed:
    error: type[Exception] | None = None
    signals: int = 0
    closed: list[float] = field(default_factory=list)

    def close(self, timeout: float) -> None:
        for _ in range(self.signals):
            signal.raise_signal(signal.SIGINT)
        self.closed.append(timeout)
        if self.error:
            raise self.error


def test_it_is_closed_within_a_time_and_what_that_raises_is_no_error() -> None:
    """Another Ctrl-C waits until then."""
    for error in (None, TimeoutError, OSError, RuntimeError, AssertionError):
        with closing(Closed(error)) as cluster:
            assert [] == cluster.closed
        assert [10.0] == cluster.closed
    cluster = Closed(signals=2)
    with pytest.raises(KeyboardInterrupt), interruptible(), closing(cluster):
        raise KeyboardInterrupt
    assert [10.0] == cluster.closed


class Harm:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


@pytest.fixture
def protocol() -> Any:
    return pytest.importorskip("distributed.protocol", reason="the extra fleet is not installed")


@pytest.fixture(params=["result", "marked", "exception", "type"])
def message(request: pytest.FixtureRequest, tmp_path: Path, protocol: Any) -> Any:
    harm = Harm(tmp_path / "harm")
    if request.param == "result":
        return {"status": "OK", "data": protocol.to_serialize(harm)}
    if request.param == "marked":
        from distributed.protocol.serialize import ToPickle

        return {"status": "OK", "data": ToPickle(harm)}
    return {"op": "task-erred", request.param: protocol.pickle.dumps(harm)}


def read(message: Any, protocol: Any) -> Any:
    """Read a message as a client does, with what it unpickles in a second step."""
    got = protocol.loads([*map(bytes, protocol.dumps(message))])
    for name in ("exception", "type"):
        if name in got:
            got[name] = protocol.pickle.loads(got[name])
    return got


def test_a_message_that_would_do_harm_is_a_text(
    message: Any, protocol: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol.pickle, "pickle", protocol.pickle.pickle)  # as it was, afterwards
    refuse_pickles()
    refuse_pickles()
    got = read(message, protocol)
    assert "(pickled by a host, and not read)" in got.values()
    assert not (tmp_path / "harm").exists()


def test_without_it_the_same_message_does_harm(message: Any, protocol: Any, tmp_path: Path) -> None:
    """Else the test above could not fail."""
    for value in read(message, protocol).values():
        if hasattr(value, "close"):
            value.close()
    assert (tmp_path / "harm").exists()
