"""Pairs of real processes that say scripted times: what is decided, what is repeated, what is left behind."""

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import psutil
import pytest
from fakes import forked
from fakes.processes import ends, left_in

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.host.launch import LONGEST_SILENCE_S, Command, launch
from pytest_hwperf.host.pinning import processors
from pytest_hwperf.records.evidence import Evidence, Hypothesis, Measurement, Pair, Side
from pytest_hwperf.records.messages import said, state
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.stats.pairs.hypotheses import SIDES
from pytest_hwperf.stats.pairs.sequence import Step, decide
from pytest_hwperf.stats.pairs.timetable import BlockPlan

pytestmark = pytest.mark.live

FAKES = Path(__file__).parents[1] / "fakes"
NODE = "t.py::test"
HERE = Measurement(test=NODE, label="")
TRIAL = Hypothesis(measurement=HERE, margin=Margin(metric="latency", statistic="p50", size=0.02), better="lower")
SILENCE_S = 5.0  # more than a busy machine takes to start a process
QUICK = BlockPlan(doubles=1, calls=10, block_s=0.001)

Make = Callable[..., Conductor]


@pytest.fixture(autouse=True, scope="module")
def _forked() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pytest_hwperf.gate.pair.run.launch", forked.launch)
        yield


def conductor_in(
    folder: Path,
    baseline: dict[str, Any] | None = None,
    candidate: dict[str, Any] | None = None,
    deadline_s: float = LONGEST_SILENCE_S,
    **more: Any,
) -> Conductor:
    """Make a conductor of two scripted sides."""

    def command(side: str, script: dict[str, Any] | None) -> Command:
        whole = {"ns": 1_000_000, "nodes": [NODE], "counter": str(folder / f"{side}.starts"), **(script or {})}
        return Command(
            module="scripted_worker",
            arguments=[json.dumps(whole)],
            directory=folder,
            environment={**os.environ, "PYTHONPATH": str(FAKES)},
            deadline_s=deadline_s,
        )

    commands: dict[Side, Command] = {
        "baseline": command("baseline", baseline),
        "candidate": command("candidate", candidate),
    }
    return Conductor(commands=commands, seed=7, logs=folder / "logs", plan=QUICK, **more)


@pytest.fixture
def conductor(tmp_path: Path) -> Make:
    return partial(conductor_in, tmp_path)


@dataclass
class Build:
    """A rehearsal and a comparison of equal code."""

    rehearsed_s: float
    evidence: Evidence
    seconds: Mapping[str, float]
    shown: Sequence[Progress]
    ports: Sequence[object]  # open at any of the steps that are shown


@pytest.fixture(scope="module")
def equal(tmp_path_factory: pytest.TempPathFactory) -> Build:
    shown, ports = list[Progress](), list[object]()

    def look(step: Progress) -> None:
        shown.append(step)
        this = psutil.Process()
        for process in (this, *this.children(recursive=True)):
            ports.extend(process.net_connections("inet"))

    found = conductor_in(tmp_path_factory.mktemp("equal"), progress=look)
    traces = [found.rehearse([NODE]) for _ in range(2)]
    assert [None, None] == [trace.lost for trace in traces]
    return Build(sum(trace.wall_s for trace in traces), for_ever(found, asking()), found.seconds, shown, ports)


def asking(*hypotheses: Hypothesis) -> Evidence:
    return Evidence(alpha=0.01, hypotheses=hypotheses or (TRIAL,), pairs=())


def for_ever(found: Conductor, evidence: Evidence) -> Evidence:
    return found.conduct(evidence, found.clock() + 600, said("the time was up"))


def test_the_record_holds_what_chance_decided(equal: Build) -> None:
    """Without processors to draw from the scheduler chooses."""
    first, *others = pairs = equal.evidence.pairs
    assert {"baseline", "candidate"} == set(first.hash_seeds)
    assert {"BCCB", "CBBC"} == {pair.assignments[0].turns for pair in pairs}
    assert {"baseline", "candidate"} == {pair.first for pair in pairs}
    assert 6 == len({pair.hash_seeds["baseline"] for pair in (first, *others)})
    assert [(number, None) for number in range(1, 7)] == [
        (pair.number, pair.assignments[0].processor) for pair in pairs
    ]


def test_a_processor_is_drawn_for_each_measurement_of_a_pair(conductor: Make, tmp_path: Path) -> None:
    """And both processes go there, for their turns alone."""
    here, seats = processors(), [tmp_path / side for side in SIDES]
    scripts = [{"seats": str(path)} for path in seats]
    drawn = [pair.assignments[0].processor for pair in for_ever(conductor(*scripts, processors=here), asking()).pairs]
    assert len(drawn) == 6
    assert len({*drawn}) > 1 or len(here) == 1
    for path in seats:
        blocks = path.read_text(encoding="ascii").splitlines()
        places = [place for place, following in zip_longest(blocks, blocks[1:]) if place != following]
        assert places == [one for number in drawn for one in (str(here), str((number,)))] or len(here) == 1


def test_two_sides_that_need_one_port_are_measured_one_after_the_other(conductor: Make) -> None:
    """Each process of either side listens on it for as long as it lives."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    nodes = ["t.py::one", "t.py::two"]
    asked = [replace(TRIAL, measurement=Measurement(test=node, label="")) for node in nodes]
    script = {"port": port, "nodes": nodes}
    evidence = for_ever(conductor(script, script, serial={*nodes}), asking(*asked))
    assert [None] * 6 == [pair.lost for pair in evidence.pairs]
    assert {2} == {len(pair.observations) for pair in evidence.pairs}
    assert all(one.apart for pair in evidence.pairs for one in pair.observations)
    assert {"equivalent"} == {one.outcome for one in decide(evidence).values()}


def test_a_test_that_is_not_reached_yet_is_not_shown_as_decided(conductor: Make) -> None:
    three = [replace(TRIAL, measurement=Measurement(test=node, label="")) for node in ("one", "two", "three")]
    evidence = replace(asking(*three), groups=(2,))
    shown = conductor()._progress(evidence, Step(stage="confirm", hypotheses=(three[0],), pairs=8, lacking=(8,)), 1)
    assert (1, 3) == (shown.decided, shown.tests)


def test_a_pair_that_is_lost_is_repeated_and_its_log_kept(conductor: Make, tmp_path: Path) -> None:
    """It follows no link: the folder of logs is in the repository, where anything may be."""
    (tmp_path / "logs" / "pair-3").mkdir(parents=True)
    (tmp_path / "victim").write_text("years of work")
    (tmp_path / "logs" / "pair-3" / "candidate.log").symlink_to(tmp_path / "victim")
    evidence = for_ever(conductor(candidate={"crash_in": [2]}), asking())
    ((number, lost),) = [(pair.number, pair.lost) for pair in evidence.pairs if pair.lost]
    assert 3 == number
    assert "candidate: ended with code -9 in the middle of the pair (log: " in str(lost)
    log = Path(lost.texts["log"]) / "candidate.log"
    assert "the worker has begun" in log.read_text(encoding="utf-8")
    assert "years of work" == (tmp_path / "victim").read_text()
    assert decide(evidence)[TRIAL].outcome == "equivalent"


def test_lost_pairs_end_the_build(conductor: Make) -> None:
    """Before any test is reached there is nobody to drop."""
    said = str(for_ever(conductor(baseline={"early_exit": True}), asking()).stopped)
    assert "3 pairs in a row were lost, the last one as baseline: ended with code 1 before it had connected" in said
    assert "no module named x" in said


def test_a_pair_is_cut_off_when_the_time_is_up_and_none_is_begun_then(conductor: Make) -> None:
    """One side says nothing any more, and might be waited for."""
    found, late = conductor(candidate={"silent_in": [1]}), state("out of time", limit=5)
    none = found.conduct(asking(), found.clock() - 1, late)
    assert ((), late) == (none.pairs, none.stopped)
    evidence = found.conduct(asking(), found.clock() + 2, late)
    assert late == evidence.stopped
    assert "candidate: was cut off when the time was up (log: " in str(evidence.pairs[-1].lost)
    assert () == evidence.dropped


def test_a_rehearsal_is_cut_off_when_the_time_is_up(conductor: Make) -> None:
    found = conductor(baseline={"silent_in": [0]})
    trace = found.rehearse([NODE], found.clock() + 1)
    assert str(trace.lost).startswith("baseline: was cut off when the time was up")
    assert NODE == trace.unfinished


def test_a_pair_opens_no_port(equal: Build) -> None:
    """Another user of the machine could connect to it; neither this process nor one that it started has any."""
    assert (True, []) == (bool(equal.shown), equal.ports)


def test_a_child_of_a_test_does_not_outlive_its_pair(conductor: Make, tmp_path: Path) -> None:
    note = tmp_path / "orphan"
    trace = conductor(candidate={"orphan": str(note)}).rehearse([NODE])
    assert trace.lost is None
    assert ends(int(note.read_text(encoding="ascii")))


def test_progress_is_reported_with_what_each_stage_took(equal: Build) -> None:
    shown = [one for one in equal.shown if one.test]
    stages = [("rehearsal", 1, 1)] * 2 + [("screen", number, 6) for number in range(1, 7)]
    assert stages == [(one.stage, one.pair, one.of) for one in shown]
    assert shown[2].left_s is None
    assert shown[-1].left_s is not None
    assert {"rehearsal", "screen"} == equal.seconds.keys()
    assert 0 < equal.rehearsed_s == equal.seconds["rehearsal"]


def without_machine(pair: Pair) -> Pair:
    return replace(pair, seen=(), observations=tuple(replace(one, preempted=0.0) for one in pair.observations))


def test_two_real_pairs_at_once_are_those_of_one_after_the_other(conductor: Make, equal: Build) -> None:
    """What chance decided is the same, and so is what was found."""
    beside = for_ever(conductor(at_once=2), asking())
    assert [] == [(pair.number, str(pair.lost)) for pair in beside.pairs if pair.lost]
    # what processes hold besides, and how often the machine interrupts them, is never the same
    alone, beside = (replace(one, pairs=tuple(map(without_machine, one.pairs))) for one in (equal.evidence, beside))
    assert alone == beside


def test_pairs_with_hard_ends_are_repeated(conductor: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each says why and where its log is; the six that the screen needs are had all the same."""
    monkeypatch.setattr("pytest_hwperf.gate.pair.run.launch", launch)
    ends = {"silent_in": [1], "hang_in": [3], "segfault_in": [5], "fork_and_crash_in": [7]}
    evidence = for_ever(conductor(candidate=ends, deadline_s=SILENCE_S), asking())
    silent, killed = f"was silent for {SILENCE_S:g} s", "ended with code {} in the middle of the pair"
    assert {
        2: f"candidate: {silent}",
        4: f"candidate: {silent}",
        6: f"candidate: {killed.format(-11)}",
        8: f"candidate: {killed.format(-9)}",
    } == {pair.number: str(pair.lost).partition(" (log: ")[0] for pair in evidence.pairs if pair.lost}
    assert [True] * 4 == [" (log: " in str(pair.lost) for pair in evidence.pairs if pair.lost]
    assert len(evidence.pairs) == 10
    assert "equivalent" == decide(evidence)[TRIAL].outcome
    assert [] == left_in(tmp_path)
