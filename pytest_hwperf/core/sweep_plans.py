"""Plans of sweeps: the keywords of `hwsweep` read into swept values and limits; errors show what is allowed."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from pytest_hwperf.core.budgets import BUDGET_KEYWORDS, nearest, parse_budgets
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.records import Budget
from pytest_hwperf.core.structs import LARGEST
from pytest_hwperf.core.sweeps import BATCH, Swept

COUNTED = (BATCH, "threads")  # swept names whose values are whole numbers from 1 on


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What a sweep measures, and what its points have to keep."""

    axes: Mapping[str, tuple[Swept, ...]]  # swept name → its values
    limits: tuple[Budget, ...] = ()  # that choose among the points and fail none
    stop: bool = True  # larger batches than one that misses a limit are skipped
    serving_batch: int = 0  # rows that are served together, 0 where that is not declared
    rate: float | None = None  # rows that arrive per second

    def points(self) -> list[dict[str, Swept]]:
        """Return every combination of the values; the last name varies fastest."""
        return [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]


def parse_sweep(keywords: Mapping[str, object]) -> SweepPlan:
    """Turn the keywords of `hwsweep` into a plan: a list is swept, a keyword of `hwbudget` is a limit."""
    axes, limits, own = dict[str, Any](), dict[str, object](), dict[str, Any]()
    problems = list[str]()
    for name, value in keywords.items():
        try:
            if name in _OPTIONS:
                own[_OPTIONS[name][0]] = _OPTIONS[name][1](value)
            elif name in BUDGET_KEYWORDS:
                limits[name] = value
            else:
                axes[name] = _axis(name, value)
        except UsageProblem as problem:
            problems.append(f"hwsweep({name}={value!r}): {problem}")
    try:
        budgets = parse_budgets(limits)
    except UsageProblem as problem:
        problems.extend(line.replace("hwbudget(", "hwsweep(", 1) for line in str(problem).splitlines())
    if not axes and not problems:
        problems.append("hwsweep(): give at least one name with its values, such as hwsweep(batch_size=[1, 8, 32])")
    if problems:
        raise UsageProblem("\n".join(problems))
    return SweepPlan(axes=axes, limits=budgets, **own)


def _axis(name: str, values: object) -> tuple[Swept, ...]:
    if not isinstance(values, list | tuple | range):
        hint = nearest(name, [*BUDGET_KEYWORDS, *_OPTIONS])
        raise UsageProblem(f"a swept name takes a list of values, such as [1, 8, 32], and this is no limit.{hint}")
    if not values:
        raise UsageProblem("give at least one value")
    for problem in _problems_of(name, values):
        raise UsageProblem(problem)
    return tuple(values)


def _problems_of(name: str, values: list[Any] | tuple[Any, ...] | range) -> Iterator[str]:
    for value in values:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if name in COUNTED and not (whole and value >= 1):
            yield f"{value!r} is no whole number from 1 on"
        elif isinstance(value, bool) or not isinstance(value, int | float | str):
            yield f"{value!r} is neither a number nor a text; sweep a name for it and look it up in the test"
        elif not isinstance(value, str) and not abs(value) <= LARGEST:  # NaN fails too
            yield f"{value!r} is no finite number"
    if len({*map(str, values)}) < len(values):
        yield "a value stands there twice"


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageProblem("give True or False")
    return value


def checked_batch(value: object) -> int:
    """Return a number of rows that are served together."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageProblem("give the rows that are served together: a whole number from 1 on")
    return value


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UsageProblem("give the rows that arrive per second: a number above 0")
    return float(value)


# Keyword → field of the plan, and what reads its value.
_OPTIONS: Mapping[str, tuple[str, Callable[[object], object]]] = {
    "stop": ("stop", _truth),
    "serving_batch": ("serving_batch", checked_batch),
    "rate_sps": ("rate", _rate),
}
