"""Requirements, Pareto sets, scores and composites: known answers, and what noise leaves inconclusive."""

import dataclasses
import math
from array import array
from collections.abc import Sequence

import pytest
from fakes import records as fake
from hypothesis import given
from hypothesis import strategies as st

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import parse_budgets
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.run import Estimate
from pytest_hwperf.records.verdict import Comparison, ComparisonOutcome
from pytest_hwperf.stats.rivals import ACCURACY, DIMENSIONS, MEMORY, Candidate, between_processes, change_of, versus
from pytest_hwperf.stats.tradeoffs import (
    WEIGHTS,
    answers,
    best_by,
    composite,
    dimensions_of,
    meets,
    not_below,
    pareto,
    parse_weights,
    score,
    weights_of,
)

KEYS = tuple(DIMENSIONS.values())
BUDGETS = parse_budgets({"latency_p50_ms": 10, "accuracy_min": 0.8, "memory_max_mb": 4})


def near(value: float, noise: float = 0.0) -> Estimate:
    return fake.estimate(value, value * (1 - noise), value * (1 + noise), 100)


def candidate(  # noqa: PLR0913 - as many dimensions, and what blurs them
    name: str,
    accuracy: float | None = 0.9,
    latency_ms: float = 1.0,
    memory_mb: float = 1.0,
    energy_mj: float | None = 1.0,
    *,
    noise: float = 0.0,
    rows: int = 1,
) -> Candidate:
    values = {
        ACCURACY: accuracy,
        MEDIAN_LATENCY: latency_ms * 1e-3,
        MEMORY: memory_mb * 1e6,
        DIMENSIONS["energy"]: None if energy_mj is None else energy_mj * 1e-3,
    }
    found = {key: near(value, noise) for key, value in values.items() if value is not None}
    return Candidate(name=name, values=found, rows=rows)


def named(candidates: Sequence[Candidate]) -> list[str]:
    return [one.name for one in candidates]


def test_each_violation_has_its_share() -> None:
    found = answers(candidate("a", accuracy=0.6, latency_ms=12, memory_mb=3).values, BUDGETS)
    assert ["failed", "failed", "passed"] == [one.outcome for one in found]
    assert [0.2, 0.25, 0.0] == pytest.approx([one.excess for one in found])
    assert not meets(found)


def test_an_inconclusive_requirement_bars_by_its_value_alone() -> None:
    missed, kept = (answers(candidate("a", latency_ms=ms, noise=0.1).values, BUDGETS[:1]) for ms in (10.5, 9.5))
    assert ["inconclusive", "inconclusive"] == [missed[0].outcome, kept[0].outcome]
    assert [False, True] == [meets(missed), meets(kept)]


def test_what_is_unmeasured_bars_nothing_and_is_said() -> None:
    found = answers(candidate("a", accuracy=None).values, BUDGETS)
    assert ["passed", "unmeasured", "passed"] == [one.outcome for one in found]
    assert meets(found)


@pytest.mark.parametrize(("memory_mb", "excess"), [(1.0, None), (0.0, 0.0)])
def test_a_limit_of_nothing_is_missed_without_end(memory_mb: float, excess: float | None) -> None:
    found = answers(candidate("a", memory_mb=memory_mb).values, parse_budgets({"memory_max_mb": 0}))
    assert (excess, excess is None) == (found[0].excess, not meets(found))


def test_dimensions_that_one_lacks_are_left_out_for_all() -> None:
    there, lacking = dimensions_of([candidate("a"), candidate("b", energy_mj=None, accuracy=None)])
    assert ["latency", "memory"] == list(there)
    assert {"accuracy": ["b"], "energy": ["b"]} == lacking
    assert {"latency": 0.5, "memory": 0.5} == weights_of(WEIGHTS, there)
    assert {} == weights_of({"accuracy": 1.0}, there)


def test_the_pareto_set_has_what_none_beats() -> None:
    fast, right, worse = candidate("fast", 0.8, 1), candidate("right", 0.9, 2), candidate("worse", 0.8, 2)
    assert ["fast", "right"] == named(pareto([fast, right, worse], KEYS))


def test_noise_dominates_nobody() -> None:
    close = [candidate("a", latency_ms=1.0, noise=0.05), candidate("b", latency_ms=1.02, noise=0.05)]
    assert ["a", "b"] == named(pareto(close, KEYS))
    assert ["a"] == named(pareto([candidate("a", latency_ms=1.0), candidate("b", latency_ms=2.5)], KEYS))


@given(
    st.lists(
        st.tuples(*[st.floats(0.1, 10)] * 4, st.floats(0, 0.3)),
        min_size=1,
        max_size=6,
    )
)
def test_a_pareto_set_is_never_empty(rows: list[tuple[float, float, float, float, float]]) -> None:
    """Dominance is an order of the values, which noise only takes pairs from."""
    candidates = [candidate(str(n), *row[:4], noise=row[4]) for n, row in enumerate(rows)]
    assert pareto(candidates, KEYS)


def test_latency_is_compared_per_row() -> None:
    single, batched = candidate("single", latency_ms=1), candidate("batched", latency_ms=8, rows=16)
    assert batched == best_by([single, batched], MEDIAN_LATENCY).first


def test_a_value_without_an_interval_counts_as_it_is() -> None:
    """Nothing is known of its noise: a tie would make the worst as good as the best."""
    good, bad = (
        Candidate(name=name, values={ACCURACY: fake.estimate(share, None, None, 1)})
        for name, share in (("good", 0.95), ("bad", 0.5))
    )
    assert (good, [], []) == best_by([bad, good], ACCURACY)
    assert ["good"] == named(pareto([bad, good], [ACCURACY]))


def test_an_interval_that_is_open_on_one_side_is_inconclusive() -> None:
    known = candidate("a", latency_ms=1.0)
    slow = Candidate(name="b", values={**known.values, MEDIAN_LATENCY: fake.estimate(0.002, None, 0.003, 9)})
    assert (known, [], [slow]) == best_by([known, slow], MEDIAN_LATENCY)


def test_what_two_processes_of_one_model_differ_by_decides_nothing() -> None:
    """One process each, however narrow its interval: t(.99, 3) * 0.10 * sqrt(2) = 0.642, a factor of 1.90."""
    close = [candidate("a", latency_ms=1.0), candidate("b", latency_ms=1.9), candidate("c", latency_ms=2.0)]
    assert (close[0], [], close[1:2]) == best_by(close, MEDIAN_LATENCY)
    assert ["a", "b"] == named(pareto(close, KEYS))


def against(one: Candidate, other: Candidate, change: Estimate, outcome: ComparisonOutcome) -> Candidate:
    """Return the first one with what pairs have shown of its latency against the other."""
    found = Comparison(
        metric="latency", statistic="p50", outcome=outcome, change=change, scale="relative", margin=0.02, pairs=12
    )
    return dataclasses.replace(one, pairs={other.name: {MEDIAN_LATENCY: found}})


@pytest.mark.parametrize(
    ("change", "outcome", "mirrored"),
    [
        (fake.estimate(-0.1, -0.12, -0.08, 12), "improved", "regressed"),
        (fake.estimate(0.001, -0.01, 0.011, 12), "equivalent", "equivalent"),
        (fake.estimate(0.1, 0.08, None, 12), "regressed", "improved"),
    ],
)
def test_pairs_decide_whatever_single_processes_say(
    change: Estimate, outcome: ComparisonOutcome, mirrored: ComparisonOutcome
) -> None:
    """The first is five times as slow in its one process, and its pairs know better, seen from either side."""
    other = candidate("b", latency_ms=1.0)
    one = against(candidate("a", latency_ms=5.0), other, change, outcome)
    assert (outcome, mirrored) == (versus(one, other, MEDIAN_LATENCY), versus(other, one, MEDIAN_LATENCY))
    assert pytest.approx(math.log1p(change.value)) == change_of(one, other, MEDIAN_LATENCY).value
    assert pytest.approx(-math.log1p(change.value)) == change_of(other, one, MEDIAN_LATENCY).value
    assert (one if outcome == "improved" else other) == best_by([one, other], MEDIAN_LATENCY).first
    front = {"improved": ["a"], "regressed": ["b"], "equivalent": ["a", "b"]}
    assert front[outcome] == named(pareto([one, other], [MEDIAN_LATENCY]))


def test_inconclusive_pairs_leave_it_to_single_processes() -> None:
    other = candidate("b", latency_ms=1.0)
    slow, near_it = (
        against(candidate("a", latency_ms=ms), other, fake.estimate(0.1, -0.1, 0.3, 3), "inconclusive")
        for ms in (5.0, 1.1)
    )
    assert ["regressed", "inconclusive"] == [versus(one, other, MEDIAN_LATENCY) for one in (slow, near_it)]


def answering(name: str, right: Sequence[int], **conditions: str) -> Candidate:
    values = {ACCURACY: near(sum(right) / len(right), 0.02)}
    return Candidate(name=name, values=values, right=array("d", right), conditions=conditions)


@pytest.mark.parametrize(
    ("lost", "won", "n", "outcome"),
    [
        (33, 1, 2000, "regressed"),
        (1, 33, 2000, "improved"),
        (0, 0, 50, "equivalent"),  # the same answers
        (3, 2, 2000, "equivalent"),
        (20, 8, 2000, "inconclusive"),
        (3, 2, 100, "inconclusive"),  # not shown worse, and not shown as good
        (9, 0, 2000, "regressed"),  # by less than a point, and still
    ],
)
def test_accuracy_is_paired_by_example(lost: int, won: int, n: int, outcome: str) -> None:
    """The intervals of both, of examples that are taken for others, hold each other's value in every case."""
    reference = answering("fp32", [1] * (n - won) + [0] * won)
    other = answering("int8", [0] * lost + [1] * (n - lost))
    assert outcome == versus(other, reference, ACCURACY)


def test_other_rows_are_not_paired() -> None:
    one, other = answering("a", [1] * 1000, data="1"), answering("b", [0] * 10 + [1] * 990, data="2")
    shorter = answering("c", [0] * 10 + [1] * 900, data="1")
    assert ["inconclusive"] * 2 == [versus(one, rival, ACCURACY) for rival in (other, shorter)]


@pytest.mark.parametrize(
    ("mine", "its", "outcome"), [(0.0, 0.0, "equivalent"), (1.0, 0.0, "improved"), (0.0, 1.0, "regressed")]
)
def test_an_accuracy_of_nothing_is_compared_too(mine: float, its: float, outcome: str) -> None:
    one, other = (Candidate(name=str(value), values={ACCURACY: near(value)}) for value in (mine, its))
    assert outcome == versus(one, other, ACCURACY)


def test_ties_of_the_best_are_named_behind_it() -> None:
    candidates = [candidate("a", 0.90, noise=0.02), candidate("b", 0.91, noise=0.02), candidate("c", 0.5, noise=0.02)]
    assert (candidates[1], [], candidates[:1]) == best_by(candidates, ACCURACY)


def test_the_composite_of_known_values() -> None:
    assert 0.788 == pytest.approx(composite(candidate("a", 0.854, 0.068, 2.41, 0), WEIGHTS), abs=5e-4)


def test_a_score_is_a_geometric_mean_of_ratios() -> None:
    """Twice as accurate, four times as fast, the same otherwise: 2^0.4 x 4^0.2 = 2^0.8."""
    reference, other = candidate("r", 0.4, 4), candidate("o", 0.8, 1)
    found = score(other, reference, WEIGHTS)
    assert found is not None

    half = math.exp(0.2 * math.sqrt(2) * between_processes())  # of latency and energy
    assert pytest.approx([100 * 2**0.8 * one for one in (1, 1 / half, half)]) == [found.value, found.low, found.high]
    itself = score(reference, reference, WEIGHTS)
    assert itself is not None
    assert (100.0, 100.0, 100.0) == (itself.value, itself.low, itself.high)


def test_a_score_turns_around_with_its_reference() -> None:
    one, other = candidate("a", 0.7, 3, 2, 5), candidate("b", 0.8, 1, 4, 2)
    there, back = score(one, other, WEIGHTS), score(other, one, WEIGHTS)
    assert there is not None
    assert back is not None
    assert pytest.approx(1e4) == there.value * back.value


def test_a_value_of_nothing_has_no_score() -> None:
    assert score(candidate("a", energy_mj=0), candidate("b"), WEIGHTS) is None


def test_the_band_of_a_score() -> None:
    """10 % on each of four values of both sides, and on both timings what processes differ by."""
    found = score(candidate("c", noise=0.1), candidate("r", noise=0.1), WEIGHTS)
    assert found is not None

    own = math.log(1.1 / 0.9)
    half = math.sqrt((0.16 + 0.04) * own**2 + 2 * 0.04 * (own + between_processes()) ** 2)
    assert half == pytest.approx(math.log((found.high or 0) / found.value))


def test_what_is_not_below_the_best_is_scored_against_it() -> None:
    best, near_it, far = (candidate(name, latency_ms=ms, noise=0.1) for name, ms in (("a", 1), ("b", 1.4), ("c", 30)))
    assert ["b"] == named(not_below([best, near_it, far], best, WEIGHTS))


def test_the_noise_of_a_reference_makes_no_ties() -> None:
    """Two exact candidates, 20 % apart in memory: whatever they are scored against."""
    best, other = candidate("a", memory_mb=10), candidate("b", memory_mb=12)
    assert [] == not_below([best, other], best, {"accuracy": 0.5, "memory": 0.5})


def test_an_unknown_band_is_inconclusive() -> None:
    known = candidate("a")
    open_ended = Candidate(name="b", values={**known.values, MEDIAN_LATENCY: fake.estimate(0.01, None, 0.02, 1)})
    found = score(open_ended, known, WEIGHTS)
    assert found is not None
    assert (None, None) == (found.low, found.high)
    assert ["b"] == named(not_below([known, open_ended], known, WEIGHTS))


def test_weights_are_normalised() -> None:
    """What is not named has its usual weight."""
    found = parse_weights(["accuracy=0.7", "energy=0"])
    assert {"accuracy": 0.7 / 1.1, "latency": 0.2 / 1.1, "memory": 0.2 / 1.1, "energy": 0.0} == pytest.approx(found)
    assert WEIGHTS == pytest.approx(parse_weights([]))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("acuracy=1", "unknown dimension. Did you mean 'accuracy'"),
        ("accuracy", "a number of at least 0"),
        ("accuracy=-1", "a number of at least 0"),
    ],
)
def test_weights_that_cannot_be_meant(text: str, complaint: str) -> None:
    with pytest.raises(UsageProblem, match=complaint):
        parse_weights([text])


def test_weights_of_nothing_cannot_be_meant() -> None:
    with pytest.raises(UsageProblem, match="at least one weight above 0"):
        parse_weights([f"{name}=0" for name in DIMENSIONS])


def test_an_estimate_answers_a_requirement_as_it_does_for_the_marker() -> None:
    """It is measured nowhere: as a dimension it is left out all the same."""
    guess = Candidate(name="a", values={}, guesses={DIMENSIONS["energy"]: near(1e-3, 0.1)})
    (found,) = answers(guess.guesses, parse_budgets({"energy_budget_mj": 2}))
    assert ("passed", True) == (found.outcome, guess.is_guessed(found.budget.key))
    assert {} == dimensions_of([guess])[0]
