"""Operators and allocations that moved, from several profiles of each side."""

from random import Random

import pytest
from fakes import gates
from fakes.profiles import profiled

from pytest_hwperf.records.evidence import PairedProfiles
from pytest_hwperf.records.messages import said
from pytest_hwperf.records.profiles import HeldMemory, is_clear
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.explanations import explain_memory, explain_nothing, explain_operators, explained
from pytest_hwperf.stats.sequence import decide

SLOWER = gates.hypothesis(0)
LARGER = gates.hypothesis(0, gates.MEMORY)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """From 1 ms to 1.3 ms."""
    return decide(gates.build([0.3, 0.0], Random(1)))[SLOWER]


@pytest.fixture(scope="module")
def memory(comparison: Comparison) -> Comparison:
    """From 100 MB to 130 MB."""
    assert comparison.change is not None
    change = replace(comparison.change, value=0.3, low=None, high=None)
    return replace(comparison, metric="memory", baseline=100e6, change=change)


def pairs(*erf: float, gemm: tuple[float, ...] = (900, 905, 895)) -> list[PairedProfiles]:
    return [
        PairedProfiles(
            measurement=SLOWER.measurement, baseline=profiled(Gemm=900), candidate=profiled(Gemm=us, Erf=more)
        )
        for more, us in zip(erf, gemm, strict=True)
    ]


def held(function: str, megabytes: int, *, line: int = 3, called_at: str = "") -> HeldMemory:
    return HeldMemory(
        function=function,
        file="model.py" if function else "",
        line=line,
        called_at=called_at,
        caller="read" if called_at else "",
        size=megabytes * 1_000_000,
        allocations=1,
    )


def test_the_operator_that_was_added_moved_first(comparison: Comparison) -> None:
    found = explain_operators(SLOWER, comparison, pairs(270, 275, 265))
    assert ("Erf (Erf_0)", 0.0, 3) == (found.movers[0].name, found.movers[0].baseline, found.repeats)
    assert pytest.approx(1.0, abs=0.05) == found.covered
    assert "Erf (Erf_0): " in str(explained({SLOWER: comparison}, pairs(270, 275, 265), [found])[SLOWER.key].moved)


def test_an_operator_within_the_spread_is_not_named(comparison: Comparison) -> None:
    """Gemm took 800 to 1000 of 900 µs."""
    found = explain_operators(SLOWER, comparison, pairs(270, 270, 270, gemm=(800, 1000, 900)))
    assert ["Erf (Erf_0)"] == [one.name for one in found.movers]


def test_withheld_operators_name_none(comparison: Comparison) -> None:
    """They cover half of the call."""
    (one,) = pairs(270, gemm=(900,))
    half = replace(one, candidate=replace(one.candidate, call_s=2.5e-3))
    found = explain_operators(SLOWER, comparison, [half])
    assert ((), "nothing moved") == (found.movers, found.withheld and found.withheld.kind)


def test_a_function_that_holds_more_than_any_operator_is_told_instead(comparison: Comparison) -> None:
    """Of the change 10 % is an operator's."""
    operators = explain_operators(SLOWER, comparison, pairs(27, 27, 27))
    small = replace(operators, movers=(replace(operators.movers[0], share=0.1),))
    function = replace(
        operators, kind="function", movers=(replace(operators.movers[0], kind="function", name="f", where="a.py:1"),)
    )
    moved = explained({SLOWER: comparison}, pairs(27, 27, 27), [small, function])[SLOWER.key].moved
    assert str(moved).startswith("f (a.py:1) +")


def test_the_allocation_that_was_added_is_named_with_its_line(memory: Comparison) -> None:
    """Lines of a function count together, since they may move; the largest line of the candidate is shown."""
    before = [[held("load", 80), held("", 1)]] * 3
    after = [[held("load", 10, line=8), held("load", 100, line=9), held("", 1)]] * 3
    found = explain_memory(LARGER, memory, before, after)
    moved = explained({LARGER: memory}, (), [found])[LARGER.key].moved
    assert [("load", "model.py:9", 30e6)] == [(one.name, one.where, one.moved) for one in found.movers]
    assert "load (model.py:9) holds +30.0 MB at the peak: 100 % of the change" == str(moved)


def test_what_a_library_holds_is_its_callers(memory: Comparison) -> None:
    before, after = [[held("ones", 80, called_at="t.py:2")]] * 3, [[held("ones", 110, called_at="t.py:4")]] * 3
    (mover,) = explain_memory(LARGER, memory, before, after).movers
    assert ("read", "t.py:4", 30e6) == (mover.name, mover.where, mover.moved)


def test_memory_that_did_not_change_has_no_mover(memory: Comparison) -> None:
    equal = replace(memory, outcome="equivalent")
    assert () == explain_memory(LARGER, equal, [[held("load", 1)]], [[held("load", 9)]]).movers


def test_why_nothing_could_be_profiled_is_said_in_place_of_a_mover(comparison: Comparison) -> None:
    found = explain_nothing(SLOWER, comparison, "function", said("no timer is there"))
    assert ("no timer is there", 0) == (str(found.withheld), found.repeats)
    assert "no timer is there" == str(explained({SLOWER: comparison}, (), [found])[SLOWER.key].moved)


def test_what_operators_say_stands_where_functions_are_unknown(comparison: Comparison) -> None:
    found = explain_nothing(SLOWER, comparison, "function", said("no timer is there"))
    three = pairs(1, 1, 1, gemm=(900, 900, 900))
    assert "Gemm" in str(explained({SLOWER: comparison}, three, [found])[SLOWER.key].moved)


def test_an_explanation_of_another_comparison_changes_none(comparison: Comparison) -> None:
    found = explain_nothing(LARGER, comparison, "allocation", said("…"))
    assert explained({SLOWER: comparison}, (), [found])[SLOWER.key].moved is None
    assert LARGER.key == found.key
    assert pytest.approx(0.3, abs=0.1) == found.change / found.baseline


@pytest.mark.parametrize(
    ("low", "high", "clear"), [(1, 2, True), (1, 4, False), (-1, 3, False), (-2, -1, True), (1, 1, True), (0, 0, False)]
)
def test_a_difference_is_clear_that_is_farther_from_nothing_than_half_its_spread(
    low: float, high: float, *, clear: bool
) -> None:
    assert clear == is_clear(low, high)


def test_what_has_not_moved_in_a_report_from_elsewhere_does_no_harm(comparison: Comparison) -> None:
    found = explain_operators(SLOWER, comparison, pairs(270, 275, 265))
    still = replace(found.movers[0], kind="function", baseline=1.0, candidate=1.0, share=0.5)
    edited = replace(found, kind="function", movers=(still,))
    assert (0.5, 0.5) == still.spread
    assert "50 % of the change" in str(explained({SLOWER: comparison}, (), [edited])[SLOWER.key].moved)
