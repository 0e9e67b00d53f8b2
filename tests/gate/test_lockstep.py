"""Both sides in lock-step, played by fakes: who waits for whom, and what becomes of the rest when one falls out."""

from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import gates
from fakes import records as fake
from fakes.lines import FakeLine, FakeMeasurement, FakeTest

from pytest_hwperf.gate.pair.channel import Bye, Ended, Frame, Pinned, ToWorker
from pytest_hwperf.gate.pair.lockstep import Chance, Pairing, PairTrace, Program
from pytest_hwperf.records.evidence import Measurement, Side
from pytest_hwperf.stats.pairs.hypotheses import SIDES, Facts, SideOutcome
from pytest_hwperf.stats.pairs.timetable import BlockPlan

TEMPO = BlockPlan(doubles=2)
ONE = Measurement(test="t.py::one", label="")
TWO = Measurement(test="t.py::two", label="")
ORDER = (ONE.test, TWO.test)
BROKEN = FakeTest(measurements=[], outcome="failed", reason="AttributeError: no predict_fast")


def meet(
    baseline: FakeLine, candidate: FakeLine, nodes: Sequence[str] = (ONE.test, TWO.test), **more: Any
) -> PairTrace:
    program = Program(nodes=nodes, plan=TEMPO, **{"chance": Chance(Random(1)), **more})
    return Pairing({"baseline": baseline, "candidate": candidate}, program).run()


def plain(*names: str) -> FakeLine:
    """A side whose tests make one measurement each."""
    return FakeLine(both(**{name: FakeTest() for name in names or ("one", "two")}))


def both(**tests: FakeTest) -> dict[str, FakeTest]:
    return {f"t.py::{name}": test for name, test in tests.items()}


def test_both_sides_go_through_all_tests() -> None:
    slow = FakeMeasurement(taken=lambda _: 1_100_000)
    trace = meet(
        FakeLine(both(one=FakeTest(), two=FakeTest()), files=["b.py"]),
        FakeLine(both(one=FakeTest(measurements=[slow]), two=FakeTest()), files=["c.py"]),
    )
    assert trace.lost is None
    assert [ONE, TWO] == list(trace.interleavings)
    (found,) = trace.interleavings[ONE].observations
    assert [1e-3] * 4 == pytest.approx(list(found.baseline))
    assert [1.1e-3] * 4 == pytest.approx(list(found.candidate))
    assert {"baseline": ("b.py",), "candidate": ("c.py",)} == trace.files


def test_turns_are_drawn_two_of_either_side_in_a_row() -> None:
    turns = meet(plain("one"), plain("one")).interleavings[ONE].assignment.turns
    assert len(turns) == 8
    assert {turns[:4], turns[4:]} <= {"BCCB", "CBBC"}


def test_only_tests_of_both_sides_are_run_in_the_order_of_the_program() -> None:
    trace = meet(plain("three", "two", "one"), plain("one", "new", "three"), ["t.py::new", "t.py::three", *ORDER])
    assert ["t.py::three", ONE.test] == trace.selected == [one.test for one in trace.interleavings]


def test_files_that_cannot_be_collected_are_named() -> None:
    trace = meet(FakeLine({}, errors={"t.py": "ImportError: no module x"}), plain("one"))
    assert {"t.py": "ImportError: no module x"} == trace.errors["baseline"]
    assert ({}, None) == (trace.interleavings, trace.lost)


def test_no_turns_are_taken_at_what_is_too_short_on_both_sides() -> None:
    """If it was long enough in the rehearsal it is measured in every pair: a call near the limit is now below it."""
    short = FakeTest(measurements=[FakeMeasurement(facts=Facts(short_s=1e-6, least_s=1e-4))])
    trace = meet(FakeLine(both(one=short, two=short)), FakeLine(both(one=short, two=FakeTest())))
    assert [ONE, TWO] == list(trace.facts)
    assert [TWO] == list(trace.interleavings)
    assert trace.lost is None
    baseline, candidate = (FakeLine(both(one=short)) for _ in SIDES)
    asked = meet(baseline, candidate, [ONE.test], stage="screen", asked=[gates.asked(test=ONE.test)])
    assert [ONE] == list(asked.interleavings)


@pytest.mark.parametrize("ahead", SIDES)
def test_a_measurement_of_one_side_only_is_passed_by(ahead: Side) -> None:
    """The side that makes it is told to go on; the next test is measured as usual."""
    more = FakeLine(
        both(one=FakeTest(measurements=[FakeMeasurement(), FakeMeasurement(label="extra")]), two=FakeTest())
    )
    trace = meet(*((more, plain()) if ahead == "baseline" else (plain(), more)))
    assert {Measurement(test=ONE.test, label="extra"): ahead} == trace.uneven
    assert [ONE, TWO] == list(trace.interleavings)


def test_measurements_of_other_labels_are_uneven() -> None:
    """Both sides measure, but not the same: neither is compared."""
    old, new = (
        FakeLine(both(one=FakeTest(measurements=[FakeMeasurement(label=label)]), two=FakeTest()))
        for label in ("old", "new")
    )
    trace = meet(old, new)
    assert {"old", "new"} == {measurement.label for measurement in trace.uneven}
    assert [TWO] == list(trace.interleavings)


def test_a_failed_test_is_reported_with_its_reason() -> None:
    trace = meet(FakeLine(both(one=BROKEN, two=FakeTest())), plain())
    assert "AttributeError: no predict_fast" == trace.outcomes[ONE.test]["baseline"].reason
    assert {ONE: "candidate"} == trace.uneven
    assert [TWO] == list(trace.interleavings)


def test_a_side_that_dies_ends_the_pair_and_keeps_what_was_met() -> None:
    """Before it measures, or in a turn."""
    for dying in (FakeTest(dies=True), FakeTest(measurements=[FakeMeasurement(dies_at_block=4)])):
        trace = meet(FakeLine(both(one=FakeTest(), two=dying)), plain())
        assert "baseline: ended with code -9 in the middle of the pair" == str(trace.lost)
        assert [ONE] == list(trace.interleavings)
        assert TWO.test == trace.unfinished


def test_sides_that_end_before_their_tests_are_over_are_lost() -> None:
    """A pytest that refuses its options, or a plugin that ends the session: it will do so again."""
    baseline, candidate = plain(), plain()
    for line in (baseline, candidate):
        line._said = iter([next(line._said), Frame(message=Bye(files=()))])
    trace = meet(baseline, candidate)
    assert f"both sides ended without having run {ONE.test}" == str(trace.lost)
    assert trace.is_cut_short


def test_a_call_that_raises_in_its_turn_says_so() -> None:
    failing = FakeTest(measurements=[FakeMeasurement(fails_at_block=3)], outcome="failed", reason="ValueError: 7 calls")
    trace = meet(plain("one"), FakeLine(both(one=failing)))
    assert str(trace.lost) == "candidate: the measured call failed in the middle of its turn: ValueError: 7 calls"


def test_a_side_that_is_alone_makes_its_first_calls_and_is_asked_for_nothing() -> None:
    line = FakeLine(both(one=FakeTest(), two=BROKEN, three=FakeTest(dies=True)))
    program = Program(nodes=[*ORDER, "t.py::three"], chance=Chance(Random(1)))
    trace = Pairing({"candidate": line}, program).run()
    assert ["Select", "Finish"] == [type(message).__name__ for message in line.sent]
    assert {"candidate": SideOutcome(outcome="passed")} == trace.outcomes[ONE.test]
    assert "failed" == trace.outcomes[TWO.test]["candidate"].outcome
    assert str(trace.lost).startswith("candidate: ended")


def test_what_needs_no_clock_is_asked_for_at_the_rehearsal() -> None:
    accuracy = fake.sample("accuracy", [1.0, 0.0], per="example")
    test = FakeTest(measurements=[FakeMeasurement(exact=[accuracy], facts=Facts(conditions={"batch_size": "1"}))])
    trace = meet(FakeLine(both(one=test)), FakeLine(both(one=test)), exact=True)
    assert {"baseline": (accuracy,), "candidate": (accuracy,)} == trace.exact[ONE]
    assert Facts(conditions={"batch_size": "1"}) == trace.facts[ONE]["candidate"]


class Logged(FakeLine):
    """Writes down when it is told to go on and when it is waited for."""

    def __init__(self, side: Side, log: list[str], tests: dict[str, FakeTest]) -> None:
        super().__init__(tests)
        self._side = side
        self._log = log

    def send(self, message: ToWorker) -> None:
        self._log.append(f"{type(message).__name__} {self._side}")
        super().send(message)

    def receive(self, deadline_s: float) -> Frame:
        frame = super().receive(deadline_s)
        self._log.append(f"{type(frame.message).__name__} from {self._side}")
        return frame


@pytest.mark.parametrize(("heads", "order"), [(True, SIDES), (False, SIDES[::-1])])
def test_a_coin_decides_who_goes_on_first(heads: bool, order: Sequence[Side]) -> None:
    """And neither is waited for before both go on: what follows a measurement is the same for both sides."""
    log: list[str] = []
    baseline, candidate = (Logged(side, log, both(one=FakeTest())) for side in SIDES)
    coin: Any = SimpleNamespace(toss=lambda: heads, order=lambda: (), random=Random(1))
    meet(baseline, candidate, [ONE.test], chance=coin)
    after = log[log.index(f"Finish {order[0]}") :]
    assert [f"{what} {side}" for what in ("Finish", "Ended from") for side in order] == after[:4]
    assert [f"Select {side}" for side in order] == [line for line in log if line.startswith("Select")]


def test_a_message_out_of_turn_ends_the_pair() -> None:
    early = plain("one")
    early._said = iter([Frame(message=Pinned())])
    assert "baseline: sent 'Pinned' where Collected was due" == str(meet(early, plain("one")).lost)


def test_sides_in_different_places_went_different_ways() -> None:
    """One is done with all its tests while the other has just ended one."""
    ended = Frame(message=Ended(node=ONE.test, ended=SideOutcome(outcome="passed")))
    other, done = plain("one"), plain("one")
    other._said = iter([next(other._said), ended, ended])
    done._said = iter([next(done._said), Frame(message=Bye(files=()))])
    assert f"both sides went different ways (baseline: Ended {ONE.test} and candidate: Bye)" == str(
        meet(other, done).lost
    )
