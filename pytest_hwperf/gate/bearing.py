"""Tests that a process of the candidate alone was lost in: whether that repeats, so that the test has become worse.

Fresh processes of both sides make as many calls as there were before the loss, one process at a time. Each pair of them
is a sign: under equal code a process of either side is lost as easily as one of the other.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.records.evidence import FixedSample, Hypothesis, Measurement, Side
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.metrics import CALL_FAILURES
from pytest_hwperf.records.units import counted
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.stats.pairs.hypotheses import SIDES, Questions, Rehearsal, processes_needed

_LOST = frozenset({"lost", "lost, logged", "no value"})  # kinds of reasons that name the side that was lost


def lost_by_candidate(questions: Questions, rehearsal: Rehearsal) -> dict[str, int]:
    """Return each test that the candidate alone does not bear, and after how many calls at most; 0: very few."""
    found = dict[str, int]()
    for node, (_, why) in questions.tests.items():
        ended = rehearsal.outcomes.get(node, {})
        sides = [ended[side] for side in SIDES if side in ended]
        if why is not None and is_loss_of_candidate(why):
            found[node] = calls_of(why)
        elif len(sides) == len(SIDES) and sides[0].outcome == "passed" and sides[1].fails_again:
            found[node] = 0
    return found


def is_loss_of_candidate(why: Statement) -> bool:
    """Whether a reason is that a process of the candidate was lost in the middle of its calls."""
    return why.kind in _LOST and why.texts.get("side") == "candidate"


def calls_of(why: Statement) -> int:
    """Return the calls that a lost process had been asked for."""
    return round(why.numbers.get("calls", 0))


@dataclass(slots=True, kw_only=True)
class Bearing:
    """Lets fresh processes of both sides make the same number of calls."""

    bear: Callable[[Side, str, int], PairTrace]  # side, node id and calls → what its process has shown
    random: Random
    in_time: Callable[[], bool]
    progress: Callable[[Progress], None] = lambda _: None

    def samples(self, suspects: Mapping[str, int], family: int, alpha: float) -> Iterator[FixedSample]:
        """Yield a sample of each suspect in which every process of the candidate fails, and none of the baseline."""
        needed = processes_needed(family + len(suspects), alpha)
        for node, calls in suspects.items():
            if (found := self._found(node, calls, needed)) is not None:
                yield found

    def _found(self, node: str, calls: int, needed: int) -> FixedSample | None:
        """Ask pairs of processes until one does not fail as the first did; None where one does not."""
        why, label = "", ""
        for pair in range(needed):
            self.progress(Progress(stage="failures", pair=pair + 1, of=needed, test=node))
            for side in self.random.sample(SIDES, len(SIDES)):
                if not self.in_time():
                    return None
                trace = self.bear(side, node, calls)
                failure = _failure(trace, side, node)
                if failure is None or bool(failure) != (side == "candidate"):
                    return None
                why = why or failure
                label = next((one.label for one in reversed(trace.facts) if one.test == node), label)
        asked = f"within {counted(calls, 'call')}" if calls else "at once"
        return FixedSample(
            hypothesis=Hypothesis(
                measurement=Measurement(test=node, label=label),
                margin=Margin(metric=CALL_FAILURES, statistic="p50", size=0.0),
                better="lower",
            ),
            per="fresh process",
            baseline=array("d", [0.0] * needed),
            candidate=array("d", [1.0] * needed),
            warnings=(f"{asked}: {why}",),
        )


def _failure(trace: PairTrace, side: Side, node: str) -> str | None:
    """Return how a process failed, "" where it bore its calls; None where nothing follows from its end."""
    if trace.lost is not None:
        is_own = trace.lost.texts.get("side") == side and not trace.is_cut_off
        return trace.lost.texts["why"].removeprefix(f"{side}: ") if is_own and trace.unfinished == node else None
    ended = trace.outcomes.get(node, {}).get(side)
    if ended is None:
        return None
    if ended.fails_again:
        return ended.reason
    return "" if ended.outcome == "passed" else None
