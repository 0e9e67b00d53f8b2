"""Numbers as the page embeds them: rounded to what a chart can show, so that thousands of them stay small."""

import math
from collections.abc import Sequence

from pytest_hwperf.core.units import scale_for

_DIGITS = 10_000  # of the largest value: a pixel of a chart is a thousandth of it


def rounded(value: float | None, digits: int = 6) -> float | None:
    """Return a number with so many significant digits; None stays None, and what is not finite becomes it."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short  # noqa: PLR2004 - whole and exact


def packed(sides: Sequence[Sequence[float]], unit: str, largest: float = 0.0) -> dict[str, object]:
    """Return the values of both sides as whole numbers with one factor, in the unit in which the largest reads well."""
    largest = largest or max((abs(value) for side in sides for value in side), default=0.0) or 1.0
    factor, name = scale_for(unit, largest)
    step = largest / _DIGITS
    baseline, candidate = ([round(value / step) for value in side] for side in sides)
    return {"u": name, "f": rounded(step / factor), "b": baseline, "c": candidate}


def quantiles(values: Sequence[float], most: int = 64) -> list[float]:
    """Return the values in their order, of many ones evenly spaced ranks with both ends."""
    ordered = sorted(values)
    if len(ordered) <= most:
        return ordered
    return [ordered[round(place * (len(ordered) - 1) / (most - 1))] for place in range(most)]
