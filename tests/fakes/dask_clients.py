"""A client of dask that is none: a scheduler with workers, and what it was asked."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pytest_hwperf.records.report import Order, Task


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
        self.closed_within_s = 0.0

    @property
    def scheduler(self) -> "Client":
        return self

    def sync(self, ask: Callable[[], Any], *, callback_timeout: float) -> Any:
        assert callback_timeout > 0
        return ask()

    def identity(self) -> dict[str, Any]:
        if not self.workers:
            raise OSError
        return {"workers": self.workers}

    def subscribe_topic(self, topic: str, handler: Callable[[Any], None]) -> None:
        self.topic, self.hear = topic, handler

    @contextmanager
    def as_current(self) -> Iterator[None]:
        yield

    def wait_for_workers(self, number: int, timeout: float) -> None:
        assert timeout > 0
        if number > len(self.workers):
            raise TimeoutError

    def close(self, timeout: float) -> None:
        self.closed_within_s = timeout

    def submit(self, *arguments: Any, **given: Any) -> Future:
        self.submitted.append({"arguments": arguments, **given})
        self.futures.append(Future())
        return self.futures[-1]


def order_for(job: str, task: Task) -> Order:
    return Order(
        version="1", job=job, arguments=(task.kind,), folder=".", candidate="", snapshot="", install=None, limit_s=9.0
    )
