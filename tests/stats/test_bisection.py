"""Bisection: which commit is the culprit by answers that may be wrong, and what the values of pairs say of a commit."""

import math
from random import Random

import pytest
from fakes import gates

from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.evidence import Measurement
from pytest_hwperf.records.metrics import Better
from pytest_hwperf.records.run import Estimate, replace
from pytest_hwperf.stats.pairs.bisection import (
    ERROR_RATE,
    LEVELS,
    Bisection,
    BisectionQuestion,
    BisectionStep,
    Commit,
    CommitAnswer,
    History,
    KnownChange,
    alike,
    answers_of,
    change_of,
    compared_in_pairs,
    halving,
    known_change,
    pair_values,
    posterior,
    standing,
)

SURE = 0.95


def line_of(length: int) -> History:
    """A history without branches, whose commits are called by their places."""
    return History(tuple(Commit(name=str(n), parents=(str(n - 1),) if n else ("before",)) for n in range(length)))


# 0 ── 1 ── 2 ─────── 5 ── 6
#       └── 3 ── 4 ───┘
BRANCHED = History(
    tuple(
        Commit(name=name, parents=parents)
        for name, parents in (
            ("0", ("before",)),
            ("1", ("0",)),
            ("2", ("1",)),
            ("3", ("1",)),
            ("4", ("3",)),
            ("5", ("2", "4")),
            ("6", ("5",)),
        )
    )
)


def search(history: History, culprit: str, random: Random, error_rate: float) -> tuple[str, int]:
    """Answer every question, wrongly at a rate; return what was found, and the number of steps."""
    answers = list[CommitAnswer]()
    contained = {name for name, reach in history.reach.items() if culprit in history.names(reach)}
    while True:
        found = posterior(history, answers)
        suspects = alike(history, found, ())
        if found.mass(suspects) / found.whole >= SURE:
            (name,) = history.names(suspects)
            return name, len(answers)
        asked = halving(history, found, ())
        assert asked is not None
        contains = (asked in contained) != (random.random() < error_rate)
        answers.append((asked, contains))


def test_a_commit_contains_what_its_parents_do() -> None:
    assert ("0", "1", "3", "4") == BRANCHED.names(BRANCHED.reach["4"])
    assert tuple("0123456") == BRANCHED.names(BRANCHED.reach["6"])


def test_right_answers_find_any_commit() -> None:
    """One of 32 in eight steps."""
    found = [search(line_of(32), str(culprit), Random(0), 0.0) for culprit in range(32)]
    assert [str(culprit) for culprit in range(32)] == [name for name, _ in found]
    assert {steps for _, steps in found} <= {5, 6, 7, 8}
    assert [*"0123456"] == [search(BRANCHED, culprit, Random(0), 0.0)[0] for culprit in "0123456"]


def test_without_wrong_answers_the_middle_is_asked() -> None:
    """As `git bisect` does: half of the commits are contained in it."""
    assert "15" == halving(line_of(32), posterior(line_of(32), []), ())


def test_at_the_stated_error_rate_the_confidence_is_kept() -> None:
    """300 searches among 32 with wrong answers as often as may be: 95 % are to be found, of which chance takes 3 %."""
    random = Random(1)
    found = [
        (culprit, *search(line_of(32), culprit, random, ERROR_RATE))
        for culprit in map(str, random.choices(range(32), k=1000))
    ]
    right = sum(culprit == name for culprit, name, _ in found)
    steps = [steps for *_, steps in found]
    assert right >= 0.93 * len(found)
    assert sum(steps) / len(steps) <= 8


def test_an_answer_that_others_contradict_is_asked_again() -> None:
    """Commit 15 was said to contain the culprit, and no commit up to 14 does: 15 itself, or the answer was wrong."""
    history = line_of(32)
    answers = [("15", True), *((name, False) for name in ("7", "11", "13", "14"))]
    assert "15" == halving(history, posterior(history, answers), ())


def test_commits_that_nothing_tells_apart_are_suspects_together() -> None:
    """2 and 3 cannot be compared: whether they or 4 did it, only 4 can show."""
    history = line_of(6)
    answers = [("1", False), ("4", True)] * 2
    found = posterior(history, answers)
    assert ("2", "3", "4") == history.names(alike(history, found, ("2", "3")))
    assert halving(history, found, ("0", "1", "2", "3", "4")) is None


def test_likelihoods_follow_bayes() -> None:
    """By hand: of four commits, 1 is said to contain the culprit: 0 and 1 have 44 times the chance of 2 and 3."""
    found = posterior(line_of(4), [("1", True)])
    assert math.isclose(44 / 90, found.mass(0b0001) / found.whole)
    assert math.isclose(1 / 90, found.mass(0b1000) / found.whole)
    assert 2 == found.fewest(0.95)
    assert 4 == found.fewest(0.995)


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
    """Half-way nothing is answered."""
    found, _ = answers_of(bisection(step("3", *pairs(TEN)), step("9", *pairs(0.0))))
    assert [("3", False), ("9", True)] == found
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


def test_ten_percent_is_found_among_32_in_pairs_of_any_noise() -> None:
    """40 searches: with 4 % between pairs, steps are repeated; nothing else changes."""
    for spread in [0.005, 0.02, 0.04]:
        random, right, steps = Random(3), 0, 0
        for _ in range(40):
            culprit, state = random.randrange(32), bisection()
            while (now := standing(HISTORY, state)).ask is not None:
                centre = TEN if int(now.ask) < culprit else 0.0
                values = (random.gauss(centre, spread) for _ in range(6))
                state = replace(state, steps=(*state.steps, step(now.ask, *values)))
            right += now.suspects == (str(culprit),)
            steps += now.steps
        assert right >= 39, spread
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


def test_of_a_commit_at_an_end_the_change_is_that_to_its_neighbour() -> None:
    """Of the first one the values of both ends count, and without a commit between it is their change."""
    last = change_of(HISTORY, bisection(step("30", *pairs(0.1))), ["31"])
    first = change_of(HISTORY, bisection(step("0", *pairs(0.0))), ["0"])
    assert [math.expm1(0.1), 0.1] == pytest.approx([last.value, first.value], rel=1e-6)
    assert 6 == last.n
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


def test_a_state_comes_back() -> None:
    state = bisection(step("3", *pairs(TEN)), step("4", reason="it does not run"))
    assert state == from_json(Bisection, to_json(state))


def test_a_change_that_is_none_is_refused() -> None:
    table: list[tuple[float, ...]] = [(), (-0.1,)]
    for values in table:
        with pytest.raises(ValueError, match="no values of a change for the worse"):
            replace(known(), values=values).__post_init__()
