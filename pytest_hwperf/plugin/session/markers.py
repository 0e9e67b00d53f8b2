"""The markers of a test, read into budgets and margins; mistakes in them are found before anything runs."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import isasyncgenfunction, signature
from typing import Any
from unittest import TestCase

import pytest

from pytest_hwperf import registry
from pytest_hwperf.plugin.session.benchmark_markers import marker_problems
from pytest_hwperf.plugin.session.state import (
    MARKS,
    Markers,
    is_asked_for,
    is_benchmark_body,
    is_measured,
    node_of,
    session_of,
    test_of,
)
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import (
    COUNTED,
    SweepPlan,
    closest,
    closest_margins,
    nearest,
    parse_budgets,
    parse_load,
    parse_margins,
    parse_sweep,
)
from pytest_hwperf.records.report import SweepPoint
from pytest_hwperf.records.verdict import Budget

_POINT = "_hwperf_point"  # the fixture that carries the point, also of names that no argument takes


def parametrise(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each point of its sweep; a bad marker becomes a problem of the collection."""
    try:
        plan = _plan_of(metafunc.definition)
        _check_used(plan, metafunc.fixturenames)
    except UsageProblem as problem:
        known = session_of(metafunc.config).problems
        known.extend(f"{metafunc.definition.nodeid}: {line}" for line in str(problem).splitlines())
        return
    points, taken = plan.points(), [name for name in plan.axes if name in metafunc.fixturenames]
    metafunc.fixturenames.append(_POINT)
    metafunc.parametrize(
        [*taken, _POINT],
        [[*(point[name] for name in taken), point] for point in points],
        indirect=[_POINT],
        ids=list(map(_id_of, points)),
    )


def point_of(item: pytest.Item, budgets: Sequence[Budget]) -> tuple[SweepPoint | None, bool]:
    """Return the point of a swept test with all that it has to keep, and whether larger batches may be skipped."""
    parameters: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    if _POINT not in parameters:
        return None, False
    plan, scenario = _plan_of(item), str(parameters.get("scenario", ""))
    point = SweepPoint(
        sweep=_sweep_of(item, parameters[_POINT], scenario),
        scenario=scenario,
        values=parameters[_POINT],
        limits=(*plan.limits, *(budget for budget in budgets if budget not in plan.limits)),
        rate=plan.rate,
        serving_batch=plan.serving_batch or session_of(item.config).settings.serving_batch,
    )
    return point, plan.stop


def _plan_of(definition: pytest.Item) -> SweepPlan:
    mark = definition.get_closest_marker("hwsweep")
    assert mark is not None  # noqa: S101 - else nobody asks
    plan: SweepPlan = _keywords(mark, parse_sweep)
    return plan


def _check_used(plan: SweepPlan, fixtures: Collection[str]) -> None:
    """Refuse a swept name that changes nothing; say what would use it, and which one may have been meant."""
    used, lines = {*fixtures, *(COUNTED if "scenario" in fixtures else ())}, list[str]()
    for name in (name for name in plan.axes if name not in used):
        near = nearest(name, COUNTED)
        hint = ", or measure the fixture scenario" if name in COUNTED else near and f".{near}"
        remedy = f"nothing uses {name}: make it an argument of the test{hint}"
        lines.append(f"hwsweep({name}={list(plan.axes[name])!r}): {remedy}")
    if lines:
        raise UsageProblem("\n".join(lines))


def _id_of(point: Mapping[str, object]) -> str:
    """Return the id of a point; `-k` takes a colon, and no equals sign."""
    return "-".join(f"{name}:{value}" for name, value in point.items())


def _sweep_of(item: pytest.Item, point: Mapping[str, object], scenario: str) -> str:
    """Return the id of a test without its point and scenario; other parameters make a sweep each."""
    function, _, parameters = node_of(item).partition("[")
    rest = f"-{parameters.removesuffix(']')}-"
    for part in filter(None, [_id_of(point), scenario]):
        rest = rest.replace(f"-{part}-", "-", 1)
    return f"{function}[{rest.strip('-')}]" if rest.strip("-") else function


BUILT_IN_SCENARIOS = ("sklearn_fp32", "onnx_fp32", "onnx_int8")


def read_markers(item: pytest.Item) -> list[str]:
    """Keep the parsed markers of a test that has any; return every problem, as `test: problem`."""
    settings, problems = session_of(item.config).settings, _misspelt(item)
    is_benchmark = is_benchmark_body(item)
    if not (settings.all or is_benchmark or is_measured(item) or any(map(item.get_closest_marker, MARKS))):
        return [f"{item.nodeid}: {problem}" for problem in problems]

    def layers(name: str, parse: Callable[[Mapping[str, object]], Any]) -> list[Any]:
        found = []
        for mark in reversed(list(item.iter_markers(name))):  # farthest first
            try:
                found.append(_keywords(mark, parse))
            except UsageProblem as problem:
                problems.extend(str(problem).splitlines())
        return found

    budgets = closest([settings.budgets, *layers("hwbudget", parse_budgets)])
    own, loads = layers("hwregression", parse_margins), layers("hwload", parse_load)
    named = [settings.margins, *own]
    problems += _misplaced(item)
    point, stop = point_of(item, budgets)
    gated = (settings.all or is_benchmark) and not settings.disable and _has_own_body(item)
    drawn = gated and getattr(getattr(item, "function", None), "is_hypothesis_test", False)
    is_call = item.get_closest_marker("hwbudget") is not None and "hwperf" not in getattr(item, "fixturenames", ())
    unmeasurable = _unmeasurable_body(item) if gated or is_call else ""
    left_out = ("hypothesis draws other examples at every call" if drawn else unmeasurable) if gated else ""
    test_of(item).markers = Markers(
        budgets=budgets,
        margins=closest_margins(named),
        named=tuple(margin for layer in named for margin in layer),
        own=tuple(margin for layer in own for margin in layer),
        load=loads[-1] if loads else None,
        is_serial=item.get_closest_marker("hwserial") is not None,
        by_all=gated and not left_out,
        left_out=left_out,
        # Of this test alone: a budget of a class or module is often meant for the others.
        refusal=f"hwbudget: {unmeasurable}" if is_call and unmeasurable else "",
        point=point,
        stop=stop,
    )
    return [f"{item.nodeid}: {problem}" for problem in problems]


def _misplaced(item: pytest.Item) -> list[str]:
    """Return what is wrong with markers beside their keywords."""
    settings, serial = session_of(item.config).settings, item.iter_markers("hwserial")
    given = (_given(mark) for mark in serial if mark.args or mark.kwargs)
    found = [f"{one}: it takes no arguments: write @pytest.mark.hwserial" for one in given]
    found += filter(None, [_missing_fixture(item, everywhere=settings.all or is_benchmark_body(item))])
    if settings.benchmark:
        found += marker_problems(item)
    return found


def _misspelt(item: pytest.Item) -> list[str]:
    """Return the markers that nobody has registered and that look like one of ours, each as a problem.

    pytest only warns of them, and a test with a misspelt budget would pass whatever it measures.
    """
    unknown = {mark.name: None for mark in item.iter_markers() if mark.name.startswith("hw")}
    if unknown.keys() <= {*MARKS}:
        return []
    registered = {re.split(r"[(:\s]", line, maxsplit=1)[0] for line in item.config.getini("markers")}
    hints = {name: nearest(name, MARKS) for name in unknown if name not in registered}
    return [
        f"unknown marker {name!r}.{hint} If it is one of your own, register it under markers in the configuration file"
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


def _given(mark: pytest.Mark) -> str:
    """Write a marker as it was called."""
    return f"{mark.name}({', '.join([*map(repr, mark.args), *(f'{k}={v!r}' for k, v in mark.kwargs.items())])})"


def _keywords(mark: pytest.Mark, parse: Callable[[Mapping[str, object]], Any]) -> Any:
    """Parse a marker that takes keywords only, and a sweep apart at least one."""
    if mark.args:
        given = ", ".join(map(repr, mark.args))
        raise UsageProblem(f"{mark.name}({given}): only keywords are taken, such as {_EXAMPLES[mark.name]}")
    if not mark.kwargs and mark.name != "hwsweep":
        raise UsageProblem(f"{mark.name}(): name at least one keyword, such as {_EXAMPLES[mark.name]}")
    return parse(mark.kwargs)


_EXAMPLES = {
    "hwsweep": "hwsweep(batch_size=[1, 8, 32])",
    "hwbudget": "hwbudget(latency_p95_ms=100)",
    "hwregression": 'hwregression(latency_p50="2%")',
    "hwload": 'hwload(kind="server", qps=200, seconds=2)',
}


def _check_scenarios(mark: pytest.Mark) -> None:
    if mark.kwargs or not mark.args or not all(isinstance(name, str) for name in mark.args):
        raise UsageProblem(f'{_given(mark)}: give names of scenarios, such as hwscenarios("onnx_fp32")')
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


def _has_own_body(item: pytest.Item) -> bool:
    """Whether --hwperf-all can be about a test: a function or method that neither measures itself nor is to fail."""
    if not isinstance(item, pytest.Function) or is_asked_for(item):
        return False
    expected = getattr(item.function, "__unittest_expecting_failure__", False)
    return not expected and not item.get_closest_marker("xfail")


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
        reason = _why_not_repeated(item.cls)
        return f"{reason}; make it a function that uses the fixture" if reason else ""
    return ""


def _why_not_repeated(cls: type[TestCase]) -> str:
    """Say why methods of a class cannot be called many times in one test; "" where they can."""
    if hasattr(cls, "asyncSetUp"):
        return "an IsolatedAsyncioTestCase is set up on a loop that only unittest runs"
    own = [name for name in ("run", "__call__") if getattr(cls, name) is not getattr(TestCase, name)]
    return f"its class prepares each test in a {own[0]} of its own, which is not called before each call" if own else ""
