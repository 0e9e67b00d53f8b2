"""The processor of a thread: on the real system, and where it cannot be chosen."""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread, get_native_id, main_thread

import pytest

from pytest_hwperf.gate.turns import CpuPin, cores_first, processors
from pytest_hwperf.host.clocks import threads_here

GONE = 9
needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the platform has no affinity")


Asked = list[tuple[int, list[int]]]


@pytest.fixture
def in_a_thread() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Run something in a thread of its own, so that this one stays free whatever becomes of it."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda what: pool.submit(what).result()


@needs_affinity
def test_a_thread_stays_where_it_is_told_to_and_goes_back(in_a_thread: Callable[[Callable[[], None]], None]) -> None:
    def sit() -> None:
        before, pin = processors(), CpuPin()
        assert pin.pin(before[-1:]) == ""
        assert processors() == before[-1:]
        pin.release()
        assert processors() == before

    in_a_thread(sit)


@needs_affinity
def test_only_the_thread_that_asks_is_kept(in_a_thread: Callable[[Callable[[], None]], None]) -> None:
    """A pool that exists already must stay free."""
    before = processors()

    def sit() -> None:
        assert CpuPin().pin(before[:1]) == ""
        assert processors() == before[:1]
        assert processors(get_native_id()) == before[:1]
        assert processors(main_thread().native_id or -1) == before

    in_a_thread(sit)
    assert processors() == before


@needs_affinity
def test_a_thread_that_was_started_meanwhile_is_freed_too(in_a_thread: Callable[[Callable[[], None]], None]) -> None:
    """It has inherited the pin, and may be a pool that later calls need."""
    before = processors()

    def sit() -> None:
        pin, over = CpuPin(), Event()
        assert pin.pin(before[:1]) == ""
        pool = Thread(target=over.wait)
        pool.start()
        inherited = processors(pool.native_id or -1)
        pin.release()
        freed = processors(pool.native_id or -1)
        over.set()
        pool.join()
        assert (before[:1], before) == (inherited, freed)

    in_a_thread(sit)


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


def test_a_thread_of_a_pool_that_ends_meanwhile_is_a_reason() -> None:
    def allowed(thread: int) -> set[int]:
        if thread == GONE:
            raise ProcessLookupError(errno.ESRCH, "No such process")
        return {0, 1}

    pin = CpuPin(allowed, lambda *_: None, lambda: [0, GONE])
    assert pin.pin([0, 1], [GONE]) == "cannot choose its processor (No such process)"


@pytest.mark.parametrize(
    ("siblings", "ordered"),
    [
        (["0-1", "0-1", "2-3", "2-3"], (0, 2, 1, 3)),
        (["0,2", "1,3", "0,2", "1,3"], (0, 1, 2, 3)),
        ([], (0, 1, 2, 3)),
    ],
    ids=["in pairs", "in halves", "not told"],
)
def test_neighbours_are_on_different_cores(tmp_path: Path, siblings: list[str], ordered: tuple[int, ...]) -> None:
    for number, text in enumerate(siblings):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(text + "\n")
    assert ordered == cores_first(range(4), tmp_path)


def test_where_a_thread_of_a_pool_is_refused_none_is_kept() -> None:
    of = dict[int, set[int]]({0: {0, 1}, 7: {0, 1}})

    def allow(thread: int, numbers: Iterable[int]) -> None:
        if thread and numbers == {1}:
            raise OSError(errno.EPERM, "not permitted")
        of[thread] = {*numbers}

    pin = CpuPin(lambda thread: of[thread], allow, lambda: [0, 7])
    assert pin.pin([0, 1], [7]) == "cannot choose its processor (not permitted)"
    assert {0: {0, 1}, 7: {0, 1}} == of


@pytest.mark.parametrize(("allowed", "shown"), [({0, 2}, "0, 2"), ((), "unknown")])
def test_a_processor_that_is_not_allowed_is_not_asked_for(allowed: set[int], shown: str) -> None:
    asked = Asked()
    pin = CpuPin(lambda _: allowed, lambda thread, numbers: asked.append((thread, [*numbers])))
    assert pin.pin([1]) == f"may run on processors {shown} only"
    pin.release()
    assert asked == []


def test_a_system_that_refuses_is_quoted() -> None:
    def refuse(thread: int, numbers: Iterable[int]) -> None:
        raise OSError(errno.EPERM, f"{[*numbers]} not permitted to {thread}")

    pin = CpuPin(lambda _: {0, 1}, refuse)
    assert pin.pin([1]) == "cannot choose its processor ([1] not permitted to 0)"
    pin.release()  # nothing to go back from


def test_a_platform_without_affinity_has_no_processors_to_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert processors() == ()


def test_a_platform_that_lists_no_threads_frees_the_caller_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("pytest_hwperf.host.clocks._THREADS", tmp_path / "none")
    assert threads_here() == ()
