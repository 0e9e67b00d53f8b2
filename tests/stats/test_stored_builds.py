"""Simulated builds against stored accuracies: an even split of alpha keeps the rate, and fails the builds Holm would.

A small seeded version of the benchmark `stored_builds`, whose table is in docs/design-notes.md.
"""

import pytest
from fakes.benchmarks import functions_of
from fakes.records import run, sample
from hypothesis import given
from hypothesis import strategies as st

from pytest_hwperf.records.markers import DEFAULT_MARGINS
from pytest_hwperf.records.run import Run
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.stats.figures.estimates import figures
from pytest_hwperf.stats.stored.compare import Criteria, Stored, compare_with_stored, stored_run_of

SCRIPT = functions_of("stores.stored_builds")
TESTS, FLIPPED, EXAMPLES = SCRIPT["TESTS"], SCRIPT["FLIPPED"], SCRIPT["EXAMPLES"]
FEW = 300

P_VALUES = st.lists(st.floats(0, 1) | st.floats(0, SCRIPT["ALPHA"]), min_size=1, max_size=TESTS)


def labelled(lost: int) -> tuple[Run, Run]:
    """A run before and one after, of which so many of the changed answers are losses."""
    won, kept = FLIPPED - lost, [1.0] * (EXAMPLES - FLIPPED)
    before = [1.0] * lost + [0.0] * won + kept
    after = [0.0] * lost + [1.0] * won + kept
    old, new = (run(samples=(sample("accuracy", values, per="example"),)) for values in (before, after))
    return old, new


def is_called_worse(lost: int) -> bool:
    """Whether a test of a build of fifty is, as pytest-hwperf compares it."""
    old, new = labelled(lost)
    kept = stored_run_of(Judgement(run=old, figures=figures(old), verdicts=()))
    criteria = Criteria(margins=[DEFAULT_MARGINS["accuracy"]], alpha=SCRIPT["ALPHA"], family=TESTS)
    (found,) = compare_with_stored(new, figures(new), Stored(runs=[kept]), criteria)
    return found.outcome == "regressed"


def test_a_test_is_called_worse_where_the_script_says_so() -> None:
    script = [SCRIPT["split"]([SCRIPT["p_of"](lost)] * TESTS)[0] for lost in range(50, 100, 3)]
    assert script == [is_called_worse(lost) for lost in range(50, 100, 3)]
    assert {True, False} == {*script}


@given(P_VALUES)
def test_holms_rule_fails_the_same_builds(p_values: list[float]) -> None:
    """Its first step is the even split; what it finds beyond that is in builds that have failed already."""
    even, holm = SCRIPT["split"](p_values), SCRIPT["holm"](p_values)
    assert any(even) == any(holm)
    assert all(other for one, other in zip(even, holm, strict=True) if one)


@pytest.mark.simulation
@pytest.mark.parametrize("worse", [0, 25])
def test_a_build_names_a_test_wrongly_no_more_often_than_stated(worse: int) -> None:
    """At 1 %: 0.65 and 0.45 % of 4000 builds; a p-value of counts never is exactly at its level."""
    assert SCRIPT["outcomes"](worse, SCRIPT["DROPS"][1], 1000)["even split"].false <= 0.01


@pytest.mark.simulation
@pytest.mark.parametrize(("worse", "gain"), [(1, 0.0), (5, 0.001), (25, 0.005), (50, 0.15)])
def test_holm_would_name_few_more_tests(worse: int, gain: float) -> None:
    """Of those that lost 2.2 points; a rate of 69 %, and of 82 % where all of them did."""
    found = SCRIPT["outcomes"](worse, SCRIPT["DROPS"][1], FEW)
    assert 0.6 <= found["even split"].found <= 0.78
    assert 0 <= found["Holm"].found - found["even split"].found <= gain


def test_the_fallback_procedure_passes_a_level_on() -> None:
    """Three tests at a third of alpha each; the level of the first is added to that of the second."""
    third = SCRIPT["ALPHA"] / 3
    assert [True, True, False] == SCRIPT["fallback"]([third, 1.5 * third, 3.5 * third])
    assert [False, False, True] == SCRIPT["fallback"]([2 * third, 1.5 * third, third])
