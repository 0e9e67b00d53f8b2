"""What fresh processes of both sides are asked to profile, in which order, and what becomes of the others."""

from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest
from fakes import gates
from fakes import records as fake
from fakes.clocks import HandClock
from fakes.profiles import sampled

from pytest_hwperf.gate.explaining import Explain, Explainer
from pytest_hwperf.gate.processes import BothSides
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.worker_protocol import WorkerResult, WorkerTask
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.evidence import (
    Evidence,
    Explanation,
    FixedSample,
    Hypothesis,
    Measurement,
    PairedProfiles,
    Side,
)
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.profiles import HeldMemory, ProfiledCalls, ProfiledOperator
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison, Margin
from pytest_hwperf.stats.causes.explanations import explained
from pytest_hwperf.stats.pairs.hypotheses import SIDES, Facts

PROCESS_S = 3.0
OPERATORS = ProfiledCalls(source="fake", operators=(), call_s=1e-3, calls=20, rows=256)


class Processes:
    """Profile `embed`, slower in the candidate, and take three seconds each."""

    def __init__(self, clock: HandClock, broken: str = "") -> None:
        self._clock = clock
        self._broken = broken
        self.asked = list[tuple[str, str, str]]()  # side, role, last letter of the test
        self.seconds = set[float]()  # of samples

    def ask(self, task: WorkerTask, commands: Sequence[Command], *, until: float, **_: object) -> list[WorkerResult]:
        (command,) = commands
        side = command.arguments[0]
        self._clock.pass_time(PROCESS_S)
        self.asked.append((side[0], task.role, task.node[-1]))
        self.seconds.add(task.seconds)
        if self._broken == f"{side} crashes" or self._clock() > until:
            raise WorkerError("a fresh process ended with code 1")
        answer = WorkerResult(values={}, reasons={}, notes=[], runs=[])
        if self._broken == f"{side} has none":
            return [replace(answer, reasons={task.role: "it shows none"})]
        large = side == "candidate" and not (self._broken == "0.5 s show nothing" and task.seconds)
        if task.role == "operators":
            return [replace(answer, operators=OPERATORS)]
        if task.role == "sites":
            size = 200_000_000 if large else 100_000_000
            site = HeldMemory(function="load", file="m.py", line=3, called_at="", size=size, allocations=1)
            return [replace(answer, sites=(site,))]
        return [replace(answer, functions=sampled({"predict>embed": 3 if large else 1, "predict>score": 9}))]


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """Two tests got slower, one did not; one takes more memory."""
    larger = gates.hypothesis(3, gates.MEMORY)
    memory = FixedSample(
        hypothesis=larger,
        per="fresh process",
        baseline=array("d", [100e6 + n for n in range(12)]),
        candidate=array("d", [200e6 + n for n in range(12)]),
    )
    return gates.build([0.3, 0.0, 0.3], Random(2), (memory,))


@pytest.fixture(scope="module")
def six() -> Evidence:
    """Six tests that got slower."""
    return gates.build([0.5] * 6, Random(3))


NOTHING = Evidence(alpha=0.01, hypotheses=(), pairs=())


def commands(node: str) -> Mapping[Side, Command]:
    return {side: Command(arguments=[side, node], directory=Path(), environment={}) for side in SIDES}


def explain(
    monkeypatch: pytest.MonkeyPatch,
    evidence: Evidence,
    wanted: Explain = "auto",
    *,
    broken: str = "",
    time_s: float = 600.0,
    profiles: Sequence[PairedProfiles] = (),
) -> tuple[list[Explanation], Processes, list[Progress]]:
    clock, shown = HandClock(), list[Progress]()
    processes = Processes(clock, broken)
    monkeypatch.setattr("pytest_hwperf.gate.explaining.monotonic", clock)
    monkeypatch.setattr("pytest_hwperf.gate.processes.ask", processes.ask)
    sides = BothSides(commands=commands, until=clock() + time_s)
    explainer = Explainer(sides=sides, wanted=wanted, progress=shown.append)
    found = explainer.explanations(evidence, profiles)
    assert explainer.seconds == pytest.approx(PROCESS_S * len(processes.asked))
    return found, processes, shown


def asked_tests(found: Sequence[Explanation]) -> set[str]:
    return {one.measurement.test[-1] for one in found}


@pytest.mark.parametrize(("wanted", "tests"), [("auto", "023"), ("always", "0123"), ("never", "")])
def test_what_regressed_is_explained_and_on_demand_all_or_none(
    monkeypatch: pytest.MonkeyPatch, evidence: Evidence, wanted: Explain, tests: str
) -> None:
    found, _, shown = explain(monkeypatch, evidence, wanted)
    assert {*tests} == asked_tests(found)
    numbers = list(dict.fromkeys((one.pair, one.of) for one in shown))
    assert [(number, len(tests)) for number in range(1, len(tests) + 1)] == numbers
    assert all(not one.movers for one in found if one.measurement.test[-1] == "1")


def test_both_sides_take_turns_three_times(monkeypatch: pytest.MonkeyPatch, evidence: Evidence) -> None:
    """Three comparisons of three repeats of six seconds each: 54 s in all."""
    found, processes, shown = explain(monkeypatch, evidence)
    known = [one.left_s for one in shown if one.left_s is not None]
    assert (1, None) == (shown[0].pair, shown[0].left_s)  # nothing is known before the first answer
    assert [48.0, 42.0, 36.0, 36.0, 30.0] == pytest.approx(known[:5])  # the next comparison begins
    assert 0.0 == known[-1]
    assert [*"bccbbc"] == [side for side, role, test in processes.asked if test == "0"]
    assert {("functions", "0"), ("functions", "2"), ("sites", "3")} == {one[1:] for one in processes.asked}
    assert {("embed", 3), ("load", 3)} == {(one.movers[0].name, one.repeats) for one in found}


def test_a_side_that_gives_no_profile_is_asked_once_and_says_why(
    monkeypatch: pytest.MonkeyPatch, evidence: Evidence
) -> None:
    for broken, why in (
        ("baseline crashes", "not explained: a fresh process ended with code 1 (baseline)"),
        ("candidate has none", "not explained: it shows none (candidate)"),
    ):
        found, processes, _ = explain(monkeypatch, evidence, broken=broken)
        assert {(why, ())} == {(str(one.withheld), one.movers) for one in found}
        assert len(processes.asked) <= 2 * len(found)


def test_a_large_change_needs_few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small one needs as many as a process takes unless it is told, and so does one that the samples contradict."""
    for change, seconds in ((0.19, {0.0}), (0.21, {0.5}), (-0.21, {0.5, 0.0})):
        _, _, processes = told(monkeypatch, changes((0, "latency", "p50", change)), "always")
        assert seconds == processes.seconds


def test_where_few_samples_show_nothing_more_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine; twice three repeats of both sides."""
    slower = changes((0, "latency", "p50", 0.5))
    found, _, processes = told(monkeypatch, slower, broken="0.5 s show nothing")
    assert ({0.5, 0.0}, 12, "embed") == (processes.seconds, len(processes.asked), found[0].movers[0].name)


def test_no_process_is_started_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch, evidence: Evidence) -> None:
    found, processes, _ = explain(monkeypatch, evidence, time_s=6 * PROCESS_S)
    assert 6 == len(processes.asked)
    assert ["None", *["not explained: --hwperf-time-limit was over"] * 2] == [str(one.withheld) for one in found]


def test_unasked_at_most_five_are_explained(monkeypatch: pytest.MonkeyPatch, six: Evidence) -> None:
    found, processes, shown = explain(monkeypatch, six)
    assert (5, {5}) == (len({test for _, _, test in processes.asked}), {one.of for one in shown})
    assert "not explained: 5 are, unless --hwperf-explain=always asks for all" == str(found[-1].withheld)
    assert all(one.movers for one in explain(monkeypatch, six, "always")[0])


@pytest.mark.parametrize(("erf_us", "by_functions"), [(300.0, False), (30.0, True)])
def test_functions_are_profiled_where_no_operator_holds_the_change(
    monkeypatch: pytest.MonkeyPatch, evidence: Evidence, erf_us: float, *, by_functions: bool
) -> None:
    """An operator that holds most of it says more than the function that calls the runtime."""

    def profiled(call_us: float, erf: float) -> ProfiledCalls:
        kinds = (("Gemm", 900.0), ("Erf", erf))
        operators = tuple(ProfiledOperator(name=kind, kind=kind, calls=1, seconds=us * 1e-6) for kind, us in kinds)
        return ProfiledCalls(source="fake", operators=operators, call_s=call_us * 1e-6, calls=9, rows=256)

    first = evidence.hypotheses[0].measurement
    pair = PairedProfiles(measurement=first, baseline=profiled(1000, 0), candidate=profiled(1300, erf_us))
    found, processes, _ = explain(monkeypatch, evidence, profiles=[pair])
    assert by_functions == (("b", "functions", "0") in processes.asked)
    assert ["operator", *["function"] * by_functions] == [one.kind for one in found if one.measurement.test[-1] == "0"]


def changes(*changed: tuple[int, str, str, float]) -> dict[Hypothesis, Comparison]:
    """Return comparisons of tests, each of a metric and statistic, that have changed, for the worse unless below 0."""
    found = dict[Hypothesis, Comparison]()
    for number, name, statistic, worse in changed:
        metric = metric_of(name)
        asked = gates.hypothesis(number, Margin(metric=name, statistic=statistic, size=0.02), metric.better)
        change = worse if metric.better == "lower" else 1 / (1 + worse) - 1
        verdict = fake.comparison_verdict(
            name,
            statistic,
            "regressed" if worse > 0 else "improved",
            (change, change - 0.01, change + 0.01),
            baseline=80.0 if metric.unit == "1/s" else 10e-3,
        )
        assert isinstance(verdict.subject, Comparison)
        found[asked] = verdict.subject
    return found


def told(
    monkeypatch: pytest.MonkeyPatch, changed: dict[Hypothesis, Comparison], wanted: Explain = "auto", broken: str = ""
) -> tuple[list[Explanation], dict[str, str], Processes]:
    """Explain what has changed; return this, what is said of each metric, and the processes that were asked."""
    monkeypatch.setattr("pytest_hwperf.gate.explaining.decide", lambda _: changed)
    found, processes, _ = explain(monkeypatch, NOTHING, wanted, broken=broken)
    said = {f"{key[1]} {key[2]}": str(one.moved) for key, one in explained(changed, (), found).items()}
    return found, said, processes


EMBED = "embed (model.py:7)"
CALLS = "not explained: profiles show calls on average, and neither median nor throughput has moved"


def test_what_moves_with_the_calls_shares_what_moved_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six processes explain them all; the memory beside them takes six of its own."""
    others = ["latency p95", "latency mean", "cpu_time mean", "first_item p50"]
    named = [name.split() for name in ("latency p50", *others, "memory p50")]
    _, said, processes = told(monkeypatch, changes(*((0, metric, statistic, 0.2) for metric, statistic in named)))
    assert said.pop("latency p50").startswith(f"{EMBED} +2.00 ms: 100 % of the change")
    assert said.pop("memory p50").startswith("load (m.py:3) holds +")
    assert dict.fromkeys(others, f"it goes with latency p50: {EMBED}") == said
    assert 12 == len(processes.asked)


def test_a_throughput_is_explained_as_the_time_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is compared in place of the median: 80 calls a second take 12.5 ms each, 20 % more 15 ms."""
    found, said, _ = told(monkeypatch, changes((0, "throughput", "mean", 0.2), (0, "latency", "p99", 0.5)))
    assert (12.5e-3, 15e-3) == pytest.approx((found[0].baseline, found[0].candidate))
    assert said["throughput mean"].startswith(f"{EMBED} +2.50 ms: 100 % of the change")
    assert f"it goes with throughput: {EMBED}" == said["latency p99"]


UNEXPLAINED = {
    "latency p95": CALLS,
    "cpu_time mean": CALLS,
    "item p50": CALLS,
    "cold_start p50": "not explained: profiles show warm calls, and no imports, loads or first calls",
    "energy mean": "not explained: profiles show time, and no energy",
    "accuracy mean": "not explained: profiles show time and memory, and no predictions",
    "probability_diff max": "not explained: profiles show time and memory, and no predictions",
    "model_size p50": "not explained: profiles show calls, and no files",
    "arena_held p50": "not explained: a profile of memory shows the process, and not the runtime's own allocator",
    "gpu_memory p50": "not explained: a profile of memory shows the process, and not its GPUs",
    "rouge_l p50": "not explained: the test records it itself",
}


@pytest.mark.parametrize("wanted", ["auto", "always"])
@pytest.mark.parametrize("beside", [None, (1, "latency", "p50", 0.2), (0, "latency", "p50", -0.2)])
def test_what_no_profile_explains_says_why(
    monkeypatch: pytest.MonkeyPatch, beside: tuple[int, str, str, float] | None, wanted: Explain
) -> None:
    """Also where another test got slower, or the calls of this one faster."""
    found = {}
    for name in UNEXPLAINED:
        metric, statistic = name.split()
        changed = changes((0, metric, statistic, 0.3), *filter(None, [beside]))
        found[name] = told(monkeypatch, changed, wanted)[1][name]
    assert UNEXPLAINED == found


def test_nothing_is_said_of_what_improved_or_where_nothing_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    improved = changes((0, "model_size", "p50", -0.3), (0, "latency", "p95", -0.3))
    found, said, processes = told(monkeypatch, improved)
    assert ([], {"model_size p50": "None", "latency p95": "None"}, []) == (found, said, processes.asked)
    assert not explain(monkeypatch, NOTHING, "never")[0]


def facts_of(evidence: Evidence, known: Sequence[int] = (0, 1, 2)) -> dict[Measurement, dict[Side, Facts]]:
    return {
        one.measurement: dict.fromkeys(SIDES, Facts(scenario="onnx_fp32", has_operators=number in known))
        for number, one in enumerate(evidence.hypotheses)
    }


def profiled(
    monkeypatch: pytest.MonkeyPatch,
    evidence: Evidence,
    facts: Mapping[Measurement, Mapping[Side, Facts]],
    *,
    asked: bool = False,
    broken: str = "",
    time_s: float = 600.0,
) -> tuple[list[str], Processes, list[str]]:
    """Return the last letters of the tests whose operators were profiled, the processes, and what is said of others."""
    clock, shown = HandClock(), list[Progress]()
    processes = Processes(clock, broken)
    monkeypatch.setattr("pytest_hwperf.gate.explaining.monotonic", clock)
    monkeypatch.setattr("pytest_hwperf.gate.explaining.REPEATS", 1)
    monkeypatch.setattr("pytest_hwperf.gate.processes.ask", processes.ask)
    sides = BothSides(commands=commands, until=clock() + time_s)
    explainer = Explainer(sides=sides, wanted="auto", operators=asked, progress=shown.append)
    found = explainer.profiles(evidence, facts)
    assert explainer.profiling_s == pytest.approx(PROCESS_S * len(processes.asked))
    assert all(one.pair <= one.of and (one.pair == 1) == (one.left_s is None) for one in shown)
    return [one.measurement.test[-1] for one in found], processes, explainer.lost


def test_operators_of_what_got_slower_are_profiled_and_on_demand_of_all(
    monkeypatch: pytest.MonkeyPatch, evidence: Evidence
) -> None:
    for asked, tests in ((False, ["0", "2"]), (True, ["0", "1", "2"])):
        found, processes, _ = profiled(monkeypatch, evidence, facts_of(evidence), asked=asked)
        assert tests == sorted(found)
        assert [*"bc"] * len(tests) == [side for side, _, _ in processes.asked]


def test_operators_are_asked_of_runtimes_that_have_them_and_while_there_is_time(
    monkeypatch: pytest.MonkeyPatch, evidence: Evidence
) -> None:
    """Nor of a measurement that only one side makes."""
    assert ["2"] == profiled(monkeypatch, evidence, facts_of(evidence, known=[2]))[0]
    nothing, processes, _ = profiled(monkeypatch, evidence, {})
    assert ([], []) == (nothing, processes.asked)
    found, processes, _ = profiled(monkeypatch, evidence, facts_of(evidence), time_s=6.0)
    assert (["0"], 2) == (found, len(processes.asked))


def test_a_side_without_a_profile_leaves_the_verdict_alone_and_says_why(
    monkeypatch: pytest.MonkeyPatch, evidence: Evidence
) -> None:
    for broken, why in (
        ("baseline crashes", "operators of the baseline are not known: a fresh process ended with code 1"),
        ("candidate crashes", "operators of the candidate are not known: a fresh process ended with code 1"),
        ("candidate has none", "operators of the candidate are not known: it shows none"),
    ):
        found, _, lost = profiled(monkeypatch, evidence, facts_of(evidence, known=[2]), broken=broken)
        assert ([], [why]) == (found, [line.partition(": ")[2] for line in lost])


def test_unasked_the_operators_of_at_most_five_are_profiled(monkeypatch: pytest.MonkeyPatch, six: Evidence) -> None:
    facts = facts_of(six, known=range(6))
    assert [5, 6] == [len(profiled(monkeypatch, six, facts, asked=asked)[0]) for asked in (False, True)]
