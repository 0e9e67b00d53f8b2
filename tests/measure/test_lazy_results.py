"""Results that do their work when their items are asked for, on a fake clock that only the items move."""

import asyncio
import csv
import io
import multiprocessing.pool
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import chain, count, cycle, islice, repeat
from typing import Any, Self
from unittest.mock import MagicMock

import pytest
from fakes.streams import FakeClock, at_once

from pytest_hwperf.measure.items import is_stream, refuse_unfinished
from pytest_hwperf.measure.plan import SamplingLimits
from pytest_hwperf.measure.sampling import RawSamples, Sampler
from pytest_hwperf.measure.stream import FirstCall, OwnLoop, Stream
from pytest_hwperf.records.errors import MeasurementError

MS = 1_000_000  # ns
PACE = SamplingLimits(max_time_s=2.0)
CLOCK = FakeClock()
LET_GO = threading.Event()


def item(row: int) -> int:
    CLOCK.now_ns += 2 * MS
    return row


class OwnIterator:
    """Computes five items, each when it is asked for."""

    def __init__(self) -> None:
        self.left = 5

    def __iter__(self) -> "OwnIterator":
        return self

    def __next__(self) -> int:
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return item(4 - self.left)


class NextAlone:
    """The same without the method that loops ask for."""

    def __init__(self) -> None:
        self.given = OwnIterator()

    def __next__(self) -> int:
        return next(self.given)


class Computed:
    """Computes its items each time that it is gone through."""

    def __iter__(self) -> Iterator[int]:
        for row in range(5):
            yield item(row)


class ComputedAsync:
    """The same on a loop."""

    async def __aiter__(self) -> AsyncIterator[int]:
        for row in range(5):
            await asyncio.sleep(0)
            yield item(row)


class Text(io.StringIO):
    """Lines that take time to be read."""

    def __next__(self) -> str:  # type: ignore[override] # typeshed has that of bytes
        CLOCK.now_ns += 2 * MS
        return super().__next__()


def rows() -> sqlite3.Cursor:
    connection = sqlite3.connect(":memory:")
    connection.create_function("item", 1, item)
    return connection.execute("WITH t(n) AS (VALUES (0), (1), (2), (3), (4)) SELECT item(n) FROM t")


def measured(function: Callable[..., object], inputs: list[Any] | None = None) -> RawSamples:
    with closing(OwnLoop()) as loop:
        return Sampler(Stream(function, inputs, loop), PACE, CLOCK).measure([], at_once)


@pytest.mark.parametrize(
    "function",
    [
        lambda: map(item, range(5)),
        lambda: filter(None, map(item, range(1, 6))),
        lambda: zip(map(item, range(5)), "abcde", strict=True),
        lambda: enumerate(map(item, range(5))),
        lambda: chain(map(item, [1, 2]), map(item, [3, 4, 5])),
        lambda: islice(map(item, count()), 5),
        OwnIterator,
        NextAlone,
        Computed,
        ComputedAsync,
    ],
)
def test_what_is_computed_item_by_item_is_taken_within_the_call(function: Callable[[], object]) -> None:
    """Five items of 2 ms, where making the result takes no time at all."""
    raw = measured(function)
    assert raw.first_call_s == 0.010
    assert {*raw.latency_s} == {0.010}
    assert raw.items is not None


def test_readers_and_cursors_are_taken_too() -> None:
    """A cursor may compute its first row before the call is over."""
    assert {*measured(lambda: csv.reader(Text("a\nb\nc"))).latency_s} == {0.008}
    assert {*measured(rows).latency_s} == {0.010}


def test_the_result_of_an_iterator_is_the_list_of_its_items_and_an_iterable_stays_itself() -> None:
    """The test can go through the latter again."""
    assert measured(lambda: map(item, range(3))).result == [0, 1, 2]
    assert isinstance(measured(Computed).result, Computed)


class Wrapper:
    """A list by another name."""

    def __init__(self) -> None:
        self.rows = [object(), object()]

    def __iter__(self) -> Iterator[object]:
        yield from self.rows


class Model:
    """Fields in pairs with their names, as a record of pydantic gives them."""

    def __init__(self) -> None:
        self.score = 1000.5
        self.name = "a model"

    def __iter__(self) -> Iterator[tuple[str, object]]:
        yield from vars(self).items()


class Point:
    """Coordinates, kept in slots."""

    __slots__ = ("x", "y")

    def __init__(self) -> None:
        self.x = 1000.5
        self.y = 2000.5

    def __iter__(self) -> Iterator[float]:
        yield self.x
        yield self.y


class Single:
    """One slot, which is named by a text."""

    __slots__ = "x"  # noqa: PLC0205 - which Python takes too

    def __init__(self) -> None:
        self.x = 1000.5

    def __iter__(self) -> Iterator[float]:
        yield self.x


class Mapped:
    """Computes its items through a `map`."""

    def __iter__(self) -> Iterator[int]:
        return map(item, range(5))


class Listed(Wrapper):
    """Gives what it holds through the iterator of a list."""

    def __iter__(self) -> Iterator[object]:
        return iter(self.rows)


class Forbidden:
    """Says that it must not be iterated over."""

    def __iter__(self) -> Iterator[object]:
        raise NotImplementedError


def test_an_iterable_that_goes_through_a_map_is_a_stream() -> None:
    """One that gives its list is none, nor one that forbids it."""
    assert is_stream(Mapped())
    assert not is_stream(Listed())
    assert not is_stream(Forbidden())


def test_a_result_that_is_still_to_come_is_refused() -> None:
    """The work of a future or of a task lies outside of the call."""
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(MeasurementError, match="a Future, whose work is not done when the call ends"):
            Stream(lambda: pool.submit(int), None).first()
        assert Stream(lambda: pool.submit(int).result(), None).first().value == 0
    with multiprocessing.pool.ThreadPool(1) as threads, pytest.raises(MeasurementError, match="an ApplyResult"):
        Stream(lambda: threads.apply_async(int), None).first()

    async def rest() -> None:
        await asyncio.sleep(0)

    async def begin() -> object:
        return asyncio.create_task(rest())

    loop = OwnLoop()
    with closing(loop), pytest.raises(MeasurementError, match="a Task, whose work is not done when the call ends"):
        Stream(begin, None, loop).first()


def started() -> threading.Thread:
    """Return a thread that waits until the test lets it go."""
    thread = threading.Thread(target=LET_GO.wait, daemon=True)
    thread.start()
    return thread


def test_what_runs_on_by_itself_is_refused() -> None:
    """A thread or a process; one that has ended is a result as any other."""
    LET_GO.clear()
    with pytest.raises(MeasurementError, match=r"a Thread, whose work .* such as hwperf\(lambda: start\(\).join\(\)\)"):
        Stream(started, None).first()
    LET_GO.set()
    done = started()
    done.join()
    assert Stream(lambda: done, None).first().value is done
    assert Stream(lambda: multiprocessing.get_context("spawn").Process(target=int), None).first().value
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with pytest.raises(
            MeasurementError, match=r"a Popen, whose work .* such as hwperf\(lambda: start\(\).wait\(\)\)"
        ):
            Stream(lambda: process, None).first()
        process.communicate(b"\n")
        assert Stream(lambda: process, None).first().value is process


class Delayed:
    """A piece of work that a library does when it is asked to, as dask does."""

    def __await__(self) -> Iterator[None]:
        yield None

    def compute(self) -> int:
        return 1


def test_work_that_has_not_begun_is_refused() -> None:
    with pytest.raises(MeasurementError, match=r"a Delayed, .* such as hwperf\(lambda: work\(\).compute\(\)\)"):
        refuse_unfinished(Delayed())


class Sized(Computed):
    """A container that makes its items itself."""

    def __len__(self) -> int:
        return 5


class Connection(Computed):
    """A resource, of which it is not known when its items end."""

    def __enter__(self) -> Self:
        return self


def test_containers_files_and_resources_are_results() -> None:
    """What is in them is there when the call returns, or nobody has asked for it."""
    connection = sqlite3.connect(":memory:")
    with tempfile.NamedTemporaryFile() as file:
        values = (
            *([1], (1,), {1: 2}, {1}, "text", b"text", range(3), {1: 2}.items(), None, 3, list, Computed),
            *(Wrapper(), Model(), Point(), Single(), Sized(), Connection(), MagicMock()),
            *(io.StringIO("a"), io.BytesIO(b"a"), file, connection.execute("CREATE TABLE t (n)")),
        )
        assert [] == [value for value in values if is_stream(value)]
    connection.close()


@pytest.mark.parametrize("endless", [count, lambda: cycle([1]), lambda: repeat(1)])
def test_an_endless_iterator_is_refused_at_once(endless: Callable[[], object]) -> None:
    with pytest.raises(MeasurementError, match=r"endless iterator.*list\(islice\(rows\(\), 1000\)\)"):
        measured(endless)


def test_what_is_repeated_so_many_times_ends() -> None:
    assert measured(lambda: repeat(item(7), 3)).result == [7, 7, 7]


def test_what_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its number of items, or by the time that they take."""
    monkeypatch.setattr("pytest_hwperf.measure.items._MOST_OF_A_CALL", 20)
    with pytest.raises(MeasurementError, match=r"an iterator \(map\) that gave 20 items within 60 s and did not end"):
        measured(lambda: map(int, count()))
    monkeypatch.setattr("pytest_hwperf.measure.items._LONGEST_S", 0.05)
    monkeypatch.setattr("pytest_hwperf.measure.items._MOST_OF_A_CALL", 1000)
    with pytest.raises(MeasurementError, match="gave 25 items"):
        measured(lambda: map(item, count()))


def test_an_iterator_that_is_there_before_the_call_is_refused_when_it_is_used_up() -> None:
    """The calls after the first one would find nothing in it, and be fast."""
    for wrapped in (lambda given: given, lambda given: map(str, given)):
        with pytest.raises(MeasurementError, match=r"the second call of .* gave no items, and the first one did"):
            measured(partial(wrapped, map(item, range(5))))


def test_an_async_stream_that_is_used_up_is_refused() -> None:
    given = [1, 2]

    async def drained() -> AsyncIterator[int]:
        while given:
            yield given.pop()

    with pytest.raises(MeasurementError, match=r"the second call of .*drained gave no items"):
        measured(drained)


def test_an_input_without_items_is_no_sign_of_an_end() -> None:
    """Each of several inputs has its own items, or none."""
    assert {0.0, 0.004} == {*measured(lambda given: map(item, given), [[1, 2], []]).latency_s}


def test_to_find_out_what_a_result_is_belongs_to_no_call() -> None:
    """An iterable is tried before it is taken."""

    def call() -> Computed:
        CLOCK.now_ns += MS
        return Computed()

    first: FirstCall = Stream(call, None).first(CLOCK)
    assert first.seconds == 0.011
