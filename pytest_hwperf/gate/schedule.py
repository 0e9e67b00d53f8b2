"""The schedule of a build: from what its rehearsal took, how its tests are screened and which are compared next."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from statistics import median

from pytest_hwperf.gate.pair.interleaving import ENERGY_WINDOW_S
from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.records.evidence import Evidence, Hypothesis, Measurement, Pair
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, metric_of
from pytest_hwperf.records.units import counted
from pytest_hwperf.stats.pairs.paired import least_calls
from pytest_hwperf.stats.pairs.sequence import LONG_SCREEN, SCREEN_PAIRS, next_step
from pytest_hwperf.stats.pairs.timetable import (
    REHEARSAL_PLAN,
    RESERVE,
    BlockPlan,
    CallTimes,
    TestTime,
    Timetable,
    rounded_up,
)

_SHORTEST_S = 1e-9  # that a call takes
_TWICE = 2  # as many processes of each side, where one side is alive at a time, as in its rehearsal
_LEAST_START = 0.1  # of what the start of the rehearsal took, which the start of any pair takes
_FAR, _SLOWER = 1.5, 1.1  # times the margin, from which a test needs no screen, and is asked before others
_SHORTEST_PACE = 0.25  # pairs may be quicker than expected, by so much at most: the rehearsal converts models anew


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
        explain_s: float = 0.0,
    ) -> None:
        """Read the rehearsal of `hypotheses`, of which those of a test follow each other."""
        times = [_time(node, hypotheses, trace) for node in dict.fromkeys(one.measurement.test for one in hypotheses)]
        self.clear = tuple(one for one in hypotheses if _is_slower(one, trace, _FAR))
        self._clear = len({one.measurement.test for one in self.clear})
        screened = {one.measurement.test for one in hypotheses if one not in self.clear}
        self._known = {one.test: LONG_SCREEN for one in times if one.test not in screened}  # as after a whole screen
        self._table = Timetable(
            start_s=max((trace.start_s or 0.0) - spared_s, _LEAST_START * (trace.start_s or 0.0)),
            serial_start_s=_TWICE * trace.apart_start_s,
            ahead_s=spared_s,
            tests=times,
            alpha=alpha,
            plan=plan,
            at_once=at_once,
        )
        self.screening, self._explain_s = self._table.screening(left_s), explain_s

    def next_group(self, evidence: Evidence, left_s: float, screened_s: float) -> int:
        """Return how many hypotheses are asked next, 0 where there is no time for any; see `gate.conductor`."""
        done = len(self._begun(evidence, len(evidence.groups)))
        table, seen = self._paced(evidence, screened_s), self._screened(evidence)
        size = table.next_group(done, left_s, self.screening, seen)
        if done < self._clear:  # what is clear is decided before all else
            size = min(size, self._clear - done)
        return _asked(self._table.tests[done : done + size])

    def shortened(self, evidence: Evidence, left_s: float, screened_s: float) -> int:
        """Return with how many hypotheses the last group goes on, which is being screened; see `gate.conductor`."""
        before, seen = len(self._begun(evidence, len(evidence.groups) - 1)), self._screened(evidence)
        tests = self._begun(evidence, len(evidence.groups))[before:]
        if not any(seen[one.test] for one in tests):
            return evidence.groups[-1]
        waiting = {one.test for one in next_step(evidence).measurements}
        seen |= {one.test: LONG_SCREEN for one in tests if one.test not in waiting}
        size = self._paced(evidence, screened_s).shortened(tests, left_s, self.screening, seen)
        return _asked(tests[:size])

    def _screened(self, evidence: Evidence) -> Counter[str]:
        """Return test → pairs of its screen that it was in."""
        pairs = (pair for pair in evidence.pairs if pair.stage == "screen")
        return Counter(self._known) + Counter(test for pair in pairs for test in _tests_of(pair))

    def _begun(self, evidence: Evidence, groups: int) -> Sequence[TestTime]:
        """Return the tests of the first groups."""
        hypotheses = evidence.hypotheses[: sum(evidence.groups[:groups])]
        return self._table.tests[: len({one.measurement.test for one in hypotheses})]

    def _paced(self, evidence: Evidence, screened_s: float) -> Timetable:
        """Return the timetable by what the pairs of screens took, among what these were expected to take."""
        times, most = {one.test: one for one in self._table.tests}, SCREEN_PAIRS - 1
        expected_s = 0.0
        for pair in evidence.pairs:
            if pair.lost:
                continue
            tests = [times[test] for test in _tests_of(pair) if pair.stage == "screen"]
            beside = 1 if all(one.is_serial for one in tests) else self._table.at_once
            expected_s += self._table.screen_s(tests, self.screening, dict.fromkeys(times, most)) / beside
        pace = max(_SHORTEST_PACE, screened_s / expected_s) if expected_s else 1.0
        return replace(self._table, pace=pace)

    def needed_s(self, evidence: Evidence, screened_s: float) -> float:
        """Return about how long the pairs of all tests take, with a reserve."""
        return RESERVE * self._paced(evidence, screened_s).needed_s(self._table.tests, self.screening, self._known)

    def is_typical(self, evidence: Evidence) -> bool:
        """Whether other tests can be judged by the group that was begun last: not by a few that are clear."""
        return len(self._begun(evidence, len(evidence.groups))) > self._clear or self._clear == len(self._table.tests)

    def said(self, evidence: Evidence, left_s: float, screened_s: float) -> str:
        """Say how long the comparison takes of what was left before it, and what is done where the time is short."""
        table, tests = self._paced(evidence, screened_s), self._table.tests
        most_s = table.needed_s(tests, self.screening, self._known)
        about_s = rounded_up(most_s if self._clear else table.usual_s(self.screening))  # the clear is confirmed
        parts = [f"comparing {counted(len(tests), 'test')} takes about {about_s} s of the {rounded_up(left_s)} s left"]
        if table.at_once > 1:
            parts.append(f"{table.at_once} pairs run side by side")
        if most_s > left_s:
            parts.append("they are compared in groups, and the last ones may not be reached")
        if self._explain_s:
            parts.append(f"explaining a regression takes about {rounded_up(self._explain_s)} s more")
        return "; ".join(parts)


def _asked(tests: Sequence[TestTime]) -> int:
    return sum(one.hypotheses for one in tests)


def _tests_of(pair: Pair) -> set[str]:
    """Return the tests of which a pair has observed something."""
    return {one.measurement.test for one in pair.observations}


def clearest_first(hypotheses: Sequence[Hypothesis], trace: PairTrace) -> list[Hypothesis]:
    """Return hypotheses in an order in which tests come first that a rehearsal shows to be far slower, then slower.

    Its pair is none of those that decide; so it may choose what these are asked first, and what is left out where the
    time is short.
    """
    slower = [{one.measurement.test for one in hypotheses if _is_slower(one, trace, size)} for size in (_FAR, _SLOWER)]
    return sorted(hypotheses, key=lambda one: [one.measurement.test not in tests for tests in slower])


def _is_slower(hypothesis: Hypothesis, trace: PairTrace, times: float) -> bool:
    return hypothesis.margin.key == MEDIAN_LATENCY and any(
        one.calls_s[1] > times * (1 + hypothesis.margin.size) * one.calls_s[0]
        for one in _times(hypothesis.measurement, [hypothesis], trace)
    )


def _time(node: str, hypotheses: Sequence[Hypothesis], trace: PairTrace) -> TestTime:
    """Return what a test takes in a pair, by its rehearsal."""
    asked = [one for one in hypotheses if one.measurement.test == node]
    here = dict.fromkeys(one.measurement for one in asked)
    measured = tuple(chain.from_iterable(_times(one, asked, trace) for one in here))
    starts = [*sorted(trace.reached_s.values()), trace.wall_s - trace.apart_wall_s]
    taken_s = {begin: end - begin for begin, end in pairwise(starts)}.get(trace.reached_s.get(node, 0.0), 0.0)
    taken_s = trace.apart.get(node, taken_s)
    rehearsed_s = sum(REHEARSAL_PLAN.seconds(one.calls_s) for one in measured)
    windows = sum(metric_of(one.margin.metric).in_turns == "window" for one in asked)
    is_serial = node in trace.apart
    return TestTime(
        test=node,
        hypotheses=len(asked),
        beside_s=(max(0.0, taken_s - rehearsed_s) + 2 * windows * ENERGY_WINDOW_S) * (_TWICE if is_serial else 1),
        measurements=measured,
        is_serial=is_serial,
    )


def _times(measurement: Measurement, asked: Sequence[Hypothesis], trace: PairTrace) -> Iterator[CallTimes]:
    """Yield what a call of each side took, and what is asked of it; nothing where it was not measured."""
    margins = [one.margin for one in asked if one.measurement == measurement]
    interleaving = trace.interleavings.get(measurement)
    for one in interleaving.observations if interleaving else ():
        if (one.metric, one.statistic) == MEDIAN_LATENCY:
            yield CallTimes(
                calls_s=(max(median(one.baseline), _SHORTEST_S), max(median(one.candidate), _SHORTEST_S)),
                needed=max(least_calls(margin.statistic) for margin in margins),
                margin=min(margin.size for margin in margins)
                if {one.key for one in margins} == {MEDIAN_LATENCY}
                else 0.0,
            )
