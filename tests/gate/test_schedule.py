"""The schedule of a build: read off its rehearsal, and corrected by what its pairs take."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from fakes import gates
from fakes.clocks import HandClock

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.pair.interleaving import Interleaving
from pytest_hwperf.gate.pair.lockstep import PairTrace, Program
from pytest_hwperf.gate.schedule import GroupSchedule, clearest_first
from pytest_hwperf.records.evidence import Assignment, Evidence, Hypothesis, Pair
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.pairs.sequence import LONG_SCREEN, Step
from pytest_hwperf.stats.pairs.timetable import COARSE, PAIR_PLAN, REHEARSAL_PLAN, rounded_up, screen_plan

MILLI = 1e-3


def asked(count: int, *, energy: bool = False) -> tuple[Hypothesis, ...]:
    keys = [("latency", 0.02, "p50"), *[("energy", 0.05, "mean")] * energy]
    return tuple(
        gates.asked(metric, size, test=str(number), statistic=statistic)
        for number in range(count)
        for metric, size, statistic in keys
    )


def rehearsed(hypotheses: Sequence[Hypothesis], test_s: float = 0.5) -> PairTrace:
    """Two seconds until the first test, and so many for each; calls of 1 ms."""
    first = {one.measurement: one for one in hypotheses if one.margin.metric == "latency"}
    trace = PairTrace(wall_s=2 + len(first) * test_s)
    trace.reached_s = {one.test: 2 + number * test_s for number, one in enumerate(first)}
    for one, hypothesis in first.items():
        seen = gates.observed(hypothesis, [MILLI] * 2, [MILLI] * 2)
        assignment = Assignment(measurement=one, turns="BCCB")
        trace.interleavings[one] = Interleaving(assignment=assignment, observations=[seen])
    return trace


def screened(hypotheses: Sequence[Hypothesis]) -> Pair:
    seen = [gates.observed(one, [MILLI], [MILLI]) for one in hypotheses if one.margin.metric == "latency"]
    return gates.pair("screen", seen)


def schedule(count: int, left_s: float, *, energy: bool = False) -> GroupSchedule:
    hypotheses = asked(count, energy=energy)
    return GroupSchedule(hypotheses, rehearsed(hypotheses), 0.01, PAIR_PLAN, left_s)


def needed_s(of: GroupSchedule) -> float:
    """How long all tests are expected to take at most."""
    return of._table.needed_s(of._table.tests, of.screening)


def test_what_is_not_turns_in_the_rehearsal_stays_in_every_pair() -> None:
    """One test: six pairs of its screen, and eight that confirm it, each of 2 s and what is beside the turns."""
    beside_s = 0.5 - REHEARSAL_PLAN.seconds((MILLI, MILLI))
    found = schedule(1, 600.0)
    plan = screen_plan(PAIR_PLAN, found.screening)
    screen_s, confirm_s = (2 + beside_s + one.seconds((MILLI, MILLI), margin=0.02) for one in (plan, PAIR_PLAN))
    assert 6 * screen_s + 8 * confirm_s == pytest.approx(needed_s(found))
    planned = Evidence(alpha=0.01, hypotheses=asked(1), pairs=())
    assert "comparing 1 test takes about 25 s of the 600 s left" == found.said(planned, 600.0, 0.0)
    begun, pair_s = replace(planned, pairs=(screened(asked(1)),)), screen_s
    assert "comparing 1 test takes about 49 s of the 600 s left" == found.said(begun, 600 - 2 * pair_s, 2 * pair_s)


def test_what_a_lost_pair_has_observed_tells_no_pace() -> None:
    """Its time is that of the hang, and none of a screen."""
    found, begun = schedule(2, 600.0), Evidence(alpha=0.01, hypotheses=asked(2), pairs=(screened(asked(2)),))
    lost = replace(screened(asked(1)), lost=state("lost", why="was silent for 10 s"))
    also = replace(begun, pairs=(lost, *begun.pairs))
    assert found.said(begun, 500.0, 9.0) == found.said(also, 500.0, 9.0)


def test_pairs_side_by_side_take_the_time_of_one() -> None:
    """Three times two in the screen, and four times two that confirm."""
    hypotheses = asked(1)
    found = GroupSchedule(hypotheses, rehearsed(hypotheses), 0.01, PAIR_PLAN, 600.0, at_once=2)
    assert needed_s(schedule(1, 600.0)) == pytest.approx(2 * needed_s(found))
    said = found.said(Evidence(alpha=0.01, hypotheses=hypotheses, pairs=()), 600.0, 0.0)
    assert "comparing 1 test takes about 13 s of the 600 s left; 2 pairs run side by side" == said


def test_windows_of_energy_take_their_time() -> None:
    assert needed_s(schedule(1, 600.0, energy=True)) > needed_s(schedule(1, 600.0)) + 6 * 1.2


def test_a_test_that_was_not_measured_counts_with_what_it_took() -> None:
    hypotheses = asked(2)
    trace = rehearsed(hypotheses)
    trace.interleavings.clear()
    assert needed_s(GroupSchedule(hypotheses, trace, 0.01, PAIR_PLAN, 600.0)) > 6 * (2 + 2 * 0.5)


def test_groups_are_of_whole_tests_and_get_smaller_where_pairs_take_longer() -> None:
    hypotheses, found = asked(300, energy=True), schedule(300, 600.0, energy=True)
    evidence = Evidence(alpha=0.01, hypotheses=hypotheses, pairs=())
    first = found.next_group(evidence, 600.0, 0.0)
    begun = replace(evidence, pairs=(screened(hypotheses[:first]),) * 3, groups=(first,))
    assert 0 < first < 600
    assert 0 == first % 2
    assert found.next_group(begun, 600.0, 1000.0) < found.next_group(begun, 600.0, 1.0)
    assert "in groups, and the last ones may not be reached" in found.said(evidence, 600.0, 0.0)


def test_what_a_rehearsal_shows_to_be_far_slower_is_decided_first() -> None:
    """Of three tests the last takes twice as long and is a group of its own; the one before takes a fifth longer."""
    hypotheses = asked(3)
    trace = rehearsed(hypotheses)
    for hypothesis, times in zip(hypotheses[1:], (1.2, 2.0), strict=True):
        seen = trace.interleavings[hypothesis.measurement].observations
        seen[0] = replace(seen[0], candidate=array("d", [times * MILLI] * 2))
    ordered = clearest_first(hypotheses, trace)
    found = GroupSchedule(ordered, trace, 0.01, PAIR_PLAN, 600.0)
    evidence = Evidence(alpha=0.01, hypotheses=tuple(ordered), pairs=())
    assert ["2", "1", "0"] == [one.measurement.test for one in ordered]
    assert 1 == found.next_group(evidence, 600.0, 0.0)
    assert 2 == found.next_group(replace(evidence, groups=(1,)), 600.0, 0.0)
    assert [False, True] == [found.is_typical(replace(evidence, groups=groups)) for groups in ((1,), (1, 2))]
    assert 3 == schedule(3, 600.0).next_group(replace(evidence, hypotheses=hypotheses), 600.0, 0.0)


def test_a_group_on_a_machine_that_slows_down_is_shortened() -> None:
    """Not before a pair has shown it."""
    found, hypotheses = schedule(40, 600.0), asked(40)
    begun = Evidence(alpha=0.01, hypotheses=hypotheses, pairs=(), groups=(40,))
    one_pair = replace(begun, pairs=(screened(hypotheses),))
    assert 40 == found.shortened(begun, 1.0, 0.0)
    assert 40 == found.shortened(one_pair, 580.0, 20.0)
    few = found.shortened(one_pair, 500.0, 200.0)
    assert 0 < few < 20
    again = replace(one_pair, groups=(few,))
    assert few == found.shortened(again, 500.0, 200.0), "what was cut off had its part in the time"


def test_the_pace_is_that_of_the_pairs_that_there_were() -> None:
    """A clear test leaves its screen after three pairs, which says nothing of the time that others take."""
    hypotheses, found = asked(40), schedule(40, 600.0)
    expected_s = 3 * found._table.screen_s(found._table.tests[:1], found.screening) / 6
    clear = Evidence(alpha=0.01, hypotheses=hypotheses, pairs=(screened(hypotheses[:1]),) * 3, groups=(1,))
    assert 1.0 == pytest.approx(found._paced(clear, expected_s).pace)
    assert 4.0 == pytest.approx(found._paced(clear, 4 * expected_s).pace)


def test_what_is_said_counts_on_the_confirmation_of_what_is_clear() -> None:
    """Without its screen. Else on one in some builds: the geometric mean of a build with one, and one without."""
    hypotheses, known = asked(4), {"0": LONG_SCREEN}
    for times, clear in ((1.0, False), (9.0, True)):
        trace = rehearsed(hypotheses)
        trace.interleavings[hypotheses[0].measurement].observations[:] = [
            gates.observed(hypotheses[0], [MILLI] * 2, [times * MILLI] * 2)
        ]
        found = GroupSchedule(hypotheses, trace, 0.01, PAIR_PLAN, 600.0)
        table, nothing = found._table, Evidence(alpha=0.01, hypotheses=hypotheses, pairs=())
        needed_s = table.needed_s(table.tests, found.screening, known) if clear else table.usual_s(found.screening)
        assert (hypotheses[:1] if clear else ()) == found.clear
        assert found.said(nothing, 600.0, 0.0).startswith(f"comparing 4 tests takes about {rounded_up(needed_s)} s of")


def test_a_test_that_one_side_at_a_time_runs_takes_twice_what_its_rehearsal_took() -> None:
    """Which had one process of each side: 3 s until their tests, and 0.8 s in this one."""
    hypotheses = asked(2)
    trace = rehearsed(hypotheses)
    trace.reached_s = {"0": 2.0}
    trace.apart, trace.apart_start_s, trace.apart_wall_s = {"1": 0.8}, 3.0, 4.0
    trace.wall_s = 2.5 + 4.0
    table = GroupSchedule(hypotheses, trace, 0.01, PAIR_PLAN, 600.0)._table
    rehearsed_s = REHEARSAL_PLAN.seconds((MILLI, MILLI))
    assert [0.5 - rehearsed_s, 2 * (0.8 - rehearsed_s)] == pytest.approx([one.beside_s for one in table.tests])
    assert [False, True] == [one.is_serial for one in table.tests]
    assert (2.0, 6.0) == (table.start_s, table.serial_start_s)


LATE = state("out of time", limit=100)
THREE = tuple(gates.asked(test=name) for name in "abc")


@dataclass
class Planned:
    """A schedule of fixed groups."""

    sizes: Sequence[int]
    short: int = 1  # hypotheses with which a group goes on that is late
    late_s: float = 1000.0  # of the screens, from which it is
    clear: int = 0  # groups by which the others cannot be judged
    screening: int = COARSE
    asked: list[tuple[float, float]] = field(default_factory=list)  # seconds left, and of the screens so far
    told: list[str] = field(default_factory=list)  # plans that were shown

    def next_group(self, evidence: Evidence, left_s: float, screened_s: float) -> int:
        self.asked.append((left_s, screened_s))
        return self.sizes[len(evidence.groups)]

    def shortened(self, evidence: Evidence, left_s: float, screened_s: float) -> int:  # noqa: ARG002 - as schedules are asked
        """Keep a group as it is, or make it as short as was planned."""
        return min(self.short, evidence.groups[-1]) if screened_s >= self.late_s else evidence.groups[-1]

    def is_typical(self, evidence: Evidence) -> bool:
        return len(evidence.groups) > self.clear

    def said(self, evidence: Evidence, left_s: float, screened_s: float) -> str:
        return f"{len(evidence.pairs)} pair of {screened_s:g} s, {left_s:g} s left"


def conducted(
    monkeypatch: pytest.MonkeyPatch,
    sizes: Sequence[int],
    late_s: float = 1000.0,
    short: int = 1,
    lost: tuple[int, str] | None = None,
    clear: int = 0,
) -> tuple[Evidence, Planned]:
    """Conduct pairs of equal code, each of one second; of one test the value of one pair may be lost."""
    clock, planned = HandClock(), Planned(sizes, short, late_s, clear=clear)

    def one_pair(_: Conductor, evidence: Evidence, step: Step, program: Program, __: int) -> tuple[Pair, PairTrace]:
        clock.pass_time(1.0)
        number = len(evidence.pairs)
        assert program.until == clock() + 99 - number
        seen = [
            gates.observed(one, [1.0], [1.0])
            for one in THREE
            if one.measurement in step.measurements and (number, one.measurement.test) != lost
        ]
        return gates.pair("screen", seen, number + 1), PairTrace()

    monkeypatch.setattr(Conductor, "_pair", one_pair)
    conductor = Conductor(
        commands={}, logs=Path(), clock=clock, schedule=cast("GroupSchedule", planned), say=planned.told.append
    )
    asked = Evidence(alpha=0.01, hypotheses=THREE, pairs=())
    return conductor.conduct(asked, clock() + 100, LATE), planned


def test_groups_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the comparison takes is said by tests that are like the others."""
    evidence, planned = conducted(monkeypatch, [2, 1])
    assert (2, 1) == evidence.groups
    assert 12 == len(evidence.pairs)
    assert evidence.stopped is None
    assert [(100.0, 0.0), (94.0, 6.0)] == planned.asked
    assert ["1 pair of 1 s, 100 s left"] == planned.told
    assert ["7 pair of 7 s, 100 s left"] == conducted(monkeypatch, [2, 1], clear=1)[1].told


def test_a_group_for_which_there_is_no_time_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence, _ = conducted(monkeypatch, [2, 0])
    assert LATE == evidence.stopped
    assert {"c"} == evidence.unreached_tests


def test_a_group_that_takes_too_long_goes_on_with_fewer_and_the_others_keep_their_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the fourth of six pairs; the others keep what they have, and need two more each."""
    evidence, _ = conducted(monkeypatch, [3, 2, 1], late_s=4.0)
    assert (1, 1, 1) == evidence.groups
    assert [3, 3, 3, 3, 1, 1, 1, 1, 1, 1] == [len(pair.observations) for pair in evidence.pairs]


def test_what_is_left_after_a_group_was_shortened_to_what_is_complete_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only one test lacks a value when its group gets late: it is the next group, and the pairs go on."""
    evidence, _ = conducted(monkeypatch, [3, 1], late_s=6.0, short=2, lost=(0, "c"))
    assert (2, 1) == evidence.groups
    assert [2, 3, 3, 3, 3, 3, 1] == [len(pair.observations) for pair in evidence.pairs]
    assert evidence.stopped is None


def test_turns_of_calls_that_are_looked_at_otherwise_too_are_longer() -> None:
    assert PAIR_PLAN == Conductor(commands={}, logs=Path()).plan
    assert PAIR_PLAN.calls < Conductor(commands={}, logs=Path(), also=[("latency", "p99")]).plan.calls
