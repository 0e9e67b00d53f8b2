"""The one row of a statistic: its figure, what is asked of it, and the texts that every surface shows of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pytest_hwperf.records import metrics, units
from pytest_hwperf.records.messages import is_lacking
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, METRICS, STATISTICS, Metric, is_stage
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import OF_A_LOAD, Figure, Key, Run, figure_of
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.verdict import Budget, Comparison, Judgement, Verdict

Tone = Literal["bad", "doubtful", "good", "plain"]

IN_PAIRS = "pairs of fresh processes"  # source of what the judged run has no figure of
WORST_FIRST: tuple[Tone, ...] = ("bad", "doubtful", "good", "plain")
# Outcomes that are told, in this order; those that pass are seen by their counts.
TOLD: Mapping[str, Tone] = {
    "regressed": "bad",
    "failed": "bad",
    "inconclusive": "doubtful",
    "unmeasured": "doubtful",
    "not comparable": "doubtful",
    "no baseline": "plain",
    "improved": "good",
}
# Groups of verdicts in the order in which a reader needs them; what is inconclusive is never among what is well.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "regressed": ("regressed",),  # worst first: by the change as a multiple of its margin
    "failed": ("failed",),  # worst first: by the value as a multiple of its limit
    "inconclusive": ("inconclusive",),  # those that fail first, then as the regressions
    "improved": ("improved",),  # best first
    "unanswered": ("no baseline", "not comparable", "unmeasured"),  # those that fail first
    "settled": ("equivalent", "passed"),  # in the order of the report
    "plain": (),  # the usual figures that no verdict is about
}
_GROUP_OF = {outcome: name for name, outcomes in GROUPS.items() for outcome in outcomes}
_LEAST_MARGIN = 0.001  # 0.1 % or 0.1 points: without a margin, any change would be infinitely many of them
_LEAST_LIMIT = 1e-12  # base units


@dataclass(frozen=True, kw_only=True)
class Row:
    """One statistic of one measurement; its texts are free of control characters, "" where there is nothing to say."""

    judgement: Judgement
    key: Key
    figure: Figure | None  # None: the value is that of the comparison, or there is none
    verdicts: Sequence[Verdict]
    is_below: bool = False  # whether the row above has the comparison, which is about other processes

    @property
    def run(self) -> Run:
        """The run that was judged."""
        return self.judgement.run

    @property
    def verdict(self) -> Verdict:
        """The only one, of a row that is made for one."""
        return self.verdicts[0]

    @cached_property
    def metric(self) -> Metric:
        return metric_of(self.run, self.key[0])

    @cached_property
    def budget(self) -> Budget | None:
        """The first one."""
        return next((one.subject for one in self.verdicts if isinstance(one.subject, Budget)), None)

    @cached_property
    def comparison(self) -> Comparison | None:
        """The first one."""
        return next((one.subject for one in self.verdicts if isinstance(one.subject, Comparison)), None)

    @cached_property
    def tone(self) -> Tone:
        """That of the worst verdict."""
        return tone_of(self.verdicts)

    @property
    def fails(self) -> bool:
        """Whether it fails its test."""
        return any(one.fails for one in self.verdicts)

    @property
    def is_usual(self) -> bool:
        """Whether it is shown without a verdict too: its test has recorded it, or its metric says so."""
        return self.key[0] not in METRICS or self.key[1] in self.metric.shown

    @property
    def test(self) -> str:
        """The full id and label."""
        return visible(title_of(self.run))

    @property
    def scenario(self) -> str:
        """Where the test's id does not name it."""
        return visible(unnamed_scenario(self.run))

    @property
    def name(self) -> str:
        """Metric and statistic: "latency p50", "throughput"."""
        return visible(self.metric.called(self.key[1]))

    @property
    def outcome(self) -> str:
        """Every outcome once: "inconclusive (fails)" where the settings make it fail."""
        outcomes = (
            one.outcome if not one.fails or one.outcome in ("failed", "regressed") else f"{one.outcome} (fails)"
            for one in self.verdicts
        )
        return ", ".join(dict.fromkeys(outcomes))

    @cached_property
    def _measured(self) -> tuple[str, str, str]:
        """Value, n and source of the figure, else of the candidate in the comparison.

        A run of comparisons alone was to measure nothing by itself.
        """
        figure, one, unit = self.figure, self.comparison, self.metric.unit
        if figure is not None:
            at = figure.estimate
            if figure.per == OF_A_LOAD and any(map(is_lacking, at.warnings)):
                value = "n/a"
            elif (at.low, at.high) in {(None, None), (at.value, at.value)}:
                value = units.show_measured(at.value, unit)
            else:
                value = units.show_interval(at.value, at.low, at.high, unit)
            return value, units.counted(at.n, visible(unit_of(figure.per))), visible(figure.source)
        candidate = one.candidate if one else None
        if one and (candidate is not None or one.is_left_out):
            n = units.counted(one.pairs, visible(unit_of(one.per)))
            return ("", n, "") if candidate is None else (units.show_measured(candidate, unit), n, IN_PAIRS)
        return "unmeasured" if self.run.samples or self.run.unmeasured else "", "", ""

    @property
    def value(self) -> str:
        """With its interval; alone where it has none, or where every reading is the same."""
        return self._measured[0]

    @property
    def n(self) -> str:
        """Of how many the value is: "12 pairs", "412 calls"."""
        return self._measured[1]

    @property
    def source(self) -> str:
        """What measured the value."""
        return self._measured[2]

    @property
    def values(self) -> str:
        """Both values of a comparison, "310 → 325 µs", otherwise the value."""
        one = self.comparison
        if one is None:
            return self.value
        if one.baseline is None or one.candidate is None:
            return ""
        return units.show_move(one.baseline, one.candidate, self.metric.unit)

    @property
    def limit(self) -> str:
        """That of the budget: "<= 10 ms"."""
        return units.show_limit(self.budget.limit, self.metric.unit, self.metric.better) if self.budget else ""

    @property
    def allowed(self) -> str:
        """The margin of a comparison, "2 %", otherwise the limit."""
        return self.comparison.allowed if self.comparison else self.limit

    @property
    def baseline(self) -> str:
        """The value of the baseline."""
        known = self.comparison.baseline if self.comparison else None
        return "" if known is None else units.show_measured(known, self.metric.unit)

    @property
    def change(self) -> str:
        """With its interval: "+4.8 % (+3.1 .. +6.5)"."""
        one = self.comparison
        if one is None or one.change is None:
            return ""
        at = (one.change.value, one.change.low, one.change.high)
        return "0 pp" if one.is_equal else units.show_change_interval(*at, one.scale, short=True)

    @property
    def p(self) -> str:
        """Such as "0.0002"."""
        return f"{self.comparison.p_value:.2g}" if self.comparison and self.comparison.p_value is not None else ""

    @property
    def detectable(self) -> str:
        """The smallest change that could have been caught where it is inconclusive: "7.6 %"."""
        one = self.comparison
        if one is None or one.outcome != "inconclusive" or one.detectable is None:
            return ""
        return units.show_size(one.detectable, one.scale, 1 if one.scale == "relative" else 2)

    @property
    def cause(self) -> str:
        """What is known of why the answer is as it is, most telling first."""
        found = list[object]()
        for verdict in self.verdicts:
            subject = verdict.subject
            if isinstance(subject, Comparison):
                found += (subject.moved or "", subject.reason, subject.disturbance or "", *subject.warnings)
                continue
            found.append(verdict.cause or (verdict.reason if verdict.outcome == "unmeasured" else ""))
            if verdict.outcome == "inconclusive" and self.figure is not None:
                found += self.figure.estimate.warnings
            found += verdict.decided_by
        return visible("; ".join(dict.fromkeys(filter(None, map(str, found)))))

    @property
    def severity(self) -> float:
        """How much worse something is: a change in margins, a budget's value in limits; below 0 it is better."""
        subject, worse = self.verdict.subject, 1.0 if self.metric.better == "lower" else -1.0
        if isinstance(subject, Comparison):
            change = subject.change.value if subject.change else 0.0
            return worse * change / max(subject.margin, _LEAST_MARGIN)
        if self.figure is None:
            return 0.0
        return worse * (self.figure.estimate.value - subject.limit) / max(abs(subject.limit), _LEAST_LIMIT)


def rows_of(judgement: Judgement) -> Iterator[Row]:
    """Yield a row for each statistic that was measured or judged, with all verdicts on it.

    A comparison of fresh pairs is about their values: the judged run is one more process, and the change may contradict
    its value. The figure of the run then has a row of its own, with its budgets.
    """
    figures = {figure.key: figure for figure in judgement.figures}
    verdicts: dict[Key, list[Verdict]] = {}
    for verdict in judgement.verdicts:
        verdicts.setdefault(verdict.subject.key, []).append(verdict)
    for key in sorted_keys([*figures, *verdicts]):
        figure, own = figures.get(key), verdicts.get(key, [])
        if any(_is_of_others(one, figure) for one in own):
            pairs = [one for one in own if isinstance(one.subject, Comparison)]
            yield Row(judgement=judgement, key=key, figure=None, verdicts=pairs)
            budgets = [one for one in own if isinstance(one.subject, Budget)]
            yield Row(judgement=judgement, key=key, figure=figure, verdicts=budgets, is_below=True)
        else:
            yield Row(judgement=judgement, key=key, figure=figure, verdicts=own)


def row_of(judgement: Judgement, verdict: Verdict) -> Row:
    """Return the row of one verdict."""
    figure = figure_of(judgement.figures, verdict.subject.key)
    own = None if _is_of_others(verdict, figure) else figure
    return Row(judgement=judgement, key=verdict.subject.key, figure=own, verdicts=[verdict])


def figure_row(judgement: Judgement, figure: Figure) -> Row:
    """Return the row of a figure without its verdicts."""
    return Row(judgement=judgement, key=figure.key, figure=figure, verdicts=[])


def _is_of_others(verdict: Verdict, figure: Figure | None) -> bool:
    """Whether a verdict is about values of other processes than a figure."""
    return isinstance(verdict.subject, Comparison) and figure is not None and not verdict.subject.is_of(figure)


def grouped(report: Report) -> Mapping[str, Sequence[Row]]:
    """Sort a row for each verdict, and for each usual figure that none is about, into `GROUPS`."""
    found: dict[str, list[Row]] = {name: [] for name in GROUPS}
    for judgement in report.judgements:
        for verdict in judgement.verdicts:
            found[_GROUP_OF[verdict.outcome]].append(row_of(judgement, verdict))
        judged = {verdict.subject.key for verdict in judgement.verdicts}
        figures = [one for one in judgement.figures if one.key not in judged]
        found["plain"] += [row for row in (figure_row(judgement, one) for one in figures) if row.is_usual]
    for name, sign in (("regressed", -1), ("failed", -1), ("inconclusive", -1), ("improved", 1), ("unanswered", 0)):
        puts_failing_first = name in ("inconclusive", "unanswered")
        found[name].sort(key=lambda row: (puts_failing_first and not row.fails, sign * row.severity))
    return found


def tone_of(verdicts: Iterable[Verdict]) -> Tone:
    """Return the worst."""
    found: set[Tone] = {"bad" if verdict.fails else TOLD.get(verdict.outcome, "plain") for verdict in verdicts}
    return min(found, key=WORST_FIRST.index, default="plain")


def is_open(verdict: Verdict) -> bool:
    """Whether even the shortest report shows it."""
    return tone_of([verdict]) in ("bad", "doubtful")


def metric_of(run: Run, name: str) -> Metric:
    """Return the metric; one that only the baseline knows is taken as a plain number."""
    return metrics.metric_of(name, run.directions.get(name, "lower"))


def unit_of(per: str) -> str:
    """Return what is counted in one word: `batch of 9 calls` → `batch`, `fresh process` → `process`."""
    return " ".join(per.partition(" of ")[0].split()[-1:])


_METRICS = {metric: place for place, metric in enumerate(METRICS)}
_STATISTICS = {statistic: place for place, statistic in enumerate(STATISTICS)}


def sorted_keys(keys: Iterable[Key]) -> list[Key]:
    """Return each pair of metric and statistic once: known metrics in their order, stages as given, others by name."""

    def place(key: Key) -> tuple[int, str, int, str]:
        metric, statistic = key
        name = "" if is_stage(metric) else metric
        return _METRICS.get(metric, len(_METRICS)), name, _STATISTICS.get(statistic, len(_STATISTICS)), statistic

    return sorted(dict.fromkeys(keys), key=place)


def median_of(judgement: Judgement) -> float | None:
    """Return the median latency in s, None where it was not measured."""
    figure = figure_of(judgement.figures, MEDIAN_LATENCY)
    return figure.estimate.value if figure else None


def title_of(run: Run) -> str:
    """Return the full test id with its label, and the kind of machine where one is named."""
    return titled(run.test, run.label, run.kind)


def unnamed_scenario(run: Run) -> str:
    """Return the scenario where the title does not name it."""
    return "" if run.scenario in title_of(run) else run.scenario


def benchmark_of(run: Run) -> str:
    """Name a measurement: its title, and the scenario where that does not name it."""
    return f"{title_of(run)} {unnamed_scenario(run)}".rstrip()


def titled(test: str, label: str, kind: str) -> str:
    title = f"{test} {label}".rstrip()
    return f"{title} on {kind}" if kind else title
