"""The timetable of a build: how finely pairs take turns, how long its tests take, how many are compared next.

What does not fit into the time is split into groups that are screened and confirmed one after the other, so that
what is started gets a verdict. Groups are made of times and never of what the pairs say which side is slower.
"""

import dataclasses
import math
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev

from pytest_hwperf.records.evidence import Evidence, Hypothesis
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted, some_of
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.pairs.sequence import LONG_SCREEN, SCREEN_P, SCREEN_PAIRS, decide, looks

_APART = 1.5  # times that the slower side takes, from which the sides are far apart
_USUAL_SPREAD = 0.008  # of changes from block to block, on an idle machine
_HANDOVER_S = 0.001  # from the end of a turn to the start of the next one: messages
_UNCOUNTED = 0.5  # turns of a side on a processor that is new to it
_REST_S = 0.001  # that a side waits after a block of its warm-up, until no thread is at work


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPlan:
    """How finely a pair takes turns; durations in seconds."""

    doubles: int = 6  # double blocks at most: four turns each, two of either side; fewer where calls are slow
    least: int = 2  # double blocks after which turns may end: the blocks so far agree well enough
    agree: float = 0.15  # of the margin: how well, as the standard error of their mean change
    longest_s: float = math.inf  # that all turns take, where one double block takes no longer
    longest_apart_s: float = math.inf  # the same where the sides are far apart: a few turns show that
    block_s: float = 0.015  # a block takes at least that
    calls: int = 20  # in a block at least, unless that would take longer than `long_block_s`
    long_block_s: float = 0.15
    cold_calls: int = 5  # dropped at the start of a block: caches, branch predictors and clocks were the other side's
    cold_calls_pool: int = 10  # the same where several threads have to be woken
    cold_share: float = 0.1  # dropped at least
    warm_block_s: float = 0.015  # of the warm-up
    warm_blocks: int = 12  # after so many the warm-up ends, steady or not
    warm_s: float = 1.0  # the same, in seconds a side
    steady_ratio: float = 1.10  # largest over smallest median of successive steady blocks
    batch_below_s: float = 20e-6  # shorter calls are timed in batches: reading the clock takes 60 ns
    batch_s: float = 100e-6
    patience_s: float = 10.0  # a block may take that, and three times its expected time
    first_block_s: float = 120.0  # the same where nothing is expected yet

    def paced(self) -> "BlockPlan":
        """Return the same for calls of a schedule: short pieces of one would have other queues than its whole."""
        whole = BlockPlan()
        longest = {one: max(getattr(self, one), getattr(whole, one)) for one in ("block_s", "calls", "long_block_s")}
        return dataclasses.replace(self, **longest)

    def doubles_of(self, calls_s: Sequence[float]) -> int:
        """Return how many double blocks a measurement has: it depends on both sides alike."""
        calls, _ = self.block(math.sqrt(math.prod(calls_s)), pool=False)
        longest_s = self.longest_apart_s if max(calls_s) >= _APART * min(calls_s) else self.longest_s
        return min(self.doubles, max(1, int(min(self.doubles, longest_s / (2 * calls * sum(calls_s))))))

    def is_enough(self, changes: Sequence[float], margin: float) -> bool:
        """Whether the blocks so far tell a change well enough, by their spread alone.

        Which side is slower, and by how much, does not matter: pairs of equal code stay symmetric.
        """
        if not margin or len(changes) < 2 * self.least:
            return False
        return stdev(changes) <= self.agree * math.log1p(margin) * math.sqrt(len(changes))

    def usual_doubles(self, calls_s: Sequence[float], margin: float) -> int:
        """Return how many double blocks a measurement takes as a rule; arguments as of the two methods above."""
        most = self.doubles_of(calls_s)
        if not margin:
            return most
        usual = math.ceil((_USUAL_SPREAD / (self.agree * math.log1p(margin))) ** 2 / 2)
        return min(most, max(self.least, usual))

    def block(self, value_s: float, *, pool: bool, needed: int = 0) -> tuple[int, int]:
        """Return the timed values of a block, and how many of its first are dropped as cold."""
        cold = self.cold_calls_pool if pool else self.cold_calls
        wished = max(self.calls, 3 * cold)
        count = max(math.ceil(self.block_s / value_s), min(wished, math.ceil(self.long_block_s / value_s)))
        cold = max(cold, math.ceil(self.cold_share * count))
        if count < 2 * cold:  # slow calls: a cold one is hardly slower than the others
            cold = count // 4
        return max(count, needed + cold), cold

    def seconds(self, calls_s: Sequence[float], needed: int = 0, margin: float = 0.0, processes: int = 1) -> float:
        """Return about how long a measurement of both sides takes, warm-up included."""
        counted = 2 * self.usual_doubles(calls_s, 0.0 if needed else margin)
        turn, _ = self.block(math.sqrt(math.prod(calls_s)), pool=False, needed=math.ceil(needed / counted))
        turns, total_s = counted + (_UNCOUNTED if turn > 1 and processes == 1 else 0), 0.0
        for call_s in calls_s:  # the warm-up of a side takes one call, and two blocks that agree with it
            block_s = max(call_s, self.warm_block_s)
            blocks = min(2, self.warm_blocks - 1, math.ceil(max(0.0, self.warm_s - call_s) / block_s))
            warm_s = call_s + blocks * block_s + (1 + blocks) * (_REST_S + _HANDOVER_S)
            total_s += processes * warm_s + turns * (turn * call_s + _HANDOVER_S)
        return total_s


# Of recorded calls, blocks differ more from each other than the calls of a block do: short ones tell as much.
PAIR_PLAN = BlockPlan(
    doubles=12,
    block_s=0.006,
    warm_block_s=0.003,
    calls=10,
    long_block_s=0.06,
    cold_calls=3,
    longest_s=12.0,
    longest_apart_s=0.4,
)
REHEARSAL_PLAN = dataclasses.replace(PAIR_PLAN, doubles=1, warm_blocks=4, warm_s=0.5)  # its times decide nothing
_SHORT_BLOCK_S, _FEW_CALLS = 0.004, 8  # of a coarse screen
FINE, COARSE = 6, 2  # double blocks of a screen at most: what fails nothing may be coarser than what does


def screen_plan(plan: BlockPlan, doubles: int) -> BlockPlan:
    """Return how finely the pairs of a screen take turns, where those of the confirmation do so by `plan`."""
    doubles = min(doubles, plan.doubles)
    if doubles > COARSE:
        return dataclasses.replace(plan, doubles=doubles)
    return dataclasses.replace(
        plan, doubles=doubles, block_s=min(plan.block_s, _SHORT_BLOCK_S), calls=min(plan.calls, _FEW_CALLS)
    )


def serial_plan(plan: BlockPlan) -> BlockPlan:
    """Return how one side at a time goes through its turns: six double blocks at most, of which none ends early."""
    return screen_plan(plan, FINE)


_WHOLE = 0.8  # of the time that is left, which all tests may be expected to take: an expectation may be wrong
_SOON_S = 150.0  # fine screens are taken where all tests need no longer
_ONE_GROUP = 1 / 3  # of the time that is left, which one group of all tests may take: a machine may slow down
_GROUP = 0.25  # the same of one group among several
_SUSPECTS = 0.1  # of equal tests: 0 to 10 % by recorded pairs of five workloads, up to 20 % on a shared machine
_LEAST_GROUP_S = 90.0  # of one group: each starts pairs of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTimes:
    """What the turns of a measurement depend on; see `BlockPlan.seconds`."""

    calls_s: tuple[float, float]
    needed: int = 0
    margin: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TestTime:
    """How long one test takes in a pair; durations in seconds."""

    __test__ = False  # no test class of pytest

    test: str  # node id
    hypotheses: int  # about it
    beside_s: float  # its fixtures, and what pytest does
    measurements: tuple[CallTimes, ...]
    is_serial: bool = False  # whether a pair of it is four processes, one after the other

    def pair_s(self, plan: BlockPlan) -> float:
        plan, processes = (serial_plan(plan), 2) if self.is_serial else (plan, 1)
        return self.beside_s + sum(
            plan.seconds(one.calls_s, one.needed, 0.0 if self.is_serial else one.margin, processes)
            for one in self.measurements
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """How long the tests of a build take."""

    start_s: float  # of a pair, until its first test
    serial_start_s: float = 0.0  # the same of four processes, one after the other
    ahead_s: float = 0.0  # of the start of the next pair, while this one takes turns: none is over before
    tests: Sequence[TestTime]  # in the order in which they are compared
    alpha: float  # false-alarm rate of the build
    plan: BlockPlan = PAIR_PLAN  # of the confirmation
    pace: float = 1.0  # what pairs take, among what they were expected to take
    at_once: int = 1  # pairs side by side

    def screening(self, left_s: float) -> int:
        """Return how tests are screened: more than four turns of each side are taken where all are over soon."""
        return FINE if self.needed_s(self.tests, FINE) <= min(_WHOLE * left_s, _SOON_S) else COARSE

    def screen_s(self, tests: Sequence[TestTime], screening: int, seen: Mapping[str, int] | None = None) -> float:
        """Return what the screen of some tests is expected to take, without the pairs that each has been seen in."""
        done = {one.test: (seen or {}).get(one.test, 0) for one in tests}
        left = {test: (SCREEN_PAIRS if pairs < SCREEN_PAIRS else LONG_SCREEN) - pairs for test, pairs in done.items()}
        return self._pairs_s(tests, left, screen_plan(self.plan, screening))

    def usual_s(self, screening: int) -> float:
        """Return what all tests take as a rule: between a screen alone and the suspects that chance may make.

        The geometric mean is equally far from both as a factor.
        """
        screen_s = self.pace * self.screen_s(self.tests, screening)
        return math.sqrt(screen_s * self.needed_s(self.tests, screening))

    def needed_s(self, tests: Sequence[TestTime], screening: int, seen: Mapping[str, int] | None = None) -> float:
        """Return what some tests are expected to take: what is left of their screen, and fresh pairs for suspects."""
        asked = sum(one.hypotheses for one in tests)
        suspects = 1 + math.floor(_SUSPECTS * asked)
        pairs, *_ = looks(suspects, self.alpha)  # what is slower is decided at the first look, as a rule
        each = {one.test: pairs for one in tests}
        confirming_s = self._pairs_s(tests, each, self.plan, suspects / max(1, asked))
        return self.pace * (self.screen_s(tests, screening, seen) + confirming_s)

    def _pairs_s(
        self, tests: Sequence[TestTime], pairs: Mapping[str, int], plan: BlockPlan, share: float = 1.0
    ) -> float:
        """Return what pairs of some tests, or of a share of them, take; those of one kind share their processes.

        Pairs that run side by side take as long as one; with one side at a time there are none.
        """
        seconds = 0.0
        kinds = (False, self.start_s, self.ahead_s, self.at_once), (True, self.serial_start_s, 0.0, 1)
        for is_serial, start_s, least_s, beside in kinds:
            rounds = [(one, math.ceil(pairs[one.test] / beside)) for one in tests if one.is_serial == is_serial]
            starts = max((count for _, count in rounds), default=0)
            turns_s = share * sum(count * one.pair_s(plan) for one, count in rounds if count)
            seconds += max(starts * least_s, starts * start_s + turns_s)
        return seconds

    def next_group(self, done: int, left_s: float, screening: int, seen: Mapping[str, int] | None = None) -> int:
        """Return how many tests are compared next: all that are left, or a part that fits; 0: no time for any."""
        left = self.tests[done:]
        if self.needed_s(left, screening, seen) <= _ONE_GROUP * left_s:
            return len(left)
        limits = (max(_GROUP * left_s, min(_LEAST_GROUP_S, _ONE_GROUP * left_s)), _WHOLE * left_s, left_s)
        return next(filter(None, (self._fitting(left, limit, screening, seen) for limit in limits)), int(not done))

    def shortened(self, tests: Sequence[TestTime], left_s: float, screening: int, seen: Mapping[str, int]) -> int:
        """Return with how many of its first tests a group goes on that will not be over in time; at least one."""
        if self.needed_s(tests, screening, seen) <= left_s:
            return len(tests)
        return max(1, self._fitting(tests, _WHOLE * left_s, screening, seen))

    def _fitting(
        self, tests: Sequence[TestTime], seconds: float, screening: int, seen: Mapping[str, int] | None
    ) -> int:
        """Return how many of the first tests are expected to take no longer."""
        counts = range(1, len(tests) + 1)
        return bisect_right(counts, seconds, key=lambda count: self.needed_s(tests[:count], screening, seen))


LONGEST_GATE_S = 24 * 3600  # that --hwperf-time-limit takes

_PAIR = 2.0  # what a pair takes, in rehearsals of the same tests: its warm-up and its turns are longer
RESERVE = 1.25  # pairs differ, and one may have to be repeated


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness:
    """What became of the measured tests of a build."""

    tests: int  # all of them
    compared: frozenset[str]  # node ids of those of which at least one statistic was compared
    unfinished: frozenset[str]  # of those about which the pairs ended before something was decided
    regressed: bool  # whether any statistic was found to be worse
    stopped: Statement | None  # why the pairs ended early
    untouched: frozenset[str] = frozenset()  # of those that nothing reaches of what has changed: no pair is needed
    unreached: frozenset[str] = frozenset()  # of the unfinished ones: in no group that was begun

    @property
    def decided(self) -> int:
        """Number of tests that were compared, and of which no early end left anything open."""
        return len(self.compared - self.unfinished)

    @property
    def is_empty(self) -> bool:
        """Whether no test was decided and none was found to be worse, so that passing would mean nothing."""
        return not self.decided and not self.regressed and not self.untouched

    @property
    def shortfall(self) -> str:
        """Say how many tests were decided, where the pairs ended before they all were; "" elsewhere."""
        if not self.unfinished:
            return ""
        tests, late = counted(self.tests, "test"), len(self.unfinished - self.unreached)
        names = some_of(sorted(map(visible, self.unreached)))
        parts = [f"{self.decided} of {tests} decided"]
        parts += [f"{late} not"] if late or not self.unreached else []
        parts += [f"{len(self.unreached)} not reached ({names})"] if self.unreached else []
        return f"{', '.join(parts)}: {self.stopped}"


def completeness(
    tests: Collection[str],
    evidence: Evidence,
    comparisons: Mapping[Hypothesis, Comparison],
    untouched: Collection[str] = (),
) -> Completeness:
    """Sort the tests of a build by what its pairs have decided."""
    compared = {one.measurement.test for one, found in comparisons.items() if found.outcome != "not comparable"}
    waiting = [one for one in evidence.hypotheses if one not in comparisons and one not in evidence.dropped]
    if evidence.stopped is not None:
        # Further pairs are for equivalence alone: whether something is slower had been answered before them.
        asked = decide(replace(evidence, until_equivalent=False)) if evidence.until_equivalent else comparisons
        waiting += [one for one, found in asked.items() if found.cause == evidence.stopped]
    return Completeness(
        tests=len(tests),
        compared=frozenset(compared),
        unfinished=frozenset(one.measurement.test for one in waiting),
        unreached=evidence.unreached_tests,
        regressed=any(found.outcome == "regressed" for found in comparisons.values()),
        stopped=evidence.stopped,
        untouched=frozenset(untouched),
    )


def seconds_needed_from_rehearsal(
    tests: int, rehearsed: int, alpha: float, seconds: Mapping[str, float], pair_s: float, start_s: float | None
) -> float:
    """Return about how long a build would take whose rehearsal was cut off: at least that, where no test was reached.

    It is its screen, and fresh pairs for what chance lets look slower. A pair takes twice a rehearsal; of some tests
    it counts as a part.
    """
    whole, before = pair_s, seconds.get("checkout", 0.0) + seconds["rehearsal"] - pair_s
    if start_s is not None:
        whole = start_s + (pair_s - start_s) * max(1.0, tests / (rehearsed + 1))
    suspects = 1 + math.floor(SCREEN_P * max(1, tests))
    confirming = looks(suspects, alpha)[-1] * suspects / max(1, tests)
    return before + whole * (1 + _PAIR * RESERVE * (SCREEN_PAIRS + confirming))


def more_time(limit_s: float, seconds: float, *, least: bool = False) -> str:
    """Say how long a build takes that has exceeded its limit, and what to type."""
    needed = rounded_up(max(seconds, limit_s + 1))
    option = f"Give --hwperf-time-limit={needed}, or select" if needed <= LONGEST_GATE_S else "Select"
    return f"{'at least' if least else 'about'} {needed} s are needed. {option} fewer tests with -k"


def rounded_up(seconds: float) -> int:
    """Return whole seconds, rounded up to two digits: 1260 becomes 1300."""
    whole = max(1, math.ceil(seconds))
    step = int(10 ** max(0, len(str(whole)) - 2))
    return math.ceil(whole / step) * step
