"""The figures and outcomes of one run as flat pairs of text, for JUnit's `<property>` entries."""

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.records import Budget, Figure, Judgement
from pytest_hwperf.core.units import EXPORT_UNITS, exported_name, show_number


def properties(judgement: Judgement) -> list[tuple[str, str]]:
    """Return `hwperf.latency_p95_ms` = `6.31` and the like, and one pair for each verdict's outcome.

    Foreign text in them is made visible: pytest does so for values, but XML with a raw control character in a name is
    none. Behind the same name, `.n` says of how many readings a figure is made, and `.source` what measured it.
    """
    run = judgement.run
    prefix = f"hwperf.{run.label}." if run.label else "hwperf."
    found = []
    for figure in judgement.figures:
        unit = run.metric(figure.metric).unit
        name = prefix + exported_name(f"{_metric(figure)}_{figure.statistic}", unit)
        found.append((name, show_number(figure.estimate.value * EXPORT_UNITS[unit][1], 4)))
        found.append((f"{name}.n", str(figure.estimate.n)))
        found.append((f"{name}.source", figure.source))
    for verdict in judgement.verdicts:
        subject = verdict.subject
        kind = "budget" if isinstance(subject, Budget) else "comparison"
        found.append((f"{prefix}{kind}.{subject.metric}_{subject.statistic}", verdict.outcome))
    return [(visible(name), visible(text)) for name, text in found]


def _metric(figure: Figure) -> str:
    """Name an estimate as one: a number that is read alone must not pass for a measured one."""
    return f"{figure.metric}_estimate" if figure.estimated else figure.metric
