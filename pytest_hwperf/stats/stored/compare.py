"""Comparison of a run with the stored runs of its test: what fits which metric, and what rules a comparison out.

Timings are compared with an interval that predicts a new run from stored ones, where the baseline cannot be rerun: a
warning of drift.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import fmean, median, stdev

from pytest_hwperf.records.evidence import Measurement
from pytest_hwperf.records.messages import Difference, Statement, differing, state
from pytest_hwperf.records.metrics import Metric, metric_of
from pytest_hwperf.records.run import Estimate, Figure, Key, Machine, Run, StoredRun, figure_of, replace
from pytest_hwperf.records.units import relative, relative_change, show_change
from pytest_hwperf.records.verdict import Comparison, Judgement, Margin, uncompared
from pytest_hwperf.stats.figures.exact import can_part, compare_accuracy, compare_exact, is_worse_in_all

REPEATS = 2  # further fresh processes that an alarm has to survive: bursts of other load pass, slow code stays

_ROBUST_FROM = 3  # stored runs: of two, the median is the mean and one burst spoils either
_PRIOR_SD, _PRIOR_DF = 0.10, 3.0  # of the spread, and as many runs more as it counts for
_MAD_TO_SD = 1.4826  # of a normal distribution
_DRIFT_TIMINGS, _DRIFT_SHARE = 5, 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What a baseline has of one test."""

    runs: Sequence[StoredRun]  # accepted, of this machine, oldest first
    elsewhere: Sequence[Machine] = ()  # machines that have runs of this test


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What is compared, and how surely."""

    margins: Sequence[Margin]  # one for each statistic
    required: Collection[Key] = ()  # those that need an answer: unmeasured, they say so
    alpha: float = 0.01  # one-sided: of each timing, and of all comparisons by example of the build together
    family: int = 1  # comparisons by example in the build, among which their alpha is split


def stored_run_of(judgement: Judgement) -> StoredRun:
    """Return what a baseline keeps of a run: every figure, and the values of exact metrics that can be compared."""
    run = judgement.run
    metrics = ((sample, run.metric(sample.metric)) for sample in run.samples)
    kept = tuple(sample for sample, metric in metrics if metric.exact and metric.margins)
    stored = replace(run, samples=kept, operators=None, roofline=None).with_result(None)
    return StoredRun(run=stored, figures=judgement.figures)


def required_of(run: Run, own: Iterable[Margin], everywhere: Iterable[Margin]) -> frozenset[Key]:
    """Return the statistics that need an answer, even if it is why there is none."""
    lacking = {*run.unmeasured, *(sample.metric for sample in run.samples if sample.estimated)}
    return frozenset(margin.key for margin in (*own, *(one for one in everywhere if one.metric in lacking)))


def measured_margins(margins: Iterable[Margin], figures: Sequence[Figure]) -> list[Margin]:
    """Leave out the margins of what was only estimated: whatever there is to compare with, it never is."""
    estimated = {figure.key for figure in figures if figure.estimated}
    return [margin for margin in margins if margin.key not in estimated]


def gone_from(stored: Iterable[Run], tests: Collection[str], measured: Collection[Measurement]) -> list[Measurement]:
    """Return which measurements of these tests their newest stored revision has, and nothing measured now."""
    newest, found = dict[str, Run](), dict[Measurement, Run]()
    for run in sorted(stored, key=lambda one: one.started_at):
        newest[run.test] = found[Measurement(test=run.test, label=run.label)] = run
    return [
        one
        for one, run in found.items()
        if one.test in tests and one not in measured and run.shown_revision == newest[one.test].shown_revision
    ]


def family_of(stored: Iterable[StoredRun], tests: Collection[str], machine: Machine) -> int:
    """Return how many comparisons by example these stored runs make possible in a build of these tests; at least 1.

    Which libraries a test loads is not known before: whatever their versions, it may be compared with any.
    """
    runs = (one.run for one in stored if one.run.test in tests and one.run.machine.is_alike(machine, ()))
    return len({(run.test, run.label, one.metric) for run in runs for one in run.samples if one.per == "example"}) or 1


def rerun_of(stored: Iterable[Run]) -> tuple[Run, tuple[str, ...]]:
    """Return a run of the revision to rerun, and the tests whose own newest run is of another one.

    Most tests share that revision; of equally many it is the newest. For the other tests it is no baseline: a
    regression that kept their runs out of it would be on both sides.
    """
    newest = {run.test: run for run in sorted(stored, key=lambda one: one.started_at)}
    shared = Counter(run.shown_revision for run in newest.values())
    chosen = max(newest.values(), key=lambda run: (shared[run.shown_revision], run.started_at))
    return chosen, tuple(test for test, run in newest.items() if run.shown_revision != chosen.shown_revision)


def compare_with_stored(
    run: Run,
    figures: Sequence[Figure],
    stored: Stored,
    criteria: Criteria,
    repeats: Sequence[Sequence[Figure]] = (),
) -> tuple[Comparison, ...]:
    """Compare every statistic that has a margin."""
    found = []
    for margin in criteria.margins:
        figure = figure_of(figures, margin.key)
        if figure is not None and not figure.estimated:  # an estimate is never gated
            again = [f.estimate.value for group in repeats if (f := figure_of(group, margin.key)) is not None]
            found.append(_compare(run, figure, stored, margin, criteria, again))
        elif margin.key in criteria.required:
            found.append(uncompared(margin, "not comparable", _why_absent(run, figure, margin)))
    return tuple(found)


def _compare(
    run: Run, figure: Figure, stored: Stored, margin: Margin, criteria: Criteria, repeats: Sequence[float]
) -> Comparison:
    """Compare exact values with those of the newest stored run, which describes the code that was accepted last.

    Each test is judged before the next one runs, so that alpha is split evenly. Holm's rule would fail the
    same builds: docs/design-notes.md#alpha-against-stored-accuracies.
    """
    measured = [(kept, old) for kept in stored.runs if (old := figure_of(kept.figures, margin.key)) is not None]
    others = [machine for machine in stored.elsewhere if machine.fingerprint != run.machine.fingerprint]
    if not measured:
        same = [machine for machine in others if machine.hardware == run.machine.hardware]
        nearest = min((machine.differences(run.machine) for machine in same or others), key=len, default=())
        why = state("other versions" if same else "another machine", nearest) if others else state("no baseline")
        return uncompared(margin, "not comparable" if others else "no baseline", why)
    differences = [_differences(run, kept.run, (old.source, figure.source)) for kept, old in measured]
    usable = [one for one, unlike in zip(measured, differences, strict=True) if not unlike]
    if not usable:
        return uncompared(margin, "not comparable", state("stored otherwise", differences[-1]))
    metric, now, then = run.metric(margin.metric), run.sample(margin.metric), usable[-1][0].run.sample(margin.metric)
    if not metric.exact:
        if metric.in_processes and now is not None:  # each value is a fresh process already: all must be beyond
            repeats = [min(now.values), max(now.values)]
        values = [old.estimate.value for _, old in usable]
        return compare_with_history(metric, values, figure.estimate.value, margin, criteria.alpha, repeats)
    if then is None or now is None or not then.values:
        return uncompared(margin, "not comparable", state("values not kept"))
    if margin.scale == "relative":
        return compare_exact(metric, then.values, now.values, margin)
    found = compare_accuracy(then.values, now.values, margin, criteria.alpha / criteria.family, now.classes)
    promise = state("error rate split", alpha=100 * criteria.alpha, family=criteria.family)
    return replace(found, promise=promise) if found.change is not None else found


def _differences(run: Run, stored: Run, sources: tuple[str, str] = ("", "")) -> tuple[Difference, ...]:
    """Return what makes a stored quantity another one than that of the run: conditions, kind or source."""
    kinds = (stored.kind, run.kind) if stored.kind and run.kind else ("", "")
    named = (("machine kind", *kinds), ("source", *sources))
    others = (Difference(name=name, baseline=then, candidate=now) for name, then, now in named if then != now)
    return (*differing(stored.conditions, run.conditions), *others)


def _why_absent(run: Run, figure: Figure | None, margin: Margin) -> Statement:
    if figure is not None:
        return state("only estimated", source=figure.source)
    remedy = state("not given", remedy=metric_of(margin.metric).remedy)
    return state("not measured", why=str(run.unmeasured.get(margin.metric) or remedy))


def named_too(
    run: Run, figures: Sequence[Figure], criteria: Criteria, paired: Mapping[Key, Comparison]
) -> dict[Key, Comparison]:
    """Add a comparison without a change for each statistic that the user named and the pairs did not decide."""
    found = dict[Key, Comparison]()
    for margin in criteria.margins:
        figure = figure_of(figures, margin.key)
        if margin.key in paired:
            found[margin.key] = paired[margin.key]
        elif margin.key in criteria.required:
            why = run.unmeasured.get(margin.metric) or _why_absent(run, figure, margin)
            is_measured = figure is not None and not figure.estimated
            found[margin.key] = uncompared(margin, "not comparable", state("pairs cannot tell") if is_measured else why)
    return found


def not_compared(figures: Sequence[Figure], criteria: Criteria, cause: Statement) -> tuple[Comparison, ...]:
    measured = {figure.key for figure in figures}
    margins = measured_margins(criteria.margins, figures)
    return tuple(uncompared(margin, "not comparable", cause) for margin in margins if margin.key in measured)


def choose(
    run: Run,
    margins: Sequence[Margin],
    stored: Sequence[Comparison],
    paired: Mapping[Key, Comparison],
    *,
    blind: bool,
) -> tuple[Comparison, ...]:
    """Answer each margin by the better one of two comparisons: with the stored runs, or by the pairs."""
    by_key = {one.key: one for one in stored}
    answers = []
    for margin in margins:
        old, new = by_key.get(margin.key), paired.get(margin.key)
        if old is None or new is None:
            answers.append(old or new)
            continue
        # What is stored of exact metrics is fully valid; of all others the pairs decide. Of two answers that both err
        # at a rate, that of the pairs counts: its rate is part of that of the build. An alarm on values that vary errs
        # too, once in 20 times with three on each side.
        varies = old.method is not None and old.method.kind == "stored, spread"
        by_rate = (old.p_value is not None and new.change is not None) or (varies and new.is_answer)
        valid = run.metric(margin.metric).exact and old.change is not None and not by_rate
        keep_old = valid or (blind and old.outcome == "regressed")
        if not keep_old and old.is_answer and not (new.is_answer or new.is_answered_elsewhere):
            keep_old, old = True, replace(old, warnings=(*old.warnings, str(state("no pairs", why=new.reason))))
        answers.append(old if keep_old else new)
    return tuple(answer for answer in answers if answer is not None)


def is_exact_alarm(run: Run, comparison: Comparison) -> bool:
    """Whether a value that one process has given exactly is called worse: another process may give another one."""
    metric = run.metric(comparison.metric)
    return comparison.outcome == "regressed" and metric.exact and not metric.in_processes


def unless_agreed(
    run: Run, comparisons: Sequence[Comparison], repeats: Sequence[Run], stored: Stored, criteria: Criteria
) -> tuple[Comparison, ...]:
    """Take back alarms on exact values that differ from process to process: those of a model trained without a seed.

    They count where every process is worse than all stored runs, and these are enough to tell that from chance.
    """
    alarms = ((one, is_exact_alarm(run, one)) for one in comparisons)
    return tuple(_unless_agreed([run, *repeats], one, stored, criteria) if alarm else one for one, alarm in alarms)


def _unless_agreed(runs: Sequence[Run], alarm: Comparison, stored: Stored, criteria: Criteria) -> Comparison:
    first, *again = (one.sample(alarm.metric) for one in runs)
    if first is None or all(one is not None and one.values == first.values for one in again):
        return alarm
    what = "predictions differ" if first.per == "example" else f"{alarm.metric} differs"
    new = [one.values for one in (first, *again) if one is not None]
    # What the stored runs have of the same quantity under the same conditions; of examples, of as many.
    samples = (one.run.sample(first.metric) for one in stored.runs if not _differences(runs[0], one.run))
    alike = (one.values for one in samples if one is not None and one.source == first.source)
    counts = first.per != "example"  # a count has a value for each window
    old = [values for values in alike if values and (counts or len(values) == len(first.values))]
    margin = next(one for one in criteria.margins if one.key == alarm.key)
    cause = state("processes disagree", what=what, side="candidate")
    if len(new) == len(runs) and is_worse_in_all(old, new, margin, first.per):
        enough = next(n for n in count(1) if can_part(n, len(new), criteria.alpha / criteria.family))
        if len(old) >= enough:
            note = state("processes apart", what=what, count=len(new))
            return replace(alarm, warnings=(*alarm.warnings, str(note)))
        cause = state("few stored runs", what=what, count=len(new), stored=len(old), needed=enough)
    return replace(alarm, outcome="inconclusive", p_value=None, cause=cause)


def may_hide_a_change(comparisons: Iterable[Comparison]) -> bool:
    """Whether a run is worse in all its processes, with too few stored runs to tell that from chance.

    Saved, it would be one of the runs that a later one has to be worse than.
    """
    return any(one.cause is not None and one.cause.kind == "few stored runs" for one in comparisons)


def history_limit(history: Sequence[float], alpha: float) -> tuple[float, float]:
    """Return the centre of stored runs and how far beyond it a new one may lie: a moderated prediction interval.

    The spread of few runs is itself uncertain, so it is averaged with a prior one of 10 %, as if three more runs had
    been seen; a burst of other load in one of them must not widen the limit, so from three runs on the centre is
    the median and the spread 1.4826 times the median absolute deviation.

    References:
        Smyth, Stat. Appl. Genet. Mol. Biol. 3 (2004), for the moderated variance.
        Example: one stored run, alpha 0.01: t(.99, 3) * 0.10 * sqrt(2) = 0.642, a limit of +90 %.
    """
    if len(history) < _ROBUST_FROM:
        centre, excess = fmean(history), 1.0
        spread = stdev(history) if len(history) > 1 else 0.0
    else:
        centre, excess = median(history), math.pi / 2  # the median of n normal values varies so much more than the mean
        spread = _MAD_TO_SD * median(abs(value - centre) for value in history)
    return centre, prediction_limit(spread, len(history), excess, alpha)


def prediction_limit(spread: float, count: int, excess: float, alpha: float) -> float:
    """Return t(1 - alpha, df) * s * sqrt(1 + excess / count) with s^2 moderated by the prior."""
    from scipy.special import stdtrit

    df = _PRIOR_DF + count - 1
    s = math.sqrt((_PRIOR_DF * _PRIOR_SD**2 + (count - 1) * spread**2) / df)
    return float(stdtrit(df, 1 - alpha)) * s * math.sqrt(1 + excess / count)


def compare_with_history(
    metric: Metric,
    history: Sequence[float],
    value: float,
    margin: Margin,
    alpha: float,
    repeats: Sequence[float] = (),
) -> Comparison:
    """Compare a new value with stored ones of the same machine; an alarm counts only if repeated."""
    if not all(math.isfinite(one) and one > 0 for one in (*history, value, *repeats)):
        found = uncompared(margin, "not comparable", state("no ratio to sessions"))
        return replace(found, pairs=len(history), method=state("historical"))
    centre, limit = history_limit([math.log(one) for one in history], alpha)
    least = max(margin.size, relative(margin.floor, math.exp(centre)))
    bar, worse = max(limit, math.log1p(least)), 1 if metric.better == "lower" else -1
    shifts = [math.log(one) - centre for one in (value, *repeats[:REPEATS])]
    change, low, high = map(relative_change, (shifts[0], shifts[0] - limit, shifts[0] + limit))
    facts, method = {"limit": relative_change(worse * bar), "sessions": len(history)}, "moderated prediction interval"
    found = replace(
        uncompared(replace(margin, size=least), "inconclusive"),
        change=Estimate.of(change, (low, high), 1 - 2 * alpha, len(history), method),
        scale="relative",
        pairs=len(history),
        method=state("historical limit", **facts),
        detectable=facts["limit"],
        baseline=math.exp(centre),
    )
    side = math.copysign(1, shifts[0])
    beyond = [side * shift > bar for shift in shifts]
    if not beyond[0]:
        return found
    if len(shifts) <= REPEATS:
        return replace(found, cause=state("not repeated", repeats=REPEATS))
    found = replace(found, method=state("historical repeats", beyond=sum(beyond), processes=len(shifts), **facts))
    return replace(found, outcome="regressed" if side == worse else "improved") if all(beyond) else found


def needs_repeats(comparison: Comparison) -> bool:
    """Say whether a comparison with history raised an alarm by its single value, and needs `REPEATS` more."""
    return comparison.cause is not None and comparison.cause.kind == "not repeated"


def machine_drift(comparisons: Sequence[Comparison]) -> str | None:
    """Return a sentence where most timings moved the same way since their stored runs, None where they did not.

    What tests share is the machine and its hour, not their code: from five timings on, where more than 70 % moved
    beyond their margin in the same direction, the machine is the first suspect.
    """
    moves = list[tuple[float, float]]()  # log change of the seconds, and its margin
    for one in comparisons:
        unit = metric_of(one.metric).unit
        if one.change is not None and one.is_historical and unit in ("s", "1/s"):
            moves.append((math.log1p(one.change.value) * (1 if unit == "s" else -1), math.log1p(one.margin)))
    for word, sign in (("slower", 1), ("faster", -1)):
        moved = [move for move, margin in moves if sign * move > margin]
        if len(moves) >= _DRIFT_TIMINGS and len(moved) > _DRIFT_SHARE * len(moves):
            typical = show_change(relative_change(median(moved)), "relative")
            return (
                f"machine drift: {len(moved)} of {len(moves)} timings are {word} than in their stored runs, "
                f"{typical} in the middle: suspect the machine before the code, and rerun on a quiet one"
            )
    return None
