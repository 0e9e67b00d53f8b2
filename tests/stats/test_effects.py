"""A change beside the noise between pairs: of exactly the pairs that the comparison rests on."""

import math
from random import Random

import pytest
from fakes import gates
from fakes import records as fake

from pytest_hwperf.records.evidence import Gate, Hypothesis
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.ranks import changes_of, cohens_d, decisive
from pytest_hwperf.stats.sequence import SCREEN_PAIRS, decide

EQUAL, SLOWER = 0, 1  # tests of the build


@pytest.fixture(scope="module")
def gate() -> Gate:
    """Two tests, of which the second got 8 % slower: the first is cleared by its screen, the second confirmed."""
    evidence = gates.build([0.0, 0.08], Random(5))
    return Gate(against="main", revision="4f2c1e9", seed=5, evidence=evidence, shared={}, seconds={})


def values_of(gate: Gate, hypothesis: Hypothesis) -> list[float]:
    changes = changes_of([gate])[hypothesis.measurement, hypothesis.margin.metric, hypothesis.margin.statistic]
    return list(decisive(decide(gate.evidence)[hypothesis], changes))


def observed(gate: Gate, hypothesis: Hypothesis, stage: str) -> list[float | None]:
    pairs = [pair for pair in gate.evidence.pairs if pair.stage == stage]
    return [one.change for pair in pairs for one in pair.observations if one.measurement == hypothesis.measurement]


def test_a_cleared_test_rests_on_its_screen(gate: Gate) -> None:
    assert observed(gate, gates.hypothesis(EQUAL), "screen") == values_of(gate, gates.hypothesis(EQUAL))
    assert SCREEN_PAIRS == len(values_of(gate, gates.hypothesis(EQUAL)))


def test_a_confirmed_test_rests_on_its_fresh_pairs(gate: Gate) -> None:
    assert "regressed" == decide(gate.evidence)[gates.hypothesis(SLOWER)].outcome
    assert observed(gate, gates.hypothesis(SLOWER), "confirm") == values_of(gate, gates.hypothesis(SLOWER))


def test_pairs_beyond_the_last_look_are_left_out(gate: Gate) -> None:
    """A test that was decided earlier may run on beside others; its comparison is that of the look."""
    last = gate.evidence.pairs[-1]
    more = replace(gate.evidence, pairs=(*gate.evidence.pairs, replace(last, number=last.number + 1)))
    assert values_of(gate, gates.hypothesis(SLOWER)) == values_of(
        replace(gate, evidence=more), gates.hypothesis(SLOWER)
    )


def test_the_rehearsal_is_kept_apart_and_what_has_no_ratio_is_left_out(gate: Gate) -> None:
    first = gate.evidence.pairs[0]
    none = replace(first, observations=tuple(replace(one, change=None) for one in first.observations))
    pairs = (replace(first, stage="rehearsal"), none, *gate.evidence.pairs[1:])
    found = changes_of([replace(gate, evidence=replace(gate.evidence, pairs=pairs))])
    assert {SCREEN_PAIRS - 1} == {len(changes["screen"]) for changes in found.values()}


def test_values_that_do_not_give_the_change_are_not_taken(gate: Gate) -> None:
    """As where the stored runs have answered, with as many of them as there are pairs."""
    hypothesis = gates.hypothesis(EQUAL)
    changes = changes_of([gate])[hypothesis.measurement, "latency", "p50"]
    stored = fake.comparison_verdict("latency", "p50", "regressed", (0.3, 0.1, 0.5), pairs=SCREEN_PAIRS).subject
    without = fake.comparison_verdict("latency", "p50", "no baseline").subject
    assert isinstance(stored, Comparison)
    assert isinstance(without, Comparison)
    assert [(), (), ()] == [decisive(stored, changes), decisive(without, changes), decisive(stored, {})]


def test_the_effect_is_the_mean_over_the_deviation() -> None:
    """0.04 / 0.02; the other way round it is its negative."""
    assert 2.0 == pytest.approx(cohens_d([0.02, 0.04, 0.06]))
    assert -2.0 == pytest.approx(cohens_d([-0.02, -0.04, -0.06]))


def test_the_effect_of_a_normal_change_is_that_of_its_distribution() -> None:
    """A change of 8 % with a spread of 0.04 between pairs has d = log(1.08) / 0.04 = 1.92; 4000 pairs come near it."""
    random = Random(7)
    values = [random.gauss(math.log1p(0.08), 0.04) for _ in range(4000)]
    assert math.log1p(0.08) / 0.04 == pytest.approx(cohens_d(values), abs=0.1)


@pytest.mark.parametrize("values", [[], [0.02], [0.02, 0.02], [0.0, 0.0, 0.0]])
def test_without_a_deviation_there_is_no_effect(values: list[float]) -> None:
    assert cohens_d(values) is None
