"""Builds of one test that only one side at a time can run: false alarms and what is found, in simulated pairs.

    python -m benchmarks serial_pairs

It prints the table of docs/statistics.md. Each process has its own time of a call (normal in the logarithm), and the
machine drifts from process to process as a random walk.
"""

import argparse
import math
from array import array
from collections import Counter
from collections.abc import Sequence
from random import Random

from benchmarks import tables
from pytest_hwperf.records.evidence import Evidence, Hypothesis, Measurement, Observation, Pair
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.stats.pairs.sequence import decide, next_step

ABBA, AB = (0, 1, 1, 0), (0, 1)
BUILDS = 2000
ASKED = Hypothesis(
    measurement=Measurement(test="t.py::test", label=""),
    margin=Margin(metric="latency", statistic="p50", size=0.02),
    better="lower",
)


def build(random: Random, change: float, noise: float, drift: float, order: Sequence[int]) -> tuple[str, int]:
    """Return the outcome of a build at a false-alarm rate of 1 %, and the pairs that it took.

    Args:
        random: of noise and coins.
        change: true change of the candidate, relative.
        noise: of processes, and `drift` from each to the next: standard deviations of the logarithm.
        drift: see there.
        order: of the processes of a pair; 0 is the side that begins by coin.
    """
    evidence, level = Evidence(alpha=0.01, hypotheses=(ASKED,), pairs=()), 0.0
    while (step := next_step(evidence)).stage is not None:
        turned, sides = random.choice((False, True)), (array("d"), array("d"))
        for place in order:
            side = place ^ turned
            level += random.gauss(0, drift)
            sides[side].append((1 + change * side) * math.exp(level + random.gauss(0, noise)))
        seen = Observation(
            measurement=ASKED.measurement,
            metric="latency",
            statistic="p50",
            baseline=sides[0],
            candidate=sides[1],
            apart=True,
        )
        pair = Pair(
            number=len(evidence.pairs) + 1,
            stage=step.stage,
            first="candidate" if turned else "baseline",
            hash_seeds={},
            assignments=(),
            observations=(seen,),
        )
        evidence = replace(evidence, pairs=(*evidence.pairs, pair))
    return decide(evidence)[ASKED].outcome, len(evidence.pairs)


def builds(count: int, change: float, noise: float, drift: float, order: Sequence[int] = ABBA) -> Counter[str]:
    """Return the outcomes of so many builds; see `build`."""
    random = Random(1)
    return Counter(build(random, change, noise, drift, order)[0] for _ in range(count))


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rows = []
    for spread in (0.01, 0.03):
        for change in (0.0, 0.02, 0.05, 0.1):
            name = f"+{100 * change:g} %, processes and drift {100 * spread:g} %"
            found = [builds(BUILDS, change, spread, spread, order) for order in (ABBA, AB)]
            rows.append((name, *(one[outcome] for one in found for outcome in ("regressed", "equivalent"))))
    head = (f"of {BUILDS:,} builds", "ABBA: regressed", "equivalent", "AB: regressed", "equivalent")
    print(tables.markdown(head, rows))
