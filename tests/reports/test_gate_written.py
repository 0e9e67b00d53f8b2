"""The block that says how pairs decided: written as agreed, and enough to decide again."""

from array import array
from collections.abc import Callable

from fakes import records as fake

from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.evidence import (
    Assignment,
    Evidence,
    FixedSample,
    Gate,
    Hypothesis,
    Measurement,
    Observation,
    Pair,
)
from pytest_hwperf.records.messages import said, state
from pytest_hwperf.records.report import ReportFile
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.reports.json_file import render
from pytest_hwperf.stats.sequence import decide

HERE = Measurement(test="tests/test_text.py::test_tokenise", label="long text")
LATENCY = Hypothesis(measurement=HERE, margin=Margin(metric="latency", statistic="p50", size=0.02), better="lower")
MEMORY = Hypothesis(
    measurement=HERE, margin=Margin(metric="memory", statistic="p50", size=0.01, floor=1e6), better="lower"
)
ENERGY = Hypothesis(measurement=HERE, margin=Margin(metric="energy", statistic="mean", size=0.05), better="lower")

SCREENED = Pair(
    number=1,
    stage="screen",
    first="candidate",
    hash_seeds={"baseline": 3405691582, "candidate": 3735928559},
    assignments=(Assignment(measurement=HERE, turns="BCCBCBBC", processor=1),),
    observations=(
        Observation(
            measurement=HERE,
            metric="latency",
            statistic="p50",
            baseline=array("d", [0.001, 0.001, 0.002, 0.001]),
            candidate=array("d", [0.001, 0.00125, 0.002, 0.00125]),
            change=0.11157177565710488,  # log 1.25 / 2, the median of 0, 0, log 1.25 and log 1.25
            preempted=0.125,
        ),
    ),
)
LOST = Pair(
    number=2,
    stage="screen",
    first="baseline",
    hash_seeds={"baseline": 1, "candidate": 2},
    assignments=(),
    observations=(),
    lost=said("candidate: ended with code -9 in the middle of the pair (log: /tmp/hwperf-logs/pair-3)"),
)
GATE = Gate(
    against="origin/main",
    revision="4f2c1e9d6b8a7c5e3f1d2b4a6c8e0f1a3b5c7d9e",
    seed=4611686018427387904,
    evidence=Evidence(
        alpha=0.01,
        hypotheses=(LATENCY, ENERGY),
        pairs=(SCREENED, LOST),
        fixed_samples=(
            FixedSample(
                hypothesis=MEMORY,
                per="fresh process",
                baseline=array("d", [64e6, 64e6, 64e6]),
                candidate=array("d", [66e6, 66e6, 66e6]),
            ),
        ),
        dropped=(ENERGY,),
        stopped=state("out of time", limit=600),
    ),
    shared={"weights.bin": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    seconds={"checkout": 0.25, "rehearsal": 1.5, "processes": 3.0, "screen": 12.5},
    warnings=("not there in the baseline, only a git-LFS pointer: large.bin",),
)
REPORT = replace(fake.empty_report(), judgements=(fake.plain_judgement(),), gates=(GATE,))


def test_how_it_was_decided_is_written_as_agreed(golden: Callable[[str, bytes], None]) -> None:
    golden("json/gate.json", render(REPORT))


def test_how_it_was_decided_comes_back_and_decides_the_same() -> None:
    """Coins, seeds and pair values to the last bit; what is asked again of them has the same answers."""
    (gate,) = from_json(ReportFile, render(REPORT)).report.gates
    found = decide(gate.evidence)
    assert GATE == gate
    assert decide(GATE.evidence) == found
    assert {LATENCY: "inconclusive", MEMORY: "inconclusive"} == {
        hypothesis: one.outcome for hypothesis, one in found.items()
    }
    assert "the time of 600 s was up" == found[LATENCY].reason
