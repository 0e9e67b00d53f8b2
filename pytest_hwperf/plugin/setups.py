"""Set-up of single calls: `hwperf(f, setup=…)`, for code that changes its input."""

import reprlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.load_plans import is_address
from pytest_hwperf.measure.rounds import Rounds, arguments_of
from pytest_hwperf.plugin.scenarios import ReadyScenario


def rounds_after(
    setup: Callable[[], Any], target: object, args: tuple[Any, ...], kwargs: Mapping[str, Any], **data: Any
) -> Rounds:
    """Return calls each of which has its arguments prepared by `setup`: as many as the measurement takes."""
    if isinstance(target, ReadyScenario) or is_address(target):
        raise UsageProblem(
            "setup= is for a callable: a scenario and an address take prepared rows, which no call alters"
        )
    if not callable(target) or not callable(setup):
        wrong = f"setup={reprlib.repr(setup)}" if callable(target) else reprlib.repr(target)
        raise UsageProblem(f"hwperf({wrong}): give functions, not what they return: hwperf(sort, setup=fresh_rows)")
    if any(given is not None for given in data.values()):
        raise UsageProblem(
            f"setup= makes the rows of each call anew, and {' and '.join(data)} have none to refer to: leave them out"
        )
    return Rounds(prepare=partial(arguments_of, args, kwargs, setup), interrupts=True, rounds=None)
