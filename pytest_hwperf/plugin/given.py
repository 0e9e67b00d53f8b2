"""What a test gives hwperf, checked before anything is measured."""

import re
import reprlib
from collections.abc import Mapping
from inspect import iscoroutine
from typing import Any

from pytest_hwperf.measure.event_loop import Loop
from pytest_hwperf.measure.subjects import Subject, subject_of_callable, subject_of_scenario
from pytest_hwperf.plugin.scenarios import ReadyScenario
from pytest_hwperf.plugin.session import LONGEST_LABEL
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.load import ADDRESSES
from pytest_hwperf.records.metrics import METRICS, is_stage
from pytest_hwperf.records.structs import LARGEST
from pytest_hwperf.records.text import shortened


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
        return subject_of_scenario(target.scenario, target.X, target.y, size, target.reference, loop)
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
