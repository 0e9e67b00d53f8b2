"""Simulate where the truth is known: what stopping early costs, and how often accuracy comparisons alarm.

python -m benchmarks simulate
"""

import argparse
import math
from array import array
from collections.abc import Callable, Sequence

import numpy as np

from pytest_hwperf.records.run import Sample
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.stats.figures.estimates import STOPPING_CONFIDENCE, clear_of, estimate
from pytest_hwperf.stats.figures.exact import compare_accuracy

RUNS = 2000
Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def wrong_answers(
    statistic: str, truth: float, draw: Callable[[int], Values], looks: Sequence[int], confidence: float
) -> tuple[float, float]:
    """Return the shares of runs that passed and failed a limit on the true value, where either answer is wrong.

    Every look but the last is taken at `confidence`, the last at the 90 % that is reported.
    """
    counted = {True: 0, False: 0}
    for _ in range(RUNS):
        values = draw(looks[-1])
        for n in looks:
            sample = Sample(metric="latency", values=array("d", values[:n]), per="call", source="simulated")
            level = confidence if n < looks[-1] else 0.90
            answer = clear_of(estimate(sample, statistic, confidence=level), truth, "lower")
            if answer is not None:
                counted[answer] += 1
                break
    return counted[True] / RUNS, counted[False] / RUNS


def regressed(n: int, changed: float, drop: float, margin: float, alpha: float) -> float:
    """Return the share of simulated pairs of models whose accuracy is called regressed."""
    rng = np.random.default_rng(2)
    asked = Margin(metric="accuracy", statistic="mean", size=margin, scale="absolute")
    called = 0
    for lost, won, same in rng.multinomial(n, [(changed + drop) / 2, (changed - drop) / 2, 1 - changed], size=RUNS):
        baseline = [1.0] * lost + [0.0] * won + [1.0] * same
        candidate = [0.0] * lost + [1.0] * won + [1.0] * same
        called += compare_accuracy(baseline, candidate, asked, alpha).outcome == "regressed"
    return called / RUNS


def main() -> None:
    """Print both tables."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rng = np.random.default_rng(1)
    calls, windows = [300 * 2**k for k in range(6)], [5 * 2**k for k in range(6)]
    cases: list[tuple[str, float, Callable[[int], Values], list[int]]] = [
        ("p95", -math.log(0.05), lambda n: rng.exponential(size=n), calls),
        ("p50", math.log(2), lambda n: rng.exponential(size=n), calls),
        ("mean", 5.0, lambda n: rng.normal(5, 1, size=n), windows),
    ]
    print(f"limit on the truth, six looks, {RUNS} runs: passed, failed")
    for confidence in (0.90, STOPPING_CONFIDENCE):
        for statistic, truth, draw, looks in cases:
            passed, failed = wrong_answers(statistic, truth, draw, looks, confidence)
            print(f"{statistic:4} looked at with {confidence:.0%}: {passed:6.1%} {failed:6.1%}")
    print(f"accuracy, {RUNS} runs: called regressed")
    for n, changed, drop, margin, alpha in (
        (500, 0.06, 0.0, 0.0, 0.05),
        (2000, 0.06, 0.0, 0.0, 0.05),
        (2000, 0.06, 0.01, 0.0, 0.05),
        (500, 0.06, 0.01, 0.01, 0.05),
        (2000, 0.06, 0.01, 0.01, 0.05),
        (500, 0.06, 0.01, 0.01, 0.01),
        (2000, 0.06, 0.01, 0.01, 0.01),
    ):
        share = regressed(n, changed, drop, margin, alpha)
        print(f"n {n:4}, changed {changed:.0%}, drop {drop:.0%}, margin {margin:.0%}, alpha {alpha:.0%}: {share:6.1%}")
