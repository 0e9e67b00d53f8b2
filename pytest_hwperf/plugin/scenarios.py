"""What a test gives hwperf: scenarios with their data, callables and models, checked before anything is measured."""

import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from inspect import iscoroutine
from typing import Any

import pytest

from pytest_hwperf import registry
from pytest_hwperf.measure.rounds import Rounds, arguments_of
from pytest_hwperf.measure.stream import Loop
from pytest_hwperf.measure.subjects import (
    Subject,
    reference_of,
    subject_of_callable,
    subject_of_scenario,
    with_classes,
)
from pytest_hwperf.plugin.judging import gone_scenarios
from pytest_hwperf.plugin.markers import BUILT_IN_SCENARIOS, swept_value
from pytest_hwperf.plugin.session import LONGEST_LABEL, node_of, test_of
from pytest_hwperf.records.contracts import Scenario
from pytest_hwperf.records.errors import ScenarioUnavailable, UsageProblem
from pytest_hwperf.records.markers import ADDRESSES, is_address
from pytest_hwperf.records.messages import cause_of
from pytest_hwperf.records.metrics import METRICS, is_stage
from pytest_hwperf.records.structs import LARGEST
from pytest_hwperf.records.text import shortened, visible
from pytest_hwperf.records.verdict import Skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadyScenario:
    """The value of the fixture `scenario`: a converted model on its data."""

    name: str
    scenario: Scenario
    X: Any  # rows to predict, shape (n, features)
    y: Any | None  # their labels, shape (n,)
    reference: Callable[[], Scenario]  # the same model as it is compared with; raises ScenarioUnavailable
    classes: Any | None = None  # labels of the columns of a model that does not name them itself, shape (k,)

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
    data: Sequence[Any],
    *,
    names: Sequence[str] | None = None,
    threads: int = 1,
) -> tuple[Mapping[str, ReadyScenario], tuple[Skip, ...]]:
    """Convert `model` for each named scenario of a test; one without such a form becomes a skip with its reason."""
    X, y, X_calibration, classes = data
    found, skips = {}, []

    @cache
    def converted(name: str) -> Scenario:
        from pytest_hwperf.plugin.progress import time_told

        with time_told(item, f"{name}: converting the model"):
            factory: Callable[..., Scenario] = registry.find("scenarios", name)
            return factory(model, X=X, X_calibration=X_calibration, threads=threads)

    for name in BUILT_IN_SCENARIOS if names is None else names:
        try:
            scenario = converted(name)
        except ScenarioUnavailable as reason:
            skips.append(Skip(test=node_of(item), scenario=name, cause=cause_of(reason)))
        else:
            reference = partial(converted, reference_of(scenario))
            found[name] = ReadyScenario(name=name, scenario=scenario, X=X, y=y, reference=reference, classes=classes)
    return found, tuple(skips)


def _parts(data: Any) -> tuple[Any, Any | None, Any | None, Any | None]:
    """Read what `hwperf_data` returns: X, (X, y), (X, y, X_calibration), or a mapping of these names and `classes`."""
    if isinstance(data, Mapping):
        if "X" not in data or set(data) - {"X", "y", "X_calibration", "classes"}:
            given = ", ".join(map(repr, data)) or "nothing"
            raise UsageProblem(
                f"hwperf_data holds {given}; 'X' is needed, 'y', 'X_calibration' and 'classes' are allowed"
            )
        return data["X"], data.get("y"), data.get("X_calibration"), data.get("classes")
    if not isinstance(data, tuple):
        return data, None, None, None
    if not 1 <= len(data) <= 3:  # noqa: PLR2004 - X, y, X_calibration
        raise UsageProblem(f"hwperf_data returned {len(data)} parts; return (X, y) or (X, y, X_calibration)")
    X, y, X_calibration = (*data, None, None)[:3]
    return X, y, X_calibration, None


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


def two_models(models: object) -> list[tuple[str, str]]:
    if not isinstance(models, Mapping) or len(models) != 2 or not all(isinstance(m, str) for m in models.values()):  # noqa: PLR2004
        raise UsageProblem(
            "hwperf.compare takes two names with their models, the baseline first, such as "
            "hwperf.compare({'v1': 'models/v1.onnx', 'v2': 'models/v2.onnx'}, X)"
        )
    return list(models.items())


def subject_given(
    target: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    loop: Loop,
    *,
    y_true: Any | None,
    batch_size: int | None,
) -> Subject:
    if isinstance(target, ReadyScenario):
        if args or kwargs or y_true is not None:
            raise UsageProblem(
                "hwperf(scenario) has its rows and labels from hwperf_data: only label= and batch_size= are taken"
            )
        size = 1 if batch_size is None else batch_size
        subject = subject_of_scenario(target.scenario, target.X, target.y, size, target.reference, loop)
        return with_classes(subject, target.classes)
    if iscoroutine(target):
        target.close()
        raise UsageProblem(
            "hwperf(...) was given a coroutine, which can be awaited once only: give the async function and its "
            "arguments, hwperf(predict, X) instead of hwperf(predict(X))"
        )
    if not callable(target):
        raise UsageProblem(
            f"hwperf({reprlib.repr(target)}): give the fixture scenario, one of hwperf.scenarios(...), a callable "
            f"with its arguments, such as hwperf(model.predict, X), or an address, such as {ADDRESSES}"
        )
    return subject_of_callable(target, args, kwargs, y_true=y_true, batch_size=batch_size, loop=loop)


def refuse_more(kwargs: Mapping[str, Any], y_true: Any | None) -> None:
    if kwargs or y_true is not None:
        raise UsageProblem("requests take rows, label= and batch_size= only: what a server answers is not compared")


def check_recorded(name: str, value: object, better: str) -> None:
    if len(name) > LONGEST_LABEL:
        raise UsageProblem(f"hwperf.record({shortened(name)}): a name has {LONGEST_LABEL} characters at most")
    built_in = name in METRICS or is_stage(name)
    if built_in or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        taken = "is a built-in metric" if built_in else "is no identifier"
        raise UsageProblem(f"hwperf.record({name!r}): the name {taken}; choose another, such as 'rouge_l'")
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise UsageProblem(
            f"hwperf.record({name!r}, {value!r}): the value is a finite number within ±{LARGEST:g}; write float(...)"
        )
    if better not in ("lower", "higher"):
        raise UsageProblem(f"hwperf.record({name!r}, better={better!r}): allowed are 'lower' and 'higher'")
