"""Slow drift that no merge shows: how soon a nightly job against a pinned release finds it, and how rarely it errs.

    python -m benchmarks drift [YEARS]

What pairs observe is drawn from the recording in
tests/data, of blocks as the gate takes them; one test, margin 2 %, 1 % of false alarms a year of 365 builds.
"""

import argparse
import math
from collections.abc import Iterator

import numpy as np

from benchmarks.gate.builds import MOST, build, share
from benchmarks.gate.suite_size import drawn

NIGHTS, WEEKS = 365, 8
A_WEEK = 0.005  # slower each week
MARGIN, ALPHA = 0.02, 0.01
BLOCKS = 12  # a side
NAMES = ("np", "ort")


def is_red(rng: np.random.Generator, workload: int, change: float, alpha: float) -> bool:
    """Say whether a gate of one test of this noise and this true change fails."""
    values = drawn(rng, workload, MOST, BLOCKS)[np.newaxis] + math.log1p(change)
    return bool(build(values, MARGIN, alpha).regressed)


def found_after(rng: np.random.Generator, workload: int) -> int | None:
    """Return the night in which a job against the release finds a drift that goes on day by day; None: in no night."""
    changes = ((1 + A_WEEK) ** (night / 7) - 1 for night in range(1, 7 * WEEKS + 1))
    return next(
        (night for night, change in enumerate(changes, 1) if is_red(rng, workload, change, ALPHA / NIGHTS)), None
    )


def red_weeks(rng: np.random.Generator, workload: int) -> int:
    """Count the weeks that are red against the week before, each gated at the whole rate."""
    return sum(is_red(rng, workload, A_WEEK, ALPHA) for _ in range(WEEKS))


def red_years(rng: np.random.Generator, workload: int, years: int, change: float) -> int:
    """Count years in which a nightly job against the release is red at least once, at one true change all the year."""
    return sum(any(is_red(rng, workload, change, ALPHA / NIGHTS) for _ in range(NIGHTS)) for _ in range(years))


def lines(years: int) -> Iterator[str]:
    """Yield what was found of either noise."""
    for workload, name in enumerate(NAMES):
        rng = np.random.default_rng(workload)
        nights = [found_after(rng, workload) for _ in range(years)]
        found = [night for night in nights if night is not None]
        when = f"median night {np.median(found):.0f}, latest {max(found)}" if found else "never"
        yield f"{name}: +0.5 % a week found within eight weeks {share(len(found), years)}; {when}"
        weeks = sum(red_weeks(rng, workload) for _ in range(years))
        yield f"{name}: a week red against the week before {share(weeks, WEEKS * years)}"
        for title, change in (("equal code", 0.0), ("on the margin", MARGIN)):
            yield f"{name}: years with a red night, {title} {share(red_years(rng, workload, years, change), years)}"


def main() -> None:
    """Print what was found, with 99 % Clopper-Pearson intervals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("years", nargs="?", type=int, default=200, help="of each kind (default: 200)")
    for line in lines(parser.parse_args().years):
        print(line, flush=True)
