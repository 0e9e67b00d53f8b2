"""When the calls of an open load are due."""

import random
from array import array

from pytest_hwperf.core.loads import Load
from pytest_hwperf.core.records import Values


def schedule(load: Load) -> Values:
    """Draw when the calls of an open load are due, in s since its beginning; the same seed draws the same times.

    Gaps of a server load are gamma distributed: of shape 1 they are those of a Poisson process.
    """
    if load.kind == "offline":
        return array("d", [0.0] * load.calls)
    chance, due, now = random.Random(load.seed), array("d"), 0.0  # noqa: S311 - a schedule is no secret
    while (now := now + chance.gammavariate(load.shape, 1 / (load.qps * load.shape))) < load.seconds:
        due.append(now)
        if len(due) == load.most:
            break
    return due
