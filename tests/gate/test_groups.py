"""Groups of one build: the conductor begins the next one while there is time, and says so where there is none."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from fakes.clocks import HandClock

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.lockstep import PairTrace
from pytest_hwperf.records.evidence import Evidence, Hypothesis, Measurement, Observation, Pair
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.stats.sequence import Step
from pytest_hwperf.stats.timetable import COARSE, PAIR_PLAN, Screening

if TYPE_CHECKING:
    from pytest_hwperf.gate.schedule import GroupSchedule

LATE = state("out of time", limit=100)
THREE = tuple(
    Hypothesis(
        measurement=Measurement(test=name, label=""),
        margin=Margin(metric="latency", statistic="p50", size=0.02),
        better="lower",
    )
    for name in "abc"
)


@dataclass
class Planned:
    """A schedule of fixed groups."""

    sizes: Sequence[int]
    short: int = 1  # hypotheses with which a group goes on that is late
    late_s: float = 1000.0  # of the screens, from which it is
    screening: Screening = COARSE
    asked: list[tuple[float, float]] = field(default_factory=list)  # seconds left, and of the screens so far
    told: list[str] = field(default_factory=list)  # plans that were shown

    def next_group(self, evidence: Evidence, left_s: float, screened_s: float) -> int:
        self.asked.append((left_s, screened_s))
        return self.sizes[len(evidence.groups)]

    def shortened(self, evidence: Evidence, left_s: float, screened_s: float) -> int:  # noqa: ARG002 - as schedules are asked
        """Keep a group as it is, or make it as short as was planned."""
        return min(self.short, evidence.groups[-1]) if screened_s >= self.late_s else evidence.groups[-1]

    def said(self, evidence: Evidence, left_s: float, screened_s: float) -> str:
        return f"{len(evidence.pairs)} pair of {screened_s:g} s, {left_s:g} s left"


def conducted(
    monkeypatch: pytest.MonkeyPatch,
    sizes: Sequence[int],
    late_s: float = 1000.0,
    short: int = 1,
    lost: tuple[int, str] | None = None,
) -> tuple[Evidence, Planned]:
    """Conduct pairs of equal code, each of one second; of one test the value of one pair may be lost."""
    clock, planned = HandClock(), Planned(sizes, short, late_s)

    def one_pair(_: Conductor, evidence: Evidence, step: Step, until: float, *__: object) -> tuple[Pair, PairTrace]:
        clock.pass_time(1.0)
        assert until == clock() + 99 - len(evidence.pairs)
        once = array("d", [1.0])
        observations = [
            Observation(measurement=one, metric="latency", statistic="p50", baseline=once, candidate=once)
            for one in step.measurements
            if (len(evidence.pairs), one.test) != lost
        ]
        pair = Pair(
            number=len(evidence.pairs) + 1,
            stage="screen",
            first="baseline",
            hash_seeds={},
            assignments=(),
            observations=tuple(observations),
        )
        return pair, PairTrace()

    monkeypatch.setattr(Conductor, "_pair", one_pair)
    conductor = Conductor(
        commands={}, logs=Path(), clock=clock, schedule=cast("GroupSchedule", planned), say=planned.told.append
    )
    asked = Evidence(alpha=0.01, hypotheses=THREE, pairs=())
    return conductor.conduct(asked, clock() + 100, LATE), planned


def test_groups_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence, planned = conducted(monkeypatch, [2, 1])
    assert (2, 1) == evidence.groups
    assert 12 == len(evidence.pairs)
    assert evidence.stopped is None
    assert [(100.0, 0.0), (94.0, 6.0)] == planned.asked
    assert ["1 pair of 1 s, 99 s left"] == planned.told


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
