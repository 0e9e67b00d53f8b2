"""Groups of verdicts in the order in which a reader needs them: what regressed first, worst first, what is well last.

Surfaces that show more than a table draw these rows; they add no number of their own.
"""

from collections.abc import Callable, Iterator, Mapping

from pytest_hwperf.records.metrics import Metric
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Figure, figure_of
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import show_move, show_size
from pytest_hwperf.records.verdict import Comparison, Judgement, Verdict
from pytest_hwperf.reports.rows import cells_of, entries_of, metric_of, title_of

_LEAST_MARGIN = 0.001  # 0.1 % or 0.1 points: without a margin, any change would be infinitely many of them
_LEAST_LIMIT = 1e-12  # base units

# Outcome → group; what is inconclusive or has no answer is never among what is well.
_GROUPS: Mapping[str, str] = {
    "regressed": "regressed",
    "failed": "failed",
    "inconclusive": "inconclusive",
    "improved": "improved",
    "no baseline": "unanswered",
    "not comparable": "unanswered",
    "unmeasured": "unanswered",
    "equivalent": "settled",
    "passed": "settled",
}


class VerdictRow(Record, frozen=True, kw_only=True):
    """One verdict with the texts of its cells, each "" where there is nothing to say; all are free of control codes."""

    judgement: Judgement
    verdict: Verdict
    test: str  # full test id and label
    scenario: str
    metric: str  # and statistic: "latency p50", "throughput"
    values: str  # of a comparison "310 → 325 µs", of a budget the observed value with its interval
    change: str  # with its interval: "+4.8 % (+3.1 .. +6.5)"
    allowed: str  # margin "2.0 %" of a comparison, limit "<= 10 ms" of a budget
    n: str  # "12 pairs", "412 calls"
    p: str  # "0.0002"
    outcome: str  # "inconclusive (fails)" where the settings make it fail
    cause: str  # what moved, why it is inconclusive, why there is no answer
    how: str  # how the change was found, and how often such an answer is wrong
    detectable: str  # the smallest change that could have been caught, where it is inconclusive: "7.6 %"
    source: str  # what measured the value

    @property
    def is_budget(self) -> bool:
        """Whether it answers a budget; otherwise it answers a comparison."""
        return not isinstance(self.verdict.subject, Comparison)


class Groups(Record, frozen=True, kw_only=True):
    """All verdicts of a report, each in one group."""

    regressed: tuple[VerdictRow, ...]  # worst first: by the change as a multiple of its margin
    failed: tuple[VerdictRow, ...]  # missed budgets, worst first: by the value as a multiple of its limit
    inconclusive: tuple[VerdictRow, ...]  # those that fail first, then by the change as a multiple of its margin
    improved: tuple[VerdictRow, ...]  # best first
    unanswered: tuple[VerdictRow, ...]  # no baseline, not comparable, unmeasured; those that fail first
    settled: tuple[VerdictRow, ...]  # equivalent and passed, in the order of the report

    @property
    def changed(self) -> tuple[VerdictRow, ...]:
        """All of which a reader has to know something: regressions before improvements."""
        return (*self.regressed, *self.failed, *self.inconclusive, *self.improved)


def groups_of(report: Report) -> Groups:
    """Sort all verdicts of a report into their groups."""
    found: dict[str, list[VerdictRow]] = {name: [] for name in dict.fromkeys(_GROUPS.values())}
    for judgement in report.judgements:
        for verdict in judgement.verdicts:
            found[_GROUPS[verdict.outcome]].append(row_of(judgement, verdict))
    orders: Mapping[str, Callable[[VerdictRow], tuple[float, ...]]] = {
        "regressed": lambda row: (-_severity(row),),
        "failed": lambda row: (-_severity(row),),
        "inconclusive": lambda row: (not row.verdict.fails, -_severity(row)),
        "improved": lambda row: (_severity(row),),
        "unanswered": lambda row: (not row.verdict.fails,),
    }
    for name, order in orders.items():
        found[name].sort(key=order)
    return Groups(**{name: tuple(rows) for name, rows in found.items()})


def row_of(judgement: Judgement, verdict: Verdict) -> VerdictRow:
    """Write the cells of one verdict."""
    run, subject = judgement.run, verdict.subject
    metric, figure = metric_of(run, subject.metric), figure_of(judgement.figures, subject.key)
    name = visible(metric.called(subject.statistic.replace("_", ".")))
    entry = entries_of(subject.key, name, figure, [verdict])[0 if isinstance(subject, Comparison) else -1]
    cells = cells_of(run, entry)
    compared = subject if isinstance(subject, Comparison) else None
    return VerdictRow(
        judgement=judgement,
        verdict=verdict,
        test=visible(title_of(run)),
        scenario=visible(run.scenario),
        metric=name,
        values=_values(compared, metric) if compared else cells["value"],
        change=cells["change"],
        allowed=compared.allowed if compared else cells["budget"],
        n=cells["n"],
        p=f"{compared.p_value:.2g}" if compared and compared.p_value is not None else "",
        outcome=cells["outcome"],
        cause=visible("; ".join(dict.fromkeys(filter(None, _causes(verdict, figure))))),
        detectable=_detectable(compared) if compared else "",
        how=visible(compared.how) if compared else "",
        source=visible(entry.source),
    )


def _values(comparison: Comparison, metric: Metric) -> str:
    if comparison.baseline is None or comparison.candidate is None:
        return ""
    return show_move(comparison.baseline, comparison.candidate, metric.unit)


def _detectable(comparison: Comparison) -> str:
    """Write `7.6 %`; "" where it was decided or where that is not known."""
    if comparison.outcome != "inconclusive" or comparison.detectable is None:
        return ""
    return show_size(comparison.detectable, comparison.scale, 1 if comparison.scale == "relative" else 2)


def _causes(verdict: Verdict, figure: Figure | None) -> Iterator[str]:
    """Yield what is known of why an answer is as it is, most telling first."""
    subject = verdict.subject
    if isinstance(subject, Comparison):
        yield str(subject.moved or "")
        yield subject.reason
        yield str(subject.disturbance or "")
        yield from subject.warnings
        return
    yield str(verdict.cause or (verdict.reason if verdict.outcome == "unmeasured" else ""))
    if verdict.outcome == "inconclusive" and figure is not None:
        yield from map(str, figure.estimate.warnings)
    yield from map(str, verdict.decided_by)


def _severity(row: VerdictRow) -> float:
    """Return how much worse something is: a change in margins, a budget's value in limits; below 0 it is better."""
    subject, run = row.verdict.subject, row.judgement.run
    worse = 1.0 if metric_of(run, subject.metric).better == "lower" else -1.0
    if isinstance(subject, Comparison):
        change = subject.change.value if subject.change else 0.0
        return worse * change / max(subject.margin, _LEAST_MARGIN)
    figure = figure_of(row.judgement.figures, subject.key)
    if figure is None:
        return 0.0
    return worse * (figure.estimate.value - subject.limit) / max(abs(subject.limit), _LEAST_LIMIT)
