"""Remarks on values that are decided: where a line stands for a test, only their number is told."""

from collections.abc import Hashable, Iterator

from pytest_hwperf.core.metrics import METRICS
from pytest_hwperf.core.records import Comparison, Judgement
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.statements import Remark, Statement
from pytest_hwperf.core.units import counted
from pytest_hwperf.reports.cells import metric_of
from pytest_hwperf.reports.footnotes import Footnotes, Note

# What estimates and counters say of themselves, and that other work ran meanwhile, which makes what passes pass less
# easily; everything else puts a value in doubt.
ALARMS = frozenset({"leaks"})  # said wherever a line stands for the test
_CAVEATS = frozenset(
    {"maximum", "no bound", "mean of one", "lone process", "step", "idle machine", "count", "waited for gpu"}
    | {"preempted", "load", "workers"}
    | ALARMS
)


def unshown_remarks(report: Report, shown: Footnotes) -> list[str]:
    """Write `3 remarks with -v`, those that are no footnote yet; nothing where there are none."""
    found = {key for judgement in report.judgements for key in _keys(judgement) if key not in shown}
    return [f"{counted(len(found), 'remark')} with -v"] if found else []


def _keys(judgement: Judgement) -> Iterator[Hashable]:
    """Yield what tells the footnotes apart that the table would have."""
    for remark in _remarks(judgement):
        if not isinstance(remark, Statement) or remark.kind not in _CAVEATS:
            yield Note(parts=(remark,), alike=True).key


def _remarks(judgement: Judgement) -> Iterator[Remark]:
    """Yield the remarks on every value that the table shows."""
    judged = {verdict.subject.key for verdict in judgement.verdicts}
    for figure in judgement.figures:
        usual = figure.metric not in METRICS or figure.statistic in metric_of(judgement.run, figure.metric).shown
        if usual or figure.key in judged:
            sample = judgement.run.sample(figure.metric)
            yield from (*(sample.warnings if sample else ()), *figure.estimate.warnings)
    for verdict in judgement.verdicts:
        subject = verdict.subject
        if isinstance(subject, Comparison):
            yield from (*subject.warnings, *(subject.change.warnings if subject.change else ()))
            yield from [subject.disturbance] if subject.disturbance and not verdict.fails else []  # else in FAILURES
