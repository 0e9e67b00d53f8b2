"""Memory of fresh processes on both sides: three a side may clear, and only as many as the level takes may fail."""

from array import array
from random import Random

from fakes import gates

from pytest_hwperf.records.evidence import Evidence, FixedSample
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.pairs.sequence import decide, next_step

PAGE = 4096.0
BASE = 64e6


def compared(shift: float, processes: int, alpha: float = 0.01) -> Comparison:
    """Compare processes that differ by a page among themselves, and by `shift` from side to side."""
    hypothesis = gates.hypothesis(0, gates.MEMORY)
    baseline = array("d", (BASE + PAGE * (number % 2) for number in range(processes)))
    candidate = array("d", (BASE + shift + PAGE * (number % 3 == 0) for number in range(processes)))
    match = FixedSample(hypothesis=hypothesis, per="fresh process", baseline=baseline, candidate=candidate)
    return decide(Evidence(alpha=alpha, hypotheses=(), pairs=(), fixed_samples=(match,)))[hypothesis]


def test_three_processes_may_clear_and_never_fail() -> None:
    table = [
        (0.0, 3, "equivalent"),  # all within the margin of 1 MB
        (-2e6, 3, "improved"),
        (2e6, 3, "inconclusive"),  # three cannot be rarer than 1/8
        (2e6, 7, "regressed"),  # 2^-7 = 0.0078
        (0.0, 7, "equivalent"),
    ]
    assert [] == [
        (shift, processes, outcome)
        for shift, processes, outcome in table
        if outcome != compared(shift, processes).outcome
    ]


def test_the_smallest_p_value_of_seven_may_be_the_level_itself() -> None:
    assert ["regressed", "inconclusive"] == [compared(2e6, 7, alpha).outcome for alpha in (2**-7, 2**-7 * 0.999)]


def test_a_screen_of_processes_has_no_p_value() -> None:
    found, three = compared(0.0, 3), "3 fresh processes"
    assert found.p_value is None
    assert f"screen of {three} against {three}, all of one side against all of the other" == found.how


def test_what_was_dropped_still_counts_as_asked() -> None:
    """Two screened tests need a first look at 9 pairs, whatever became of the other; what was decided stays."""
    random = Random(1)
    evidence = gates.build([0.05, 0.05], random)
    confirmed = [pair for pair in evidence.pairs if pair.stage == "confirm"]
    dropped = replace(evidence, dropped=(gates.hypothesis(1),))
    assert len(confirmed) == 9
    assert decide(evidence) == decide(dropped)
    assert [gates.hypothesis(0)] == [*decide(replace(dropped, pairs=evidence.pairs[:8]))]
    assert next_step(replace(dropped, pairs=evidence.pairs[:8])).measurements == (gates.hypothesis(0).measurement,)
    assert next_step(replace(dropped, pairs=evidence.pairs[:3])).measurements == (gates.hypothesis(0).measurement,)


def test_a_change_that_no_pair_shows_beyond_the_margin_needs_no_confirmation() -> None:
    """+0.5 % in every pair looks like a slowdown (p = 1/64), and six pairs within 2 % leave none beyond it."""
    evidence = gates.build([0.005], Random(0), spread=0.001)
    found = decide(evidence)[gates.hypothesis(0)]
    assert ["screen"] * 6 == [pair.stage for pair in evidence.pairs]
    assert found.outcome == "equivalent"
    assert found.p_value is not None
