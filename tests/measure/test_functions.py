"""Calls that are counted and sampled, and what becomes of small stacks."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType

import pytest
from fakes.clocks import HandClock

from pytest_hwperf.measure.functions import Samples, count_functions, folded, sample_functions
from pytest_hwperf.measure.rounds import Rounds, RoundStream
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.records.errors import MeasurementError

FILE = Path(__file__)
CALL_NS = 1_000_000


def inner() -> None:
    """Do nothing."""


def items() -> Iterator[int]:
    yield from range(3)


class Model:
    def predict(self) -> None:
        inner()
        inner()
        list(items())


def test_functions_are_counted_by_their_qualified_names() -> None:
    """A generator begins again with each of its items, so that its calls are not known."""
    stream = Stream(Model().predict, None)
    found = count_functions(lambda: stream.batch(2, lambda: 0), 2)
    counts = {
        one.co_qualname: count
        for one, count in found.items()
        if one.co_filename == __file__ and "lambda" not in one.co_qualname
    }
    assert {"Model.predict": 1.0, "inner": 2.0, "items": None} == counts
    assert sys.getprofile() is None


STACK = (Stream.batch.__code__, Model.predict.__code__)


def play(monkeypatch: pytest.MonkeyPatch, stacks: dict[tuple[CodeType, ...], float]) -> None:
    """Let ten samples be taken of these stacks."""

    @contextmanager
    def sampling(interval_s: float) -> Iterator[Samples]:
        assert 0.0005 == interval_s
        samples = Samples(HandClock())
        samples.seconds, samples.count = dict(stacks), 10
        yield samples

    monkeypatch.setattr("pytest_hwperf.measure.functions.sampling", sampling)


def test_a_profile_has_the_stacks_of_the_call_and_what_it_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls take 1 ms; blocks of them are doubled until they take 2.5 ms."""
    play(monkeypatch, {STACK: 0.1, (*STACK, inner.__code__): 0.9})
    clock, made = HandClock(), list[int]()
    monkeypatch.setattr("pytest_hwperf.measure.functions.perf_counter_ns", lambda: int(clock() * 1e9))
    stream = Stream(Model().predict, None)

    def batch(count: int) -> int:
        made.append(count)
        stream.batch(1, lambda: 0)
        clock.pass_time(count * CALL_NS * 1e-9)
        return count * CALL_NS

    found = sample_functions(batch, FILE.parent, seconds=1.0)

    file = FILE.name
    assert {f"Model.predict ({file})": 1e-4, f"Model.predict ({file});inner ({file})": 9e-4} == pytest.approx(
        dict(found.stacks)
    )
    assert 50 == found.samples  # of five rounds
    assert pytest.approx([1e-3, 1e-3]) == [found.call_s, found.plain_s]
    assert "stacks sampled every 0.5 ms" == found.source
    assert 1.0 == found.functions[f"inner ({file})"].calls  # two in the one call that both blocks of two have made
    assert [2, 1, 2, 4] == made[:4]
    assert {4} == {*made[4:]}


def prepared() -> tuple[tuple[()], dict[str, object]]:
    """Prepare a call by a function that the call calls too."""
    inner()
    return (), {}


def test_what_is_done_between_calls_is_part_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither sampled nor counted: nine tenths of the time go into the set-up."""
    stream = RoundStream(Model().predict, Rounds(prepare=prepared, interrupts=True, rounds=None))
    assert stream.caller is not None
    called = (RoundStream.round.__code__, stream.caller, Model.predict.__code__)
    between = (RoundStream.round.__code__, prepared.__code__, inner.__code__)
    play(monkeypatch, {called: 0.05, (*called, inner.__code__): 0.05, between: 0.9})

    def batch(count: int) -> int:
        stream.batch(1, lambda: 0)
        return count * CALL_NS

    found = sample_functions(batch, FILE.parent, 0.0, stream.caller)

    file = FILE.name
    assert {f"Model.predict ({file})": 5e-4, f"Model.predict ({file});inner ({file})": 5e-4} == pytest.approx(
        dict(found.stacks)
    )
    assert 1.0 == found.functions[f"inner ({file})"].calls  # two in the one call that a block of two has made
    assert f"prepared ({file})" not in found.functions


def test_blocks_are_no_longer_than_they_have_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of a microsecond with 4 ms between two calls: blocks of one."""
    play(monkeypatch, {STACK: 1.0})
    clock, made = HandClock(), list[int]()
    monkeypatch.setattr("pytest_hwperf.measure.functions.perf_counter_ns", lambda: int(clock() * 1e9))

    def batch(count: int) -> int:
        made.append(count)
        clock.pass_time(count * 0.004)
        return count * 1000

    sample_functions(batch, FILE.parent, 0.1)
    assert {1} == {*made[1:]}


def test_a_call_without_any_function_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, {STACK[:1]: 1.0})
    with pytest.raises(MeasurementError, match="no call of a function was seen"):
        sample_functions(lambda _: 10**10, FILE.parent, 0.0)


def test_two_profilers_do_not_share_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "getprofile", lambda: "another")
    with pytest.raises(MeasurementError, match="another profiler watches the process"):
        sample_functions(lambda _: 0, FILE.parent, 1.0)


def test_small_stacks_count_to_the_frame_that_they_are_in() -> None:
    """As often as it takes: what is left of a branch may be small too; the outermost stays."""
    stacks = {("a",): 0.1, ("a", "b"): 5.0, ("a", "b", "c"): 0.4, ("a", "b", "c", "d"): 0.4, ("a", "e", "f"): 0.1}
    assert {("a",): 0.2, ("a", "b"): 5.8} == pytest.approx(folded(stacks, 1.0))
