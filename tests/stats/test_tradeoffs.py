"""Requirements, Pareto sets, scores, composites and ranks: known answers, and what noise leaves inconclusive."""

import dataclasses
import math
from array import array
from typing import Any

import pytest
from fakes import records as fake
from fakes.candidates import candidate, named, near
from hypothesis import given
from hypothesis import strategies as st

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import parse_budgets
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.run import Classes
from pytest_hwperf.stats.choice.candidates import ACCURACY, DIMENSIONS, Candidate, between_processes
from pytest_hwperf.stats.choice.tradeoffs import (
    WEIGHTS,
    Choice,
    answers,
    best_by,
    choices_of,
    composite,
    meets,
    not_below,
    pareto,
    parse_weights,
    score,
)

KEYS = tuple(DIMENSIONS.values())
BUDGETS = parse_budgets({"latency_p50_ms": 10, "accuracy_min": 0.8, "memory_max_mb": 4})


def test_each_violation_has_its_share() -> None:
    """An inconclusive requirement bars by its value alone, and an unmeasured one bars nothing."""
    table: list[tuple[Candidate, list[str], list[float], bool]] = [
        (candidate("a", 0.6, 12, 3), ["failed", "failed", "passed"], [0.2, 0.25, 0.0], False),
        (candidate("a", None), ["passed", "unmeasured", "passed"], [0.0, 0.0, 0.0], True),
        (candidate("a", latency_ms=10.5, noise=0.1), ["inconclusive", "passed", "passed"], [0.05, 0, 0], False),
        (candidate("a", latency_ms=9.5, noise=0.1), ["inconclusive", "passed", "passed"], [0, 0, 0], True),
    ]
    for of, outcomes, excess, met in table:
        found = answers(of.values, BUDGETS)
        assert outcomes == [one.outcome for one in found]
        assert excess == pytest.approx([one.excess for one in found])
        assert met == meets(found)


def test_a_limit_of_nothing_is_missed_without_end() -> None:
    table: list[tuple[float, float | None]] = [(1.0, None), (0.0, 0.0)]
    for memory_mb, excess in table:
        found = answers(candidate("a", memory_mb=memory_mb).values, parse_budgets({"memory_max_mb": 0}))
        assert (excess, excess is None) == (found[0].excess, not meets(found))


def test_dimensions_that_one_lacks_are_left_out_for_all() -> None:
    found = choice(candidate("a"), candidate("b", energy_mj=None, accuracy=None))
    assert ["latency", "memory"] == list(found.dimensions)
    assert {"accuracy": ["b"], "energy": ["b"]} == found.lacking
    assert {"latency": 0.5, "memory": 0.5} == found.weighted


def test_noise_dominates_nobody() -> None:
    fast, right, worse = candidate("fast", 0.8, 1), candidate("right", 0.9, 2), candidate("worse", 0.8, 2)
    close = [candidate("a", latency_ms=1.0, noise=0.05), candidate("b", latency_ms=1.02, noise=0.05)]
    assert ["fast", "right"] == named(pareto([fast, right, worse], KEYS))
    assert ["a", "b"] == named(pareto(close, KEYS))
    assert ["a"] == named(pareto([candidate("a", latency_ms=1.0), candidate("b", latency_ms=2.5)], KEYS))


@given(st.lists(st.tuples(*[st.floats(0.1, 10)] * 4, st.floats(0, 0.3)), min_size=1, max_size=6))
def test_a_pareto_set_is_never_empty(rows: list[tuple[float, float, float, float, float]]) -> None:
    """Dominance is an order of the values, which noise only takes pairs from."""
    assert pareto([candidate(str(n), *row[:4], noise=row[4]) for n, row in enumerate(rows)], KEYS)


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


def test_ties_of_the_best_are_named_behind_it() -> None:
    candidates = [candidate("a", 0.90, noise=0.02), candidate("b", 0.91, noise=0.02), candidate("c", 0.5, noise=0.02)]
    assert (candidates[1], [], candidates[:1]) == best_by(candidates, ACCURACY)


def test_the_composite_of_known_values() -> None:
    assert 0.788 == pytest.approx(composite(candidate("a", 0.854, 0.068, 2.41, 0), WEIGHTS), abs=5e-4)


def test_a_score_is_a_geometric_mean_of_ratios() -> None:
    """Twice as accurate, four times as fast, the same otherwise: 2^0.4 x 4^0.2 = 2^0.8. Turned around, its inverse."""
    reference, other = candidate("r", 0.4, 4), candidate("o", 0.8, 1)
    found, back, itself = (score(*two, WEIGHTS) for two in ((other, reference), (reference, other), (other, other)))
    assert found is not None
    assert back is not None
    half = math.exp(0.2 * math.sqrt(2) * between_processes())  # of latency and energy
    assert pytest.approx([100 * 2**0.8 * one for one in (1, 1 / half, half)]) == [found.value, found.low, found.high]
    assert pytest.approx(1e4) == found.value * back.value
    assert itself is not None
    assert (100.0, 100.0, 100.0) == (itself.value, itself.low, itself.high)
    assert score(candidate("a", energy_mj=0), reference, WEIGHTS) is None


def test_the_band_of_a_score() -> None:
    """10 % on each of four values of both sides, and on both timings what processes differ by."""
    found = score(candidate("c", noise=0.1), candidate("r", noise=0.1), WEIGHTS)
    own = math.log(1.1 / 0.9)
    half = math.sqrt((0.16 + 0.04) * own**2 + 2 * 0.04 * (own + between_processes()) ** 2)
    assert found is not None
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


def test_weights_that_cannot_be_meant() -> None:
    table: list[tuple[list[str], str]] = [
        (["acuracy=1"], "unknown dimension. Did you mean 'accuracy'"),
        (["accuracy"], "a number of at least 0"),
        (["accuracy=-1"], "a number of at least 0"),
        ([f"{name}=0" for name in DIMENSIONS], "at least one weight above 0"),
    ]
    for texts, complaint in table:
        with pytest.raises(UsageProblem, match=complaint):
            parse_weights(texts)


FAST, RIGHT = candidate("fast", 0.8, 1, 1, None), candidate("right", 0.9, 2, 1, None)
FP32 = candidate("onnx_fp32", 0.9, 1, 1, None, conditions={"precision": "float32", "form": "MatMul"})
INT8 = candidate("onnx_int8", 0.9, 5, 0.01, None, conditions={"precision": "int8 static", "form": "MatMul"})


def choice(*found: Candidate, **others: Any) -> Choice:
    (one,) = choices_of("a.py::test_x", found, **others)
    return one


def test_candidates_are_ranked_by_what_is_asked_for() -> None:
    table: list[tuple[list[Candidate], str, list[str]]] = [
        ([RIGHT, FAST], "score", ["fast", "right"]),
        ([RIGHT, FAST], "composite", ["right", "fast"]),
        ([RIGHT, FAST], "latency", ["fast", "right"]),
        ([FAST, RIGHT], "accuracy", ["right", "fast"]),
        ([INT8, FP32], "score", ["onnx_fp32", "onnx_int8"]),  # its score is 211, and it is slower than FP32
        ([FP32, INT8], "memory", ["onnx_int8", "onnx_fp32"]),
        ([candidate("wrong", 0.0, 1, 1, None), FAST], "score", ["fast", "wrong"]),  # 0 has no ratio
    ]
    for of, rank_by, names in table:
        found = choice(*of, rank_by=rank_by, called="fast")
        assert names == [one.candidate.name for one in found.ranked]
        assert [one.candidate.name == "onnx_int8" and rank_by == "score" for one in found.ranked] == [
            one.put_back for one in found.ranked
        ]


def test_what_cannot_be_ranked_says_why() -> None:
    table: list[tuple[dict[str, Any], str]] = [
        ({"budgets": parse_budgets({"latency_p50_ms": 0.5})}, "no candidate meets the requirements"),
        ({"rank_by": "energy"}, "not by energy, which is left out"),
        ({"weights": {"energy": 1.0}}, "no dimension that is left has a weight"),
    ]
    for others, why in table:
        found = choice(FAST, **others)
        assert (why, []) == (found.unranked, found.ranked)
        assert ([], {}) == (
            choice(Candidate(name="a", values={})).front,
            choice(Candidate(name="a", values={})).scores,
        ), (others, why)


def test_an_estimated_energy_enters_scores_on_request_alone() -> None:
    """A quarter of the energy at a weight of a quarter makes 141; a requirement is answered as for the marker."""
    of = [
        dataclasses.replace(candidate(name, energy_mj=None), guesses={DIMENSIONS["energy"]: near(millijoules / 1e3)})
        for name, millijoules in (("onnx_fp32", 4.0), ("other", 1.0))
    ]
    even, limits = dict.fromkeys(DIMENSIONS, 0.25), parse_budgets({"energy_budget_mj": 2})
    plain, asked = (choice(*of, with_estimates=given, weights=even, budgets=limits) for given in (False, True))
    assert [(), ("energy",)] == [plain.estimated, asked.estimated]
    assert pytest.approx([100, 2**0.5 * 100]) == [one.scores["other"].value for one in (plain, asked)]
    assert {"energy": ["onnx_fp32", "other"]} == asked.lacking
    assert () == choice(of[0], FAST, with_estimates=True).estimated
    assert ["failed", "passed"] == [one.outcome for (one,) in plain.requirements.values()]


def test_classes_are_lost_against_the_reference() -> None:
    """Where both have answered the same examples."""
    classes = Classes(names=("a", "b"), of=array("d", [0.0] * 1955 + [1.0] * 45))
    right, wrong = array("d", [1.0] * 1980 + [0.0] * 20), array("d", [1.0] * 1955 + [0.0] * 45)
    of = [dataclasses.replace(FP32, right=right), dataclasses.replace(FAST, right=wrong, classes=classes), RIGHT]
    found = choice(*of)
    assert str(found.lost_by(of[1])).startswith("class b: 25 of 45 → 0 of 45 right")
    assert [None, None] == [found.lost_by(of[0]), found.lost_by(of[2])]
