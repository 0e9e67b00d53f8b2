"""The schedule of a build: from what its rehearsal took, how its tests are screened and which are compared next."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from pytest_hwperf.core.block_plans import BlockPlan
from pytest_hwperf.core.completeness import rounded_up
from pytest_hwperf.core.evidence import Evidence, Hypothesis, Measurement
from pytest_hwperf.core.metrics import MEDIAN_LATENCY, metric_of
from pytest_hwperf.core.paired import least_calls
from pytest_hwperf.core.screen import SCREEN_PAIRS
from pytest_hwperf.core.timetable import REHEARSAL_PLAN, TestTime, Timetable
from pytest_hwperf.core.units import counted
from pytest_hwperf.pairs.interleaving import ENERGY_WINDOW_S
from pytest_hwperf.pairs.lockstep import PairTrace

_SHORTEST_S = 1e-9  # that a call takes
_TWICE = 2  # as many processes of each side, where one side is alive at a time, as in its rehearsal
_LEAST_START = 0.1  # of what the start of the rehearsal took, which the start of any pair takes
_SHORTEST_PACE = 0.5  # pairs may be quicker than expected, by so much at most


class GroupSchedule:
    """Plans the groups of one build."""

    def __init__(  # noqa: PLR0913 - a build, and what its pairs have in common
        self,
        hypotheses: Sequence[Hypothesis],
        trace: PairTrace,
        alpha: float,
        plan: BlockPlan,
        left_s: float,
        *,
        at_once: int = 1,
        spared_s: float = 0.0,
    ) -> None:
        """Read the rehearsal of `hypotheses`, of which those of a test follow each other.

        Args:
            hypotheses: of the build.
            trace: of the rehearsal.
            alpha: false-alarm rate of the build.
            plan: of the turns in the confirmation.
            left_s: of the time that is given.
            at_once: pairs that run side by side.
            spared_s: of the start of a pair, which the rehearsal took and further pairs do not.
        """
        self._counts = Counter(one.measurement.test for one in hypotheses)
        times = [_time(node, hypotheses, trace) for node in self._counts]
        self._table = Timetable(
            start_s=max((trace.start_s or 0.0) - spared_s, _LEAST_START * (trace.start_s or 0.0)),
            serial_start_s=_TWICE * trace.apart.start_s,
            tests=times,
            alpha=alpha,
            plan=plan,
            at_once=at_once,
        )
        self.screening = self._table.screening(left_s)
        self._left_s = left_s

    @property
    def needed_s(self) -> float:
        """How long all tests are expected to take."""
        return self._table.needed_s(self._table.tests, self.screening)

    def next_group(self, evidence: Evidence, left_s: float, screened_s: float) -> int:
        """Return how many hypotheses are asked next, 0 where there is no time for any; see `pairs.conductor`."""
        done = len({one.measurement.test for one in evidence.hypotheses[: sum(evidence.groups)]})
        pace = self._pace(evidence.groups, screened_s)
        size = replace(self._table, pace=pace).next_group(done, left_s, self.screening)
        return sum(list(self._counts.values())[done : done + size])

    def _pace(self, groups: Sequence[int], screened_s: float) -> float:
        """Return what the screens so far took, among what they were expected to take."""
        expected_s = 0.0
        at = 0
        for size in groups:
            expected_s += self._table.screen_s(self._table.tests[at : at + size], self.screening)
            at += size
        return max(_SHORTEST_PACE, screened_s / expected_s) if expected_s else 1.0

    @property
    def said(self) -> str:
        """Say how long the comparison is expected to take, and what is done where the time is short."""
        tests = counted(len(self._counts), "test")
        text = f"comparing {tests} takes about {rounded_up(self.needed_s)} s of the {rounded_up(self._left_s)} s left"
        parts = []
        if self._table.at_once > 1:
            parts.append(f"{self._table.at_once} pairs run side by side")
        if self.screening.pairs < SCREEN_PAIRS:
            parts.append(f"so that {self.screening.pairs} pairs have to do for what shows no slowdown")
        if self.needed_s > self._left_s:
            parts.append("they are compared in groups, and the last ones may not be reached")
        return "; ".join([text, *parts])


def _time(node: str, hypotheses: Sequence[Hypothesis], trace: PairTrace) -> TestTime:
    """Return what a test takes in a pair, by its rehearsal."""
    asked = [one for one in hypotheses if one.measurement.test == node]
    calls_s = tuple(
        (*medians, max(least_calls(one.margin.statistic) for one in asked if one.measurement == here))
        for here in dict.fromkeys(one.measurement for one in asked)
        for medians in _medians(here, trace)
    )
    starts = [*sorted(trace.reached_s.values()), trace.wall_s - trace.apart.wall_s]
    taken_s = {begin: end - begin for begin, end in pairwise(starts)}.get(trace.reached_s.get(node, 0.0), 0.0)
    taken_s = trace.apart.tests_s.get(node, taken_s)
    rehearsed_s = sum(REHEARSAL_PLAN.seconds((one, other)) for one, other, _ in calls_s)
    windows = sum(metric_of(one.margin.metric).in_turns == "window" for one in asked)
    is_serial = node in trace.apart.tests_s
    return TestTime(
        test=node,
        hypotheses=len(asked),
        beside_s=(max(0.0, taken_s - rehearsed_s) + 2 * windows * ENERGY_WINDOW_S) * (_TWICE if is_serial else 1),
        calls_s=calls_s,
        is_serial=is_serial,
    )


def _medians(measurement: Measurement, trace: PairTrace) -> Iterator[tuple[float, float]]:
    """Yield what a call of each side took; nothing where it was not measured."""
    interleaving = trace.interleavings.get(measurement)
    for one in interleaving.observations if interleaving else ():
        if (one.metric, one.statistic) == MEDIAN_LATENCY:
            yield max(median(one.baseline), _SHORTEST_S), max(median(one.candidate), _SHORTEST_S)
