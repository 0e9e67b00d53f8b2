"""Rounds of calls on a fake clock: how many there are, in which order, and what of them is timed."""

import io
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from copy import deepcopy
from functools import partial
from itertools import count, cycle, repeat
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
from fakes.streams import FakeClock, FakeMeter, TimedCall, never

from pytest_hwperf.measure.plan import SamplingLimits
from pytest_hwperf.measure.rounds import Rounds, RoundStream, arguments_of, refuse_used_up
from pytest_hwperf.measure.samples import samples_of
from pytest_hwperf.measure.sampling import RawSamples, Sampler
from pytest_hwperf.measure.stream import OwnLoop
from pytest_hwperf.records.errors import MeasurementError, UsageProblem

MS = 1_000_000  # ns


class Journal:
    """Notes what is done, and lets time pass for each of it: a call takes 1 ms, what lies between them 7 ms."""

    def __init__(self) -> None:
        self.clock, self.done = FakeClock(), ""

    def prepare(self) -> tuple[tuple[int], dict[str, int]]:
        self._note("s", 7)
        return (1,), {"b": 2}

    def call(self, a: int, b: int = 0) -> int:
        self._note("c", 1)
        return a + b

    def teardown(self, a: int, b: int = 0) -> None:
        assert (a, b) == (1, 2)
        self._note("t", 7)

    def _note(self, what: str, ms: int) -> None:
        self.done += what
        self.clock.now_ns += ms * MS

    def rounds(self, count: int | None = 1, *, warmup: int = 0, iterations: int = 1) -> Rounds:
        return Rounds(
            prepare=self.prepare,
            teardown=self.teardown,
            interrupts=True,
            rounds=count,
            warmup_rounds=warmup,
            iterations=iterations,
        )


def sampled(journal: Journal, rounds: Rounds, meters: tuple[FakeMeter, ...] = ()) -> RawSamples:
    stream = RoundStream(journal.call, rounds)
    return Sampler(stream, SamplingLimits(), journal.clock).measure(meters, never)


@pytest.mark.parametrize(
    ("count", "warmup", "iterations", "done"),
    [
        (1, 0, 1, "sct"),
        (3, 0, 1, "sctsctsct"),
        (2, 1, 1, "sctsctsct"),
        (1, 0, 3, "sccctsct"),  # one call more at the end, as pytest-benchmark makes it
        (2, 1, 2, "scctscctscctsct"),
    ],
)
def test_exactly_the_rounds_that_were_asked_for_are_made(count: int, warmup: int, iterations: int, done: str) -> None:
    journal = Journal()
    measured = sampled(journal, journal.rounds(count, warmup=warmup, iterations=iterations))
    assert done == journal.done
    assert [0.001] * count == list(measured.latency_s)
    assert 3 == measured.result


def test_meters_are_read_around_the_calls_alone() -> None:
    """A window for each round; a value counts by its calls."""
    journal = Journal()
    measured = sampled(journal, journal.rounds(4, iterations=2), (FakeMeter("cpu_time"),))
    samples, unmeasured = samples_of(measured, [FakeMeter("cpu_time")], rows=None, cores=1)
    assert [0.002] * 4 == [window.wall_s for window in measured.windows]
    found = {sample.metric: sample for sample in samples}
    assert [0.5] * 4 == list(found["cpu_time"].values)
    assert [1000.0] * 4 == list(found["throughput"].values)
    assert "a round's iterations share one value: percentiles are of batch means, not of calls" in map(
        str, found["latency"].warnings
    )
    assert {} == unmeasured


def test_pairs_time_calls_without_what_lies_between_them() -> None:
    journal = Journal()
    stream = RoundStream(journal.call, journal.rounds())
    stream.first(journal.clock)
    assert [MS] * 3 == list(stream.times(3, journal.clock))
    assert 3 * MS == stream.batch(3, journal.clock)
    assert "sct" * 7 == journal.done
    assert [MS] == list(stream.times(3, journal.clock, deadline_ns=0))


def test_calls_with_nothing_between_them_are_those_of_any_stream() -> None:
    clock = FakeClock()
    call = TimedCall(clock, 5 * MS, MS)
    stream = RoundStream(call, Rounds(prepare=lambda: ((), {})))
    assert 0.005 == stream.first(clock).seconds
    assert [MS, MS] == list(stream.times(2, clock))
    assert 2 * MS == stream.batch(2, clock)
    assert not stream.is_interrupted


def test_what_async_functions_return_is_not_awaited_in_rounds() -> None:
    async def answer() -> int:
        return 1

    with closing(OwnLoop()) as loop:
        sampler = Sampler(RoundStream(answer, Rounds(prepare=lambda: ((), {})), loop), SamplingLimits())
        with pytest.raises(UsageProblem, match="take a plain function"):
            sampler.measure([], never)


def test_nan_is_refused() -> None:
    stream = RoundStream(lambda: np.array([np.nan]), Rounds(prepare=lambda: ((), {})))
    with pytest.raises(MeasurementError, match="NaN"):
        Sampler(stream, SamplingLimits()).measure([], never)


def test_calls_with_a_setup_are_sampled_as_any_without_what_lies_between_them() -> None:
    """A window ends by the time of everything, and counts by that of its calls."""
    journal = Journal()
    stream = RoundStream(journal.call, journal.rounds(None))
    measured = Sampler(stream, SamplingLimits(max_time_s=1.0), journal.clock).measure((), never)
    assert {0.001} == set(measured.latency_s)
    assert {0.001} == {window.wall_s / window.calls for window in measured.windows}
    assert set("sct") == set(journal.done)
    assert "sct" * (len(journal.done) // 3) == journal.done
    assert [] == measured.warnings
    assert 1.0 <= journal.clock.now_ns / 1e9 < 2.5


def test_short_calls_with_a_setup_are_timed_one_by_one() -> None:
    clock = FakeClock()
    rounds = Rounds(prepare=lambda: ((), {}), interrupts=True, rounds=None)
    measured = Sampler(RoundStream(TimedCall(clock, 1000), rounds), SamplingLimits(max_time_s=0.01), clock).measure(
        (), never
    )
    assert 1 == measured.calls_per_value
    assert {1e-6} == set(measured.latency_s)


def test_cpu_time_of_calls_is_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What setup and teardown compute is none of it, nor does a clock of the calls pass meanwhile."""
    spent = [0.0]

    def work(seconds: float) -> None:
        spent[0] += seconds

    monkeypatch.setattr("pytest_hwperf.measure.rounds.cpu_seconds", lambda: spent[0])

    def prepare() -> tuple[tuple[()], dict[str, object]]:
        work(5)
        return (), {}

    rounds = Rounds(prepare=prepare, teardown=lambda: work(7), interrupts=True, rounds=None)
    stream = RoundStream(lambda: work(1), rounds)
    stream.first()
    stream.times(3, FakeClock())
    assert 4.0 == stream.cpu_s
    assert rounds.pauses.ns > 0


def test_a_setup_gives_the_arguments_or_leaves_them_as_they_were_given() -> None:
    nothing: list[object] = [None, (), {}]
    assert [((1,), {})] * 3 == [arguments_of((1,), {}, partial(deepcopy, one)) for one in nothing]
    assert ([3], {"b": 4}) == arguments_of((), {}, lambda: ([3], {"b": 4}))


BAD_SETUPS: list[tuple[tuple[int, ...], object, str]] = [
    ((1,), ([3], {}), "it returns arguments, and others are given too; give them in one place"),
    ((), [3], r"it returned \[3\]: it returns None, or \(args, kwargs\)"),
    ((), ("ab", {}), r"it returned \('ab', {}\)"),
    ((), np.zeros(2), r"it returned array"),
    ((), 3, "it returned 3"),
]


def test_what_a_setup_must_not_return_is_refused() -> None:
    for given, returned, problem in BAD_SETUPS:
        with pytest.raises(UsageProblem, match=problem):
            arguments_of(given, {}, partial(deepcopy, returned))


async def arriving() -> AsyncIterator[int]:
    yield 1


def test_an_iterator_that_one_call_uses_up_is_refused() -> None:
    with Path(__file__).open("rb") as file:
        for value in ((one for one in "ab"), map(str, [1]), iter([1]), zip([1], [2], strict=True), file, arriving()):
            with pytest.raises(UsageProblem, match="argument 2 is an iterator, which one call uses up: make it a list"):
                refuse_used_up((1, value), {})
            with pytest.raises(UsageProblem, match="fixture 'rows' is an iterator, which one call uses up: "):
                refuse_used_up((), {"rows": value}, "fixture")


def test_what_calls_fill_again_or_write_to_and_what_never_ends_is_taken() -> None:
    closed = io.BytesIO()
    closed.close()
    with closing(sqlite3.connect(":memory:")) as database:
        refuse_used_up(
            (database.cursor(), io.StringIO(), closed, count(), cycle([1]), repeat(1), MagicMock(), [1], "ab"), {}
        )
