"""Scenarios with their data, made from the user's fixtures or by hand, and the reference that each is compared with."""

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import pytest

from pytest_hwperf import registry
from pytest_hwperf.measure.rounds import Rounds, arguments_of
from pytest_hwperf.measure.subjects import reference_of
from pytest_hwperf.plugin.judging import gone_scenarios
from pytest_hwperf.plugin.markers import BUILT_IN_SCENARIOS, swept_value
from pytest_hwperf.plugin.session import test_of
from pytest_hwperf.records.contracts import Scenario
from pytest_hwperf.records.errors import ScenarioUnavailable, UsageProblem
from pytest_hwperf.records.load import is_address
from pytest_hwperf.records.messages import cause_of
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.verdict import Skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadyScenario:
    """What the fixture `scenario` gives: a converted model on its data."""

    name: str
    scenario: Scenario
    X: Any  # rows to predict, shape (n, features)
    y: Any | None  # their labels, shape (n,)
    reference: Callable[[], Scenario]  # the same model as it is compared with; raises ScenarioUnavailable

    def __repr__(self) -> str:
        return f"<scenario {self.name}>"


def ready_scenario(item: pytest.Item, name: str, model: Any, data: Any) -> ReadyScenario:
    """Make the scenario of one parametrised test; skip the test where the model has no such form.

    One that has a budget, and was measured in the baseline, fails instead.
    """
    threads = swept_value(item, "threads") or 1
    found, skips = ready_scenarios(item, model, _parts(data), names=[name], threads=threads)
    if skips:
        test_of(item).skips.extend(skips)
        if gone := gone_scenarios(item, skips):
            pytest.fail(visible("\n".join(gone)), pytrace=False)
        pytest.skip(visible(f"{name}: {skips[0].reason}"))
    return found[name]


def ready_scenarios(
    item: pytest.Item,
    model: Any,
    data: tuple[Any, Any | None, Any | None],
    *,
    names: Sequence[str] | None = None,
    threads: int = 1,
) -> tuple[Mapping[str, ReadyScenario], tuple[Skip, ...]]:
    """Convert `model` for each named scenario of a test; one without such a form becomes a skip with its reason."""
    X, y, X_calibration = data
    found, skips = {}, []

    @cache
    def converted(name: str) -> Scenario:
        from pytest_hwperf.plugin.progress import time_told

        with time_told(item, f"{name}: converting the model"):
            return _convert(name, model, X=X, X_calibration=X_calibration, threads=threads)

    for name in BUILT_IN_SCENARIOS if names is None else names:
        try:
            scenario = converted(name)
        except ScenarioUnavailable as reason:
            skips.append(Skip(test=item.nodeid, scenario=name, cause=cause_of(reason)))
        else:
            found[name] = ReadyScenario(
                name=name, scenario=scenario, X=X, y=y, reference=partial(converted, reference_of(scenario))
            )
    return found, tuple(skips)


def _convert(name: str, model: Any, **arguments: Any) -> Scenario:
    scenario: Scenario = registry.find("scenarios", name)(model, **arguments)
    return scenario


def _parts(data: Any) -> tuple[Any, Any | None, Any | None]:
    """Read what `hwperf_data` returns: X, (X, y), (X, y, X_calibration) or a mapping of these names."""
    names = ("X", "y", "X_calibration")
    if isinstance(data, Mapping):
        if "X" not in data or set(data) - set(names):
            given = ", ".join(map(repr, data)) or "nothing"
            raise UsageProblem(f"hwperf_data holds {given}; 'X' is needed, 'y' and 'X_calibration' are allowed")
        return data["X"], data.get("y"), data.get("X_calibration")
    if not isinstance(data, tuple):
        return data, None, None
    if not 1 <= len(data) <= len(names):
        raise UsageProblem(f"hwperf_data returned {len(data)} parts; return (X, y) or (X, y, X_calibration)")
    return (*data, *[None] * (len(names) - len(data)))


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
