"""What dask runs on a host: signs and answers are events in the name of the job, and it stops when nobody waits."""

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_hwperf.fleet import dask_task
from pytest_hwperf.fleet.dispatch import Mail
from pytest_hwperf.fleet.on_host import ReturnLine
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.fleet import HostAnswer, Order

distributed = pytest.importorskip("distributed", reason="the extra fleet is not installed")
ORDER = Order(version="1", job="j", arguments=(), folder=".", candidate="", snapshot="", install=None, limit_s=9.0)


class Worker:
    """A worker of dask that runs one task."""

    def __init__(self) -> None:
        self.status = SimpleNamespace(name="running")
        self.state = SimpleNamespace(tasks={"key": SimpleNamespace(state="executing")})
        self.events: list[tuple[str, dict[str, Any]]] = []

    def get_current_task(self) -> str:
        return "key"

    def log_event(self, topic: str, message: dict[str, Any]) -> None:
        self.events.append((topic, message))


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    made = Worker()
    monkeypatch.setattr(distributed, "get_worker", lambda: made)
    return made


def carry_out(monkeypatch: pytest.MonkeyPatch, during: Any) -> None:
    def answer(order: Order, parcel: bytes, line: ReturnLine) -> HostAnswer:
        assert (ORDER, b"parcel") == (order, parcel)
        during(line)
        return HostAnswer(problem="done")

    monkeypatch.setattr(dask_task, "answer", answer)
    dask_task.carry_out(to_json(ORDER), b"parcel", "topic")


def test_signs_and_the_answer_are_events_of_the_job(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    carry_out(monkeypatch, lambda line: line.tell("at work"))
    box = Mail()
    news = [box.open(message) for _, message in worker.events]
    assert {"topic"} == {topic for topic, _ in worker.events}
    assert ["at work", ""] == [one.sign for one in news if one]
    assert news[-1] is not None
    assert b"done" in (news[-1].answer or b"")


def test_it_is_wanted_until_it_is_taken_back_or_the_worker_closes(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[bool] = []

    def during(line: ReturnLine) -> None:
        for task, status in [("executing", "running"), ("cancelled", "running"), ("executing", "closing")]:
            worker.state.tasks["key"].state, worker.status.name = task, status
            wanted.append(line.is_wanted())
        worker.state.tasks.clear()
        wanted.append(line.is_wanted())

    carry_out(monkeypatch, during)
    assert [True, False, False, False] == wanted
