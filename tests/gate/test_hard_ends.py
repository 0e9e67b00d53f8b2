"""Real processes of a pair that hang, crash or leave a child: the pair is repeated, and nothing of it stays behind."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.processes import left_in

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.host.launch import Command
from pytest_hwperf.records.evidence import Evidence, Hypothesis, Measurement
from pytest_hwperf.records.messages import said
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.stats.block_plans import BlockPlan
from pytest_hwperf.stats.sequence import decide

pytestmark = pytest.mark.live

FAKES = Path(__file__).parents[1] / "fakes"
NODE = "t.py::test"
LATENCY = Margin(metric="latency", statistic="p50", size=0.02)
TRIAL = Hypothesis(measurement=Measurement(test=NODE, label=""), margin=LATENCY, better="lower")
SILENCE_S = 3.0
QUICK = BlockPlan(doubles=1, calls=10, block_s=0.001)

Make = Callable[..., Conductor]


@pytest.fixture
def conductor(tmp_path: Path) -> Iterator[Make]:
    """Make a conductor of two scripted sides that waits for three seconds; none of their processes may be left."""

    def make(**candidate: Any) -> Conductor:
        return Conductor(
            commands={"baseline": command("baseline", {}), "candidate": command("candidate", candidate)},
            seed=7,
            logs=tmp_path / "logs",
            plan=QUICK,
        )

    def command(side: str, script: dict[str, Any]) -> Command:
        whole = {"ns": 1_000_000, "nodes": [NODE], "counter": str(tmp_path / f"{side}.starts"), **script}
        environment = {**os.environ, "PYTHONPATH": str(FAKES)}
        return Command(
            module="scripted_worker",
            arguments=[json.dumps(whole)],
            directory=tmp_path,
            environment=environment,
            deadline_s=SILENCE_S,
        )

    yield make
    assert [] == left_in(tmp_path)


@pytest.mark.parametrize(
    ("end", "reported"),
    [
        ("silent_in", f"candidate: was silent for {SILENCE_S:g} s"),
        ("hang_in", f"candidate: was silent for {SILENCE_S:g} s"),
        ("segfault_in", "candidate: ended with code -11 in the middle of the pair"),
        ("fork_and_crash_in", "candidate: ended with code -9 in the middle of the pair"),
    ],
)
def test_a_pair_with_a_hard_end_is_repeated(conductor: Make, end: str, reported: str) -> None:
    """The second pair is lost, says why and where its log is; the six that the screen needs are had all the same."""
    found = conductor(**{end: [1]})
    asked = Evidence(alpha=0.01, hypotheses=(TRIAL,), pairs=())
    evidence = found.conduct(asked, found.clock() + 600, said("the time was up"))
    lost = [pair for pair in evidence.pairs if pair.lost]
    assert [2] == [pair.number for pair in lost]
    assert str(lost[0].lost).startswith(f"{reported} (log: ")
    assert len(evidence.pairs) == 7
    assert "equivalent" == decide(evidence)[TRIAL].outcome
