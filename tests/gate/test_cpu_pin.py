"""The processor of a thread: on the real system, and where it cannot be chosen."""

import errno
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread, get_native_id, main_thread

import pytest
from fakes.hosts import settle_in

from pytest_hwperf.host.clocks import threads_here
from pytest_hwperf.host.pinning import CpuPin, cores_first, processors

GONE = 9
needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the platform has no affinity")


Asked = list[tuple[int, list[int]]]


@needs_affinity
def test_a_thread_stays_where_it_is_told_to_and_goes_back_with_those_it_has_started() -> None:
    """They have inherited the pin, and may be a pool that later calls need; one that exists already must stay free."""
    before, over = processors(), Event()

    def sit() -> None:
        pin, pool = CpuPin(), Thread(target=over.wait)
        assert pin.pin(before[-1:]) == ""
        pool.start()
        threads = [None, get_native_id(), pool.native_id, main_thread().native_id]
        kept = [processors(one or 0) for one in threads]
        pin.release()
        freed = [processors(one or 0) for one in threads]
        over.set()
        pool.join()
        assert [*[before[-1:]] * 3, before] == kept
        assert [before] * 4 == freed

    with ThreadPoolExecutor(1) as own:  # this thread stays free whatever becomes of that one
        own.submit(sit).result()
    assert processors() == before


def test_only_what_has_inherited_the_seat_is_freed() -> None:
    """Not a thread that was there before (7), nor one that chose its own (8), nor one that is gone (9)."""
    threads, of, asked = [0, 7], dict[int, set[int]]({0: {0, 1}, 7: {1}, 8: {0}, 10: {1}}), Asked()

    def allow(thread: int, numbers: Iterable[int]) -> None:
        of[thread] = {*numbers}
        asked.append((thread, sorted(of[thread])))

    def allowed(thread: int) -> set[int]:
        if thread == GONE:
            raise ProcessLookupError(thread)
        return of[thread]

    pin = CpuPin(allowed, allow, lambda: threads)
    assert pin.pin([1]) == ""
    threads += [8, GONE, 10]
    pin.release()
    pin.release()
    assert [(0, [1]), (0, [0, 1]), (10, [0, 1])] == asked


def test_threads_of_a_pool_have_a_processor_each() -> None:
    """None has that of one which has chosen its own (8); what has inherited one from the others is freed (10, 11)."""
    threads, of = [0, 7, 8, 9], dict[int, set[int]]({0: {*range(4)}, 7: {*range(4)}, 8: {3}, 9: {*range(4)}})
    pin = CpuPin(lambda thread: of[thread], lambda thread, numbers: of.update({thread: {*numbers}}), lambda: threads)
    assert pin.pin([2, 3, 0, 1], [7, 8, 9]) == ""
    assert {0: {2}, 7: {0}, 8: {3}, 9: {1}} == of
    threads += [10, 11]
    of |= {10: {2}, 11: {1}}
    pin.release()
    assert {8: {3}} | {thread: {*range(4)} for thread in (0, 7, 9, 10, 11)} == of
    assert pin.pin([2, 3, 0], [7, 8, 9]) == "more than 3 threads compute"
    assert of[0] == {*range(4)}


def gone(thread: int) -> set[int]:
    """Say what threads may use, of which one is gone."""
    if thread == GONE:
        raise ProcessLookupError(errno.ESRCH, "No such process")
    return {0, 1}


def test_a_thread_of_a_pool_that_ends_meanwhile_is_a_reason() -> None:
    pin = CpuPin(gone, lambda *_: None, lambda: [0, GONE])
    assert pin.pin([0, 1], [GONE]) == "cannot choose its processor (No such process)"


def test_neighbours_are_on_different_cores(tmp_path: Path) -> None:
    """Siblings in pairs, in halves, and not told."""
    for siblings, ordered in (
        ("0-1 0-1 2-3 2-3", (0, 2, 1, 3)),
        ("0,2 1,3 0,2 1,3", (0, 1, 2, 3)),
        ("", (0, 1, 2, 3)),
    ):
        root = tmp_path / (siblings or "none")
        for number, text in enumerate(siblings.split()):
            settle_in(root, {f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list": text})
        assert ordered == cores_first(range(4), root)


def test_where_a_thread_of_a_pool_is_refused_none_is_kept() -> None:
    of = dict[int, set[int]]({0: {0, 1}, 7: {0, 1}})

    def allow(thread: int, numbers: Iterable[int]) -> None:
        if thread and numbers == {1}:
            raise OSError(errno.EPERM, "not permitted")
        of[thread] = {*numbers}

    pin = CpuPin(lambda thread: of[thread], allow, lambda: [0, 7])
    assert pin.pin([0, 1], [7]) == "cannot choose its processor (not permitted)"
    assert {0: {0, 1}, 7: {0, 1}} == of


def test_a_processor_that_is_not_allowed_is_not_asked_for() -> None:
    asked = Asked()
    for allowed, shown in (({0, 2}, "0, 2"), (set[int](), "unknown")):
        pin = CpuPin(lambda _, allowed=allowed: allowed, lambda thread, numbers: asked.append((thread, [*numbers])))  # type: ignore[misc]
        assert pin.pin([1]) == f"may run on processors {shown} only"
        pin.release()
    assert [] == asked


def test_a_system_that_refuses_is_quoted() -> None:
    def refuse(thread: int, numbers: Iterable[int]) -> None:
        raise OSError(errno.EPERM, f"{[*numbers]} not permitted to {thread}")

    pin = CpuPin(lambda _: {0, 1}, refuse)
    assert pin.pin([1]) == "cannot choose its processor ([1] not permitted to 0)"
    pin.release()  # nothing to go back from


def test_a_platform_without_affinity_or_lists_of_threads_has_nothing_to_choose_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr("pytest_hwperf.host.clocks._THREADS", tmp_path / "none")
    assert ((), ()) == (processors(), threads_here())
