"""Accuracy against stored runs over a whole build: equal code fails it no more often than stated, unseeded or not."""

from collections.abc import Sequence
from random import Random

import pytest
from fakes.records import machine, run, sample

from pytest_hwperf.records.markers import DEFAULT_MARGINS
from pytest_hwperf.records.run import Run, StoredRun, replace
from pytest_hwperf.records.verdict import Comparison, Judgement
from pytest_hwperf.stats.estimates import figures
from pytest_hwperf.stats.stored import (
    Criteria,
    Stored,
    choose,
    compare_with_stored,
    family_of,
    is_exact_alarm,
    may_hide_a_change,
    stored_run_of,
    unless_agreed,
)

ACCURACY, SIZE, MEMORY, INSTRUCTIONS = (
    DEFAULT_MARGINS[name] for name in ("accuracy", "model_size", "memory", "instructions")
)
EXAMPLES, FLIPS, TESTS = 500, 0.06, 50


def labelled(values: Sequence[float], test: str = "tests/test_a.py::test_a") -> Run:
    return run(test=test, samples=(sample("accuracy", values, per="example"),))


def stored(kept: Run) -> StoredRun:
    return stored_run_of(Judgement(run=kept, figures=figures(kept), verdicts=()))


def compared(before: Run, now: Run, family: int) -> Comparison:
    criteria = Criteria(margins=[ACCURACY], alpha=0.01, family=family)
    (found,) = compare_with_stored(now, figures(now), Stored(runs=[stored(before)]), criteria)
    return found


@pytest.mark.simulation
@pytest.mark.parametrize(("family", "least", "most"), [(1, 0.20, 0.45), (TESTS, 0.0, 0.012)])
def test_a_build_of_fifty_tests_with_flips_fails_as_rarely_as_one(family: int, least: float, most: float) -> None:
    """6 % of the answers flip, half of them for the worse: with alpha for each test every third build would fail."""
    random, builds, flipped = Random(50), 4000, round(FLIPS * EXAMPLES)
    alarms = 0
    for _ in range(builds):
        losses = [random.getrandbits(flipped).bit_count() for _ in range(TESTS)]
        alarms += any(_alarm(lost, flipped, family) for lost in losses)
    assert least <= alarms / builds <= most


_CALLED: dict[tuple[int, int, int], bool] = {}


def _alarm(lost: int, flipped: int, family: int) -> bool:
    if (lost, flipped, family) not in _CALLED:
        won = flipped - lost
        before = [1.0] * lost + [0.0] * won + [1.0] * (EXAMPLES - flipped)
        now = [0.0] * lost + [1.0] * won + [1.0] * (EXAMPLES - flipped)
        found = compared(labelled(before), labelled(now), family)
        _CALLED[lost, flipped, family] = found.outcome == "regressed"
    return _CALLED[lost, flipped, family]


def test_a_comparison_says_among_how_many_the_rate_is_split() -> None:
    found = compared(labelled([1.0] * 20), labelled([0.0] * 14 + [1.0] * 6), 50)
    assert "regressed" == found.outcome
    assert found.how.endswith("at most 1 % false alarms per build (split over 50 stored comparisons)")
    assert compared(labelled([1.0]), labelled([1.0, 1.0]), 50).promise is None


def test_the_family_is_what_the_stored_runs_of_these_tests_hold_by_example() -> None:
    others = replace(labelled([1.0], "c"), machine=machine(cores=64))
    kept = [stored(one) for one in (labelled([1.0], "a"), labelled([1.0], "b"), labelled([1.0], "gone"), others)]
    updated = stored(replace(labelled([1.0], "a"), machine=machine(libraries={"numpy": "1.0"})))
    assert 2 == family_of(kept, {"a", "b", "c", "d"}, machine())
    assert 2 == family_of([*kept, updated], {"a", "b"}, machine())  # it may be compared with either
    assert 1 == family_of([updated], {"a"}, machine())
    assert 1 == family_of([], {"a"}, machine())


def test_predictions_that_differ_between_processes_raise_no_alarm() -> None:
    """Trained without a seed, the model of each process is another one."""
    before, now = labelled([1.0] * 20), labelled([0.0] * 12 + [1.0] * 8)
    alarm = compared(before, now, 1)
    kept, criteria = Stored(runs=[stored(before)] * 9), Criteria(margins=[ACCURACY])
    (same,) = unless_agreed(now, [alarm], [now, now], kept, criteria)
    (other,) = unless_agreed(now, [alarm], [now, before], kept, criteria)
    (gone,) = unless_agreed(now, [alarm], [run(samples=(sample(),))], kept, criteria)
    assert alarm == same
    assert ("inconclusive", None) == (other.outcome, other.p_value)
    assert other.reason.startswith("predictions differ between processes of the candidate, ")
    assert "inconclusive" == gone.outcome


def test_a_size_that_differs_between_processes_raises_no_alarm() -> None:
    small, large, larger = (run(samples=(sample("model_size", [size], per="model"),)) for size in (1e6, 2e6, 2.1e6))
    criteria = Criteria(margins=[SIZE])
    kept = Stored(runs=[stored(small)] * 7)
    (alarm,) = compare_with_stored(large, figures(large), kept, criteria)
    (found,) = unless_agreed(large, [alarm], [larger, small], kept, criteria)
    (worse,) = unless_agreed(large, [alarm], [larger, larger], kept, criteria)
    assert is_exact_alarm(large, alarm)
    assert "model_size differs between processes" in found.reason
    assert "regressed" == worse.outcome


def unseeded(count: int, least: int) -> list[Run]:
    """Return runs of models trained without a seed: of 40 examples each has one more right than the one before."""
    return [labelled([1.0] * (least + i) + [0.0] * (40 - least - i)) for i in range(count)]


@pytest.mark.parametrize(
    ("kept", "family", "outcome", "told"),
    [
        (7, 1, "regressed", "the candidate is worse in each of its 3"),  # C(10, 3) = 120 >= 100
        (6, 1, "inconclusive", "may be chance with 6 of 7 stored runs: save more runs, or train"),
        (7, 2, "inconclusive", "may be chance with 7 of 9 stored runs"),  # C(12, 3) = 220 >= 200
        (1, 1, "inconclusive", "may be chance with 1 of 7 stored runs"),
    ],
)
def test_a_model_without_a_seed_regresses_if_each_process_is_worse_than_all_stored_runs(
    kept: int, family: int, outcome: str, told: str
) -> None:
    """Three processes and so many stored runs that equal ones are divided like this at most once in a hundred."""
    now, *again = unseeded(3, least=8)
    stored_runs, criteria = Stored(runs=[*map(stored, unseeded(kept, 30))]), Criteria(margins=[ACCURACY], family=family)
    (alarm,) = compare_with_stored(now, figures(now), stored_runs, criteria)
    (found,) = unless_agreed(now, [alarm], again, stored_runs, criteria)
    assert outcome == found.outcome
    assert told in "; ".join([found.reason, *found.warnings])


def test_one_stored_run_that_is_as_bad_or_of_other_data_proves_nothing_worse() -> None:
    now, *again = unseeded(3, least=8)
    criteria = Criteria(margins=[ACCURACY])
    others = [stored(replace(one, conditions={"data": "other"})) for one in unseeded(7, 30)]
    for more in ([stored(again[0])], others):
        kept = Stored(runs=[*more, *map(stored, unseeded(6, 30))])
        (alarm,) = compare_with_stored(now, figures(now), kept, criteria)
        (found,) = unless_agreed(now, [alarm], again, kept, criteria)
        assert "inconclusive" == found.outcome


def test_instructions_of_another_number_of_windows_are_compared() -> None:
    """How many windows fit into a run is chance, and no condition."""
    before, now, again = (
        run(samples=(sample("instructions", values, per="window"),)) for values in ([1e6] * 5, [2e6] * 3, [2.1e6] * 4)
    )
    criteria = Criteria(margins=[INSTRUCTIONS])
    kept = Stored(runs=[stored(before)] * 7)
    (alarm,) = compare_with_stored(now, figures(now), kept, criteria)
    (few,) = unless_agreed(now, [alarm], [again, again], Stored(runs=[stored(before)]), criteria)
    (found,) = unless_agreed(now, [alarm], [again, again], kept, criteria)
    assert ("regressed", "regressed") == (alarm.outcome, found.outcome)
    assert ("inconclusive", True) == (few.outcome, may_hide_a_change([found, few]))
    assert not may_hide_a_change([alarm, found])


def test_memory_comes_from_several_processes_already() -> None:
    made = run(samples=(sample("memory", [2e8] * 3, per="fresh process"),))
    alarm = replace(compared(labelled([1.0] * 20), labelled([0.0] * 20), 1), metric="memory")
    assert not is_exact_alarm(made, alarm)
    assert (alarm,) == unless_agreed(made, [alarm], [], Stored(runs=()), Criteria(margins=[ACCURACY]))


def test_of_two_answers_with_an_error_rate_that_of_the_pairs_counts() -> None:
    here = labelled([1.0] * 20)
    old = compared(labelled([1.0] * 20), labelled([0.0] * 12 + [1.0] * 8), 1)
    new = compared(here, here, 1)
    (found,) = choose(here, [ACCURACY], [old], {ACCURACY_KEY: new}, blind=False)
    (blind,) = choose(here, [ACCURACY], [old], {ACCURACY_KEY: new}, blind=True)
    assert new == found
    assert old == blind


ACCURACY_KEY = (ACCURACY.metric, ACCURACY.statistic)
