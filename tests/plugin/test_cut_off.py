"""A build whose time is up between two looks: the last complete one counts, and no pair after it."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import pytest
from fakes import forked

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.host.launch import Command
from pytest_hwperf.records.evidence import Evidence, Hypothesis, Measurement
from pytest_hwperf.records.messages import said
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.stats.pairs.sequence import decide
from pytest_hwperf.stats.pairs.timetable import BlockPlan

pytestmark = pytest.mark.live

FAKES = Path(__file__).parents[1] / "fakes"
NODE = "t.py::test"
LATENCY = Margin(metric="latency", statistic="p50", size=0.02)
TRIAL = Hypothesis(measurement=Measurement(test=NODE, label=""), margin=LATENCY, better="lower")
LATE = "the time of 60 s was too short"
AN_HOUR_S = 3600.0
SLOW, FAST = 1_100_000, 900_000  # ns of a call; the baseline takes a million


@pytest.fixture(autouse=True)
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_hwperf.gate.pair.run.launch", forked.launch)


class Clock:
    """A real one that is put forward by an hour."""

    def __init__(self) -> None:
        self.late = False

    def __call__(self) -> float:
        return monotonic() + AN_HOUR_S * self.late


def cut_off(folder: Path, candidate: Sequence[int], pair: int) -> Evidence:
    """Conduct a build whose time runs out in this confirming pair; `candidate` gives its nanoseconds, pair by pair."""
    clock = Clock()

    def command(side: str, taken: Sequence[int]) -> Command:
        script = {"ns": list(taken), "nodes": [NODE], "counter": str(folder / f"{side}.starts")}
        environment = {**os.environ, "PYTHONPATH": str(FAKES)}
        return Command(
            module="scripted_worker", arguments=[json.dumps(script)], directory=folder, environment=environment
        )

    def tell(progress: Progress) -> None:
        clock.late |= progress.stage == "confirm" and progress.pair == pair

    conductor = Conductor(
        commands={"baseline": command("baseline", [1_000_000]), "candidate": command("candidate", candidate)},
        seed=7,
        logs=folder / "logs",
        plan=BlockPlan(doubles=1, calls=10, block_s=0.001),
        progress=tell,
        clock=clock,
    )
    return conductor.conduct(Evidence(alpha=0.01, hypotheses=(TRIAL,), pairs=()), clock() + 60, said(LATE))


def test_between_the_looks_the_last_complete_one_counts(tmp_path: Path) -> None:
    """Eight pairs leave it open; two more, which would look worse, are begun and not looked at."""
    evidence = cut_off(tmp_path, [SLOW] * 6 + [SLOW, FAST] * 3 + [SLOW] * 22, pair=10)
    found = decide(evidence)[TRIAL]
    assert [*["screen"] * 6, *["confirm"] * 10] == [pair.stage for pair in evidence.pairs]
    assert ("inconclusive", 8, LATE) == (found.outcome, found.pairs, found.reason)


def test_before_the_first_look_nothing_is_decided(tmp_path: Path) -> None:
    """Though all pairs so far were slower."""
    evidence = cut_off(tmp_path, [SLOW], pair=7)
    found = decide(evidence)[TRIAL]
    assert 6 + 7 == len(evidence.pairs)
    assert ("inconclusive", None, LATE) == (found.outcome, found.p_value, found.reason)
    assert "screen of 6 pairs, not confirmed" in found.how
