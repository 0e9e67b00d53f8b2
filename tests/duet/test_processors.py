"""The processor of a thread: on the real system, and where it cannot be chosen."""

import errno
import os
from collections.abc import Iterable
from threading import Thread

import pytest

from pytest_hwperf.duet.processors import Seat, processors

needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the platform has no affinity")


@needs_affinity
def test_a_thread_stays_where_it_is_told_to_and_goes_back() -> None:
    before, seat = processors(), Seat()

    assert seat.take(before[-1]) == ""
    assert processors() == before[-1:]
    seat.leave()
    assert processors() == before


@needs_affinity
def test_only_the_thread_that_asks_is_kept() -> None:
    """A pool that exists already must stay free."""
    before, seen = processors(), list[tuple[int, ...]]()

    def ask() -> None:
        seat = Seat()
        assert seat.take(before[0]) == ""
        seen.append(processors())

    thread = Thread(target=ask)
    thread.start()
    thread.join()

    assert seen == [before[:1]]
    assert processors() == before


@pytest.mark.parametrize(("allowed", "shown"), [({0, 2}, "0, 2"), ((), "unknown")])
def test_a_processor_that_is_not_allowed_is_not_asked_for(allowed: set[int], shown: str) -> None:
    asked = list[Iterable[int]]()
    seat = Seat(lambda: allowed, asked.append)

    assert seat.take(1) == f"may run on processors {shown} only"
    seat.leave()
    assert asked == []


def test_a_system_that_refuses_is_quoted() -> None:
    def refuse(numbers: Iterable[int]) -> None:
        raise OSError(errno.EPERM, f"Operation on {[*numbers]} not permitted")

    seat = Seat(lambda: {0, 1}, refuse)

    assert seat.take(1) == "cannot choose its processor (Operation on [1] not permitted)"
    seat.leave()  # nothing to go back from


def test_a_platform_without_affinity_has_no_processors_to_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)

    assert processors() == ()
