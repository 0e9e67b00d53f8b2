"""Operator shares: scaled to calls without a profiler, withheld where they would mislead, compared by kind."""

import pytest

from pytest_hwperf.records.messages import state
from pytest_hwperf.records.profiles import OperatorProfile, ProfiledCalls, ProfiledOperator
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.explanations import by_family, moved_most, profile_of, profiler_costs

LONG_S = 1e-3


def profiled(*operators: tuple[str, float], call_us: float = 1000, rows: int = 256, names: str = "") -> ProfiledCalls:
    """Write operators as kind, microseconds; each node is called like its kind, with a suffix where one is given."""
    return ProfiledCalls(
        source="fake profile",
        operators=tuple(
            ProfiledOperator(name=f"{kind.lower()}{names}", kind=kind, calls=1, seconds=us * 1e-6)
            for kind, us in operators
        ),
        call_s=call_us * 1e-6,
        calls=20,
        rows=rows,
    )


def profile(*operators: tuple[str, float], latency_us: float = 1000, call_us: float = 1000) -> OperatorProfile:
    return profile_of(profiled(*operators, call_us=call_us), latency_us * 1e-6)


def test_shares_are_of_the_profiled_call_and_seconds_of_the_unprofiled_one() -> None:
    """600 and 300 of 1000 µs under the profiler, where a call takes 500 µs without it."""
    found = profile(("Softmax", 300), ("Gemm", 600), latency_us=500)
    assert ["Gemm", "Softmax"] == [one.kind for one in found.operators]
    assert pytest.approx([0.6, 0.3]) == [one.share for one in found.operators]
    assert pytest.approx([300e-6, 150e-6]) == [one.seconds for one in found.operators]
    assert pytest.approx([0.9, 50e-6]) == [found.coverage, found.framework_s]
    assert pytest.approx(found.coverage) == sum(one.share for one in found.operators)
    assert ("fake profile", 20, None) == (found.source, found.calls, found.withheld)


def test_operators_cannot_take_more_than_the_call() -> None:
    """Durations are rounded: their sum may be above that of the call."""
    found = profile(("Gemm", 1010))
    assert (1.0, 1.0, 0.0) == (found.coverage, found.operators[0].share, found.framework_s)


@pytest.mark.parametrize(("us", "withheld"), [(801, False), (799, True)])
def test_shares_below_four_fifths_of_the_call_are_withheld(us: float, *, withheld: bool) -> None:
    found = profile(("Gemm", us))
    assert withheld == (found.operators == ())
    assert (state("low coverage", coverage=us / 1000, least=0.8) if withheld else None) == found.withheld


@pytest.mark.parametrize(
    ("rows", "latency_us", "withheld"), [(256, 1, False), (255, 40, True), (255, 41, False), (1, 40, True)]
)
def test_short_calls_of_small_batches_are_not_profiled(rows: int, latency_us: float, *, withheld: bool) -> None:
    """Two operators: calls have to take more than 40 µs, or batches to have 256 rows."""
    found = profile_of(profiled(("Gemm", 700), ("Softmax", 200), rows=rows), latency_us * 1e-6)
    assert withheld == (found.withheld is not None)
    assert not withheld or str(found.withheld).startswith("too short to profile: 40.0 µs for 2 operators and")


def test_a_model_without_operators_has_no_coverage() -> None:
    found = profile_of(profiled(call_us=0), LONG_S)
    assert (0.0, ()) == (found.coverage, found.operators)
    assert found.withheld is not None


def test_nodes_of_a_kind_are_summed_the_slowest_first() -> None:
    found = by_family(profile(("Add", 300), ("Gemm", 350), ("Add", 250)).operators)
    assert {"Add": pytest.approx(550e-6), "matrix products": pytest.approx(350e-6)} == found
    assert ["Add", "matrix products"] == [*found]


def test_a_kernel_that_replaces_another_one_has_not_moved() -> None:
    """Beside a new Pow the runtime no longer fuses: the products are the same, and their sums stand alone."""
    before = profile(("FusedGemm", 900), ("Softmax", 100))
    after = profile(("MatMul", 880), ("Add", 100), ("Softmax", 100), ("Pow", 220), latency_us=1300, call_us=1300)
    assert str(moved_most(before, after)) == "Pow (pow): 220 µs of a call, 0 s in the baseline: 73 % of the change"


def test_the_operator_that_moved_most_is_named_with_its_share() -> None:
    """The call takes 400 µs longer, 300 of them in the new Erf."""
    before = profile(("Gemm", 800), ("Relu", 200))
    after = profile(("Gemm", 850), ("Relu", 250), ("Erf", 300), latency_us=1400, call_us=1400)
    moved = moved_most(before, after)
    assert str(moved) == "Erf (erf): 300 µs of a call, 0 s in the baseline: 75 % of the change"


def test_an_operator_that_is_gone_made_the_call_faster() -> None:
    before = profile(("Gemm", 850), ("Relu", 250), ("Erf", 300), latency_us=1400, call_us=1400)
    after = profile(("Gemm", 800), ("Relu", 200))
    assert str(moved_most(before, after)).startswith("Erf (erf): 0 s of a call, 300 µs in the baseline: 75 %")


def layers(*microseconds: float, names: str = "abc") -> OperatorProfile:
    """A model of nothing but products, each a node of its own."""
    one = ProfiledOperator(name="", kind="Gemm", calls=1, seconds=0.0)
    operators = tuple(replace(one, name=name, seconds=us * 1e-6) for name, us in zip(names, microseconds, strict=False))
    whole = sum(microseconds) * 1e-6
    return profile_of(ProfiledCalls(source="fake", operators=operators, call_s=whole, calls=1, rows=256), whole)


def test_of_several_nodes_of_a_kind_the_one_that_moved_is_named() -> None:
    moved = str(moved_most(layers(500, 300, 200), layers(520, 480, 200)))
    assert moved.startswith("matrix products (most of it in b): 1.20 ms of a call, 1.00 ms in the baseline")
    assert "matrix products (most of it in a)" in str(moved_most(layers(900, 300), layers(500, 310)))


def test_nodes_that_one_side_does_not_have_are_named_by_their_kind() -> None:
    """Another conversion may have given other names."""
    moved = moved_most(layers(500, 500, names="xy"), layers(600, 600))
    assert str(moved).startswith("matrix products: 1.20 ms")


def test_what_is_outside_of_operators_may_have_moved() -> None:
    """Nine tenths of a call are operators on both sides; of 200 µs more, 160 are outside of them."""
    before = profile(("Gemm", 1000))
    after = profile(("Gemm", 1040), latency_us=1200, call_us=1200)
    assert str(moved_most(before, after)).endswith("outside of them: 80 % of the change")


def test_nothing_moved() -> None:
    same = profile(("Gemm", 900))
    assert state("framework moved", share=0.0) == moved_most(same, same)


@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_what_is_withheld_of_one_side_is_said(side: str) -> None:
    known, unknown = profile(("Gemm", 900)), profile(("Gemm", 500))
    moved = moved_most(unknown, known) if side == "baseline" else moved_most(known, unknown)
    assert str(moved).startswith(f"operators of the {side} are not known: operators cover 50 % of the call")


def test_a_side_without_operators_moves_nothing() -> None:
    empty = OperatorProfile(source="fake", calls=1, latency_s=LONG_S, coverage=1.0)
    assert state("framework moved", share=0.0) == moved_most(empty, empty)


def test_without_calls_outside_the_profiler_shares_are_of_those_within() -> None:
    """600 of 1000 µs, however little the rest of the call says."""
    found = profile_of(profiled(("Gemm", 600), rows=0))
    assert pytest.approx([1e-3, 0.6]) == [found.latency_s, found.coverage]
    assert found.under_profiler
    assert pytest.approx([0.6]) == [one.share for one in found.operators]
    assert 0.0 == profile_of(profiled(call_us=0)).coverage


@pytest.mark.parametrize(("call_us", "costs"), [(39, True), (41, False)])
def test_the_profiler_costs_much_of_operators_below_20_us(call_us: float, *, costs: bool) -> None:
    assert costs == profiler_costs(profiled(("Gemm", 10), ("Relu", 10), call_us=call_us))
