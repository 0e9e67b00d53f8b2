"""What fails next to the other side is tried alone: the same is said of it, whichever side had the luck."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.gate.rehearsal import Rehearser
from pytest_hwperf.host.opened_files import ABSENT, ASKED, MADE, Opened
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Side
from pytest_hwperf.records.messages import state
from pytest_hwperf.stats.pairs.hypotheses import SIDES, SideOutcome

if TYPE_CHECKING:
    from pytest_hwperf.gate.conductor import Conductor

ONE, TWO = "t.py::one", "t.py::two"
PASSED = SideOutcome(outcome="passed")
BUSY = SideOutcome(outcome="failed", reason="OSError: address already in use")
Outcomes = Mapping[str, SideOutcome]


@dataclass
class Played:
    """A conductor that plays pairs, and what a side does alone."""

    pairs: Iterator[PairTrace]
    by_itself: Callable[[Side, str], SideOutcome] = lambda *_: PASSED
    dies_in: Sequence[tuple[Side, str]] = ()  # alone
    makes_file: bool = False  # alone
    alone_s: float = 0.0  # that a side takes alone
    now: float = 0.0
    seconds: Mapping[str, float] = field(default_factory=lambda: {"checkout": 1.0, "rehearsal": 6.0})
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    patience_s: list[float] = field(default_factory=list)
    serial: set[str] = field(default_factory=set)

    def clock(self) -> float:
        return self.now

    def rehearse(
        self, nodes: Sequence[str], until: float, silence_s: float, trace: PairTrace | None = None
    ) -> PairTrace:
        assert until > 0
        self.asked.append(("pair", tuple(nodes)))
        self.patience_s.append(silence_s)
        found = next(self.pairs)
        if trace is None:
            return found
        trace.outcomes = {
            **{node: sides for node, sides in trace.outcomes.items() if node not in nodes},
            **found.outcomes,
        }
        trace.selected = [*trace.selected, *found.selected]
        trace.lost, trace.is_silent = found.lost, found.is_silent
        return trace

    def alone(self, side: Side, nodes: Sequence[str], until: float) -> PairTrace:
        assert until > 0
        self.asked.append((side, tuple(nodes)))
        self.now += self.alone_s
        uses = {f"/home/{len(self.asked)}.txt": MADE} if self.makes_file else {}
        trace = PairTrace(selected=list(nodes), opened={side: Opened(uses=uses)})
        for node in nodes:
            if (side, node) in self.dies_in:
                trace.lost = state("lost", why=f"{side}: ended with code 7", side=side)
                break
            trace.outcomes[node] = {side: self.by_itself(side, node)}
        return trace


def met(baseline: Outcomes, candidate: Outcomes) -> PairTrace:
    """A pair that went through all tests."""
    return PairTrace(
        collected={"baseline": [*baseline], "candidate": [*candidate]},
        errors={"baseline": {}, "candidate": {}},
        outcomes={
            node: {"baseline": baseline[node], "candidate": candidate[node]} for node in baseline if node in candidate
        },
    )


def lost(side: str, why: str, node: str = ONE, *, silent: bool = False) -> PairTrace:
    """A pair that was lost in a test."""
    before = {} if node in (ONE, "") else {ONE: dict.fromkeys(SIDES, PASSED)}
    found = PairTrace(selected=[node] if node else [], outcomes=before, is_silent=silent)
    found.lost = state("lost", why=f"{side}: {why}" if side else why, side=side)
    return found


def by_turns(*nodes: str) -> PairTrace:
    """One side at a time went through some tests."""
    passed = dict.fromkeys(nodes or (ONE,), PASSED)
    return met(passed, passed)


FREE = met({ONE: PASSED, TWO: PASSED}, {ONE: PASSED, TWO: PASSED})


def rehearser(conductor: Played, limit_s: float = 100) -> Rehearser:
    return Rehearser(conductor=cast("Conductor", conductor), name="main", alpha=0.01, time_s=limit_s, until=limit_s)


def rehearse(conductor: Played, nodes: Sequence[str] = (ONE, TWO)) -> tuple[Rehearser, PairTrace]:
    found = rehearser(conductor)
    return found, found.rehearse(nodes)


@pytest.mark.parametrize("loser", SIDES)
def test_what_passes_alone_cannot_be_alive_at_once_whoever_failed(loser: Side) -> None:
    outcomes = {side: {ONE: BUSY if side == loser else PASSED, TWO: PASSED} for side in SIDES}
    conductor = Played(iter([*(met(outcomes["baseline"], outcomes["candidate"]) for _ in range(2)), by_turns()]))
    found, trace = rehearse(conductor)
    assert [*[("pair", (ONE, TWO)), (loser, (ONE,))] * 2, ("pair", (ONE,))] == conductor.asked
    assert ({}, {ONE}) == (found.lost, conductor.serial)
    assert dict.fromkeys(SIDES, PASSED) == trace.outcomes[ONE] == trace.outcomes[TWO]
    assert found.said == (
        "measured with one side at a time, since they failed next to the other side and passed alone: "
        f"{ONE} (the {loser} failed: OSError: address already in use). @pytest.mark.hwserial says so beforehand and "
        "saves these tries; a port, a file or a lock for each process, such as port 0 or tmp_path, lets both sides "
        "take turns, which tells more"
    )


def test_both_may_fail_next_to_each_other_and_what_was_marked_is_not_tried() -> None:
    """The failures of what was marked are those that it has alone."""
    both = Played(iter([*(met({ONE: BUSY}, {ONE: BUSY}) for _ in range(2)), by_turns()]))
    marked = Played(iter([met({ONE: BUSY}, {ONE: PASSED})]), serial={ONE})
    assert {} == rehearse(both, [ONE])[0].lost
    assert {ONE} == both.serial
    found, trace = rehearse(marked, [ONE])
    assert [("pair", (ONE,))] == marked.asked
    assert BUSY == trace.outcomes[ONE]["baseline"]
    assert ({}, "") == (found.lost, found.said)


def test_a_few_of_many_tests_are_named() -> None:
    nodes = [f"t.py::{number}" for number in range(5)]
    busy, passed = dict.fromkeys(nodes, BUSY), dict.fromkeys(nodes, PASSED)
    found, _ = rehearse(Played(iter([met(busy, passed), met(busy, passed), by_turns(*nodes)])), nodes)
    assert "t.py::2 (the baseline failed: OSError: address already in use), and 2 more. @pytest.mark" in found.said


def test_what_takes_its_process_down_with_one_side_at_a_time_is_left_out() -> None:
    """There is no other side to be blamed, and it has been tried twice before."""
    busy = [met({ONE: BUSY, TWO: PASSED}, {ONE: PASSED, TWO: PASSED}) for _ in range(2)]
    death = lost("candidate", "ended with code -9")
    conductor = Played(iter([*busy, death, FREE]))
    found, _ = rehearse(conductor)
    assert ({ONE: ("not comparable", death.lost)}, {ONE}) == (found.lost, conductor.serial)
    assert [(ONE,), (TWO,)] == [nodes for who, nodes in conductor.asked if who == "pair"][2:]
    assert "" == found.said


def test_a_test_that_fails_once_by_chance_is_compared() -> None:
    """Also where the other side fails in the second pair, it is the same test that cannot be alive twice."""
    chance = Played(iter([met({ONE: BUSY}, {ONE: PASSED}), met({ONE: PASSED}, {ONE: PASSED})]))
    either = Played(iter([met({ONE: BUSY}, {ONE: PASSED}), met({ONE: PASSED}, {ONE: BUSY}), by_turns()]))
    found, trace = rehearse(chance, [ONE])
    assert {} == found.lost
    assert PASSED == trace.outcomes[ONE]["baseline"]
    assert {ONE} == set(rehearse(either, [ONE])[0].apart)


def test_what_a_try_has_used_counts_where_it_is_repeated() -> None:
    """The second try finds what the first has made: by itself it would show that no side has waited for the other."""
    first, second = met({ONE: PASSED}, {ONE: BUSY}), met({ONE: PASSED}, {ONE: PASSED})
    first.opened = {"candidate": Opened(uses={"/home/cache": ABSENT}, read=("/model",))}
    second.opened = {side: Opened(uses={"/home/cache": ASKED}) for side in SIDES}
    _, trace = rehearse(Played(iter([first, second])), (ONE,))
    assert {
        "baseline": Opened(uses={"/home/cache": ASKED}),
        "candidate": Opened(uses={"/home/cache": ABSENT + ASKED}, read=("/model",)),
    } == trace.opened


@pytest.mark.parametrize("alone", [PASSED, BUSY])
def test_what_a_side_makes_alone_is_known_as_its_own(alone: SideOutcome) -> None:
    """A file whose maker is unknown would be taken for one that both sides share."""
    failed = (met({ONE: BUSY}, {ONE: PASSED}) for _ in range(2))
    conductor = Played(iter([*failed, by_turns()]), by_itself=lambda *_: alone, makes_file=True)
    _, trace = rehearse(conductor, [ONE])
    asked = [who for who, _ in conductor.asked]
    assert ["pair", "baseline"] == asked[:2]
    made = {f"/home/{number}.txt": MADE for number, who in enumerate(asked, 1) if who == "baseline"}
    assert {"baseline": Opened(uses=made)} == trace.opened


def test_however_many_tests_fail_by_chance_one_more_pair_is_asked() -> None:
    """With many tests one or another fails in each pair; a whole rehearsal for each would take all the time."""
    nodes = [f"t.py::{number}" for number in range(9)]
    passed = dict.fromkeys(nodes, PASSED)
    pairs = [met({**passed, node: BUSY}, passed) for node in nodes[:2]]
    conductor = Played(iter([*pairs, by_turns(nodes[1])]))
    found, _ = rehearse(conductor, nodes)
    assert [9, 9, 1] == [len(asked) for who, asked in conductor.asked if who == "pair"]
    assert {nodes[1]} == set(found.apart)


def test_what_fails_alone_too_keeps_the_reason_that_it_has_there() -> None:
    """Next to the other side it may have been another one, as chance would have it."""
    broken = SideOutcome(outcome="failed", reason="AttributeError: predict_fast")
    conductor = Played(
        iter([met({ONE: BUSY}, {ONE: BUSY})]), by_itself=lambda side, _: broken if side == "baseline" else PASSED
    )
    found, trace = rehearse(conductor, [ONE])
    assert {} == found.lost
    assert {"baseline": broken, "candidate": PASSED} == trace.outcomes[ONE]


def test_a_skip_of_one_side_is_tried_and_one_of_both_is_not() -> None:
    skipped = SideOutcome(outcome="skipped", reason="the board is in use")
    pairs = [met({ONE: skipped, TWO: skipped}, {ONE: PASSED, TWO: skipped}) for _ in range(2)]
    one = Played(iter([*pairs, by_turns()]))
    found, _ = rehearse(one)
    assert [*[("pair", (ONE, TWO)), ("baseline", (ONE,))] * 2, ("pair", (ONE,))] == one.asked
    assert {ONE} == set(found.apart)


def test_files_that_cannot_be_collected_next_to_the_other_side_are_tried() -> None:
    """Not a test that one side just does not have."""
    lacking = met({TWO: PASSED}, {ONE: PASSED, TWO: PASSED})
    conductor = Played(iter([lacking]))
    rehearse(conductor)
    assert [("pair", (ONE, TWO))] == conductor.asked
    lacking.errors["baseline"] = {"t.py": "OSError: address already in use"}
    conductor = Played(iter([lacking, lacking, by_turns()]))
    found, _ = rehearse(conductor)
    assert [*[("pair", (ONE, TWO)), ("baseline", (ONE,))] * 2, ("pair", (ONE,))] == conductor.asked
    assert "the baseline could not collect it: OSError: address" in found.apart[ONE]


def test_a_process_that_hangs_and_passes_alone_has_no_other_side_from_then_on() -> None:
    """It waits for a lock of the other side; half of the time is left to find out, or what is given."""
    conductor, given = (
        Played(iter([lost("candidate", f"was silent for {seconds} s", TWO, silent=True), FREE])) for seconds in (50, 5)
    )
    found, short = rehearser(conductor), rehearser(given)
    short.silence_s = 5
    for one in (found, short):
        one.rehearse((ONE, TWO))
    assert [("pair", (ONE, TWO)), ("candidate", (ONE, TWO)), ("pair", (ONE, TWO))] == conductor.asked
    assert ({}, {TWO: "the candidate was silent for 50 s"}) == (found.lost, found.apart)
    assert ([50, 50], [5, 5]) == (conductor.patience_s, given.patience_s)


def test_a_process_that_is_slow_alone_too_is_given_more_time() -> None:
    """It trains a model, which takes longer with both sides at once; if it hangs then, it waits for the other one."""
    hangs = [lost("candidate", f"was silent for {seconds} s", silent=True) for seconds in (60, 500)]
    slow, stuck = (Played(iter([*hangs[:count], FREE]), alone_s=11) for count in (1, 2))
    found, apart = (rehearser(one, 1011) for one in (slow, stuck))
    for one in (found, apart):
        one.rehearse([ONE, TWO])
    assert ({}, {}, [60, 500]) == (found.lost, found.apart, slow.patience_s)
    assert {ONE: "the candidate was silent for 500 s"} == apart.apart
    assert f"in {ONE}, and hwperf repeated" in apart.untold


def test_a_process_that_dies_and_passes_alone_is_tried_in_a_second_pair() -> None:
    """The system may have killed it by chance, when memory was short."""
    once = Played(iter([lost("baseline", "ended with code -9"), FREE]))
    twice = Played(iter([lost("baseline", "ended with code -9"), lost("baseline", "ended with code -9"), FREE]))
    found, _ = rehearse(once)
    assert {} == found.lost
    assert found.untold.startswith(f"a process of the trial run ended early, in {ONE}, and hwperf repeated the ")
    assert {ONE: "the baseline ended with code -9"} == rehearse(twice)[0].apart


def test_a_process_that_dies_alone_too_is_its_own_fault() -> None:
    for side, outcome in zip(SIDES, ("no baseline", "not comparable"), strict=True):
        why = lost(side, "ended with code 7")
        found, _ = rehearse(Played(iter([why, FREE]), dies_in=[(side, ONE)]))
        assert {ONE: (outcome, why.lost)} == found.lost


def test_a_process_that_dies_alone_in_another_test_says_nothing_of_this_one() -> None:
    """It is tried again without that one; a pair that was lost here is tried again."""
    pairs = (met({ONE: BUSY, TWO: BUSY}, {ONE: PASSED, TWO: PASSED}) for _ in range(2))
    failed, trace = rehearse(Played(iter([*pairs, by_turns(TWO)]), dies_in=[("baseline", ONE)]))
    assert ({TWO}, BUSY) == (set(failed.apart), trace.outcomes[ONE]["baseline"])
    assert f"ended early, in {ONE}, and" in failed.untold

    died = Played(iter([lost("baseline", "ended with code -9", TWO), FREE]), dies_in=[("baseline", ONE)])
    assert ({}, {}) == ((found := rehearse(died)[0]).lost, found.apart)


def test_sides_that_go_different_ways_twice_have_no_one_to_be_tried() -> None:
    odd = [lost("", "both sides went different ways") for _ in range(2)]
    conductor = Played(iter([*odd, FREE]))
    found, _ = rehearse(conductor)
    assert {ONE: ("no baseline", odd[0].lost)} == found.lost
    assert {"pair"} == {who for who, _ in conductor.asked}


def test_a_process_that_ends_before_its_first_test_cannot_be_alive_or_not_at_all() -> None:
    both = Played(iter([lost("baseline", "ended with code 4", "")] * 2))
    broken = Played(iter([lost("baseline", "ended with code 4", "")]), dies_in=[("baseline", ONE)])
    with pytest.raises(UsageProblem, match="of main with the present code failed: both sides cannot be alive at once"):
        rehearse(both)
    with pytest.raises(UsageProblem, match="of main with the present code failed: baseline: ended with code 4"):
        rehearse(broken)


def test_after_five_tests_the_build_is_given_up() -> None:
    nodes = [f"t.py::{number}" for number in range(7)]
    traces = [lost("candidate", "was silent for 9 s", node, silent=True) for node in nodes]
    conductor = Played(iter(traces))
    with pytest.raises(UsageProblem, match="both sides cannot be alive at once"):
        rehearse(conductor, nodes)
    assert 6 == sum(who == "pair" for who, _ in conductor.asked)


def test_when_the_time_is_up_nothing_more_is_tried() -> None:
    class Late(Played):
        def alone(self, side: Side, nodes: Sequence[str], until: float) -> PairTrace:
            self.now = until
            return super().alone(side, nodes, until)

    in_a_pair = Played(iter([lost("candidate", "was cut off")]))
    in_a_pair.now = 100
    by_itself = Late(iter([lost("candidate", "was silent for 50 s", silent=True)]), dies_in=[("candidate", ONE)])
    after_it = Played(iter([met({ONE: BUSY}, {ONE: PASSED})]))
    after_it.now = 100

    cut_off = Late(iter([met({ONE: BUSY}, {ONE: PASSED})]), dies_in=[("baseline", ONE)])

    for one in (in_a_pair, by_itself, cut_off):
        with pytest.raises(UsageProblem, match=r"the time of 100 s was up in .* main .*, in t.py::one: "):
            rehearse(one, [ONE])
    assert {} == rehearse(after_it, [ONE])[0].lost


def test_the_test_that_ran_when_the_time_was_up_is_named() -> None:
    """A pair was lost in the second test; alone the first one took too long."""

    class Late(Played):
        def alone(self, side: Side, nodes: Sequence[str], until: float) -> PairTrace:
            self.now = until
            return super().alone(side, nodes, until)

    conductor = Late(iter([lost("baseline", "ended with code -9", TWO)]), dies_in=[("baseline", ONE)])
    with pytest.raises(UsageProblem, match=f"was up in .* in {ONE}: "):
        rehearse(conductor)


def test_a_limit_below_the_rehearsal_names_the_time_that_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `stats/test_timetable.py`: 1 s of checkout, 10 s of rehearsal, 13.75 pairs of 20 s; or at least a part."""
    nodes = [f"t.py::{number}" for number in range(4)]

    def refusal(start_s: float | None, earlier_s: float = 0.0) -> str:
        trace = lost("candidate", "was cut off", nodes[1])
        trace.selected = nodes if start_s is not None else []
        trace.outcomes = {nodes[0]: dict.fromkeys(SIDES, PASSED)} if start_s is not None else {}
        trace.wall_s, trace.reached_s = 6.0, {nodes[0]: start_s} if start_s is not None else {}
        spent = {"checkout": 1.0, "rehearsal": earlier_s + trace.wall_s}
        with pytest.raises(UsageProblem) as caught:
            rehearser(Played(iter([trace]), now=7, seconds=spent), 7).rehearse(nodes)
        return str(caught.value)

    assert refusal(2.0) == (
        f"the time of 7 s was up in the rehearsal of main with the present code, in {nodes[1]}: candidate: was cut "
        "off; about 290 s are needed. Give --hwperf-time-limit=290, or select fewer tests with -k"
    )
    assert "about 330 s" in refusal(2.0, earlier_s=40.0)
    assert "at least 180 s" in refusal(None)
    monkeypatch.setattr("pytest_hwperf.stats.pairs.timetable.LONGEST_GATE_S", 100)
    assert refusal(None).endswith(" s are needed. Select fewer tests with -k")


def test_sides_that_end_by_themselves_are_not_rehearsed_again() -> None:
    """Each of the tests would be tried twice, and blamed."""
    trace = lost("", "both sides ended without having run t.py::one")
    trace.files = {"baseline": (), "candidate": ()}
    conductor = Played(iter([trace]))
    with pytest.raises(UsageProblem, match="the rehearsal of main with the present code failed: both sides ended"):
        rehearse(conductor)
    assert 1 == len(conductor.asked)


def test_a_baseline_that_has_been_given_more_is_tried_again() -> None:
    """What the candidate has lost stays out."""
    found, cleared = rehearser(Played(iter(())), 9), list[str]()
    found.afresh = lambda: cleared.append("cleared")
    why = state("lost", why="ended", side="baseline")
    found.lost = {ONE: ("no baseline", why), TWO: ("not comparable", why)}
    found.forget()
    assert {TWO: ("not comparable", why)} == found.lost
    assert (["cleared"], 9.0) == (cleared, found.left_s)
