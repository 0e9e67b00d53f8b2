"""The one row of a statistic: its figure, what is asked of it, and the texts that every surface shows of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from pytest_hwperf.records import metrics, units
from pytest_hwperf.records.messages import is_lacking
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, METRICS, STATISTICS, Metric, is_stage
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import OF_A_LOAD, Figure, Key, Run, figure_of
from pytest_hwperf.records.structs import Record
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
_WHOLE_FROM = 10  # % or pp: from here on a change is shown without decimals
_LEAST_MARGIN = 0.001  # 0.1 % or 0.1 points: without a margin, any change would be infinitely many of them
_LEAST_LIMIT = 1e-12  # base units


class Row(Record, frozen=True, kw_only=True):
    """One statistic of one measurement; its texts are free of control characters, "" where there is nothing to say."""

    judgement: Judgement
    key: Key
    metric: Metric
    figure: Figure | None  # None: the value is that of the comparison, or there is none
    verdicts: tuple[Verdict, ...]
    budget: Budget | None  # the first one
    comparison: Comparison | None  # the first one
    is_below: bool  # whether the row above has the comparison, which is about other processes
    tone: Tone  # of the worst verdict
    fails: bool  # whether it fails its test
    is_usual: bool  # whether it is shown without a verdict too: its test has recorded it, or its metric says so
    test: str  # full id and label
    scenario: str  # where the test's id does not name it
    name: str  # metric and statistic: "latency p50", "throughput"
    value: str  # with its interval; alone where it has none, or where every reading is the same
    values: str  # both values of a comparison, "310 → 325 µs", otherwise the value
    n: str  # of how many the value is: "12 pairs", "412 calls"
    source: str  # what measured the value
    limit: str  # of the budget: "<= 10 ms"
    allowed: str  # the margin of a comparison, "2 %", otherwise the limit
    outcome: str  # every outcome once: "inconclusive (fails)" where the settings make it fail
    baseline: str = ""  # the value of the baseline
    change: str = ""  # with its interval: "+4.8 % (+3.1 .. +6.5)"
    p: str = ""  # "0.0002"
    detectable: str = ""  # the smallest change that could have been caught where it is inconclusive: "7.6 %"

    @property
    def run(self) -> Run:
        """The run that was judged."""
        return self.judgement.run

    @property
    def verdict(self) -> Verdict:
        """The only one, of a row that is made for one."""
        return self.verdicts[0]

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
            yield _row(judgement, key, None, [one for one in own if isinstance(one.subject, Comparison)])
            budgets = [one for one in own if isinstance(one.subject, Budget)]
            yield _row(judgement, key, figure, budgets, is_below=True)
        else:
            yield _row(judgement, key, figure, own)


def row_of(judgement: Judgement, verdict: Verdict) -> Row:
    """Return the row of one verdict."""
    figure = figure_of(judgement.figures, verdict.subject.key)
    return _row(judgement, verdict.subject.key, None if _is_of_others(verdict, figure) else figure, [verdict])


def figure_row(judgement: Judgement, figure: Figure) -> Row:
    """Return the row of a figure without its verdicts."""
    return _row(judgement, figure.key, figure, [])


def _row(
    judgement: Judgement, key: Key, figure: Figure | None, verdicts: Sequence[Verdict], *, is_below: bool = False
) -> Row:
    metric = metric_of(judgement.run, key[0])
    budget = next((one.subject for one in verdicts if isinstance(one.subject, Budget)), None)
    comparison = next((one.subject for one in verdicts if isinstance(one.subject, Comparison)), None)
    outcomes = (
        one.outcome if not one.fails or one.outcome in ("failed", "regressed") else f"{one.outcome} (fails)"
        for one in verdicts
    )
    value, n, source = _measured(judgement.run, metric, figure, comparison)
    limit = units.show_limit(budget.limit, metric.unit, metric.better) if budget else ""
    texts = {"value": value, "values": value, "n": n, "source": source, "limit": limit, "allowed": limit}
    texts |= _compared(comparison, metric.unit) if comparison else {}
    return Row(
        judgement=judgement,
        key=key,
        metric=metric,
        figure=figure,
        verdicts=tuple(verdicts),
        budget=budget,
        comparison=comparison,
        is_below=is_below,
        tone=tone_of(verdicts),
        fails=any(one.fails for one in verdicts),
        is_usual=key[0] not in METRICS or key[1] in metric.shown,
        test=visible(title_of(judgement.run)),
        scenario=visible(unnamed_scenario(judgement.run)),
        name=visible(metric.called(key[1])),
        outcome=", ".join(dict.fromkeys(outcomes)),
        **texts,
    )


def _measured(run: Run, metric: Metric, figure: Figure | None, comparison: Comparison | None) -> tuple[str, str, str]:
    """Return value, n and source of a figure, else of the candidate in a comparison.

    A run of comparisons alone was to measure nothing by itself.
    """
    if figure is not None:
        at = figure.estimate
        if figure.per == OF_A_LOAD and any(map(is_lacking, at.warnings)):
            value = "n/a"
        elif (at.low, at.high) in {(None, None), (at.value, at.value)}:
            value = units.show_measured(at.value, metric.unit)
        else:
            value = units.show_interval(at.value, at.low, at.high, metric.unit)
        return value, units.counted(at.n, visible(unit_of(figure.per))), visible(figure.source)
    candidate = comparison.candidate if comparison else None
    if comparison and (candidate is not None or comparison.is_left_out):
        n = units.counted(comparison.pairs, visible(unit_of(comparison.per)))
        return ("", n, "") if candidate is None else (units.show_measured(candidate, metric.unit), n, IN_PAIRS)
    return "unmeasured" if run.samples or run.unmeasured else "", "", ""


def _compared(one: Comparison, unit: str) -> dict[str, str]:
    """Return the texts of a comparison by their names in a row."""
    texts, candidate = {"allowed": one.allowed, "values": ""}, one.candidate
    if one.baseline is not None:
        texts["baseline"] = units.show_measured(one.baseline, unit)
        texts["values"] = "" if candidate is None else units.show_move(one.baseline, candidate, unit)
    if one.change is not None:
        at = (one.change.value, one.change.low, one.change.high)
        texts["change"] = "0 pp" if one.is_equal else units.show_change_interval(*at, one.scale, write=_short)
    if one.p_value is not None:
        texts["p"] = f"{one.p_value:.2g}"
    if one.outcome == "inconclusive" and one.detectable is not None:
        texts["detectable"] = units.show_size(one.detectable, one.scale, 1 if one.scale == "relative" else 2)
    return texts


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


def _short(change: float, scale: str, like: float) -> str:
    """Write a change in few letters: without decimals where it is large, and none at all as `0 %`."""
    if like >= 1 and scale == "relative":
        return units.show_change(change, scale, like=like)
    unit, digits = ("pp", 2) if scale == "absolute" else ("%", 1)
    shown = round(100 * change, digits)
    if not shown:
        return f"0 {unit}"
    return units.show_change(change, scale, like=like) if abs(shown) < _WHOLE_FROM else f"{shown:+.0f} {unit}"


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
