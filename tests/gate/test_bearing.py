"""A test that the candidate alone does not bear: it has become worse where that holds in every fresh process."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from fakes import gates

from pytest_hwperf.gate.bearing import Bearing, lost_by_candidate
from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.pair.channel import WorkerLostError
from pytest_hwperf.gate.pair.interleaving import Interleaving
from pytest_hwperf.gate.pair.lockstep import PairTrace, Program
from pytest_hwperf.host.launch import Command
from pytest_hwperf.records.evidence import Assignment, Evidence, Measurement, Side
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.metrics import CALL_FAILURES
from pytest_hwperf.stats.pairs.hypotheses import SIDES, Facts, Questions, SideOutcome
from pytest_hwperf.stats.pairs.sequence import decide

NODE = "t.py::one"
HERE = Measurement(test=NODE, label="warm")
BORNE = SideOutcome(outcome="passed")
AGAIN = SideOutcome(outcome="skipped", reason="a call after the first one raised KeyError", fails_again=True)
Bear = Callable[[Side, str, int], PairTrace]


def process(side: Side, outcome: SideOutcome = BORNE, lost: str = "", *, is_cut_off: bool = False) -> PairTrace:
    trace = PairTrace(selected=[NODE], facts={HERE: {side: Facts()}}, outcomes={NODE: {side: outcome}})
    if lost:
        trace.outcomes = {}
        trace.lose(WorkerLostError(lost, side=side, is_cut_off=is_cut_off), calls=150)
    return trace


def only(failing: Side, **how: object) -> Bear:
    return lambda side, *_: process(side, **how) if side == failing else process(side)  # type: ignore[arg-type]


def sampled(bear: Bear, alpha: float = 0.01, *, in_time: Callable[[], bool] = lambda: True) -> list[str]:
    """Return what a build says of the suspect, and how it ends."""
    samples = [*Bearing(bear=bear, random=Random(1), in_time=in_time).samples({NODE: 150}, 1, alpha)]
    decided = decide(Evidence(alpha=alpha, hypotheses=(), pairs=(), fixed_samples=tuple(samples)))
    assert all(one.key == (HERE, CALL_FAILURES, "p50") for one in decided)
    return [f"{one.outcome}: {one.reason}" for one in decided.values()]


@pytest.mark.parametrize(
    "how",
    [
        {"lost": "the measured call failed in the middle of its turn: ValueError: too many"},
        {"lost": "ended with code -11 in the middle of the pair"},
        {"lost": "was silent for 10 s"},
        {"outcome": AGAIN},
    ],
)
def test_what_fails_in_every_process_of_the_candidate_alone_has_regressed(how: dict[str, object]) -> None:
    """With two comparisons at 1 % eight signs that point the same way are needed: 2^-8 is below 0.5 %."""
    what = how.get("lost") or AGAIN.reason
    said = "calls fail in 8 of 8 fresh processes of the candidate, and in 0 of 8 of the baseline: within 150"
    assert [f"regressed: {said} calls: {what}"] == sampled(only("candidate", **how))


def test_a_hang_is_waited_for_as_long_as_the_calls_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are 150 calls of 20 ms; what was not measured in the rehearsal may be silent for as long as that took."""
    waits = list[float]()

    def hold(_: Conductor, program: Program, **__: object) -> PairTrace:
        waits.append(program.plan.first_block_s)
        return PairTrace(wall_s=1.0)

    monkeypatch.setattr(Conductor, "hold", hold)
    command = Command(arguments=(), directory=Path(), environment={})
    conductor, rehearsed = Conductor(commands=dict.fromkeys(SIDES, command), logs=Path()), PairTrace(wall_s=5.0)
    conductor.bear("candidate", NODE, 150, rehearsed)
    asked = gates.asked(test=NODE)
    rehearsed.interleavings[asked.measurement] = Interleaving(
        assignment=Assignment(measurement=asked.measurement, turns="BCCB"),
        observations=[gates.observed(asked, [0.01, 0.02], [0.01, 0.01])],
    )
    conductor.bear("candidate", NODE, 150, rehearsed)
    assert [30 + 3 * 5.0, 10 + 3 * 150 * 0.02] == pytest.approx(waits)
    assert {"failures": 2.0} == conductor.seconds


def test_what_the_baseline_does_not_bear_is_never_red() -> None:
    lost = "ended with code 1 in the middle of the pair"
    assert [] == sampled(only("baseline", lost=lost))
    assert [] == sampled(lambda side, *_: process(side, lost=lost))


def test_one_process_that_bears_its_calls_is_enough_for_chance() -> None:
    asked = list[Side]()

    def bear(side: Side, *_: object) -> PairTrace:
        asked.append(side)
        return process(side, lost="ended with code 1" if side == "candidate" and len(asked) < 12 else "")

    assert [] == sampled(bear)
    assert 14 > len(asked)


@pytest.mark.parametrize(
    "bear",
    [
        only("candidate", lost="was late", is_cut_off=True),
        only("candidate", outcome=SideOutcome(outcome="skipped", reason="no data")),
        lambda *_: PairTrace(),
    ],
)
def test_nothing_follows_from_a_process_that_ends_otherwise(bear: Bear) -> None:
    assert [] == sampled(bear)


def test_nothing_is_asked_when_the_time_is_up() -> None:
    assert [] == sampled(only("candidate", lost="ended with code 1"), in_time=lambda: False)


def test_suspects_are_those_that_a_process_of_the_candidate_was_lost_in() -> None:
    """A test that skips itself, or that the baseline does not bear either, is none."""
    reasons = {
        "lost": state("lost, logged", why="candidate: ended", side="candidate", log="x", calls=150),
        "baseline": state("lost", why="baseline: ended", side="baseline", calls=150),
        "again": state("test ended", outcome="skipped", where="x", why=""),
        "neither": state("test ended", outcome="skipped", where="x", why=""),
        "failed": state("test ended", outcome="failed", where="x", why=""),
    }
    trace = PairTrace(
        outcomes={
            "again": {"baseline": BORNE, "candidate": AGAIN},
            "neither": dict.fromkeys(SIDES, AGAIN),
            "failed": {"baseline": BORNE, "candidate": SideOutcome(outcome="failed")},
        }
    )
    questions = Questions(tests={node: ("not comparable", why) for node, why in reasons.items()})
    assert {"lost": 150, "again": 0} == lost_by_candidate(questions, trace)
