"""One measurement in turns, with processes that take scripted times: what is dropped, batched, pooled and kept."""

import math
from array import array
from collections.abc import Mapping, Sequence
from random import Random

import pytest
from fakes.lines import FakeLine, FakeMeasurement, FakeTest

from pytest_hwperf.gate.pair.channel import (
    AskEnergy,
    BlockTimes,
    Collected,
    Frame,
    Pinned,
    PinTo,
    Ready,
    Select,
    TimeBlock,
    WorkerLostError,
)
from pytest_hwperf.gate.pair.interleaving import Interleaver, Interleaving
from pytest_hwperf.records.evidence import Measurement, Observation, Side
from pytest_hwperf.stats.pairs.hypotheses import SIDES
from pytest_hwperf.stats.pairs.paired import pair_value
from pytest_hwperf.stats.pairs.timetable import BlockPlan

NODE = "t.py::test"
HERE = Measurement(test=NODE, label="")
MILLI = 1_000_000  # ns
COUNTS = BlockTimes(cpu_ns=0, thread_ns=0, switches=0)


class Coin(Random):
    """Falls as it is told; heads: the baseline is first."""

    def __init__(self, *heads: bool) -> None:
        super().__init__(0)
        self._heads = iter(heads)

    def random(self) -> float:
        return 0.0 if next(self._heads, True) else 1.0


HEADS = Coin()


def constant(taken_ns: int) -> FakeMeasurement:
    return FakeMeasurement(taken=lambda _: taken_ns)


def line(measurement: FakeMeasurement) -> FakeLine:
    """A process that stands before its measurement."""
    found = FakeLine({NODE: FakeTest(measurements=[measurement])})
    assert isinstance(found.receive(1).message, Collected)
    found.send(Select(nodes=(NODE,)))
    assert isinstance(found.receive(1).message, Ready)
    return found


def interleaving(  # noqa: PLR0913 - what an interleaver takes
    baseline: FakeMeasurement,
    candidate: FakeMeasurement,
    *statistics: tuple[str, str],
    plan: BlockPlan | None = None,
    toss: Coin = HEADS,
    processors: Sequence[int] = (),
    also: Sequence[tuple[str, str]] = (),
    margin: float = 0.0,
) -> tuple[Interleaving, Mapping[Side, FakeLine]]:
    lines: Mapping[Side, FakeLine] = {"baseline": line(baseline), "candidate": line(candidate)}
    asked = statistics or [("latency", "p50")]
    interleaver = Interleaver(lines, plan or BlockPlan(), toss, asked, margin=margin, processors=processors, also=also)
    interleaver.measure()
    return interleaver.found(HERE), lines


def only(found: Interleaving) -> Observation:
    (observation,) = found.observations
    return observation


def asked(lines: Mapping[Side, FakeLine], side: Side = "baseline") -> list[tuple[int, int]]:
    """Calls and batch of every turn of a side."""
    return [(sent.calls, sent.batch) for sent in lines[side].sent if isinstance(sent, TimeBlock)]


def seats(lines: Mapping[Side, FakeLine]) -> dict[Side, list[tuple[int, ...]]]:
    """Processors that each side was asked to stay on, in this order."""
    return {side: [sent.processors for sent in end.sent if isinstance(sent, PinTo)] for side, end in lines.items()}


def test_a_slower_candidate_is_seen_in_every_block() -> None:
    found, _ = interleaving(constant(MILLI), constant(int(1.05 * MILLI)))
    observation = only(found)
    assert [1e-3] * 12 == pytest.approx(list(observation.baseline))
    assert [1.05e-3] * 12 == pytest.approx(list(observation.candidate))
    assert observation.preempted == 0.0


def test_turns_end_where_the_blocks_agree() -> None:
    """Two double blocks of constant calls; all of them where no margin says what is enough."""
    sides = constant(MILLI), constant(2 * MILLI)
    found, _ = interleaving(*sides, margin=0.05)
    whole, _ = interleaving(*sides, ("latency", "p50"), ("latency", "p95"))
    assert (8, 4) == (len(found.assignment.turns), len(only(found).baseline))
    assert 24 == len(whole.assignment.turns)


def test_both_sides_make_equally_many_calls_whichever_is_which() -> None:
    """The length of a block depends on both alike: else the labels would not be exchangeable."""
    _, one = interleaving(constant(MILLI), constant(2 * MILLI))
    _, other = interleaving(constant(2 * MILLI), constant(MILLI))
    turns = BlockPlan().doubles * 2
    assert asked(one)[-turns:] == asked(one, "candidate")[-turns:] == asked(other)[-turns:]


def test_what_is_taken_too_costs_no_further_call() -> None:
    """A percentile is left out where no call would lie beyond it: of 180 calls a side, 36 and 12."""
    statistics = ("mean", "p50", "p95", "p99")
    for taken_ns, taken in ((MILLI, "p50 mean p95 p99"), (40 * MILLI, "p50 mean p95"), (1000 * MILLI, "p50 mean")):
        side = constant(taken_ns)
        found, lines = interleaving(side, side, also=[("latency", one) for one in statistics])
        _, without = interleaving(side, side)
        assert taken.split() == [one.statistic for one in found.observations]
        assert asked(without) == asked(lines)


def test_the_coin_decides_each_double_block() -> None:
    found, _ = interleaving(constant(MILLI), constant(MILLI), toss=Coin(*[True, False] * 9))
    assert found.assignment.turns == "CBBCBCCB" * 3  # the first throw was for the warm-up


def test_calls_after_a_hand_over_are_cold_and_dropped() -> None:
    """The first five of a block take four times as long; with a sixth the mean would tell."""
    for cold_calls, mean in ((5, 1e-3), (6, 1e-3 + 3e-3 / 15)):
        cold = FakeMeasurement(taken=lambda _: MILLI, cold=(cold_calls, 3 * MILLI))
        found, lines = interleaving(cold, constant(MILLI), ("latency", "mean"), plan=BlockPlan(warm_blocks=1))
        assert asked(lines)[-1] == (20, 1)
        assert [mean] == pytest.approx(list(only(found).baseline))


def test_short_calls_share_a_clock_reading_and_percentiles_are_of_single_calls() -> None:
    """400 calls a side a pair for p95, the cold ones not counted."""
    short = constant(1_000)
    medians, shared = interleaving(short, short)
    tails, single = interleaving(short, short, ("latency", "p95"))
    assert 100 == asked(shared)[-1][1]
    assert [1e-6] * 12 == pytest.approx(list(only(medians).baseline))
    assert {1} == {batch for _, batch in asked(single)[-12:]}
    assert sum(calls for calls, _ in asked(single)[-12:]) >= 400
    assert [1e-6] == pytest.approx(list(only(tails).candidate))


@pytest.mark.parametrize(
    ("side", "statistic", "calls"),
    [
        (constant(10 * MILLI), "p95", 34 + 5),  # 20 / (1 - 0.95) = 400 kept calls in 12 blocks, and the cold ones
        (FakeMeasurement(threads=2), "p95", 34 + 10),
        (constant(1000 * MILLI), "p50", 1),
    ],
    ids=["long calls", "many threads", "second long calls"],
)
def test_a_block_has_as_many_calls_as_its_statistic_needs(side: FakeMeasurement, statistic: str, calls: int) -> None:
    assert (calls, 1) == asked(interleaving(side, side, ("latency", statistic))[1])[-1]


def test_the_time_of_the_cpu_and_the_rate_come_from_the_same_blocks() -> None:
    many = FakeMeasurement(taken=lambda _: MILLI, threads=2)
    found, _ = interleaving(many, constant(MILLI), ("cpu_time", "mean"), ("throughput", "mean"))
    cpu, rate = found.observations
    assert ("cpu_time", "throughput") == (cpu.metric, rate.metric)
    assert [2e-3] * 12 == pytest.approx(list(cpu.baseline))
    assert [1000.0] == pytest.approx(list(rate.baseline))


@pytest.mark.parametrize(("usual_ns", "batch"), [(MILLI, 1), (1_000, 100)], ids=["calls", "batches"])
def test_slow_calls_take_throughput_and_leave_the_median(usual_ns: int, batch: int) -> None:
    """One of 20 takes 18 times as long: +85 % in the mean, and calls per second fall by 46 %."""
    tail = FakeMeasurement(taken=lambda number: usual_ns * (18 if number % 20 == 0 else 1))
    found, lines = interleaving(
        constant(usual_ns), tail, ("latency", "p50"), ("throughput", "mean"), plan=BlockPlan(cold_calls=0, cold_share=0)
    )
    median, rate = found.observations
    assert 0.0 == pytest.approx(pair_value(median))
    assert math.log(1 / 1.85) == pytest.approx(pair_value(rate), abs=0.01)
    assert batch == asked(lines)[-1][1]


def streaming(*parts: dict[str, float]) -> FakeMeasurement:
    return FakeMeasurement(parts=parts)


def test_items_of_a_stream_are_compared_by_the_medians_of_their_blocks() -> None:
    baseline, candidate = streaming({"first_item": 0.5, "item": 0.1}), streaming({"first_item": 0.5, "item": 0.2})
    found, _ = interleaving(baseline, candidate, ("latency", "p50"), ("first_item", "p50"), ("item", "p50"))
    seen = {one.metric: ({*one.baseline}, {*one.candidate}) for one in found.observations}
    assert {"first_item": ({0.5}, {0.5}), "item": ({0.1}, {0.2})}.items() <= seen.items()
    assert {len(one.baseline) for one in found.observations} == {12}


def test_the_rate_of_a_load_is_that_of_all_its_blocks() -> None:
    """As many calls at 100 a second as at 300 are 150 a second; that of calls in a row is one over their mean."""
    uneven = streaming(*[{"throughput": 100.0}, {"throughput": 300.0}] * 20)
    found, _ = interleaving(streaming({"throughput": 200.0}), uneven, ("throughput", "mean"))
    assert [[200.0], [150.0]] == [pytest.approx(list(side)) for side in (only(found).baseline, only(found).candidate)]


def test_a_stream_without_items_in_some_blocks_has_no_value() -> None:
    """Blocks of both sides are compared side by side."""
    found, _ = interleaving(streaming({"item": 0.1}), streaming(*[{"item": 0.1}] * 5, {}), ("item", "p50"))
    assert not found.observations


def test_energy_is_read_once_a_side_in_windows_as_long_as_its_meter_needs() -> None:
    """Counters of processors with SGX need 1 s, boards up to 10 s, both with a reserve."""
    for needed_s, windows in ((0.5, [0.6]), (1.25, [0.6, 1.25])):
        sides = [FakeMeasurement(joules=joules, energy_window_s=needed_s) for joules in (0.5, 0.7)]
        found, lines = interleaving(sides[0], sides[1], ("energy", "mean"))
        assert ([0.5], [0.7]) == (list(only(found).baseline), list(only(found).candidate))
        assert windows == pytest.approx(
            [sent.seconds for sent in lines["candidate"].sent if isinstance(sent, AskEnergy)]
        )


def test_energy_that_is_refused_or_of_different_sources_is_no_number() -> None:
    """One side that lost its memory's counter gives the joules of something else."""
    metered = FakeMeasurement(joules=0.5)
    for baseline, candidate, why in (
        (constant(MILLI), constant(MILLI), ": no meter"),
        (metered, FakeMeasurement(joules=0.5, energy_window_s=21.0), "windows of 21 s are needed"),
        (
            FakeMeasurement(joules=0.5, energy_source="rapl:package-0+dram"),
            metered,
            "source: rapl:package-0+dram, rapl:package-0 (baseline, now)",
        ),
    ):
        found, _ = interleaving(baseline, candidate, ("energy", "mean"))
        assert [] == found.observations
        assert str(found.refused["energy", "mean"]).endswith(why)


@pytest.mark.parametrize(
    ("baseline", "plan", "why"),
    [
        (
            FakeMeasurement(taken=lambda call: MILLI * (1 + 2 * (call // 15 % 2))),
            BlockPlan(warm_blocks=3),
            "no steady state in its warm-up",
        ),
        (constant(2000 * MILLI), BlockPlan(doubles=1, calls=1), "calls too slow for a warm-up of three blocks"),
    ],
    ids=["never idle", "two seconds each"],
)
def test_calls_that_were_not_seen_steady_are_flagged(baseline: FakeMeasurement, plan: BlockPlan, why: str) -> None:
    found, _ = interleaving(baseline, constant(MILLI), plan=plan)
    assert only(found).warnings == (f"baseline: {why}",)


def test_preempted_blocks_are_counted() -> None:
    found, _ = interleaving(FakeMeasurement(taken=lambda _: MILLI, switches=1), constant(MILLI))
    assert only(found).preempted == 0.5


def test_an_answer_that_is_none_ends_the_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    for frame, why in (
        (Frame(message=COUNTS), "baseline: answered with 0 times where 1 were due"),
        (Frame(message=COUNTS, numbers=array("q", [0])), "calls that took no time at all"),
        (Frame(message=Pinned(), numbers=array("q", [5])), "baseline: sent 'Pinned' where 'BlockTimes' was due"),
    ):
        liar = FakeLine({})
        monkeypatch.setattr(liar, "receive", lambda _, frame=frame: frame)
        lines: Mapping[Side, FakeLine] = {"baseline": liar, "candidate": line(constant(MILLI))}
        with pytest.raises(WorkerLostError, match=why):
            Interleaver(lines, BlockPlan(), HEADS, [("latency", "p50")]).measure()


def test_a_block_may_take_three_times_as_long_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hang differs from a slow block by the expected time."""
    waited: list[float] = []
    lines: Mapping[Side, FakeLine] = {side: line(constant(MILLI)) for side in SIDES}
    receive = lines["baseline"].receive

    def watched(due_s: float) -> Frame:
        waited.append(due_s)
        return receive(due_s)

    monkeypatch.setattr(lines["baseline"], "receive", watched)
    Interleaver(lines, BlockPlan(), HEADS, [("latency", "p50")]).measure()
    assert BlockPlan().first_block_s == waited[0]
    assert math.isclose(BlockPlan().patience_s + 3 * 20 * 1e-3, waited[-1])


def test_both_sides_share_a_processor_in_their_turns() -> None:
    """Not in their warm-up, which shows whether several threads are at work; a first turn there does not count."""
    found, lines = interleaving(constant(MILLI), constant(MILLI), plan=BlockPlan(warm_blocks=1), processors=(3, 4))
    assert found.assignment.processor == 3
    for end in lines.values():
        assert [type(sent) for sent in end.sent] == [Select, TimeBlock, PinTo, TimeBlock, *[TimeBlock] * 12]
    assert len(only(found).baseline) == 12
    assert seats(lines) == {"baseline": [(3,)], "candidate": [(3,)]}


def test_pools_of_both_sides_share_processors_or_none_does() -> None:
    """Without a word: most pools have more threads, or such as do not last."""
    for threads, processors, expected in (
        ((2, 2), (3, 4), [(3, 4)]),
        ((2, 1), (3, 4), [(3, 4), ()]),
        ((1, 2), (3, 4), [(3, 4), ()]),
        ((2, 2), (3,), []),
    ):
        baseline, candidate = (FakeMeasurement(threads=count) for count in threads)
        found, lines = interleaving(baseline, candidate, processors=processors)
        assert found.assignment.processor == (3 if expected == [(3, 4)] else None)
        assert seats(lines) == {"baseline": expected, "candidate": expected}
        assert only(found).warnings == ()


def test_only_a_pool_is_waited_for_before_the_other_side() -> None:
    """It may spin on after the calls; every second turn is followed by one of the other side, and the last by none."""
    for threads, waits in ((1, (0, 0)), (2, (7, 6))):
        side = FakeMeasurement(threads=threads)
        _, lines = interleaving(side, side, plan=BlockPlan(warm_blocks=1))
        for end, count in zip(lines.values(), waits, strict=True):
            warm_up, *turns = (sent.rest for sent in end.sent if isinstance(sent, TimeBlock))
            assert (warm_up, sum(turns), len(turns)) == (True, count, 12)


def test_a_pool_is_waited_for_also_in_the_turns_that_do_not_count() -> None:
    side = FakeMeasurement(threads=2)
    _, lines = interleaving(side, side, plan=BlockPlan(warm_blocks=1), processors=(3, 4))
    uncounted = [[sent.rest for sent in end.sent if isinstance(sent, TimeBlock)][1] for end in lines.values()]
    assert [True, True] == uncounted


def test_threads_that_spin_after_their_start_are_no_pool() -> None:
    """Most of the last three blocks of the warm-up decide: BLAS creates its pool when it is imported."""
    spinning = [
        interleaving(FakeMeasurement(spinning_blocks=blocks), FakeMeasurement(), processors=(3,))[0].pools
        for blocks in range(3)
    ]
    assert [set(), set(), {"baseline"}] == spinning


def test_a_block_of_microseconds_tells_nothing_of_threads() -> None:
    """Both clocks are not read at the same instant: 0.2 ms of other threads is not enough."""
    for taken_ns, count in ((190_000, 0), (210_000, 2)):
        side = FakeMeasurement(taken=lambda _, ns=taken_ns: ns, threads=2)  # type: ignore[misc]
        found, _ = interleaving(side, side, plan=BlockPlan(warm_blocks=1), processors=(3,))
        assert len(found.pools) == count


def test_where_a_side_cannot_stay_on_a_processor_neither_does() -> None:
    """One side pinned beside one that is not would be two different conditions."""
    found, lines = interleaving(
        constant(MILLI), FakeMeasurement(sits=lambda number: f"not on {number}"), processors=(3, 4)
    )
    assert found.assignment.processor is None
    assert seats(lines) == {"baseline": [(3,), ()], "candidate": [(3,), ()]}
    assert only(found).warnings == ("the sides do not share a processor: candidate: not on 3",)
