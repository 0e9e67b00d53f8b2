"""The timetable of a build: how long its tests take, and how many of them are compared next in the time that is left.

What does not fit into the time is split into groups that are screened and confirmed one after the other, so that
what is started gets a verdict. Groups are made of times and never of what the pairs say which side is slower.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_hwperf.core.block_plans import BlockPlan
from pytest_hwperf.core.screen import SCREEN_PAIRS
from pytest_hwperf.core.sequence import looks

# Of recorded calls, blocks differ more from each other than the calls of a block do: short ones tell as much.
PAIR_PLAN = BlockPlan(
    doubles=12,
    block_s=0.006,
    warm_block_s=0.003,
    calls=10,
    long_block_s=0.06,
    cold_calls=3,
    longest_s=12.0,
    longest_apart_s=1.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Screening:
    """How a build is screened: what fails nothing may be coarser than what does."""

    doubles: int  # double blocks at most

    def plan(self, plan: BlockPlan) -> BlockPlan:
        """Return how finely the pairs of this screen take turns, where those of the confirmation do so by `plan`."""
        return replace(plan, doubles=min(self.doubles, plan.doubles))


REHEARSAL_PLAN = replace(PAIR_PLAN, doubles=1, warm_blocks=4, warm_s=0.5)  # its times decide nothing
FINE, COARSE = Screening(doubles=6), Screening(doubles=2)


def serial_plan(plan: BlockPlan) -> BlockPlan:
    """Return how one side at a time goes through its turns: six double blocks at most, of which none ends early."""
    return FINE.plan(plan)


_WHOLE = 0.8  # of the time that is left, which all tests may be expected to take: an expectation may be wrong
_SOON_S = 150.0  # fine screens are taken where all tests need no longer
_ONE_GROUP = 1 / 3  # of the time that is left, which one group of all tests may take: a machine may slow down
_GROUP = 0.25  # the same of one group among several
_SUSPECTS = 0.05  # of equal tests: 0 to 10 %, by recorded pairs of five workloads
_CONFIRMED = 0.25  # of the time that is reserved for confirmations, which equal code takes
_LEAST_GROUP_S = 45.0  # of one group: each starts pairs of its own


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
        """Return what it takes by a plan."""
        plan, processes = (serial_plan(plan), 2) if self.is_serial else (plan, 1)
        return self.beside_s + sum(
            plan.seconds(
                one.calls_s, needed=one.needed, margin=0.0 if self.is_serial else one.margin, processes=processes
            )
            for one in self.measurements
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """How long the tests of a build take."""

    start_s: float  # of a pair, until its first test
    serial_start_s: float = 0.0  # the same of four processes, one after the other
    tests: Sequence[TestTime]  # in the order in which they are compared
    alpha: float  # false-alarm rate of the build
    plan: BlockPlan = PAIR_PLAN  # of the confirmation
    pace: float = 1.0  # what pairs take, among what they were expected to take
    at_once: int = 1  # pairs side by side

    def screening(self, left_s: float) -> Screening:
        """Return how tests are screened: more than four turns of each side are taken where all are over soon."""
        return FINE if self.needed_s(self.tests, FINE) <= min(_WHOLE * left_s, _SOON_S) else COARSE

    def screen_s(self, tests: Sequence[TestTime], screening: Screening, seen: Mapping[str, int] | None = None) -> float:
        """Return what the screen of some tests is expected to take, without the pairs that each has been seen in."""
        left = {one.test: max(0, SCREEN_PAIRS - (seen or {}).get(one.test, 0)) for one in tests}
        return self._pairs_s(tests, left, screening.plan(self.plan))

    def usual_s(self, screening: Screening) -> float:
        """Return what all tests take as a rule: the first look needs no more than some of them."""
        screen_s = self.pace * self.screen_s(self.tests, screening)
        return screen_s + _CONFIRMED * (self.needed_s(self.tests, screening) - screen_s)

    def needed_s(self, tests: Sequence[TestTime], screening: Screening, seen: Mapping[str, int] | None = None) -> float:
        """Return what some tests are expected to take: what is left of their screen, and fresh pairs for suspects."""
        asked = sum(one.hypotheses for one in tests)
        suspects = 1 + math.floor(_SUSPECTS * asked)
        pairs = looks(suspects, self.alpha)[suspects > 1]  # what is slower is decided at the first look, as a rule
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
        for is_serial, start_s, beside in ((False, self.start_s, self.at_once), (True, self.serial_start_s, 1)):
            rounds = [(one, math.ceil(pairs[one.test] / beside)) for one in tests if one.is_serial == is_serial]
            starts = max((count for _, count in rounds), default=0)
            seconds += starts * start_s + share * sum(count * one.pair_s(plan) for one, count in rounds if count)
        return seconds

    def next_group(self, done: int, left_s: float, screening: Screening, seen: Mapping[str, int] | None = None) -> int:
        """Return how many tests are compared next: all that are left, or a part that fits; 0: no time for any."""
        left = self.tests[done:]
        if self.needed_s(left, screening, seen) <= _ONE_GROUP * left_s:
            return len(left)
        limits = (max(_GROUP * left_s, min(_LEAST_GROUP_S, left_s / 2)), _WHOLE * left_s, left_s)
        return next(filter(None, (self._fitting(left, limit, screening, seen) for limit in limits)), int(not done))

    def shortened(self, tests: Sequence[TestTime], left_s: float, screening: Screening, seen: Mapping[str, int]) -> int:
        """Return with how many of its first tests a group goes on that will not be over in time; at least one."""
        if self.needed_s(tests, screening, seen) <= left_s:
            return len(tests)
        return max(1, self._fitting(tests, _WHOLE * left_s, screening, seen))

    def _fitting(
        self, tests: Sequence[TestTime], seconds: float, screening: Screening, seen: Mapping[str, int] | None
    ) -> int:
        """Return how many of the first tests are expected to take no longer."""
        fitting, beyond = 0, len(tests) + 1
        while beyond - fitting > 1:
            middle = (fitting + beyond) // 2
            if self.needed_s(tests[:middle], screening, seen) <= seconds:
                fitting = middle
            else:
                beyond = middle
        return fitting
