"""Warm-up, windows and stopping on a fake clock: no wall clock decides here."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise, product

import pytest
from fakes.streams import FakeClock, FakeMeter, TimedCall, at_once, never

from pytest_hwperf.measure.plan import SamplingLimits, WindowPlan
from pytest_hwperf.measure.samples import samples_of
from pytest_hwperf.measure.sampling import RawSamples, Sampler
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.records.run import Reading
from pytest_hwperf.stats.figures.estimates import estimate

MS = 1_000_000  # ns
PACE = SamplingLimits(max_time_s=2.0)


def measure(call: TimedCall, clock: FakeClock, *, pace: SamplingLimits = PACE, enough: object = at_once) -> RawSamples:
    return Sampler(Stream(call, None), pace, clock).measure([], enough)  # type: ignore[arg-type] # a fake of it


def test_the_first_call_is_kept_apart() -> None:
    """The cold call is no part of the latencies."""
    clock = FakeClock()
    measured = measure(TimedCall(clock, 500 * MS, MS), clock)
    assert measured.first_call_s == 0.5
    assert set(measured.latency_s) == {0.001}
    assert measured.result == "value"


def test_the_pace_is_told_before_the_calls_are_sampled() -> None:
    clock, told = FakeClock(), list[tuple[float, int]]()
    Sampler(Stream(TimedCall(clock, 500 * MS, MS), None), PACE, clock).measure(
        [],
        never,
        lambda call_s: told.append((call_s, clock())),
    )

    ((call_s, when),) = told
    assert call_s == 0.001
    assert when < 600 * MS < clock()


def test_warm_up_ends_when_three_blocks_agree() -> None:
    """A block lasts 10 ms by the block before: 10 calls of 5 ms, 2 of 4, 2 of 3, 3 of 2, and from there on 1 ms."""
    clock = FakeClock()
    falling = [*[5 * MS] * 10, *[4 * MS] * 2, *[3 * MS] * 2, *[2 * MS] * 3]
    measured = measure(TimedCall(clock, MS, *falling, MS), clock)
    assert measured.warnings == []
    assert set(measured.latency_s) == {0.001}


def test_a_call_that_never_settles_is_said_to() -> None:
    """Every other call takes 20 ms: no three blocks of one call agree, and the cap of 1 s ends the warm-up."""
    clock = FakeClock()
    measured = measure(TimedCall(clock, 20 * MS, *[10 * MS, 20 * MS] * 50), clock, enough=never)
    assert "no steady state after 66 warm-up blocks (1.00 s): cold calls may be in the sample" == str(
        measured.warnings[0]
    )


def test_sampling_lasts_as_long_as_its_least_time_and_calls() -> None:
    """300 calls of 1 ms are 0.3 s: six windows of 50 ms."""
    clock = FakeClock()
    measured = measure(TimedCall(clock, MS), clock)
    assert len(measured.windows) == 6
    assert len(measured.latency_s) == 300


def test_sampling_that_is_never_enough_ends_with_its_time() -> None:
    """2 s of 1 ms calls in windows of 50 ms are 40 windows."""
    clock = FakeClock()
    measured = measure(TimedCall(clock, MS), clock, enough=never)
    assert len(measured.windows) == 40
    assert len(measured.latency_s) == 2000


def test_it_is_asked_again_only_when_the_windows_have_doubled() -> None:
    """Looking after every window would give a false stop more chances."""
    clock, looks = FakeClock(), list[int]()

    def look(measured: RawSamples) -> bool:
        looks.append(len(measured.windows))
        return False

    measure(TimedCall(clock, MS), clock, enough=look)
    assert looks == [6, 12, 24]


def test_a_call_longer_than_the_time_is_made_once_after_the_first() -> None:
    """Slow models are not called more often than needed."""
    clock = FakeClock()
    call = TimedCall(clock, 10_000 * MS)
    measured = measure(call, clock, enough=never)
    assert call.count == 2
    assert list(measured.latency_s) == [10.0]
    assert list(map(str, measured.warnings)) == [
        "no warm-up: the first call took 10.0 s, and 1.00 s are kept for it: raise --hwperf-sample-time"
    ]


def test_after_a_call_that_compiles_a_second_one_tells_how_long_a_call_takes() -> None:
    clock = FakeClock()
    call = TimedCall(clock, 10_000 * MS, MS)
    limits = replace(PACE, compiles=True)
    measured = Sampler(Stream(call, None), limits, clock).measure([], at_once)
    assert (10.0, []) == (measured.first_call_s, measured.warnings)
    assert 0.05 == pytest.approx(measured.windows[0].wall_s)


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([500], "1 warm-up block in 1.00 s, where three show a steady state: raise --hwperf-sample-time"),
        ([5, 400], "2 warm-up blocks in 1.00 s, where three show a steady state: raise --hwperf-sample-time"),
    ],
)
def test_a_warm_up_of_few_blocks_names_their_number_and_the_remedy(calls: list[int], said: str) -> None:
    """The next call is slower than all that is left of the time."""
    clock = FakeClock()
    measured = measure(TimedCall(clock, MS * calls[0], *(MS * ms for ms in calls), 2000 * MS), clock, enough=never)
    assert said == str(measured.warnings[0])


def test_short_calls_are_timed_in_batches_without_their_loop() -> None:
    """Calls of 1 µs: batches of a hundred share one value; the empty loop of this clock takes no time."""
    clock = FakeClock()
    measured = measure(TimedCall(clock, 1000), clock)
    assert measured.calls_per_value == 100
    assert measured.latency_s[0] == pytest.approx(1e-6)
    assert measured.windows[0].calls == 100 * (len(measured.latency_s) // len(measured.windows))


def test_a_call_of_no_measurable_time_is_not_divided_by() -> None:
    """A clock coarser than the call sees zero: the batch stays bounded, and so do the windows."""
    clock = FakeClock()
    pace = SamplingLimits(max_time_s=1e-6, min_time_s=0.0, min_calls=1, window_s=1e-9)

    class Slipping(FakeClock):
        """Moves a nanosecond at every thousandth look, so that the warm-up ends."""

        looks = 0

        def __call__(self) -> int:
            self.looks += 1
            self.now_ns += self.looks % 1000 == 0
            return self.now_ns

    clock = Slipping()
    measured = measure(TimedCall(clock, 0), clock, pace=pace)
    assert measured.calls_per_value == 10_000
    assert set(measured.latency_s) == {0.0}


def test_the_loop_of_a_batch_is_subtracted() -> None:
    """A clock that moves 300 ns at every look: a batch of one call more costs nothing more, so nothing is left."""

    class Ticking(FakeClock):
        def __call__(self) -> int:
            self.now_ns += 300
            return self.now_ns

    clock = Ticking()
    pace = SamplingLimits(max_time_s=1e-2, min_time_s=1e-4, min_calls=10, window_s=1e-4)
    measured = measure(TimedCall(clock, 0), clock, pace=pace)
    assert measured.calls_per_value > 1
    assert set(measured.latency_s) == {0.0}


def test_inputs_are_taken_in_turn() -> None:
    """Changing rows keep caches honest: a constant row is several times faster in a tree."""
    clock, seen = FakeClock(), list[str]()

    def call(prepared: str) -> str:
        seen.append(prepared)
        clock.now_ns += MS
        return prepared

    Sampler(Stream(call, ["a", "b", "c"]), PACE, clock).measure([], at_once)
    assert seen[:7] == ["a", "b", "c", "a", "b", "c", "a"]


def test_batches_take_inputs_in_turn_too() -> None:
    clock, seen = FakeClock(), list[int]()

    def call(prepared: int) -> None:
        seen.append(prepared)
        clock.now_ns += 1000

    measured = Sampler(Stream(call, [1, 2, 3]), PACE, clock).measure([], at_once)
    assert measured.calls_per_value == 100
    assert all((first, second) in {(1, 2), (2, 3), (3, 1)} for first, second in pairwise(seen))


def test_meters_are_read_around_every_window() -> None:
    clock = FakeClock()
    meter = FakeMeter("energy", (Reading(value=float(n)) for n in range(100)))
    measured = Sampler(Stream(TimedCall(clock, MS), None), PACE, clock).measure([meter], at_once)
    assert [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] == [window.readings[0].value for window in measured.windows]


def test_windows_are_as_long_as_the_coarsest_meter_needs() -> None:
    """One window that is too short would void the energy of the whole run, also where calls get three times faster."""
    for call_ms, faster in product((1, 3, 20, 200, 400), (1, 3)):
        clock = FakeClock()
        meter = FakeMeter("energy", shortest_window_s=0.5)
        warm_up = 1 + 1000 // call_ms
        call = TimedCall(clock, *[call_ms * MS] * warm_up, call_ms * MS // faster)
        measured = Sampler(Stream(call, None), SamplingLimits(max_time_s=4.0), clock).measure([meter], never)
        assert min(window.wall_s for window in measured.windows) >= 0.5, call_ms
        assert len(measured.latency_s) == sum(window.calls for window in measured.windows)


def test_a_value_takes_eight_bytes() -> None:
    clock = FakeClock()
    assert measure(TimedCall(clock, MS), clock).latency_s.itemsize == 8


def test_calls_that_get_slower_end_with_the_time() -> None:
    """Fast for the warm-up, then a thousand times slower: no window may outlast the time by more than a call."""
    clock = FakeClock()
    call = TimedCall(clock, *[30_000] * 60_000, 30 * MS)
    measured = measure(call, clock, enough=never)
    assert clock.now_ns < 4_000 * MS
    assert str(measured.warnings[-1]).startswith("calls became three times slower within a window")
    assert sum(window.calls for window in measured.windows) == len(measured.latency_s)


@pytest.mark.parametrize("meters", [[], [FakeMeter("energy", shortest_window_s=0.1)]], ids=["no meter", "counter"])
def test_slow_and_fast_calls_are_all_in_the_throughput(meters: list[FakeMeter]) -> None:
    """After 500 calls of 1 ms they take 10 ms for a while, then 0.1 ms: completed over wall, whatever the window."""
    clock = FakeClock()
    call = TimedCall(clock, *[MS] * 500, *[10 * MS] * 50, *[MS // 10] * 900_000)
    measured = Sampler(Stream(call, None), PACE, clock).measure(meters, never)
    (throughput,) = [s for s in samples_of(measured, meters, rows=None, cores=1)[0] if s.metric == "throughput"]
    completed, wall_s = len(measured.latency_s), sum(measured.latency_s)
    assert 0.01 == pytest.approx(max(measured.latency_s))
    assert pytest.approx(completed / wall_s) == estimate(throughput, "mean").value


def test_calls_that_become_ten_times_slower_have_a_tenth_of_the_throughput() -> None:
    """1 ms for the warm-up and the first window, 10 ms from there on: every window after it is ended early."""
    clock = FakeClock()
    measured = measure(TimedCall(clock, *[MS] * 81, 10 * MS), clock, enough=never)
    (throughput,) = [s for s in samples_of(measured, [], rows=None, cores=1)[0] if s.metric == "throughput"]
    assert estimate(throughput, "mean").value < 150


def test_the_tail_of_short_calls_is_that_of_single_calls() -> None:
    """Every fiftieth call takes 1 ms and all others 5 µs: p99 is 1 ms, though the mean of a batch is 25 µs."""
    clock = FakeClock()
    call = TimedCall(clock, *[*[5_000] * 49, MS] * 20_000)
    measured = measure(call, clock, pace=SamplingLimits(single_calls=True))
    (latency,) = [s for s in samples_of(measured, [], rows=None, cores=1)[0] if s.metric == "latency"]
    assert ("call", 0.001) == (latency.per, estimate(latency, "p99").value)
    assert measured.windows[0].calls % 20 == 0  # what is counted there is timed in batches


def test_the_reading_of_the_clock_is_no_part_of_a_short_call() -> None:
    """A clock that takes 60 ns to read: single calls of 1 µs are 1 µs long."""

    class Reading(FakeClock):
        def __call__(self) -> int:
            self.now_ns += 60
            return self.now_ns

    clock = Reading()
    measured = measure(TimedCall(clock, 1_000), clock, pace=SamplingLimits(single_calls=True, max_time_s=0.5))
    assert {1e-6} == set(measured.latency_s)


def test_batches_that_get_slower_end_with_the_time() -> None:
    clock = FakeClock()
    call = TimedCall(clock, *[1_000] * 600_000, MS)
    measured = measure(call, clock, enough=never)
    assert clock.now_ns < 4_000 * MS
    assert measured.calls_per_value == 100


class Wrapping(FakeMeter):
    """A counter that starts again at 0 after a while."""

    tick_s = 0.001
    domains = ("package-0",)

    def __init__(self, longest_window_s: float) -> None:
        super().__init__("energy", shortest_window_s=0.5)
        self.longest_window_s = longest_window_s
        self.attended_for = list[str]()

    @contextmanager
    def attended(self) -> Iterator[None]:
        self.attended_for.append("begun")
        yield
        self.attended_for.append("ended")


def test_a_counter_needs_five_windows_of_half_a_second() -> None:
    """A quarter more than the shortest, so that calls may get a little faster; but it does not go on for ever.

    A meter without a shortest window takes that of the pace.
    """
    plan = WindowPlan.of(SamplingLimits(max_time_s=2.0), 0.001, [FakeMeter("energy", shortest_window_s=0.5)])
    assert (625, 5, 6.25) == (plan.values, plan.fewest, plan.longest_s)
    assert [False, True, True] == [plan.is_over(seconds, n) for seconds, n in ((2.0, 4), (2.0, 5), (6.25, 2))]
    of_pace = WindowPlan.of(SamplingLimits(window_s=0.05), 0.001, [FakeMeter("cpu_time")])
    assert (50, 0, 2, 2.0) == (of_pace.values, of_pace.least_s, of_pace.fewest, of_pace.longest_s)


@pytest.mark.parametrize("call_ms", [1, 30, 400])
def test_five_windows_are_made_beyond_the_longest_time(call_ms: int) -> None:
    clock = FakeClock()
    meter = FakeMeter("energy", shortest_window_s=0.5)
    stream = Stream(TimedCall(clock, call_ms * MS), None)
    measured = Sampler(stream, SamplingLimits(max_time_s=1.0), clock).measure([meter], never)
    assert 5 == len(measured.windows)
    assert all(window.wall_s >= 0.5 for window in measured.windows)


def test_calls_of_seconds_end_with_fewer_windows() -> None:
    """Five calls of 5 s would be 25 s for a measurement of 2 s."""
    clock = FakeClock()
    meter = FakeMeter("energy", shortest_window_s=0.5)
    measured = Sampler(Stream(TimedCall(clock, 5000 * MS), None), SamplingLimits(), clock).measure([meter], never)
    assert 2 == len(measured.windows)


@pytest.mark.parametrize(("longest_s", "attended"), [(32.0, []), (1.8, ["begun", "ended"])])
def test_only_windows_that_could_hide_a_wrap_are_attended(longest_s: float, attended: list[str]) -> None:
    """Windows of 0.625 s are cut off after three times as long."""
    clock = FakeClock()
    meter = Wrapping(longest_s)
    Sampler(Stream(TimedCall(clock, MS), None), SamplingLimits(), clock).measure([meter], never)
    assert attended == meter.attended_for


def test_meters_end_in_the_opposite_order() -> None:
    """The first to start is the last to end: what its reading takes is no CPU time of the calls."""
    clock, order = FakeClock(), list[str]()

    class Noting(FakeMeter):
        def start(self) -> object:
            order.append(f"start {self.metric}")
            return None

        def end(self, started: object) -> object:  # type: ignore[override] # it only passes the reading on
            order.append(f"end {self.metric}")
            return super().end(started)

    meters = [Noting("energy"), Noting("cpu_time")]
    Sampler(Stream(TimedCall(clock, MS), None), SamplingLimits(), clock).measure(meters, never)  # type: ignore[arg-type]
    assert ["start energy", "start cpu_time", "end cpu_time", "end energy"] == order[:4]
