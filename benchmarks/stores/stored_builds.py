"""Simulate builds of fifty tests against stored accuracies: what an even split of alpha finds, and what Holm's rule.

Each test is judged when it is over, so that its level cannot depend on later ones. Two other rules are computed beside
the even split: Holm's, which needs every p-value of the build first, and the fallback procedure, which passes the
level of a rejected test on to the next one.

    python -m benchmarks stored_builds [BUILDS]
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from random import Random

from pytest_hwperf.records.markers import DEFAULT_MARGINS
from pytest_hwperf.stats.figures.exact import compare_accuracy

BUILDS, TESTS, ALPHA = 4000, 50, 0.01
EXAMPLES, FLIPPED = 2000, 120  # of each test; 6 % of its answers have changed
DROPS = (28, 44)  # examples that are lost more than won, of a test that got worse: 1.4 and 2.2 points

Rule = Callable[[Sequence[float]], list[bool]]  # p-values in the order of the tests → which are called worse


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a rule made of many builds."""

    red: float  # share of builds that fail
    false: float  # share of builds in which a test that is no worse is called worse
    found: float  # share of the tests that are worse which are called so


def split(p_values: Sequence[float]) -> list[bool]:
    """Give each test the same share of alpha, as pytest-hwperf does."""
    return [p_value <= ALPHA / len(p_values) for p_value in p_values]


def holm(p_values: Sequence[float]) -> list[bool]:
    """Step down from the smallest p-value: alpha is split over what is not yet rejected."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    rejected = [False] * len(p_values)
    for step, index in enumerate(order):
        if p_values[index] > ALPHA / (len(p_values) - step):
            break
        rejected[index] = True
    return rejected


def fallback(p_values: Sequence[float]) -> list[bool]:
    """Add the level of a test that was just rejected to that of the next one (Wiens 2003)."""
    rejected, level = list[bool](), 0.0
    for p_value in p_values:
        level += ALPHA / len(p_values)
        rejected.append(p_value <= level)
        level *= rejected[-1]
    return rejected


RULES: dict[str, Rule] = {"even split": split, "Holm": holm, "fallback": fallback}


@cache
def p_of(lost: int) -> float:
    """Return the p-value of a test of which so many of the changed answers are losses."""
    won = FLIPPED - lost
    before = [1.0] * lost + [0.0] * won + [1.0] * (EXAMPLES - FLIPPED)
    after = [0.0] * lost + [1.0] * won + [1.0] * (EXAMPLES - FLIPPED)
    found = compare_accuracy(before, after, DEFAULT_MARGINS["accuracy"], ALPHA)
    worse = lost >= won  # the p-value is of the side that the outcome names
    return found.p_value if found.p_value is not None and (worse or found.outcome != "improved") else 1.0


def drawn(random: Random, share: float) -> float:
    """Draw the p-value of a test whose changed answers are losses with this probability."""
    return p_of(sum(random.random() < share for _ in range(FLIPPED)))


def build(random: Random, worse: int, drop: int) -> tuple[list[float], list[bool]]:
    """Draw the p-values of a build, and which of its tests are worse."""
    truths = [True] * worse + [False] * (TESTS - worse)
    random.shuffle(truths)
    fair, lossy = 0.5, 0.5 + drop / 2 / FLIPPED
    return [drawn(random, lossy if truth else fair) for truth in truths], truths


def outcomes(worse: int, drop: int, builds: int, seed: int = 17) -> dict[str, Outcome]:
    """Let every rule judge the same builds, in each of which so many tests are worse."""
    random = Random(seed)
    red, false, found = (dict.fromkeys(RULES, 0) for _ in range(3))
    for _ in range(builds):
        p_values, truths = build(random, worse, drop)
        for name, rule in RULES.items():
            called = rule(p_values)
            red[name] += any(called)
            false[name] += any(one and not truth for one, truth in zip(called, truths, strict=True))
            found[name] += sum(one and truth for one, truth in zip(called, truths, strict=True))
    return {
        name: Outcome(red=red[name] / builds, false=false[name] / builds, found=found[name] / (builds * worse or 1))
        for name in RULES
    }


def main() -> None:
    """Print the table of docs/design-notes.md#alpha-against-stored-accuracies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="?", type=int, default=BUILDS, help=f"of each row (default: {BUILDS})")
    builds = parser.parse_args().builds
    for drop, worse in product(DROPS, (0, 1, 5, 25, 50)):
        for name, one in outcomes(worse, drop, builds).items():
            figures = f"red {one.red:7.2%}  false {one.false:6.2%}  found {one.found:6.1%}"
            print(f"{worse:2} worse by {drop / EXAMPLES:.1%}  {name:10}  {figures}")
