"""Stages of a call: timed in calls of their own, held against the call as a whole."""

import asyncio
import threading
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fakes.streams import FakeClock, at_once

from pytest_hwperf.measure.plan import SamplingLimits
from pytest_hwperf.measure.sampling import Sampler
from pytest_hwperf.measure.stages import SOURCE, Stages, StageTimes, stage_samples, time_chained, time_named
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.records.contracts import CallStage
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.run import Sample

LIMITS = SamplingLimits(max_time_s=1.0)  # stages have a tenth of it
MS, SECOND = 1_000_000, 1_000_000_000


class CostlyClock(FakeClock):
    """A clock that takes a millisecond to read: whatever reads it more often makes a call longer."""

    def __call__(self) -> int:
        self.now_ns += MS
        return self.now_ns


def sleeper(clock: FakeClock, milliseconds: int) -> Callable[..., Any]:
    def sleep(value: Any = None) -> Any:
        clock.now_ns += milliseconds * MS
        return value

    return sleep


def named_call(stages: Stages, clock: FakeClock, *, rest: int = 0) -> Callable[[], None]:
    """Return a call of 2 ms of preprocessing in two parts and 5 ms of inference, and `rest` besides."""

    def call() -> None:
        with stages.stage("preprocess"):
            sleeper(clock, 1)()
        with stages.stage("preprocess"):
            sleeper(clock, 1)()
        with stages.stage("inference"):
            sleeper(clock, 5)()
        sleeper(clock, rest)()

    return call


def timed(stages: Stages, clock: FakeClock, call: Callable[[], object]) -> StageTimes:
    stream = Stream(call, None)
    stream.first(clock)
    return time_named(stages, stream, LIMITS, clock)


def words(samples: list[Sample]) -> dict[str, list[str]]:
    return {sample.metric: [str(warning) for warning in sample.warnings] for sample in samples}


def test_timing_stages_never_enters_a_reported_latency() -> None:
    """In a call that names three stages the clock is read as often as in one that names none."""
    stages, clock = Stages(), CostlyClock()
    call = named_call(stages, clock)
    measured = Sampler(Stream(call, None), LIMITS, clock).measure([], at_once)
    timed_s = timed(stages, clock, call).whole_s
    assert {0.008} == set(measured.latency_s)  # 7 ms, and one reading of the clock
    assert {0.014} == set(timed_s)  # six more


def test_stages_are_timed_call_by_call() -> None:
    stages, clock = Stages(), FakeClock()
    times = timed(stages, clock, named_call(stages, clock, rest=1))
    assert {"preprocess": {0.002}, "inference": {0.005}} == {name: {*taken} for name, taken in times.stages_s.items()}
    assert ({0.008}, {0.007}) == ({*times.whole_s}, {*times.sums_s})
    assert ["preprocess", "inference"] == [*times.stages_s]


def test_an_inner_stage_is_no_part_of_the_outer_one() -> None:
    stages, clock = Stages(), FakeClock()

    def call() -> None:
        with stages.stage("outer"):
            sleeper(clock, 1)()
            with stages.stage("inner"):
                sleeper(clock, 4)()

    times = timed(stages, clock, call)
    assert (0.001, 0.004) == (times.stages_s["outer"][0], times.stages_s["inner"][0])
    assert times.sums_s == times.whole_s


def test_stages_of_tasks_and_threads_side_by_side_are_not_within_each_other() -> None:
    stages, clock = Stages(), FakeClock()
    both = threading.Barrier(2, timeout=30)

    def one(name: str) -> None:
        with stages.stage(name):
            both.wait()

    async def task(name: str) -> None:
        with stages.stage(name):
            await asyncio.sleep(0)
            sleeper(clock, 1)()

    async def tasks() -> None:
        await asyncio.gather(task("a"), task("b"))

    with stages.timed(clock):
        asyncio.run(tasks())
        assert {"a": 1_000_000, "b": 2_000_000} == stages.taken()
        with ThreadPoolExecutor(2) as pool:
            [*pool.map(one, "ab")]
        assert [0, 0] == [*stages.taken().values()]


def test_a_stage_that_only_some_calls_have_is_of_those() -> None:
    stages, clock, count = Stages(), FakeClock(), iter(range(1000))

    def call() -> None:
        if next(count) % 2 == 0:
            with stages.stage("refill"):
                sleeper(clock, 10)()

    times = timed(stages, clock, call)
    assert len(times.whole_s) == 2 * len(times.stages_s["refill"])


def test_a_stage_that_raises_is_closed() -> None:
    stages, clock = Stages(), FakeClock()

    def call() -> None:
        with stages.stage("broken"):
            raise ValueError

    with stages.timed(clock):
        with pytest.raises(ValueError, match=r"^$"):
            call()
        assert stages._open == []
    call_untimed = stages.stage("again")
    with call_untimed:
        assert {"again": None} == stages.names


def test_a_call_without_stages_is_not_called_again() -> None:
    clock = FakeClock()
    stream = Stream(sleeper(clock, 1), None)
    assert not time_named(Stages(), stream, LIMITS, clock).stages_s
    assert clock.now_ns == 0


def call_of(stages: Stages, name: Any, sleep: Callable[[], object]) -> Callable[[], None]:
    """Return a call of one stage."""

    def call() -> None:
        with stages.stage(name):
            sleep()

    return call


def test_stages_take_a_tenth_of_the_time() -> None:
    """At most 200 calls, at least five, else as many as begin within 100 ms."""
    for taken_ms, calls in ((0, 200), (7, 15), (100, 5)):
        stages, clock = Stages(), FakeClock()
        assert calls == len(timed(stages, clock, call_of(stages, "all", sleeper(clock, taken_ms))).whole_s)


def test_a_name_that_no_metric_can_have_is_refused() -> None:
    names: list[Any] = ["", "two words", "a" * 61, "1st", "\x1b[31m", 3]
    for name in names:
        stages, clock = Stages(), FakeClock()
        with pytest.raises(UsageProblem, match=r"^hwperf\.stage\(.*\): a stage is named by letters, digits"):
            timed(stages, clock, call_of(stages, name, sleeper(clock, 1)))


def chain_of(clock: FakeClock, preprocess_ms: int) -> list[CallStage]:
    return [
        CallStage(name="preprocess", call=lambda value: sleeper(clock, preprocess_ms)([*value, "scaled"])),
        CallStage(name="inference", call=lambda value: sleeper(clock, 6)([*value, "predicted"])),
        CallStage(name="postprocess", call=sleeper(clock, 2), is_after=True),
    ]


def test_a_chain_of_stages_hands_values_on() -> None:
    """Each prepared input in turn; what follows the call is in no sum."""
    clock, seen = FakeClock(), list[list[str]]()
    chain = [*chain_of(clock, 3), CallStage(name="kept", call=seen.append, is_after=True)]
    times = time_chained(chain, [["a"], ["b"]], Stream(sleeper(clock, 10), [["a"], ["b"]]), LIMITS, clock)
    assert [["a", "scaled", "predicted"], ["b", "scaled", "predicted"]] == seen[:2]
    assert (0.010, 0.009, 0.002) == (times.whole_s[0], times.sums_s[0], times.stages_s["postprocess"][0])
    assert 5 == len(times.whole_s)  # 21 ms each


def test_what_follows_the_call_says_so() -> None:
    clock = FakeClock()
    times = time_chained(chain_of(clock, 4), [["a"]], Stream(sleeper(clock, 10), [["a"]]), LIMITS, clock)
    samples = stage_samples(times, 0.010)

    expected = {
        "stage_preprocess": [],
        "stage_inference": [],
        "stage_postprocess": ["postprocess follows the timed call and does not count as latency"],
    }
    assert expected == words(samples)
    assert {("call", SOURCE)} == {(sample.per, sample.source) for sample in samples}


def test_a_gap_above_a_tenth_is_shown() -> None:
    """Once for all stages."""
    for sum_ms, doubted in ((9.01, False), (8.99, True), (10.99, False), (11.1, True)):
        times = StageTimes()
        times.add(10 * MS, {"all": round(sum_ms * MS)})
        expected = [f"stages take {sum_ms:#.3g} ms together, the whole call 10.0 ms"] if doubted else []
        assert expected == words(stage_samples(times, 0.010))["stage_all"]
    times = StageTimes()
    times.add(9.3 * MS, {"preprocess": 2 * MS, "inference": 5_100_000})
    assert {"stages take 7.10 ms together, the whole call 9.30 ms"} == {
        str(*sample.warnings) for sample in stage_samples(times, 0.0093)
    }


def test_timers_that_make_a_short_call_longer_are_told() -> None:
    times = StageTimes()
    times.add(5_000, {"all": 5_000})
    (told,) = words(stage_samples(times, 4e-6, ["preempted"]))["stage_all"][1:]
    assert told == "stages were timed in calls of their own, which took 5.00 µs where those of latency took 4.00 µs"
    assert ["preempted"] == words(stage_samples(times, 5e-6, ["preempted"]))["stage_all"]


def test_without_stages_there_are_no_samples() -> None:
    assert [] == stage_samples(StageTimes(whole_s=array("d"), after=("postprocess",)), 0.1)
