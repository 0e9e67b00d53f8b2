"""Pairs on simulated channels, also of tests that cannot bear both sides at once: who is alive when, what it gives."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fakes import gates
from fakes.clocks import HandClock
from fakes.lines import FakeLine, FakeMeasurement, FakeTest

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.pair.channel import Bye, PinTo, TimeBlock
from pytest_hwperf.gate.pair.lockstep import Chance, Pairing, PairTrace, Program
from pytest_hwperf.gate.pair.run import Holder
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.records.evidence import Evidence, Hypothesis, Measurement, Pair, Side
from pytest_hwperf.records.messages import said
from pytest_hwperf.records.run import Sample
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.stats.causes.changed_code import Usage
from pytest_hwperf.stats.pairs.hypotheses import SIDES, Facts, Recorded, SideOutcome
from pytest_hwperf.stats.pairs.sequence import Step, decide
from pytest_hwperf.stats.pairs.timetable import BlockPlan

PORT, FREE, LAST = "t.py::port", "t.py::free", "t.py::last"
MILLI = 1_000_000  # ns
Tests = Callable[[Side, int], Mapping[str, FakeTest]]  # side and number of its process, from 0 → its tests
Taken = Callable[[Side, int], float]  # the same → ns of a call


def asking(node: str = PORT, key: tuple[str, str] = ("latency", "p50")) -> Hypothesis:
    margin = Margin(metric=key[0], statistic=key[1], size=0.05)
    return Hypothesis(measurement=Measurement(test=node, label=""), margin=margin, better="lower")


def taking(taken: Taken, *nodes: str, **more: Any) -> Tests:
    """Each test makes one measurement, whose calls take so long."""

    def tests(side: Side, number: int) -> Mapping[str, FakeTest]:
        call_ns = round(taken(side, number))
        return {
            node: FakeTest(measurements=[FakeMeasurement(taken=lambda _: call_ns, **more)]) for node in nodes or (PORT,)
        }

    return tests


@dataclass
class Channel:
    """Stands for `Holder.hold`: each process is played, and takes a second until its first test and at its end."""

    tests: Tests
    clock: HandClock = field(default_factory=HandClock)
    alive: list[tuple[Sequence[Side], tuple[str, ...]]] = field(default_factory=list)  # together, with what they run
    lines: list[FakeLine] = field(default_factory=list)
    dies_in: Sequence[int] = ()  # numbers of processes whose trace says so

    def hold(self, program: Program, sides: Sequence[Side], trace: PairTrace | None) -> PairTrace:
        number = len(self.alive)
        self.alive.append((tuple(sides), tuple(program.nodes)))
        lines: dict[Side, FakeLine] = {side: FakeLine(self.tests(side, number), files=[f"{side}.py"]) for side in sides}
        self.lines += lines.values()
        self.clock.pass_time(1.0)
        trace = Pairing(lines, program, trace or PairTrace()).run()
        self.clock.pass_time(1.0)
        trace.hash_seeds |= {f"{side} 2" if side in trace.hash_seeds else side: number for side in sides}
        trace.wall_s += 2.0
        return trace

    def conductor(self, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Conductor:
        def hold(
            _: Holder, program: Program, *, sides: Sequence[Side] = SIDES, trace: PairTrace | None = None
        ) -> PairTrace:
            assert program.until > 0
            assert program.stop is None or not program.stop.is_set()
            return self.hold(program, sides, trace)

        monkeypatch.setattr(Holder, "hold", hold)
        monkeypatch.setattr(Conductor, "_silence_s", 300.0)
        given = {"serial": {PORT}, "plan": BlockPlan(doubles=2, calls=4, block_s=0.001, cold_calls=1), **more}
        return Conductor(commands={}, logs=Path(), clock=self.clock, seed=3, **given)

    @property
    def order(self) -> str:
        """The sides of all processes, in the order in which they were alive."""
        return "".join(side[0].upper() for sides, _ in self.alive for side in sides)


def conducted(found: Conductor, *hypotheses: Hypothesis) -> Evidence:
    evidence = Evidence(alpha=0.01, hypotheses=hypotheses or (asking(),), pairs=())
    return found.conduct(evidence, 1e9, said("the time was up"))


def first_pair(monkeypatch: pytest.MonkeyPatch, channel: Channel, *asked: Hypothesis, **more: Any) -> Pair:
    return conducted(channel.conductor(monkeypatch, **more), *asked).pairs[0]


def test_a_pair_is_four_processes_of_which_one_is_alive_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = Channel(taking(lambda *_: MILLI))
    pairs = conducted(channel.conductor(monkeypatch)).pairs
    orders = [channel.order[start : start + 4] for start in range(0, len(channel.order), 4)]
    assert (24, 6) == (len(channel.alive), len(pairs))
    assert {"BCCB", "CBBC"} == {*orders}
    assert [{"B": "baseline", "C": "candidate"}[order[0]] for order in orders] == [pair.first for pair in pairs]
    assert orders == [one.assignments[0].turns for one in pairs]
    assert {"baseline", "baseline 2", "candidate", "candidate 2"} == {*pairs[0].hash_seeds}
    assert 4 == len({*pairs[0].hash_seeds.values()})


def test_a_drift_from_process_to_process_cancels_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process is 5 % slower than the one before: two of each side have one mean, whichever begins."""
    pair = first_pair(monkeypatch, Channel(taking(lambda _, number: MILLI * 1.05**number)))
    (found,) = pair.observations
    assert (2, 2, True) == (len(found.baseline), len(found.candidate), found.apart)
    assert 0.0 == pytest.approx(found.change, abs=1e-6)


def test_a_slower_candidate_is_found_between_processes_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes vary by 5 %, the candidate takes 30 % more."""
    noise = Random(1)

    def taken(slower: float) -> Tests:
        return taking(lambda side, _: MILLI * (slower if side == "candidate" else 1.0) * (1 + 0.05 * noise.random()))

    evidence, equal = (conducted(Channel(taken(slower)).conductor(monkeypatch)) for slower in (1.3, 1.0))
    found, other = (decide(one)[asking()] for one in (evidence, equal))
    assert ["screen"] * 6 + ["confirm"] * 8 == [pair.stage for pair in evidence.pairs]
    assert "regressed" == found.outcome
    assert found.change is not None
    assert 0.3 == pytest.approx(found.change.value, abs=0.03)
    assert "8 fresh pairs, exact signed-rank, each of four processes one after the other" == str(found.method)
    assert other.outcome in ("equivalent", "inconclusive")
    assert all(one.warnings[0].startswith("one side at a time (hwserial): ") for one in (found, other))


def test_tests_that_bear_both_sides_share_their_pairs_and_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = Channel(taking(lambda *_: MILLI, PORT, FREE))
    pairs = conducted(channel.conductor(monkeypatch), asking(), asking(FREE)).pairs
    assert [(SIDES, (FREE,))] * 6 == channel.alive[:6]
    assert {(PORT,)} == {nodes for _, nodes in channel.alive[6:]}
    assert {1} == {len(sides) for sides, _ in channel.alive[6:]}
    assert [False] * 6 + [True] * 6 == [pair.observations[0].apart for pair in pairs]


def test_every_process_of_a_pair_makes_as_many_calls_on_one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the first of them has found: of calls that differ, a block would have other lengths on each side."""
    slower = {"baseline": 1.0, "candidate": 3.0}
    channel = Channel(taking(lambda side, _: 10 * MILLI * slower[side]))
    pair = first_pair(monkeypatch, channel, processors=[5])
    turns = [[sent for sent in line.sent if isinstance(sent, TimeBlock)][-2:] for line in channel.lines[:4]]
    seats = [[sent.processors for sent in line.sent if isinstance(sent, PinTo)] for line in channel.lines[:4]]
    assert 1 == len({(one.calls, one.batch) for blocks in turns for one in blocks})
    assert [[(5,)]] * 4 == seats
    assert 5 == pair.assignments[0].processor


def test_what_disturbs_a_process_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a pool, or is refused its processor, or does not get steady."""
    pool = first_pair(monkeypatch, Channel(taking(lambda *_: MILLI, threads=4)), processors=[5])
    refused = first_pair(monkeypatch, Channel(taking(lambda *_: MILLI, sits=lambda _: "no right")), processors=[5])
    slow = first_pair(monkeypatch, Channel(taking(lambda *_: 2000 * MILLI)))
    assert pool.assignments[0].processor is None
    expected = [f"{side}: it does not stay on the processor of the others: no right" for side in SIDES]
    assert expected == sorted(refused.observations[0].warnings)
    assert "baseline: calls too slow for a warm-up of three blocks" in slow.observations[0].warnings


def test_percentiles_and_throughput_are_of_all_calls_of_a_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """A throughput, of 1 and 2 ms for as many calls each."""
    tail, also = asking(key=("latency", "p95")), [("latency", "p50"), ("latency", "p99")]
    pair = first_pair(monkeypatch, Channel(taking(lambda _, number: MILLI * (1 + number % 2))), tail, also=also)
    rate = first_pair(
        monkeypatch, Channel(taking(lambda _, number: MILLI * (1 + number // 2))), asking(key=("throughput", "mean"))
    )
    seen = {one.statistic: (len(one.baseline), len(one.candidate)) for one in pair.observations}
    assert {"p95": (1, 1), "p50": (2, 2), "p99": (1, 1)} == seen
    assert [1000 / 1.5] == pytest.approx([*rate.observations[0].baseline])


def test_energy_is_read_in_every_process_by_one_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asking(key=("energy", "mean"))

    def others(side: Side, _: int) -> Mapping[str, FakeTest]:
        return {PORT: FakeTest(measurements=[FakeMeasurement(joules=2.5, energy_source=side)])}

    pair = first_pair(monkeypatch, Channel(taking(lambda *_: MILLI, joules=2.5)), asked)
    none = conducted(Channel(taking(lambda *_: MILLI)).conductor(monkeypatch), asked)
    differing = Channel(others).conductor(monkeypatch)
    conducted(differing, asked)
    assert [2.5, 2.5] == list(pair.observations[0].baseline)
    assert [()] * 2 == [one.observations for one in none.pairs]
    assert "source: baseline, candidate" in str(differing.dropped[asked])


def test_a_measurement_of_which_nothing_is_asked_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    both_made = [FakeMeasurement(), FakeMeasurement(label="more")]
    pair = first_pair(monkeypatch, Channel(lambda *_: {PORT: FakeTest(measurements=both_made)}))
    assert (
        [""]
        == [one.measurement.label for one in pair.assignments]
        == [one.measurement.label for one in pair.observations]
    )


def test_a_process_that_is_lost_ends_its_pair_and_is_blamed_for_its_own_test(monkeypatch: pytest.MonkeyPatch) -> None:
    for at, seen in ((0, []), (1, []), (3, [FREE])):
        channel = Channel(
            lambda _, number, at=at: {FREE: FakeTest(), PORT: FakeTest(dies=number == at), LAST: FakeTest()}  # type: ignore[misc]
        )
        pair, trace = _one_pair(channel.conductor(monkeypatch, serial={FREE, PORT, LAST}), asking(FREE), asking())
        assert at + 1 == len(channel.alive)
        assert PORT == trace.unfinished
        assert "ended with code -9" in str(pair.lost)
        assert seen == [one.measurement.test for one in pair.observations]


def _one_pair(conductor: Conductor, *asked: Hypothesis) -> tuple[Pair, PairTrace]:
    step = Step(stage="screen", hypotheses=asked, pairs=6, lacking=(6,) * len(asked))
    (found,) = conductor._side_by_side(Evidence(alpha=0.01, hypotheses=asked, pairs=()), step, 1e9)
    return found


def test_a_rehearsal_takes_one_process_of_each_side_after_the_pair_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = Sample(metric="model_size", values=[7.0], per="model", source="file")  # type: ignore[arg-type]
    facts = Facts(scenario="onnx_fp32")
    channel = Channel(taking(lambda *_: MILLI, PORT, FREE, exact=[size], facts=facts))
    trace = channel.conductor(monkeypatch).rehearse([PORT, FREE])
    measurements = [Measurement(test=node, label="") for node in (FREE, PORT)]

    first, second = (sides for sides, _ in channel.alive[1:])
    assert [(SIDES, (FREE,)), (first, (PORT,)), (second, (PORT,))] == channel.alive
    assert {*SIDES} == {*first, *second}
    assert measurements == [*trace.interleavings] == [*trace.facts] == [*trace.exact]
    assert dict.fromkeys(SIDES, facts) == trace.facts[measurements[1]]
    assert dict.fromkeys(SIDES, (size,)) == trace.exact[measurements[1]]
    assert dict.fromkeys(SIDES, "passed") == {side: one.outcome for side, one in trace.outcomes[PORT].items()}
    assert ([FREE, PORT], 6.0) == (trace.selected, trace.wall_s)
    assert {FREE: 1.0} == trace.reached_s
    assert (2.0, {PORT: 2.0}, 4.0) == (trace.apart_start_s, trace.apart, trace.apart_wall_s)


def test_tests_that_share_processes_have_their_own_times(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = Channel(taking(lambda *_: MILLI, PORT, FREE))
    conductor = channel.conductor(monkeypatch, serial={PORT, FREE})
    conductor.progress = lambda _: channel.clock.pass_time(0.5)
    trace = conductor.rehearse([PORT, FREE])
    assert {PORT: 1.0, FREE: 3.0} == trace.apart
    assert trace.start_s == trace.apart_start_s == 2.0


def test_what_a_side_does_not_have_or_measure_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def tests(side: Side, _: int) -> Mapping[str, FakeTest]:
        new = {"t.py::new": FakeTest()} if side == "candidate" else {}
        more = [FakeMeasurement(label="more")] if side == "baseline" else []
        return {PORT: FakeTest(measurements=[FakeMeasurement(), *more]), **new}

    trace = Channel(tests).conductor(monkeypatch, serial={PORT, "t.py::new"}).rehearse([PORT, "t.py::new"])
    assert {Measurement(test=PORT, label="more"): "baseline"} == trace.uneven
    assert [PORT] == trace.selected == [*trace.outcomes]
    assert [Measurement(test=PORT, label="")] == [*trace.facts]


def test_a_failure_in_either_process_of_a_side_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def tests(side: Side, number: int) -> Mapping[str, FakeTest]:
        return {PORT: FakeTest(outcome="failed" if number == 1 else "passed", reason=f"{side} {number}")}

    channel = Channel(tests)
    _, trace = _one_pair(channel.conductor(monkeypatch), asking())
    side = channel.alive[1][0][0]
    assert ("failed", f"{side} 1") == (trace.outcomes[PORT][side].outcome, trace.outcomes[PORT][side].reason)


def test_a_rehearsal_that_is_lost_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for dying, alive in ((FREE, 1), (PORT, 2)):
        channel = Channel(lambda *_, dying=dying: {node: FakeTest(dies=node == dying) for node in (FREE, PORT)})
        trace = channel.conductor(monkeypatch).rehearse([FREE, PORT])
        assert (dying, alive, False) == (trace.unfinished, len(channel.alive), trace.is_cut_short)
        assert trace.lost is not None


def test_nothing_that_either_part_of_a_rehearsal_has_used_is_forgotten() -> None:
    """Of two processes of a side, and of a pair before them in which one test could not bear the other side."""
    failed = {side: SideOutcome(outcome="failed") for side in SIDES}
    trace = PairTrace(
        outcomes={FREE: failed, PORT: failed},
        uneven={Measurement(test=PORT, label=""): "baseline"},
        collected={"baseline": (FREE,), "candidate": (FREE, PORT)},
        opened={"baseline": Opened(read=("one",), written=("two",))},
        usages={"baseline": Usage(used={"": ("a change",), FREE: ("f",)})},
    )
    trace.begin_apart([PORT])
    pairing = Pairing({}, Program(nodes=[PORT], chance=Chance(Random(1))), trace)
    assert ({FREE: failed}, {}) == (trace.outcomes, trace.uneven)

    opened, used = Opened(read=("three",)), Usage(used={"": ("another",), PORT: ("g",)})
    for files in (("a.py",), ("a.py", "c.py")):
        pairing._end("baseline", Bye(files=files, opened=opened, usage=used))
    assert {"baseline": ("a.py", "c.py")} == trace.files
    assert {"baseline": Opened(read=("one", "three"), written=("two",))} == trace.opened
    whole = {"": ("a change", "another"), FREE: ("f",), PORT: ("g",)}
    assert {"baseline": Usage(used=whole)} == trace.usages


def side_by_side(monkeypatch: pytest.MonkeyPatch, tests: Tests, *asked: Hypothesis) -> tuple[Conductor, Evidence]:
    """Conduct pairs of which both sides are alive at once."""
    plan = BlockPlan(doubles=1, calls=10, block_s=0.001)
    conductor = Channel(tests).conductor(monkeypatch, serial=set(), plan=plan)
    return conductor, conducted(conductor, *asked)


def test_a_rehearsal_shows_that_it_is_one_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = list[Progress]()
    Channel(taking(lambda *_: MILLI, FREE)).conductor(monkeypatch, progress=shown.append).rehearse([FREE])
    assert {("rehearsal", 1, 1)} == {(one.stage, one.pair, one.of) for one in shown}


def dying(*, at_once: bool, call_ns: int = MILLI) -> FakeTest:
    """A test whose process may end in one of its turns."""
    return FakeTest(measurements=[FakeMeasurement(taken=lambda _: call_ns, dies_at_block=3 if at_once else None)])


def test_a_slower_candidate_is_screened_and_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    slower = {"baseline": 1.0, "candidate": 1.1}
    _, evidence = side_by_side(monkeypatch, taking(lambda side, _: MILLI * slower[side], FREE), one := asking(FREE))
    assert [pair.stage for pair in evidence.pairs] == ["screen"] * 6 + ["confirm"] * 8
    comparison = decide(evidence)[one]
    assert comparison.outcome == "regressed"
    assert comparison.change is not None
    assert comparison.change.value == pytest.approx(0.1)
    assert evidence.stopped is None


def test_what_tests_record_is_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    own, values = gates.asked("rouge", test=FREE, better="higher"), {"baseline": 0.5, "candidate": 0.4}

    def tests(side: Side, _: int) -> Mapping[str, FakeTest]:
        recorded = Recorded(value=values[side], better="higher", margin=0.02, label="")
        return {FREE: FakeTest(recorded={"rouge": recorded})}

    _, evidence = side_by_side(monkeypatch, tests, own)
    (seen,) = evidence.pairs[0].observations
    assert ([0.5], [0.4]) == ([*seen.baseline], [*seen.candidate])
    assert decide(evidence)[own].outcome == "regressed"


def test_a_test_that_takes_its_process_down_again_and_again_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    found, evidence = side_by_side(
        monkeypatch, lambda side, _: {FREE: dying(at_once=side == "baseline")}, one := asking(FREE)
    )
    assert (one,) == evidence.dropped
    assert str(found.dropped[one]).startswith("gave no value in 2 pairs in a row: baseline: ended with code -9")


def test_tests_that_crash_now_and_then_leave_none_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are run after the others then, which they cut off no more; their own pairs are repeated.

    The last one is cut off twice in a row, each time by another test, and is not dropped for that.
    """

    def tests(side: Side, number: int) -> Mapping[str, FakeTest]:
        crashing = {FREE: (1, 4, 6), PORT: (2,)} if side == "candidate" else {}
        return {node: dying(at_once=number in crashing.get(node, ())) for node in (FREE, PORT, LAST)}

    asked = [asking(node) for node in (FREE, PORT, LAST)]
    _, evidence = side_by_side(monkeypatch, tests, *asked)
    lost = [pair for pair in evidence.pairs if pair.lost]
    assert [2, 3, 5, 7] == [pair.number for pair in lost]
    assert [0, 0, 1, 2] == [len(pair.observations) for pair in lost]
    assert 10 == len(evidence.pairs)
    assert (None, ()) == (evidence.stopped, evidence.dropped)
    assert ["equivalent"] * 3 == [decide(evidence)[one].outcome for one in asked]


def test_what_is_decided_stays_when_another_statistic_loses_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The median is slower in every pair; the tail is now within its margin and now beyond, until all crash."""
    median, tail = gates.asked(test=FREE), gates.asked(test=FREE, size=0.1, statistic="p95")

    def tests(side: Side, number: int) -> Mapping[str, FakeTest]:
        slower_ns = (1_090_000, 1_120_000)[number % 2] if side == "candidate" else MILLI
        return {FREE: dying(at_once=side == "candidate" and number >= 15, call_ns=slower_ns)}

    _, evidence = side_by_side(monkeypatch, tests, median, tail)
    assert ["screen"] * 6 + ["confirm"] * 11 == [pair.stage for pair in evidence.pairs]
    assert (tail,) == evidence.dropped
    assert {median: "regressed"} == {one: comparison.outcome for one, comparison in decide(evidence).items()}


def test_a_trial_without_values_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its meter is refused, or one side does not measure."""
    energy, latency = asking(FREE, ("energy", "mean")), asking(FREE)
    found, evidence = side_by_side(monkeypatch, lambda *_: {FREE: FakeTest()}, latency, energy)
    assert (energy,) == evidence.dropped
    assert decide(evidence)[latency].outcome == "equivalent"
    (reason,) = map(str, found.dropped.values())
    assert reason.startswith("gave no value in 2 pairs in a row: ")
    assert reason.endswith(": no meter")  # the words of the side that refused
    one_side: Tests = lambda side, _: {FREE: FakeTest() if side == "baseline" else FakeTest(measurements=[])}  # noqa: E731
    _, evidence = side_by_side(monkeypatch, one_side, latency)
    assert ((latency,), {}) == (evidence.dropped, decide(evidence))
