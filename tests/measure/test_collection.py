"""The garbage collector runs as the program has set it, or between windows alone, and is given back as it was."""

import gc
from functools import partial

import pytest
from fakes.streams import FakeClock, TimedCall, at_once

from pytest_hwperf.measure.plan import SamplingLimits
from pytest_hwperf.measure.sampling import Sampler
from pytest_hwperf.measure.stream import Stream

MS = 1_000_000  # ns
PACE = SamplingLimits(max_time_s=2.0)
HELD = SamplingLimits(max_time_s=2.0, hold_collector=True)


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is frozen and given back, where Python itself has frozen as many objects as it may, as 3.12 does some."""
    done = list[str]()
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 1000)
    monkeypatch.setattr(gc, "freeze", lambda: done.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: done.append("unfreeze"))
    return done


def test_what_the_call_raises_rises_and_collection_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the call is the test's own; the garbage collector is given back, and what it does not look at."""
    monkeypatch.undo()  # of what all tests share
    gc.unfreeze()
    clock, frozen = FakeClock(), list[int]()

    def broken() -> None:
        clock.now_ns += MS
        frozen.append(gc.get_freeze_count())
        if clock.now_ns > 5 * MS:
            raise ValueError("out of range")

    with pytest.raises(ValueError, match="out of range"):
        Sampler(Stream(broken, None), PACE, clock).measure([], at_once)
    assert gc.isenabled()
    assert frozen[-1] > 1000
    assert 0 == gc.get_freeze_count()


def test_a_collector_that_was_off_stays_off() -> None:
    clock = FakeClock()
    gc.disable()
    try:
        Sampler(Stream(TimedCall(clock, MS), None), HELD, clock).measure([], at_once)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(("pace", "enabled"), [(PACE, True), (HELD, False)], ids=["running", "held"])
def test_the_collector_is_held_during_calls_where_that_is_asked_for(pace: SamplingLimits, *, enabled: bool) -> None:
    clock, states = FakeClock(), list[bool]()

    def call() -> None:
        states.append(gc.isenabled())
        clock.now_ns += MS

    Sampler(Stream(call, None), pace, clock).measure([], at_once)
    assert {enabled} == set(states[1:])  # the first call comes before warm-up
    assert gc.isenabled()


@pytest.mark.parametrize(("pace", "windows"), [(PACE, 0), (HELD, 3 + 6)], ids=["running", "held"])
def test_garbage_is_collected_between_windows_where_the_collector_is_held(
    monkeypatch: pytest.MonkeyPatch, pace: SamplingLimits, windows: int
) -> None:
    """Three blocks of warm-up, and six windows; once before all of them in either case."""
    clock, collected = FakeClock(), list[str]()
    monkeypatch.setattr(gc, "collect", lambda: collected.append("collect"))
    Sampler(Stream(TimedCall(clock, MS), None), pace, clock).measure([], at_once)
    assert 1 + windows == len(collected)


def test_what_exists_is_frozen_during_calls_alone(frozen: list[str]) -> None:
    clock = FakeClock()

    def call() -> None:
        frozen.append("call")
        clock.now_ns += 1000 * MS

    Sampler(Stream(call, None), PACE, clock).measure([], at_once)
    assert ["call", "freeze", "call"] == frozen[:3]
    assert ["call", "unfreeze"] == frozen[-2:]
    assert [1, 1] == [frozen.count("freeze"), frozen.count("unfreeze")]


@pytest.mark.parametrize(
    ("pace", "expected"), [(PACE, set()), (HELD, {"collect", "freeze", "unfreeze"})], ids=["running", "held"]
)
def test_calls_by_which_nothing_is_judged_find_no_garbage_first(
    monkeypatch: pytest.MonkeyPatch, pace: SamplingLimits, expected: set[str]
) -> None:
    """That takes longer than they do; where the collector is held, each of its collections would without a freeze."""
    clock, called = FakeClock(), list[str]()
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 375)
    for name in ("collect", "freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, partial(called.append, name))
    Sampler(Stream(TimedCall(clock, MS), None), pace.brief(), clock).measure([], at_once)
    assert expected == {*called}


def test_a_freeze_of_the_users_own_is_kept(frozen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 1_001)
    Sampler(Stream(TimedCall(clock, MS), None), PACE, clock).measure([], at_once)
    assert [] == frozen
