"""Both sides in lock-step, played by fakes: who waits for whom, and what becomes of the rest when one falls out."""

from collections.abc import Mapping, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes import records as fake
from fakes.lines import FakeLine, FakeMeasurement, FakeTest

from pytest_hwperf.gate.channel import Bye, Ended, Frame, Pinned, ToWorker
from pytest_hwperf.gate.lockstep import Chance, Pairing, PairTrace, Program
from pytest_hwperf.records.evidence import Hypothesis, Measurement, Side
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.stats.hypotheses import SIDES, Facts, SideOutcome
from pytest_hwperf.stats.timetable import BlockPlan

TEMPO = BlockPlan(doubles=2)
ONE = Measurement(test="t.py::one", label="")
TWO = Measurement(test="t.py::two", label="")


def meet(
    baseline: FakeLine, candidate: FakeLine, nodes: Sequence[str] = (ONE.test, TWO.test), *, exact: bool = False
) -> PairTrace:
    lines: Mapping[Side, FakeLine] = {"baseline": baseline, "candidate": candidate}
    chance = Chance(Random(1))
    program = Program(nodes=nodes, plan=TEMPO, exact=exact, chance=chance)
    return Pairing(lines, program).run()


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
    trace = meet(FakeLine(both(one=FakeTest())), FakeLine(both(one=FakeTest())))
    turns = trace.interleavings[ONE].assignment.turns
    assert len(turns) == 8
    assert {turns[:4], turns[4:]} <= {"BCCB", "CBBC"}


def test_only_tests_of_both_sides_are_run_in_the_order_of_the_program() -> None:
    baseline, candidate = FakeLine(both(two=FakeTest(), one=FakeTest())), FakeLine(both(one=FakeTest(), new=FakeTest()))
    trace = meet(baseline, candidate, ["t.py::new", *(ONE.test, TWO.test)])
    assert [ONE.test] == trace.selected
    assert [ONE] == list(trace.interleavings)


def test_files_that_cannot_be_collected_are_named() -> None:
    trace = meet(FakeLine({}, errors={"t.py": "ImportError: no module x"}), FakeLine(both(one=FakeTest())))
    assert trace.errors["baseline"] == {"t.py": "ImportError: no module x"}
    assert trace.interleavings == {}
    assert trace.lost is None


def test_no_turns_are_taken_at_what_is_too_short_on_both_sides() -> None:
    short = FakeTest(measurements=[FakeMeasurement(facts=Facts(short_s=1e-6, least_s=1e-4))])
    trace = meet(FakeLine(both(one=short, two=short)), FakeLine(both(one=short, two=FakeTest())), [ONE.test, TWO.test])
    assert [ONE, TWO] == list(trace.facts)
    assert [TWO] == list(trace.interleavings)
    assert trace.lost is None


def test_what_was_long_enough_in_the_rehearsal_is_measured_in_every_pair() -> None:
    """A call whose length is near the shortest is now below it and now above."""
    short = FakeTest(measurements=[FakeMeasurement(facts=Facts(short_s=1e-6, least_s=1e-4))])
    margin = Margin(metric="latency", statistic="p50", size=0.05)
    asked = [Hypothesis(measurement=ONE, margin=margin, better="lower")]
    program = Program(nodes=[ONE.test], plan=TEMPO, chance=Chance(Random(1)), stage="screen", asked=asked)
    trace = Pairing({side: FakeLine(both(one=short)) for side in SIDES}, program).run()
    assert [ONE] == list(trace.interleavings)


@pytest.mark.parametrize("ahead", ["baseline", "candidate"])
def test_a_measurement_of_one_side_only_is_passed_by(ahead: Side) -> None:
    """The side that makes it is told to go on; the next test is measured as usual."""
    more = both(one=FakeTest(measurements=[FakeMeasurement(), FakeMeasurement(label="extra")]), two=FakeTest())
    plain = both(one=FakeTest(), two=FakeTest())
    trace = meet(FakeLine(more if ahead == "baseline" else plain), FakeLine(plain if ahead == "baseline" else more))
    assert {Measurement(test=ONE.test, label="extra"): ahead} == trace.uneven
    assert [ONE, TWO] == list(trace.interleavings)


def test_measurements_of_other_labels_are_uneven() -> None:
    """Both sides measure, but not the same: neither is compared."""
    trace = meet(
        FakeLine(both(one=FakeTest(measurements=[FakeMeasurement(label="old")]), two=FakeTest())),
        FakeLine(both(one=FakeTest(measurements=[FakeMeasurement(label="new")]), two=FakeTest())),
    )
    assert {"old", "new"} == {measurement.label for measurement in trace.uneven}
    assert [TWO] == list(trace.interleavings)


def test_a_failed_test_is_reported_with_its_reason() -> None:
    broken = FakeTest(measurements=[], outcome="failed", reason="AttributeError: no predict_fast")
    trace = meet(FakeLine(both(one=broken, two=FakeTest())), FakeLine(both(one=FakeTest(), two=FakeTest())))
    assert trace.outcomes[ONE.test]["baseline"].reason == "AttributeError: no predict_fast"
    assert {ONE: "candidate"} == trace.uneven
    assert [TWO] == list(trace.interleavings)


@pytest.mark.parametrize(
    "test",
    [FakeTest(dies=True), FakeTest(measurements=[FakeMeasurement(dies_at_block=4)])],
    ids=["before", "in a turn"],
)
def test_a_side_that_dies_ends_the_pair_and_keeps_what_was_met(test: FakeTest) -> None:
    trace = meet(FakeLine(both(one=FakeTest(), two=test)), FakeLine(both(one=FakeTest(), two=FakeTest())))
    assert str(trace.lost) == "baseline: ended with code -9 in the middle of the pair"
    assert [ONE] == list(trace.interleavings)
    assert TWO.test == trace.unfinished


def test_sides_that_end_before_their_tests_are_over_are_lost() -> None:
    """A pytest that refuses its options, or a plugin that ends the session: it will do so again."""
    lines = [FakeLine(both(one=FakeTest(), two=FakeTest())) for _ in range(2)]
    for line in lines:
        line._said = iter([next(line._said), Frame(message=Bye(files=()))])
    trace = meet(lines[0], lines[1])
    assert f"both sides ended without having run {ONE.test}" == str(trace.lost)
    assert trace.is_cut_short


def test_a_call_that_raises_in_its_turn_says_so() -> None:
    failing = FakeTest(measurements=[FakeMeasurement(fails_at_block=3)], outcome="failed", reason="ValueError: 7 calls")
    trace = meet(FakeLine(both(one=FakeTest())), FakeLine(both(one=failing)))
    assert str(trace.lost) == "candidate: the measured call failed in the middle of its turn: ValueError: 7 calls"


def test_a_stranger_on_the_line_is_found_out() -> None:
    """Both sides in different tests is a broken promise of one of them, never a measurement."""
    odd = FakeLine(both(one=FakeTest(measurements=[])))
    odd._said = iter([*[next(odd._said)]])  # it says nothing more
    trace = meet(odd, FakeLine(both(one=FakeTest())))
    assert str(trace.lost).startswith("baseline: ended")


def test_a_side_that_is_alone_makes_its_first_calls_and_is_asked_for_nothing() -> None:
    broken = FakeTest(measurements=[], outcome="failed", reason="AttributeError: no predict_fast")
    line = FakeLine(both(one=FakeTest(), two=broken, three=FakeTest(dies=True)))
    program = Program(nodes=[ONE.test, TWO.test, "t.py::three"], chance=Chance(Random(1)))
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


@pytest.mark.parametrize(("heads", "order"), [(True, ["baseline", "candidate"]), (False, ["candidate", "baseline"])])
def test_a_coin_decides_who_goes_on_first(heads: bool, order: list[str]) -> None:
    """And neither is waited for before both go on: what follows a measurement is the same for both sides."""
    log: list[str] = []
    lines = {side: Logged(side, log, both(one=FakeTest())) for side in SIDES}
    coin: Any = SimpleNamespace(toss=lambda: heads, order=lambda: (), random=Random(1))
    program = Program(nodes=[ONE.test], plan=TEMPO, chance=coin)
    Pairing(cast("Any", lines), program).run()
    after = log[log.index(f"Finish {order[0]}") :]
    assert [f"Finish {order[0]}", f"Finish {order[1]}"] == after[:2]
    assert [f"Ended from {order[0]}", f"Ended from {order[1]}"] == after[2:4]
    assert [f"Select {side}" for side in order] == [line for line in log if line.startswith("Select")]


def test_a_message_out_of_turn_ends_the_pair() -> None:
    class Early(FakeLine):
        def receive(self, deadline_s: float) -> Frame:
            super().receive(deadline_s)
            return Frame(message=Pinned())

    trace = meet(Early(both(one=FakeTest())), FakeLine(both(one=FakeTest())))
    assert str(trace.lost) == "baseline: sent 'Pinned' where Collected was due"


def test_sides_in_different_places_went_different_ways() -> None:
    """One is done with all its tests while the other has just ended one."""
    ended = Frame(message=Ended(node=ONE.test, ended=SideOutcome(outcome="passed")))
    other = FakeLine(both(one=FakeTest(measurements=[])))
    other._said = iter([next(other._said), ended, ended])
    done = FakeLine({ONE.test: FakeTest(measurements=[])})
    done._said = iter([next(done._said), Frame(message=Bye(files=()))])
    trace = meet(other, done)
    assert str(trace.lost) == f"both sides went different ways (baseline: Ended {ONE.test} and candidate: Bye)"
