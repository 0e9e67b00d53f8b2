"""How finely a pair takes turns, how many calls a turn has, and how long a measurement takes by it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import stdev

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
        return replace(
            self,
            block_s=max(self.block_s, whole.block_s),
            calls=max(self.calls, whole.calls),
            long_block_s=max(self.long_block_s, whole.long_block_s),
        )

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
        turns = counted + (_UNCOUNTED if turn > 1 and processes == 1 else 0)
        return sum(processes * self._warm_up_s(one) + turns * (turn * one + _HANDOVER_S) for one in calls_s)

    def _warm_up_s(self, call_s: float) -> float:
        """Return what the warm-up of one side takes: one call, and two blocks that agree with it."""
        block_s = max(call_s, self.warm_block_s)
        blocks = min(2, self.warm_blocks - 1, math.ceil(max(0.0, self.warm_s - call_s) / block_s))
        return call_s + blocks * block_s + (1 + blocks) * (_REST_S + _HANDOVER_S)
