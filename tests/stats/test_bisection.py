"""Bisection by pairs: what their values say of a commit, where it stands, and what the culprit has changed."""

import math
from random import Random

import pytest
from fakes import gates

from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.evidence import Evidence, Measurement
from pytest_hwperf.records.metrics import Better
from pytest_hwperf.records.run import Estimate, replace
from pytest_hwperf.stats.bisection import (
    ERROR_RATE,
    LEVELS,
    Bisection,
    BisectionQuestion,
    BisectionStep,
    Commit,
    History,
    KnownChange,
    answers_of,
    change_of,
    compared_in_pairs,
    known_change,
    pair_values,
    standing,
)

QUESTION = BisectionQuestion(good="g", bad="31", first_parent=False, folder=".", arguments=("tests",))
HISTORY = History(tuple(Commit(name=str(n), parents=(str(n - 1),)) for n in range(32)))
TEN = math.log(1.1)


def known(change: float = TEN, better: Better = "lower") -> KnownChange:
    return KnownChange(
        measurement=Measurement(test="tests/test_work.py::test_call", label=""),
        metric="latency",
        statistic="p50",
        better=better,
        change=Estimate(value=0.1, low=0.09, high=0.11, confidence=0.99, n=8, method="Walsh averages"),
        values=(change - 0.01, change, change + 0.01),
    )


def bisection(*steps: BisectionStep) -> Bisection:
    return Bisection(question=QUESTION, known=known(), steps=steps)


def step(commit: str, *values: float, reason: str = "") -> BisectionStep:
    return BisectionStep(commit=commit, values=values, reason=reason)


def pairs(centre: float, spread: float = 0.001) -> tuple[float, ...]:
    return tuple(centre + spread * number for number in (-3, -2, -1, 1, 2, 3))


def test_a_commit_before_the_culprit_is_faster_by_more_than_half_the_change() -> None:
    found, _ = answers_of(bisection(step("3", *pairs(TEN)), step("9", *pairs(0.0))))
    assert [("3", False), ("9", True)] == found


def test_half_way_nothing_is_answered() -> None:
    assert ([], {}) == answers_of(bisection(step("3", *pairs(TEN / 2))))


def test_an_inconclusive_step_is_repeated_with_all_its_pairs() -> None:
    """Of the first six pairs one lies on the other side, near half-way; of the next six none does."""
    doubtful = (*pairs(TEN)[:5], 0.04)
    asked = standing(HISTORY, bisection())
    assert asked.ask is not None
    assert asked.ask == standing(HISTORY, bisection(step(asked.ask, *doubtful))).ask
    again = bisection(step("3", *doubtful), step("3", *pairs(TEN)))
    assert [("3", False)] == answers_of(again)[0]


def test_what_stays_inconclusive_lies_between_both_ends_and_is_skipped() -> None:
    steps = [step("3", *pairs(TEN / 2))] * len(LEVELS)
    found, skipped = answers_of(bisection(*steps))
    assert [] == found
    assert {"3": "inconclusive after 36 pairs: it lies between both ends"} == skipped


def test_after_an_answer_a_commit_is_asked_with_fresh_pairs() -> None:
    """A repeat is an answer of its own: it does not lean on the pairs of the first one."""
    found, _ = answers_of(bisection(step("3", *pairs(TEN)), step("3", *pairs(0.0))))
    assert [False, True] == [contains for _, contains in found]


def test_the_levels_keep_the_error_rate() -> None:
    """The worst case is a commit just short of half-way, where each sign is a coin: simulated, and by their sum."""
    assert sum(LEVELS) < ERROR_RATE
    random, wrong = Random(2), 0
    for _ in range(1000):
        steps = [step("3", *(TEN / 2 + random.gauss(0, 0.03) for _ in range(6))) for _ in LEVELS]
        wrong += any(contains for _, contains in answers_of(bisection(*steps))[0][:1])
    assert wrong <= 1000 * ERROR_RATE * 1.2


@pytest.mark.parametrize("spread", [0.005, 0.02, 0.04])
def test_ten_percent_is_found_among_32_in_pairs_of_any_noise(spread: float) -> None:
    """40 searches: with 4 % between pairs, steps are repeated; nothing else changes."""
    random, right, steps = Random(3), 0, 0
    for _ in range(40):
        culprit, state = random.randrange(32), bisection()
        while (now := standing(HISTORY, state)).ask is not None:
            centre = TEN if int(now.ask) < culprit else 0.0
            values = (random.gauss(centre, spread) for _ in range(6))
            state = replace(state, steps=(*state.steps, step(now.ask, *values)))
        right += now.suspects == (str(culprit),)
        steps += now.steps
    assert right >= 39
    assert steps / 40 <= (8 if spread < 0.03 else 12)


def test_a_skipped_culprit_is_named_with_all_it_cannot_be_told_from() -> None:
    state = bisection()
    while (now := standing(HISTORY, state)).ask is not None:
        number = int(now.ask)
        one = (
            step(now.ask, reason="it does not run")
            if 9 <= number <= 11
            else step(now.ask, *pairs(0.0 if number >= 10 else TEN))
        )
        state = replace(state, steps=(*state.steps, one))
    assert ("9", "10", "11", "12") == now.suspects
    assert now.confidence >= 0.95
    assert {"9", "10", "11"} >= now.skipped.keys()


def test_where_nothing_can_be_compared_all_are_suspects() -> None:
    history = History(HISTORY.commits[:3])
    now = standing(history, bisection(step("0", reason="no"), step("1", reason="no")))
    assert (("0", "1", "2"), None, 1.0) == (now.suspects, now.ask, now.confidence)


def test_progress_is_foreseen() -> None:
    now = standing(HISTORY, bisection())
    assert (0, 6, 31) == (now.steps, now.about, now.left)


def test_the_change_lies_between_the_neighbours_of_the_culprit() -> None:
    """0.05 before it and 0.02 after it, in logs."""
    state = bisection(
        step("3", *pairs(0.1)), step("9", *pairs(0.05)), step("20", *pairs(0.02)), step("15", *pairs(0.02))
    )
    found = change_of(HISTORY, state, ["10"])
    assert math.isclose(math.expm1(0.03), found.value, rel_tol=1e-6)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    assert 12 == found.n


def test_of_the_last_commit_the_change_is_that_to_its_predecessor() -> None:
    found = change_of(HISTORY, bisection(step("30", *pairs(0.1))), ["31"])
    assert math.isclose(math.expm1(0.1), found.value, rel_tol=1e-6)
    assert 6 == found.n


def test_of_the_first_commit_the_values_of_both_ends_count() -> None:
    found = change_of(HISTORY, bisection(step("0", *pairs(0.0))), ["0"])
    assert math.isclose(0.1, found.value, rel_tol=1e-6)


def test_without_a_commit_between_it_is_the_change_of_both_ends() -> None:
    assert known().change == change_of(History(HISTORY.commits[:1]), bisection(), ["0"])


def test_of_what_should_be_high_the_change_is_a_fall() -> None:
    state = replace(bisection(step("3", *pairs(0.1)), step("9", *pairs(0.0))), known=known(better="higher"))
    found = change_of(HISTORY, state, ["5"])
    assert math.isclose(math.expm1(-0.1), found.value, rel_tol=1e-6)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high < 0


def test_too_few_pairs_leave_a_bound_open() -> None:
    found = change_of(HISTORY, bisection(step("3", 0.1), step("9", 0.0)), ["5"])
    assert (None, None) == (found.low, found.high)


def test_the_regression_of_both_ends_is_that_of_the_median_latency() -> None:
    evidence = gates.build([0.0, 0.08], Random(4))
    found = known_change(evidence)
    assert found is not None
    assert gates.hypothesis(1).key == found.key
    assert 0.07 < found.change.value < 0.09
    assert pair_values(evidence, found.key, "lower", fresh=True) == found.values
    assert 6 == len(pair_values(evidence, found.key, "lower"))


def test_equal_ends_have_no_regression() -> None:
    evidence = gates.build([0.0], Random(5))
    assert known_change(evidence) is None
    assert [gates.hypothesis(0)] == list(compared_in_pairs(evidence))


def test_nothing_asked_is_no_regression() -> None:
    assert known_change(Evidence(alpha=0.01, hypotheses=(), pairs=())) is None


def test_a_state_comes_back() -> None:
    state = bisection(step("3", *pairs(TEN)), step("4", reason="it does not run"))
    assert state == from_json(Bisection, to_json(state))


@pytest.mark.parametrize("values", [(), (-0.1,)])
def test_a_change_that_is_none_is_refused(values: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="no values of a change for the worse"):
        replace(known(), values=values).__post_init__()
