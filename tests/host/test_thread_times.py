"""Shares of threads: of this process, by CPU time."""

from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest

from pytest_hwperf.host import clocks
from pytest_hwperf.host.clocks import shares_of_threads


def test_one_thread_has_all_of_its_own_work() -> None:
    assert max(shares_of_threads(lambda: sum(range(1000)))) > 0.8


@pytest.fixture
def other() -> Iterator[Queue[int]]:
    """Jobs of a thread of about a millisecond each; 0 ends it."""
    jobs = Queue[int]()

    def work() -> None:
        while True:
            if goes_on := jobs.get():
                sum(range(100_000))
            jobs.task_done()
            if not goes_on:
                return

    thread = Thread(target=work)
    thread.start()
    yield jobs
    jobs.put(0)
    thread.join()


def _calls(jobs: Queue[int], *, with_other: Iterable[bool]) -> Callable[[], object]:
    """Make a call that lets the other thread work where `with_other` says so, and not once that has ended."""
    told = iter(with_other)

    def call() -> object:
        if next(told, False):
            jobs.put(1)
            jobs.join()
        return sum(range(10_000))

    return call


def test_a_thread_that_computes_for_a_while_is_of_something_else(other: Queue[int]) -> None:
    shares = sorted(shares_of_threads(_calls(other, with_other=[True] * 5)))
    assert shares[-1] > 0.1  # of the time, of which a busy machine takes a part
    assert shares[-2] < 0.05


def test_a_thread_that_computes_each_time_is_seen(other: Queue[int]) -> None:
    shares = sorted(shares_of_threads(_calls(other, with_other=cycle([True, *[False] * 9]))))
    assert shares[-2] > 0.2


def test_where_threads_are_not_told_apart_there_is_no_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "_THREADS", tmp_path)
    assert () == shares_of_threads(lambda: None)
