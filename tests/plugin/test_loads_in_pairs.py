"""Loads in the paired gate, without processes: sides take turns in pieces of a load, by a clock that a test moves."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from random import Random
from types import SimpleNamespace

import pytest

from pytest_hwperf.gate.pair.channel import BlockTimes, Connection, Frame, TimeBlock, ToWorker
from pytest_hwperf.gate.pair.interleaving import Interleaver
from pytest_hwperf.loads import local
from pytest_hwperf.measure.pair_target import PairTarget, ready_target
from pytest_hwperf.measure.subjects import subject_of_callable
from pytest_hwperf.plugin.measuring.load import block_under, pace_under
from pytest_hwperf.records.evidence import Evidence, Hypothesis, Measurement, Pair, Side
from pytest_hwperf.records.markers import Load
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import ComparisonOutcome, Margin
from pytest_hwperf.stats.pairs.hypotheses import SIDES
from pytest_hwperf.stats.pairs.sequence import decide, next_step
from pytest_hwperf.stats.pairs.timetable import BlockPlan

HERE = Measurement(test="t.py::test", label="")
SLOWER = Hypothesis(measurement=HERE, margin=Margin(metric="latency", statistic="p50", size=0.02), better="lower")


class Clock:
    """Seconds that calls spend, give or take 2 %; a sleep ends up to 0.2 ms late, as on a real machine."""

    def __init__(self, seed: int) -> None:
        self.now_s, self.chance = 0.0, Random(seed)

    def __call__(self) -> float:
        self.now_s += 50e-9
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds + self.chance.uniform(0, 0.0002)

    def spend(self, seconds: float) -> None:
        self.now_s += seconds * abs(self.chance.gauss(1, 0.02))


class Turner(Connection):
    """One process of a pair, as its conductor sees it: it answers with the turns of a target under a load."""

    def __init__(self, target: PairTarget) -> None:
        self.target, self.answer, self.asked = target, Frame(message=BlockTimes(cpu_ns=0, thread_ns=0, switches=0)), 0

    def send(self, message: ToWorker) -> None:
        assert isinstance(message, TimeBlock)
        self.target.prepare()
        taken = self.target.block(message.calls, message.batch)
        parts, pace_s = self.target.parts(), self.target.pace_s
        block = BlockTimes(cpu_ns=0, thread_ns=0, switches=0, parts=parts, pace_s=pace_s)
        self.answer, self.asked = Frame(message=block, numbers=taken), message.calls * message.batch

    def receive(self, deadline_s: float) -> Frame:
        assert deadline_s > 0
        return self.answer


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What both sides and their loads go by."""
    found = Clock(5)
    monkeypatch.setattr(local, "RealClock", SimpleNamespace(perf_counter=found, sleep=found.sleep))
    monkeypatch.setattr("pytest_hwperf.measure.pair_target.perf_counter_ns", lambda: round(1e9 * found()))
    return found


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes the targets of a test."""
    with ExitStack() as found:
        yield found


def sides(load: Load, clock: Clock, stack: ExitStack, calls_s: Mapping[Side, float]) -> dict[Side, Turner]:
    """Return both sides under one load."""
    found = dict[Side, Turner]()
    for side, call_s in calls_s.items():
        subject = subject_of_callable(clock.spend, (call_s,), {}, y_true=None, batch_size=None)
        ready = ready_target(subject, lambda: None, under=block_under(load), pace_s=pace_under(load))
        found[side] = Turner(stack.enter_context(ready)[0])
    return found


def build(load: Load, clock: Clock, stack: ExitStack, slower: float) -> ComparisonOutcome:
    """Run the pairs of a build whose candidate takes longer by a factor; return its outcome."""
    evidence, tosses = Evidence(alpha=0.01, hypotheses=(SLOWER,), pairs=()), Random(7)
    lines = sides(load, clock, stack, {"baseline": 0.001, "candidate": 0.001 * slower})
    while (step := next_step(evidence)).stage is not None:
        interleaver = Interleaver(lines, BlockPlan(), tosses, [("latency", "p50")])
        interleaver.measure()
        turns = interleaver.found(HERE)
        pair = Pair(
            number=len(evidence.pairs) + 1,
            stage=step.stage,
            first="baseline",
            hash_seeds=dict.fromkeys(SIDES, 1),
            assignments=(turns.assignment,),
            observations=tuple(turns.observations),
        )
        evidence = replace(evidence, pairs=(*evidence.pairs, pair))
    return decide(evidence)[SLOWER].outcome


LOADS = [
    Load(kind="server", qps=300, seconds=2, seed=3),
    Load(kind="server", qps=800, seconds=2, seed=3, in_flight=4, carriers="processes"),
    Load(kind="single_stream"),
    Load(kind="offline", calls=500),
]


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_the_gate_tells_equal_code_from_slower_under_a_load(load: Load, clock: Clock, stack: ExitStack) -> None:
    outcomes = [build(load, clock, stack, slower) for slower in (1.0, 1.1, 0.9)]
    assert ["equivalent", "regressed", "improved"] == outcomes


def test_a_turn_of_fast_calls_at_a_slow_rate_takes_no_longer_than_others(clock: Clock, stack: ExitStack) -> None:
    """Calls of 10 µs would be made by the thousand, and in batches, if they followed each other."""
    for qps, most in ((1000, 20), (200, 20), (20, 3), (5, 1)):
        lines = sides(Load(kind="server", qps=qps, seconds=2), clock, stack, dict.fromkeys(SIDES, 10e-6))
        began = clock.now_s
        Interleaver(lines, BlockPlan(), Random(1), [("latency", "p50")]).measure()
        assert lines["baseline"].asked <= most
        assert clock.now_s - began < 60 * 0.2


def test_only_a_schedule_has_a_pace() -> None:
    assert [0.0, 0.0, 0.0025] == [
        pace_under(load) for load in (None, Load(kind="offline"), Load(kind="server", qps=400))
    ]
