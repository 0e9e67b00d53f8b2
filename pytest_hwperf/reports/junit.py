"""The figures and verdicts of one run as flat pairs of text, for JUnit's `<property>` entries."""

from collections.abc import Iterator

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.records import Budget, Comparison, Estimate, Judgement, Run
from pytest_hwperf.core.units import EXPORT_UNITS, exported_name, show_number
from pytest_hwperf.reports.cells import metric_of
from pytest_hwperf.reports.measures import named

_DIGITS = 4
Pair = tuple[str, str]


def properties(judgement: Judgement) -> list[Pair]:
    """Return `hwperf.latency_p95_ms` = `6.31` and the like, and for each verdict its outcome and what it rests on.

    Foreign text in them is made visible: pytest does so for values, but XML with a raw control character in a name is
    none. What is not known has no entry. See docs/artifacts.md for all names.
    """
    run = judgement.run
    prefix = f"hwperf.{run.label}." if run.label else "hwperf."
    found = [(f"{prefix}machine_kind", run.kind)] if run.kind else []
    found += _figures(judgement, prefix)
    for verdict in judgement.verdicts:
        subject = verdict.subject
        kind = "budget" if isinstance(subject, Budget) else "comparison"
        name = f"{prefix}{kind}.{subject.metric}_{subject.statistic}"
        found.append((name, verdict.outcome))
        found += _budget(run, subject, name) if isinstance(subject, Budget) else _comparison(run, subject, name)
    return [(visible(name), visible(text)) for name, text in found]


def _figures(judgement: Judgement, prefix: str) -> Iterator[Pair]:
    run = judgement.run
    for figure in judgement.figures:
        unit = run.metric(figure.metric).unit
        factor = EXPORT_UNITS[unit][1]
        name = prefix + exported_name(named(figure), unit)
        yield name, _number(figure.estimate.value * factor)
        yield from _interval(name, figure.estimate, factor)
        yield f"{name}.n", str(figure.estimate.n)
        yield f"{name}.source", figure.source


def _budget(run: Run, budget: Budget, name: str) -> Iterator[Pair]:
    unit = metric_of(run, budget.metric).unit
    yield exported_name(f"{name}.limit", unit), _number(budget.limit * EXPORT_UNITS[unit][1])


def _comparison(run: Run, comparison: Comparison, name: str) -> Iterator[Pair]:
    unit = metric_of(run, comparison.metric).unit
    if comparison.baseline is not None:
        yield exported_name(f"{name}.baseline", unit), _number(comparison.baseline * EXPORT_UNITS[unit][1])
    if comparison.change is not None:
        yield f"{name}.change", _number(comparison.change.value)
        yield from _interval(f"{name}.change", comparison.change, 1.0)
    if comparison.is_left_out:
        yield f"{name}.pairs", str(comparison.pairs)
        yield f"{name}.reason", comparison.reason
    yield f"{name}.margin", _number(comparison.margin)
    yield f"{name}.scale", comparison.scale


def _interval(name: str, estimate: Estimate, factor: float) -> Iterator[Pair]:
    for end, bound in (("ci_low", estimate.low), ("ci_high", estimate.high)):
        if bound is not None:
            yield f"{name}.{end}", _number(bound * factor)


def _number(value: float) -> str:
    return show_number(value, _DIGITS)
