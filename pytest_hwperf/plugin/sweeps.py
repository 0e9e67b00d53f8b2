"""Sweeps of a session: tests parametrised by the marker `hwsweep`, points that are skipped, and what all have shown."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pytest

from pytest_hwperf.core.budgets import nearest
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.records import Budget, Judgement, replace
from pytest_hwperf.core.report import ReportPart
from pytest_hwperf.core.statements import Statement, state
from pytest_hwperf.core.sweep_plans import COUNTED, SweepPlan, parse_sweep
from pytest_hwperf.core.sweeps import Sweep, SweepPoint, SweepRow, is_beyond, missed, row_of, sweep_of
from pytest_hwperf.plugin.session import session_of, test_of

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


def swept_value(item: pytest.Item, name: str) -> Any:
    """Return the value of a swept name at the point of a test; None where it is not swept."""
    point = test_of(item).markers.point
    return point.values.get(name) if point else None


def skip_beyond(item: pytest.Item) -> None:
    """Skip a point that would miss the limit which a smaller batch has missed.

    Where a baseline is compared with, every point is measured: one that is skipped would be compared with nothing.
    """
    session, test = session_of(item.config), test_of(item)
    point = test.markers.point
    if point is None or not test.markers.stop or not session.mode.judges:
        return
    if session.settings.reruns or session.settings.compare:
        return
    for other, why in session.missed:
        if is_beyond(point, other):
            test.skipped_point = replace(point, skipped=why)
            pytest.skip(visible(str(why)))


def note_miss(item: pytest.Item, judgements: Sequence[Judgement]) -> None:
    """Keep a point where everything that is measured misses a limit which every larger batch would miss too."""
    if point := test_of(item).markers.point:
        rows = [row_of(point, judgement.figures) for judgement in judgements]
        misses = [missed(row) for row in rows if any(answer.value is not None for answer in row.answers)]
        session_of(item.config).missed.extend((point, why) for why in misses[:1] if why and all(misses))


def sweeps_of(parts: Sequence[ReportPart], *, workers: bool) -> tuple[Sweep, ...]:
    """Put the points of all tests together: a sweep for each test and label."""
    rows: dict[str, list[SweepRow]] = {}
    for part in parts:
        if part.point is not None:
            for name, row in _rows_of(part, part.point):
                rows.setdefault(name, []).append(row)
    return tuple(sweep_of(name, found, *_notes(found, workers=workers)) for name, found in rows.items())


def _rows_of(part: ReportPart, point: SweepPoint) -> Iterator[tuple[str, SweepRow]]:
    if point.skipped or not part.judgements:
        yield point.sweep, row_of(point, ())
    for judgement in part.judgements:
        run = judgement.run
        label = run.label.replace(run.scenario, "").strip() if run.scenario else run.label
        found = replace(point, scenario=run.scenario)
        yield f"{point.sweep} {label}".strip(), row_of(found, judgement.figures)


def _notes(rows: Sequence[SweepRow], *, workers: bool) -> Iterator[Statement]:
    if len(rows) > 1:
        yield state("collection order")
    if workers and any(missed(row) for row in rows):
        yield state("workers stop alone")


def _plan_of(definition: pytest.Item) -> SweepPlan:
    """Read the closest marker."""
    mark = definition.get_closest_marker("hwsweep")
    if mark is None or mark.args:
        given = ", ".join(repr(argument) for argument in mark.args) if mark else ""
        raise UsageProblem(f"hwsweep({given}): only keywords are taken, such as hwsweep(batch_size=[1, 8, 32])")
    return parse_sweep(mark.kwargs)


def _check_used(plan: SweepPlan, fixtures: Collection[str]) -> None:
    """Refuse a swept name that changes nothing."""
    used = {*fixtures, *(COUNTED if "scenario" in fixtures else ())}
    unused = [name for name in plan.axes if name not in used]
    if unused:
        lines = [f"hwsweep({name}={list(plan.axes[name])!r}): {_remedy_of(name)}" for name in unused]
        raise UsageProblem("\n".join(lines))


def _remedy_of(name: str) -> str:
    """Say what would use a swept name, and which one may have been meant."""
    remedy = f"nothing uses {name}: make it an argument of the test"
    if name in COUNTED:
        return f"{remedy}, or measure the fixture scenario"
    hint = nearest(name, COUNTED)
    return f"{remedy}.{hint}" if hint else remedy


def _id_of(point: Mapping[str, object]) -> str:
    """Return the id of a point; `-k` takes a colon, and no equals sign."""
    return "-".join(f"{name}:{value}" for name, value in point.items())


def _sweep_of(item: pytest.Item, point: Mapping[str, object], scenario: str) -> str:
    """Return the id of a test without its point and scenario; other parameters make a sweep each."""
    function, _, parameters = item.nodeid.partition("[")
    rest = f"-{parameters.removesuffix(']')}-"
    for part in filter(None, [_id_of(point), scenario]):
        rest = rest.replace(f"-{part}-", "-", 1)
    return f"{function}[{rest.strip('-')}]" if rest.strip("-") else function
