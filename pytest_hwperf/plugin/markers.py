"""The markers of a test, read into budgets and margins; mistakes in them are found before anything runs."""

import re
from collections.abc import Callable, Iterator, Mapping
from inspect import isasyncgenfunction, signature
from typing import Any
from unittest import TestCase

import pytest

from pytest_hwperf import registry
from pytest_hwperf.core.budgets import closest, closest_margins, nearest, parse_budgets, parse_margins
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.load_plans import parse_load
from pytest_hwperf.plugin.session import MARKS, Markers, is_asked_for, session_of, test_of
from pytest_hwperf.plugin.sweeps import point_of

BUILT_IN_SCENARIOS = ("sklearn_fp32", "onnx_fp32", "onnx_int8")


def read_markers(item: pytest.Item) -> list[str]:
    """Keep the parsed markers of the test; return every problem, as `test: problem`."""
    settings, problems = session_of(item.config).settings, list[str]()

    def layers(name: str, parse: Callable[[Mapping[str, object]], Any]) -> list[Any]:
        found = []
        for mark in reversed(list(item.iter_markers(name))):  # farthest first
            try:
                found.append(_parsed(mark, parse))
            except UsageProblem as problem:
                problems.extend(f"{item.nodeid}: {line}" for line in str(problem).splitlines())
        return found

    budgets = closest([settings.budgets, *layers("hwbudget", parse_budgets)])
    own = layers("hwregression", parse_margins)
    named = [settings.margins, *own]
    loads = layers("hwload", parse_load)
    problems.extend(f"{item.nodeid}: {problem}" for problem in _serial_problems(item))
    if complaint := _missing_fixture(item, everywhere=settings.all):
        problems.append(f"{item.nodeid}: {complaint}")
    if settings.benchmark:
        from pytest_hwperf.plugin.benchmark_fixture import marker_problems

        problems.extend(f"{item.nodeid}: {problem}" for problem in marker_problems(item))
    point, stop = point_of(item, budgets)
    gated = settings.all and not settings.disable and _has_own_body(item)
    left_out = _unrepeatable(item) if gated else ""
    test_of(item).markers = Markers(
        budgets=budgets,
        margins=closest_margins(named),
        named=tuple(margin for layer in named for margin in layer),
        own=tuple(margin for layer in own for margin in layer),
        load=loads[-1] if loads else None,
        is_serial=item.get_closest_marker("hwserial") is not None,
        by_all=gated and not left_out,
        left_out=left_out,
        refusal=_unmeasurable(item),
        point=point,
        stop=stop,
    )
    return problems


def misspelt_markers(item: pytest.Item) -> list[str]:
    """Return the markers that nobody has registered and that look like one of ours, each as a problem.

    pytest only warns of them, and a test with a misspelt budget would pass whatever it measures.
    """
    unknown = {mark.name: None for mark in item.iter_markers() if mark.name.startswith("hw")}
    if unknown.keys() <= {*MARKS}:
        return []
    registered = {re.split(r"[(:\s]", line, maxsplit=1)[0] for line in item.config.getini("markers")}
    hints = {name: nearest(name, MARKS) for name in unknown if name not in registered}
    return [
        f"{item.nodeid}: unknown marker {name!r}.{hint} If it is one of your own, register it under markers in the "
        "configuration file"
        for name, hint in hints.items()
        if hint
    ]


def scenario_names(definition: pytest.Item) -> tuple[str, ...]:
    """Return the scenarios that a test names; an unknown one becomes a problem of the collection."""
    mark = definition.get_closest_marker("hwscenarios")
    if mark is None:
        return BUILT_IN_SCENARIOS
    try:
        _check_scenarios(mark)
    except UsageProblem as problem:
        session_of(definition.config).problems.append(f"{definition.nodeid}: {problem}")
        return BUILT_IN_SCENARIOS
    return mark.args


def _parsed(mark: pytest.Mark, parse: Callable[[Mapping[str, object]], Any]) -> Any:
    if mark.args:
        given = ", ".join(repr(argument) for argument in mark.args)
        raise UsageProblem(f"{mark.name}({given}): only keywords are taken, such as {_EXAMPLES[mark.name]}")
    if not mark.kwargs:
        raise UsageProblem(f"{mark.name}(): name at least one keyword, such as {_EXAMPLES[mark.name]}")
    return parse(mark.kwargs)


_EXAMPLES = {
    "hwbudget": "hwbudget(latency_p95_ms=100)",
    "hwregression": 'hwregression(latency_p50="2%")',
    "hwload": 'hwload(kind="server", qps=200, seconds=2)',
}


def _serial_problems(item: pytest.Item) -> Iterator[str]:
    """Yield what is wrong with markers that take no arguments."""
    for mark in item.iter_markers("hwserial"):
        if given := [*map(repr, mark.args), *(f"{name}={value!r}" for name, value in mark.kwargs.items())]:
            yield f"hwserial({', '.join(given)}): it takes no arguments: write @pytest.mark.hwserial"


def _check_scenarios(mark: pytest.Mark) -> None:
    if mark.kwargs or not mark.args or not all(isinstance(name, str) for name in mark.args):
        given = ", ".join([*map(repr, mark.args), *(f"{k}={v!r}" for k, v in mark.kwargs.items())])
        raise UsageProblem(f'hwscenarios({given}): give names of scenarios, such as hwscenarios("onnx_fp32")')
    if len(set(mark.args)) < len(mark.args):
        raise UsageProblem(f"hwscenarios{mark.args}: a scenario is named twice")
    for name in mark.args:
        registry.check("scenarios", name)


def _missing_fixture(item: pytest.Item, *, everywhere: bool) -> str:
    """Say which fixture a marker needs that the test does not use; "" where none is missing."""
    fixtures = getattr(item, "fixturenames", ())
    if item.get_closest_marker("hwscenarios") and "scenario" not in fixtures:
        return "hwscenarios: the test does not use the fixture scenario; add it and call hwperf(scenario)"
    asks = any(item.get_closest_marker(name) for name in MARKS if name != "hwserial")  # which may be of a whole module
    if is_asked_for(item) or everywhere or not asks:
        return ""
    return (
        "hwregression, hwscenarios, hwsweep or hwload: nothing of this test is measured; add the fixture hwperf "
        "and call it, or give the test a hwbudget"
    )


def why_not_judged(item: pytest.Item) -> str:
    """Say why what a test measures would not be judged; "" where it is.

    Tests are judged, compared, selected and rerun by the fixtures that they are collected with. One that is asked for
    while the test runs is none of them.
    """
    if "hwperf" in getattr(item, "fixturenames", ()):
        return ""
    path, line, _ = item.location
    return (
        f"{path}:{(line or 0) + 1}: the fixture hwperf was asked for by name (request.getfixturevalue), when this test "
        "had been collected as one that does not use it: what it measures would be neither judged nor compared. Make "
        'hwperf an argument of the test, or mark the test with @pytest.mark.usefixtures("hwperf")'
    )


def _unmeasurable(item: pytest.Item) -> str:
    """Say why nothing of a test can be measured; "" where something can.

    It fails this test alone: a budget of a class or module is often meant for the others.
    """
    if "hwperf" in getattr(item, "fixturenames", ()):
        return ""
    reason = _unmeasurable_body(item) if item.get_closest_marker("hwbudget") else ""
    return f"hwbudget: {reason}" if reason else ""


def _has_own_body(item: pytest.Item) -> bool:
    """Whether --hwperf-all is about a test: a function or method that neither measures itself nor is to fail."""
    if not isinstance(item, pytest.Function) or is_asked_for(item):
        return False
    expected = getattr(item.function, "__unittest_expecting_failure__", False)
    return not expected and not item.get_closest_marker("xfail")


def _unrepeatable(item: pytest.Item) -> str:
    """Say why --hwperf-all cannot measure a test, as far as its definition tells; "" where it may."""
    function = getattr(item, "function", None)
    if getattr(function, "is_hypothesis_test", False):
        return "hypothesis draws other examples at every call"
    return _unmeasurable_body(item)


def _unmeasurable_body(item: pytest.Item) -> str:
    """Say why the body of a test with a budget cannot be the call."""
    if not isinstance(item, pytest.Function):
        return f"{type(item).__name__} cannot be measured; move the budget to a test function"
    if isasyncgenfunction(item.obj):
        return "a body that yields is no test of pytest; measure a stream by hwperf(...)"
    if "subtests" in item.fixturenames and "subtests" not in signature(item.obj).parameters:
        return (
            "a fixture of this test makes subtests, which would be reported at every call; let the test take "
            "the fixture subtests itself"
        )
    if item.cls is not None and issubclass(item.cls, TestCase):
        from pytest_hwperf.plugin.methods import why_not_repeated

        reason = why_not_repeated(item.cls)
        return f"{reason}; make it a function that uses the fixture" if reason else ""
    return ""
