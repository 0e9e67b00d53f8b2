"""The text of each cell of the table."""

import re
from collections.abc import Iterable, Mapping, Sequence

from pytest_hwperf.records import metrics
from pytest_hwperf.records.messages import is_lacking
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, METRICS, STATISTICS, Metric, is_stage
from pytest_hwperf.records.run import OF_A_LOAD, Figure, Key, Run, figure_of, replace
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import (
    counted,
    show_change,
    show_change_interval,
    show_interval,
    show_limit,
    show_measured,
)
from pytest_hwperf.records.verdict import Budget, Comparison, Judgement, Skip, Verdict

IN_PAIRS = "pairs of fresh processes"  # source of what the judged run has no figure of
_APART = "  this run"  # name of a figure below the comparison of other processes


class RowEntry(Record, frozen=True, kw_only=True):
    """One row before it is written."""

    key: Key
    name: str
    figure: Figure | None  # None: the value is that of the comparison, or there is none
    verdicts: Sequence[Verdict] = ()
    comparison: Comparison | None = None  # that of one of the verdicts
    apart: bool = False  # whether the entry before has the comparison

    @property
    def source(self) -> str:
        """What measured the value, "" where there is none."""
        if self.figure is not None:
            return self.figure.source
        return IN_PAIRS if self.comparison is not None and self.comparison.candidate is not None else ""


def entries_of(key: Key, name: str, figure: Figure | None, verdicts: Sequence[Verdict]) -> list[RowEntry]:
    """Put the verdicts on one statistic beside the values that they are about.

    A comparison of fresh pairs is about theirs: the judged run is one more process, and the change may contradict its
    value. Budgets are about the judged run.
    """
    compared = [one.subject for one in verdicts if isinstance(one.subject, Comparison)]
    comparison = compared[0] if compared else None
    if figure is None or all(one.is_of(figure) for one in compared):
        return [RowEntry(key=key, name=name, figure=figure, verdicts=verdicts, comparison=comparison)]
    budgets = [one for one in verdicts if isinstance(one.subject, Budget)]
    of_pairs = [one for one in verdicts if isinstance(one.subject, Comparison)]
    return [
        RowEntry(key=key, name=name, figure=None, verdicts=of_pairs, comparison=comparison),
        RowEntry(key=key, name=name, figure=figure, verdicts=budgets, apart=True),
    ]


def named(entries: Sequence[RowEntry]) -> list[RowEntry]:
    """Name the rows that are shown: a figure is that of this run where the row above has its comparison."""
    above = [None, *(entry.key for entry in entries)]
    return [
        replace(entry, name=_APART) if entry.apart and entry.key == key else entry
        for entry, key in zip(entries, above, strict=False)
    ]


_WHOLE_FROM = 10  # % or pp: from here on a change is shown without decimals


def cells_of(run: Run, entry: RowEntry) -> Mapping[str, str]:
    """Return the cells of a row under the names of their columns."""
    metric, figure, comparison = metric_of(run, entry.key[0]), entry.figure, entry.comparison
    budget = next((verdict.subject for verdict in entry.verdicts if isinstance(verdict.subject, Budget)), None)
    return {
        "metric": entry.name,
        "value": _value(figure, metric) if figure else _value_without_figure(run, comparison, metric),
        "n": _n(figure, comparison),
        "budget": show_limit(budget.limit, metric.unit, metric.better) if budget else "",
        "baseline": show_measured(comparison.baseline, metric.unit)
        if comparison and comparison.baseline is not None
        else "",
        "change": _change(comparison) if comparison else "",
        "outcome": ", ".join(dict.fromkeys(map(_outcome, entry.verdicts))),
    }


def metric_of(run: Run, name: str) -> Metric:
    """Return the metric; one that only the baseline knows is taken as a plain number."""
    return metrics.metric_of(name, run.directions.get(name, "lower"))


def unit_of(per: str) -> str:
    """Return what is counted in one word: `batch of 9 calls` → `batch`, `fresh process` → `process`."""
    return " ".join(per.partition(" of ")[0].split()[-1:])


def _n(figure: Figure | None, comparison: Comparison | None) -> str:
    if figure:
        return counted(figure.estimate.n, visible(unit_of(figure.per)))
    if comparison and (comparison.candidate is not None or comparison.is_left_out):
        return counted(comparison.pairs, visible(unit_of(comparison.per)))
    return ""


def _value_without_figure(run: Run, comparison: Comparison | None, metric: Metric) -> str:
    """Write the candidate's value of a comparison; a run of comparisons alone was to measure nothing by itself."""
    if comparison and comparison.candidate is not None:
        return show_measured(comparison.candidate, metric.unit)
    if comparison and comparison.is_left_out:
        return ""
    return "unmeasured" if run.samples or run.unmeasured else ""


def _value(figure: Figure, metric: Metric) -> str:
    """Write the value with its interval, alone where it has none or where every reading is the same."""
    value, low, high = figure.estimate.value, figure.estimate.low, figure.estimate.high
    if figure.per == OF_A_LOAD and any(is_lacking(one) for one in figure.estimate.warnings):
        return "n/a"
    if (low, high) in {(None, None), (value, value)}:
        return show_measured(value, metric.unit)
    return show_interval(value, low, high, metric.unit)


def _change(comparison: Comparison) -> str:
    """Write `+4.8 % (+3.1 .. +6.5)`; "" where nothing could be compared. A footnote gives its n and method."""
    change = comparison.change
    if change is None:
        return ""
    if comparison.is_equal:
        return "0 pp"
    return show_change_interval(change.value, change.low, change.high, comparison.scale, write=_short)


def _short(change: float, scale: str, like: float) -> str:
    """Write a change in few letters: without decimals where it is large, and none at all as `0 %`."""
    if like >= 1 and scale == "relative":
        return show_change(change, scale, like=like)
    unit, digits = ("pp", 2) if scale == "absolute" else ("%", 1)
    shown = round(100 * change, digits)
    if not shown:
        return f"0 {unit}"
    if abs(shown) < _WHOLE_FROM:
        return show_change(change, scale, like=like)
    return f"{shown:+.0f} {unit}"


def _outcome(verdict: Verdict) -> str:
    """Return the outcome; where the user's settings make an inconclusive one fail, say so."""
    says_it = not verdict.fails or verdict.outcome in {"failed", "regressed"}
    return verdict.outcome if says_it else f"{verdict.outcome} (fails)"


_METRICS = {metric: place for place, metric in enumerate(METRICS)}
_STATISTICS = {statistic: place for place, statistic in enumerate(STATISTICS)}


class Family(Record, frozen=True, kw_only=True):
    """One test: its scenarios, or a single measured callable."""

    title: str  # test id and label; where several scenarios follow, without the name of theirs
    judgements: tuple[Judgement, ...]  # best median latency first, those without one last
    skips: tuple[Skip, ...]

    @property
    def best(self) -> float | None:
        """The smallest median latency in s; None where there is no other scenario."""
        return median_of(self.judgements[0]) if len(self.judgements) > 1 else None


def families(judgements: Sequence[Judgement], skips: Sequence[Skip]) -> list[Family]:
    """Put together the scenarios of each test, measured and skipped; tests keep their order."""
    members: dict[tuple[str, ...], list[Judgement]] = {}
    for position, judgement in enumerate(judgements):
        run = judgement.run
        alone = "" if run.scenario else str(position)
        members.setdefault((*_common(run.test, run.scenario, run.label), run.kind, alone), []).append(judgement)
    tests = {(key[0], key[2]): key for key in members}  # a skip has no label: it joins the last ones of its test
    skipped: dict[tuple[str, ...], list[Skip]] = {}
    for skip in skips:
        test, _ = _common(skip.test, skip.scenario, "")
        skipped.setdefault(tests.get((test, skip.kind), (test, "", skip.kind, "")), []).append(skip)
    return [_family(key, members.get(key, []), skipped.get(key, [])) for key in dict.fromkeys([*members, *skipped])]


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
    return _titled(run.test, run.label, run.kind)


def _titled(test: str, label: str, kind: str) -> str:
    title = f"{test} {label}".rstrip()
    return f"{title} on {kind}" if kind else title


def _family(key: tuple[str, ...], judgements: Sequence[Judgement], skips: Sequence[Skip]) -> Family:
    if len(judgements) + len(skips) == 1:
        title = title_of(judgements[0].run) if judgements else _titled(skips[0].test, "", skips[0].kind)
    else:
        title = _titled(*key[:3])
    placed = sorted(judgements, key=lambda judgement: median_of(judgement) or float("inf"))
    return Family(title=title, judgements=tuple(placed), skips=tuple(skips))


def _common(test: str, scenario: str, label: str) -> tuple[str, str]:
    """Return test id and label without the scenario's name: `t.py::t[onnx_fp32-8]` becomes `t.py::t[…-8]`."""
    if not scenario:
        return test, label
    word = re.compile(rf"(?<!\w){re.escape(scenario)}(?!\w)")
    function, bracket, parameters = test.partition("[")
    common = function + bracket + word.sub("…", parameters, count=1)
    return common.removesuffix("[…]"), " ".join(word.sub("", label, count=1).split())
