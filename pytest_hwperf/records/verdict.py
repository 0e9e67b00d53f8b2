"""What is asked of a run, and what was answered: limits, margins, comparisons, verdicts and judgements."""

import math
from typing import Literal

from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import METRICS, Better, Scale, metric_of
from pytest_hwperf.records.run import Estimate, Figure, Keyed, Run
from pytest_hwperf.records.structs import Count, Number, Record, Share, Size
from pytest_hwperf.records.units import show, show_change_interval, show_limit, show_size

Undecided = Literal["point", "retry", "pass", "fail"]
BudgetOutcome = Literal["passed", "failed", "inconclusive", "unmeasured"]
ComparisonOutcome = Literal["regressed", "improved", "equivalent", "inconclusive", "no baseline", "not comparable"]
_SAME = 1e-9  # relative: apart from rounding


class Budget(Keyed, frozen=True, kw_only=True, tag=True):
    """An absolute limit on one statistic of one metric."""

    keyword: str  # as the user wrote it: "latency_p95_ms"
    limit: Number  # base units; an upper limit where lower is better, else a lower one
    default: bool = False  # from the ini file, for every test: where its metric is unmeasured it fails nothing


class Margin(Keyed, frozen=True, kw_only=True):
    """The smallest change of one statistic that matters."""

    size: Size  # 0.02 = 2 % (relative) or 2 points (absolute)
    scale: Scale = "relative"
    floor: Size = 0.0  # base units: a relative margin is never smaller than this


class Comparison(Keyed, frozen=True, kw_only=True, tag=True):
    """Candidate against baseline, one statistic of one metric."""

    outcome: ComparisonOutcome
    change: Estimate | None = None  # candidate relative to baseline (or minus it, by `scale`); None: nothing to compare
    scale: Scale
    margin: Size  # same scale as `change`
    p_value: Share | None = None
    pairs: Count = 0  # units compared: pairs, stored runs, examples
    method: Statement | None = None  # how the change was found; None: nothing to compare
    detectable: Number | None = None  # the smallest change for the worse that could have been called, same scale
    baseline: Number | None = None  # the baseline's value in base units
    promise: Statement | None = None  # how often such an answer is wrong
    cause: Statement | None = None  # why it has no baseline, is not comparable or inconclusive
    warnings: tuple[str, ...] = ()
    interference: Share | None = None  # share of the timed blocks that were preempted; None: not known
    moved: Statement | None = None  # the function, operator or allocation that changed most, or why it is not known

    @property
    def reason(self) -> str:
        return str(self.cause or "")

    @property
    def candidate(self) -> float | None:
        """The candidate's value in base units: that of the baseline, changed by the change; None: nothing to compare.

        The three agree whatever the noise of either side, which pairs share and the change leaves out.
        """
        if self.baseline is None or self.change is None:
            return None
        return self.baseline + self.change.value * (1.0 if self.scale == "absolute" else abs(self.baseline))

    @property
    def per(self) -> str:
        """The unit of `pairs`: "pair", "example", "file", "stored run" and the like."""
        if self.method is None:
            return "pair"
        named = {"examples": "example", "sessions": "stored run", "candidate": "value"}
        known = (per for number, per in named.items() if number in self.method.numbers)
        return self.method.texts.get("per") or next(known, "pair")

    @property
    def is_answer(self) -> bool:
        """Whether it says how both sides compare; one without a change may still call them better, worse or equal."""
        return self.change is not None or self.outcome in ("regressed", "improved", "equivalent")

    @property
    def is_answered_elsewhere(self) -> bool:
        """Whether another comparison answers it: of calls in a row, throughput is one over the mean latency."""
        return self.cause is not None and self.cause.kind == "reciprocal"

    @property
    def is_historical(self) -> bool:
        """Whether a timing was compared with stored ones, without a stated false-alarm rate."""
        return self.method is not None and self.method.kind.startswith("historical")

    @property
    def is_with_stored(self) -> bool:
        """Whether the other side is stored runs, and not the processes of pairs."""
        by_value = self.method is not None and self.method.kind.startswith("stored,")
        by_example = self.promise is not None and self.promise.kind == "error rate split"
        return self.is_historical or by_value or by_example

    @property
    def is_of_other_data(self) -> bool:
        """Whether it could not be made: the data, its labels or the conditions of the calls differ."""
        otherwise = ("other data", "other conditions", "stored otherwise")
        return self.outcome == "not comparable" and self.cause is not None and self.cause.kind in otherwise

    @property
    def is_left_out(self) -> bool:
        """Whether no pair was run since nothing that its test runs has changed."""
        return self.cause is not None and self.cause.kind == "untouched"

    def is_of(self, figure: "Figure") -> bool:
        """Whether the candidate's value is this figure of the judged run, and not one of other processes."""
        if self.is_left_out:
            return False
        candidate = self.candidate
        if self.baseline is None or candidate is None:
            return True
        return math.isclose(candidate, figure.estimate.value, rel_tol=_SAME, abs_tol=_SAME * abs(self.baseline))

    @property
    def how(self) -> str:
        """How the change was found and how often that is wrong, in words; "" without a comparison."""
        return ", ".join(str(part) for part in (self.method, self.promise) if part)

    @property
    def shift(self) -> str:
        """The change with its interval in words; "" without a change."""
        if self.change is None:
            return ""
        return show_change_interval(self.change.value, self.change.low, self.change.high, self.scale)

    @property
    def allowed(self) -> str:
        """The margin in words: `2 %`, `0.5 pp`, or an amount, e.g. `1 MB` for small peaks of memory."""
        metric, amount = metric_of(self.metric), self.margin * abs(self.baseline or 0.0)
        is_amount = self.margin >= 1 or any(math.isclose(amount, one.floor, rel_tol=1e-3) for one in metric.margins)
        if self.scale == "absolute" or not amount or not is_amount or metric.unit == "1":
            return show_size(self.margin, self.scale)
        return show_limit(float(f"{amount:.3g}"), metric.unit, "lower").removeprefix("<= ")

    @property
    def is_equal(self) -> bool:
        """Whether every unit that was compared has the same value on both sides."""
        return self.method is not None and self.method.kind == "equal examples"

    def caught(self, better: Better) -> Statement | None:
        """Say which changes it would have called, None where it is decided or that is not known."""
        if self.outcome != "inconclusive" or self.detectable is None:
            return None
        kind = "could have caught" if self.scale == "relative" else "could have caught points"
        return state(kind, sign=">=" if better == "lower" else "<=", change=self.detectable)

    @property
    def disturbance(self) -> Statement | None:
        """A known disturbance of an inconclusive comparison for the user to remove, if any."""
        if self.outcome != "inconclusive" or not self.interference:
            return None
        return state("turns preempted", percent=100 * self.interference)


def uncompared(margin: Margin, outcome: ComparisonOutcome, cause: Statement | None = None) -> Comparison:
    """Return the comparison of a margin of which nothing is known yet, or can be: then `cause` says why."""
    return Comparison(
        metric=margin.metric,
        statistic=margin.statistic,
        outcome=outcome,
        scale=margin.scale,
        margin=margin.size,
        cause=cause,
    )


class Verdict(Record, frozen=True, kw_only=True):
    """The answer to one budget or one comparison."""

    subject: Budget | Comparison
    outcome: BudgetOutcome | ComparisonOutcome
    reason: str  # one line: observed with interval, limit or margin, n, source
    cause: Statement | None = None  # why a budget is unmeasured
    decided_by: tuple[Statement, ...] = ()  # the answers to a budget with its limit inside the interval
    fails: bool  # whether it fails the test under the user's settings


class Policy(Record, frozen=True, kw_only=True):
    """How answers that are not clear are judged."""

    undecided: Undecided = "point"  # a budget's interval holds the limit: judge the point, ask again, pass or fail
    strict: bool = False  # a comparison that could not be decided fails the test


class Judgement(Record, frozen=True, kw_only=True):
    """One measured run with its figures and verdicts."""

    run: Run
    figures: tuple[Figure, ...]
    verdicts: tuple[Verdict, ...]

    def __post_init__(self) -> None:
        """Refuse metrics that are neither known nor recorded by the test."""
        of_verdicts = [verdict.subject.metric for verdict in self.verdicts]
        for metric in {*of_verdicts, *[figure.metric for figure in self.figures]}:
            if metric not in METRICS and metric not in self.run.directions:
                raise ValueError(f"no metric {metric!r}")

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        return tuple(v.subject for v in self.verdicts if isinstance(v.subject, Comparison))

    @property
    def fails(self) -> bool:
        return any(verdict.fails for verdict in self.verdicts)


class Skip(Record, frozen=True, kw_only=True):
    """A scenario in which the model cannot be prepared, or a test that is not measured; listed, never ranked."""

    test: str
    scenario: str
    cause: Statement
    kind: str = ""  # of the machine, as of a run

    @property
    def reason(self) -> str:
        return str(self.cause)


def baseline_of_nothing(candidate: float, unit: str) -> Statement:
    """Say that the baseline is 0, to which no change is relative."""
    return state("baseline of nothing", baseline=show(0.0, unit), candidate=show(candidate, unit))
