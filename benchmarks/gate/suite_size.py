"""Simulate gates of many tests within a time: whether a slower test among them is found, and how long that takes.

Every build goes the way of a live one: `next_step` says what the next pair measures, `decide` what the pairs have
shown. A clock is kept beside it: a pair takes its start, and of each test what its turns take by `BlockPlan`. When
the time is up, the last complete look counts.
What a pair observes is drawn from the recording in tests/data: the median of as many blocks as the plan has. Half of
the tests are as noisy as its `np`, the others as its `ort`.

    python -m benchmarks suite_size [BUILDS]
"""

import argparse
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from benchmarks.gate.builds import Values, share
from benchmarks.projects import RECORDING
from pytest_hwperf.records.evidence import Evidence, Hypothesis, Measurement, Observation, Pair, Stage
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.stats.pairs.sequence import FIRST_PAIRS, Step, decide, next_step
from pytest_hwperf.stats.pairs.timetable import (
    PAIR_PLAN,
    REHEARSAL_PLAN,
    BlockPlan,
    CallTimes,
    TestTime,
    Timetable,
    screen_plan,
)

BUILDS = 200
START_S = 0.6  # of a pair, until its first test
OVERHEAD_S = 0.03  # of a test in a pair, beside its turns: its fixtures, and pytest
COLD = 3  # of the eight calls of a recorded block
ONCE = array("d", [1.0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Tests of one duration, of which at most one is slower now."""

    title: str
    tests: int
    call_s: float
    change: float  # of the slower one, relative; 0: none is
    time_s: float  # that is given


@dataclass(slots=True, kw_only=True)
class Build:
    """One build and its clock."""

    suite: Suite
    rng: np.random.Generator
    slow: int  # number of the slower test
    clock_s: float = 0.0
    evidence: Evidence = field(init=False)

    def __post_init__(self) -> None:
        """Ask for the median latency of every test."""
        asked = tuple(
            Hypothesis(
                measurement=Measurement(test=str(number), label=""),
                margin=Margin(metric="latency", statistic="p50", size=0.02),
                better="lower",
            )
            for number in range(self.suite.tests)
        )
        self.evidence = Evidence(alpha=0.01, hypotheses=asked, pairs=())

    def run(self) -> frozenset[int]:
        """Go through the build; return the numbers of the tests that regressed."""
        self.clock_s = self.pair_s(REHEARSAL_PLAN, range(self.suite.tests))
        table = self.timetable()
        screening = table.screening(self.suite.time_s - self.clock_s)
        while (step := self.next(table, screening)).stage is not None:
            tests = [int(one.test) for one in step.measurements]
            plan = screen_plan(PAIR_PLAN, screening) if step.stage == "screen" else PAIR_PLAN
            a_pair_s = self.pair_s(plan, tests)
            wanted = min(step.pairs, FIRST_PAIRS) if step.stage == "screen" else step.pairs
            pairs = min(wanted, math.floor((self.suite.time_s - self.clock_s) / a_pair_s))
            self.observe(step.stage, step.measurements, pairs, plan.doubles)
            self.clock_s += pairs * a_pair_s
            if pairs < wanted:
                self.clock_s = self.suite.time_s
                self.evidence = replace(self.evidence, stopped=state("out of time", limit=self.suite.time_s))
        found = decide(self.evidence)
        return frozenset(int(one.measurement.test) for one, made in found.items() if made.outcome == "regressed")

    def timetable(self) -> Timetable:
        """Return what the rehearsal has shown of the tests."""
        return Timetable(
            start_s=START_S,
            tests=[
                TestTime(
                    test=str(number),
                    hypotheses=1,
                    beside_s=OVERHEAD_S,
                    measurements=(CallTimes(calls_s=self.calls_s(number == self.slow)),),
                )
                for number in range(self.suite.tests)
            ],
            alpha=self.evidence.alpha,
        )

    def test_time(self, number: int) -> TestTime:
        """Return how long one test takes."""
        measured = CallTimes(calls_s=self.calls_s(number == self.slow))
        return TestTime(test=str(number), hypotheses=1, beside_s=OVERHEAD_S, measurements=(measured,))

    def next(self, table: Timetable, screening: int) -> Step:
        """Return what the next pair is for, of the next group where one is over."""
        step, done = next_step(self.evidence), sum(self.evidence.groups)
        if self.evidence.stopped or done == self.suite.tests or (step.stage and done):
            return step
        size = table.next_group(done, self.suite.time_s - self.clock_s, screening)
        if not size:
            return Step(stage=None)
        self.evidence = replace(self.evidence, groups=(*self.evidence.groups, size))
        return next_step(self.evidence)

    def calls_s(self, is_slow: bool) -> tuple[float, float]:  # noqa: FBT001 - local
        """Return what a call of each side takes."""
        return self.suite.call_s, self.suite.call_s * (1 + self.suite.change * is_slow)

    def pair_s(self, plan: BlockPlan, tests: Sequence[int]) -> float:
        """Return what a pair of these tests takes."""
        return START_S + sum(OVERHEAD_S + self._measured_s(plan, number == self.slow) for number in tests)

    def _measured_s(self, plan: BlockPlan, is_slow: bool) -> float:  # noqa: FBT001 - local
        return seconds(plan, *self.calls_s(is_slow))

    def observe(self, stage: Stage, asked: Sequence[Measurement], pairs: int, doubles: int) -> None:
        """Add pairs of so many double blocks."""
        values = {one: drawn(self.rng, int(one.test) % 2, pairs, 2 * doubles) for one in asked}
        if 0 <= self.slow < self.suite.tests and (here := Measurement(test=str(self.slow), label="")) in values:
            values[here] = values[here] + math.log1p(self.suite.change)
        done = len(self.evidence.pairs)
        more = [_pair(done + i + 1, stage, values, i) for i in range(pairs)]
        self.evidence = replace(self.evidence, pairs=(*self.evidence.pairs, *more))


@lru_cache
def seconds(plan: BlockPlan, *calls_s: float) -> float:
    """Return what one measurement takes."""
    return plan.seconds(calls_s)


@lru_cache
def recorded(workload: int, blocks: int) -> Values:
    """Return the values of recorded pairs of equal code, each of so many successive blocks."""
    with np.load(RECORDING, allow_pickle=False) as recording:
        medians = np.log(np.median(recording["duet_ns"][:, workload, :, :, COLD:], axis=-1))
        arms = list(recording["arms"])
    changes = medians[:, arms.index("A_prime")] - medians[:, arms.index("A")]
    starts = range(0, changes.shape[1] - blocks + 1, blocks)
    return np.concatenate([np.median(changes[:, start : start + blocks], axis=1) for start in starts])


def drawn(rng: np.random.Generator, workload: int, pairs: int, blocks: int) -> Values:
    """Draw pair values of equal code; the coin of each pair decides which side is which."""
    coins = rng.integers(0, 2, pairs) * 2 - 1
    return np.asarray(rng.choice(recorded(workload, blocks), pairs) * coins)


def _pair(number: int, stage: Stage, values: Mapping[Measurement, Values], at: int) -> Pair:
    observations = tuple(
        Observation(
            measurement=one,
            metric="latency",
            statistic="p50",
            baseline=ONCE,
            candidate=array("d", [math.exp(of_pairs[at])]),
        )
        for one, of_pairs in values.items()
    )
    return Pair(number=number, stage=stage, first="baseline", hash_seeds={}, assignments=(), observations=observations)


SUITES = (
    Suite(title="200 tests of 1 ms, one +10 %, 600 s", tests=200, call_s=1e-3, change=0.1, time_s=600),
    Suite(title="200 tests of 1 ms, equal code, 600 s", tests=200, call_s=1e-3, change=0.0, time_s=600),
    Suite(title="60 tests of 1 ms, one x3, 120 s", tests=60, call_s=1e-3, change=2.0, time_s=120),
    Suite(title="1000 tests of 1 ms, one +30 %, 1200 s", tests=1000, call_s=1e-3, change=0.3, time_s=1200),
    Suite(title="20 tests of 50 ms, one +10 %, 600 s", tests=20, call_s=0.05, change=0.1, time_s=600),
    Suite(title="10 tests of 0.1 ms, equal code, 600 s", tests=10, call_s=1e-4, change=0.0, time_s=600),
    Suite(title="1 test of 50 ms, x2, 600 s", tests=1, call_s=0.05, change=1.0, time_s=600),
    Suite(title="1 test of 50 ms, x24, 600 s", tests=1, call_s=0.05, change=23.0, time_s=600),
)


def lines(suite: Suite, builds: int, seed: int = 1) -> Iterator[str]:
    """Yield what became of so many builds of a suite."""
    rng, found, false, times, reached = np.random.default_rng(seed), 0, 0, list[float](), list[float]()
    for _ in range(builds):
        build = Build(suite=suite, rng=rng, slow=int(rng.integers(suite.tests)) if suite.change else -1)
        regressed = build.run()
        found += build.slow in regressed
        false += bool(regressed - {build.slow})
        times.append(build.clock_s)
        reached.append(1 - len(build.evidence.unreached) / suite.tests)
    yield suite.title
    if suite.change:
        yield f"  found  {share(found, builds)}"
    yield f"  false  {share(false, builds)}"
    seconds_taken = f"median {np.median(times):.0f} s, 95 % within {np.quantile(times, 0.95):.0f} s"
    yield f"  {seconds_taken}, {np.mean(reached):.0%} of the tests reached"


def main() -> None:
    """Print the table, with 99 % Clopper-Pearson intervals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="?", type=int, default=BUILDS, help="of a suite of up to 200 tests")
    asked = parser.parse_args()
    for suite in SUITES:
        for line in lines(suite, max(20, asked.builds * 200 // max(200, suite.tests))):
            print(line, flush=True)
