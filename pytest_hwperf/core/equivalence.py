"""Further pairs of a comparison that is left inconclusive, until they show that nothing matters or the time is up.

Two equal models are often `inconclusive` after the six pairs of the screen, since those are too few for a narrow
interval on a noisy machine. Where somebody asks whether two models are equal, further fresh pairs are looked at when
they are 8, 16, 32 and 60. They can call a change `equivalent` or `improved`, never `regressed`: the false-alarm rate
is spent by the looks of the confirmation.

The level of the looks is halved from one to the next, so that an interval that is looked at four times is wrong with
a probability of at most 2**-6 on each side, as that of the screen.
"""

from collections.abc import Sequence

from pytest_hwperf.core.evidence import Hypothesis, Observation
from pytest_hwperf.core.paired import MOST_PAIRS, compare_observations, is_ratio
from pytest_hwperf.core.records import Comparison

_FIRST_LEVEL = 2.0**-7
LOOKS = {pairs: _FIRST_LEVEL * 0.5**number for number, pairs in enumerate((8, 16, 32, MOST_PAIRS))}


def next_look(observed: int) -> int:
    """Return at how many further pairs is looked next; 0 after the last look."""
    return next((pairs for pairs in LOOKS if pairs > observed), 0)


def look_for_equivalence(hypothesis: Hypothesis, observations: Sequence[Observation]) -> Comparison | None:
    """Compare at the first look that decides, else at the last one that is complete; None before the first."""
    found = None
    for pairs, level in LOOKS.items():
        seen = observations[:pairs]
        if len(seen) < pairs or not all(map(is_ratio, seen)):
            break
        found = compare_observations(hypothesis, seen, level)
        if found.outcome in ("equivalent", "improved"):
            break
    return found
