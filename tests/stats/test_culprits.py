"""Which commit is the culprit, by answers that may be wrong: on histories and answers that were never run."""

import math
from random import Random

import pytest

from pytest_hwperf.stats.bisection import (
    ERROR_RATE,
    Commit,
    CommitAnswer,
    History,
    Posterior,
    alike,
    halving,
    posterior,
)

SURE = 0.95


def line(length: int) -> History:
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


@pytest.mark.parametrize("culprit", range(32))
def test_right_answers_find_any_of_32_commits_in_eight_steps(culprit: int) -> None:
    name, steps = search(line(32), str(culprit), Random(0), 0.0)
    assert str(culprit) == name
    assert 5 <= steps <= 8


@pytest.mark.parametrize("culprit", "0123456")
def test_a_commit_of_a_branch_is_found(culprit: str) -> None:
    assert culprit == search(BRANCHED, culprit, Random(0), 0.0)[0]


def test_without_wrong_answers_the_middle_is_asked() -> None:
    """As `git bisect` does: half of the commits are contained in it."""
    assert "15" == halving(line(32), posterior(line(32), []), ())


def test_at_the_stated_error_rate_the_confidence_is_kept() -> None:
    """300 searches among 32 with wrong answers as often as may be: 95 % are to be found, of which chance takes 3 %."""
    random = Random(1)
    found = [
        (culprit, *search(line(32), culprit, random, ERROR_RATE))
        for culprit in map(str, random.choices(range(32), k=1000))
    ]
    right = sum(culprit == name for culprit, name, _ in found)
    steps = [steps for *_, steps in found]
    assert right >= 0.93 * len(found)
    assert sum(steps) / len(steps) <= 8


def test_an_answer_that_others_contradict_is_asked_again() -> None:
    """Commit 15 was said to contain the culprit, and no commit up to 14 does: 15 itself, or the answer was wrong."""
    history = line(32)
    answers = [
        ("15", True),
        *((name, False) for name in ("7", "11", "13", "14")),
    ]
    assert "15" == halving(history, posterior(history, answers), ())


def test_commits_that_nothing_tells_apart_are_suspects_together() -> None:
    """2 and 3 cannot be compared: whether they or 4 did it, only 4 can show."""
    history = line(6)
    answers = [("1", False), ("4", True)] * 2
    found = posterior(history, answers)
    assert ("2", "3", "4") == history.names(alike(history, found, ("2", "3")))
    assert halving(history, found, ("0", "1", "2", "3", "4")) is None


def test_likelihoods_follow_bayes() -> None:
    """By hand: of four commits, 1 is said to contain the culprit: 0 and 1 have 44 times the chance of 2 and 3."""
    found = posterior(line(4), [("1", True)])
    assert math.isclose(44 / 90, found.mass(0b0001) / found.whole)
    assert math.isclose(1 / 90, found.mass(0b1000) / found.whole)
    assert 2 == found.fewest(0.95)
    assert 4 == found.fewest(0.995)


def test_equal_chances_are_so_many_bits() -> None:
    assert 5.0 == Posterior(((1 << 32) - 1,)).entropy()
