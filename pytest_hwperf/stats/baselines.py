"""Comparison of a run with the stored runs of its test: which kind fits which metric, and what rules one out."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from pytest_hwperf.records.messages import Difference, Statement, differing, state
from pytest_hwperf.records.metrics import METRICS, metric_of
from pytest_hwperf.records.run import Figure, Key, Machine, Run, StoredRun, figure_of, replace
from pytest_hwperf.records.verdict import Comparison, Judgement, Margin, uncompared
from pytest_hwperf.stats.exact import can_part, compare_accuracy, compare_exact, is_worse_in_all
from pytest_hwperf.stats.stored_timings import compare_with_history


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
            found.append(_compare(run, figure, stored, margin, criteria, repeats=again))
        elif margin.key in criteria.required:
            found.append(uncompared(margin, "not comparable", _why_absent(run, figure, margin)))
    return tuple(found)


def required_of(run: Run, own: Iterable[Margin], everywhere: Iterable[Margin]) -> frozenset[Key]:
    """Return the statistics that need an answer, even if it is why there is none."""
    estimated = {sample.metric for sample in run.samples if sample.estimated}
    lacking = [margin for margin in everywhere if margin.metric in {*run.unmeasured, *estimated}]
    return frozenset(margin.key for margin in (*own, *lacking))


def measured_margins(margins: Iterable[Margin], figures: Sequence[Figure]) -> list[Margin]:
    """Leave out the margins of what was only estimated: whatever there is to compare with, it never is."""
    estimated = {figure.key for figure in figures if figure.estimated}
    return [margin for margin in margins if margin.key not in estimated]


def named_too(
    run: Run, figures: Sequence[Figure], criteria: Criteria, paired: Mapping[Key, Comparison]
) -> dict[Key, Comparison]:
    """Add a comparison without a change for each statistic that the user named and the pairs did not decide."""
    found = dict[Key, Comparison]()
    for margin in criteria.margins:
        if margin.key in paired:
            found[margin.key] = paired[margin.key]
        elif margin.key in criteria.required:
            figure = figure_of(figures, margin.key)
            cause = run.unmeasured.get(margin.metric) or _why_absent(run, figure, margin)
            if figure is not None and not figure.estimated:
                cause = state("pairs cannot tell")
            found[margin.key] = uncompared(margin, "not comparable", cause)
    return found


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
        # What is stored of exact metrics is fully valid; of all others the pairs decide. Of two answers that both err
        # at a rate, that of the pairs counts: its rate is part of that of the build.
        keep_old = new is None or (old is not None and run.metric(margin.metric).exact and old.change is not None)
        if old is not None and new is not None and old.p_value is not None and new.change is not None:
            keep_old = False
        if old is not None and blind and old.outcome == "regressed":
            keep_old = True
        answers.append(old if keep_old else new)
    return tuple(answer for answer in answers if answer is not None)


def family_of(stored: Iterable[StoredRun], tests: Collection[str], machine: Machine) -> int:
    """Return how many comparisons by example these stored runs make possible in a build of these tests; at least 1.

    Which libraries a test loads is not known before: whatever their versions, it may be compared with any.
    """
    runs = (one.run for one in stored if one.run.test in tests and one.run.machine.is_alike(machine, ()))
    return len({(run.test, run.label, one.metric) for run in runs for one in run.samples if one.per == "example"}) or 1


def unless_agreed(
    run: Run, comparisons: Sequence[Comparison], repeats: Sequence[Run], stored: Stored, criteria: Criteria
) -> tuple[Comparison, ...]:
    """Take back alarms on exact values that differ from process to process: those of a model trained without a seed.

    They count where every process is worse than all stored runs, and these are enough to tell that from chance.
    """
    return tuple(
        _unless_agreed([run, *repeats], one, stored, criteria) if is_exact_alarm(run, one) else one
        for one in comparisons
    )


def is_exact_alarm(run: Run, comparison: Comparison) -> bool:
    """Whether a value that one process has given exactly is called worse: another process may give another one."""
    metric = run.metric(comparison.metric)
    return comparison.outcome == "regressed" and metric.exact and not metric.in_processes


def may_hide_a_change(comparisons: Iterable[Comparison]) -> bool:
    """Whether a run is worse in all its processes, with too few stored runs to tell that from chance.

    Saved, it would be one of the runs that a later one has to be worse than.
    """
    return any(one.cause is not None and one.cause.kind == "few stored runs" for one in comparisons)


def _unless_agreed(runs: Sequence[Run], alarm: Comparison, stored: Stored, criteria: Criteria) -> Comparison:
    first, *again = (one.sample(alarm.metric) for one in runs)
    if first is None or all(one is not None and one.values == first.values for one in again):
        return alarm
    what = "predictions differ" if first.per == "example" else f"{alarm.metric} differs"
    cause = state("processes disagree", what=what, side="candidate")
    new = [one.values for one in (first, *again) if one is not None]
    # What the stored runs have of the same quantity under the same conditions; of examples, of as many.
    samples = (one.run.sample(first.metric) for one in stored.runs if not _conditions(runs[0], one))
    alike = [one.values for one in samples if one is not None and one.source == first.source]
    if first.per == "example":  # a count has a value for each window
        alike = [values for values in alike if len(values) == len(first.values)]
    old = [values for values in alike if values]
    margin = next(one for one in criteria.margins if one.key == alarm.key)
    if len(new) == len(runs) and is_worse_in_all(old, new, margin, first.per):
        enough = next(n for n in count(1) if can_part(n, len(new), criteria.alpha / criteria.family))
        if len(old) >= enough:
            note = state("processes apart", what=what, count=len(new))
            return replace(alarm, warnings=(*alarm.warnings, str(note)))
        cause = state("few stored runs", what=what, count=len(new), stored=len(old), needed=enough)
    return replace(alarm, outcome="inconclusive", p_value=None, cause=cause)


def not_compared(figures: Sequence[Figure], criteria: Criteria, cause: Statement) -> tuple[Comparison, ...]:
    """Return the comparisons of a run of which none could be made."""
    measured = {figure.key for figure in figures}
    margins = measured_margins(criteria.margins, figures)
    return tuple(uncompared(margin, "not comparable", cause) for margin in margins if margin.key in measured)


def _compare(
    run: Run, figure: Figure, stored: Stored, margin: Margin, criteria: Criteria, *, repeats: Sequence[float]
) -> Comparison:
    measured = [(kept, old) for kept in stored.runs if (old := figure_of(kept.figures, margin.key)) is not None]
    if not measured:
        return _absent(run, margin, stored.elsewhere)
    usable = [(kept, old) for kept, old in measured if not _differences(run, figure, kept, old)]
    if not usable:
        differences = _differences(run, figure, *measured[-1])
        return uncompared(margin, "not comparable", state("stored otherwise", differences))
    metric = run.metric(margin.metric)
    if metric.exact:
        return _compare_exact(run, usable[-1][0], margin, criteria)
    values = [old.estimate.value for _, old in usable]
    value = figure.estimate.value
    sample = run.sample(margin.metric)
    if metric.in_processes and sample is not None:  # each value is a fresh process already: all must be beyond
        repeats = [min(sample.values), max(sample.values)]
    return compare_with_history(metric, values, value, margin, criteria.alpha, repeats)


def _compare_exact(run: Run, kept: StoredRun, margin: Margin, criteria: Criteria) -> Comparison:
    """Compare values with those of the newest stored run: it describes the code that was accepted last.

    Each test is judged before the next one runs, so that alpha is split evenly. Holm's rule would fail the
    same builds: docs/design-notes.md#alpha-against-stored-accuracies.
    """
    old, new = kept.run.sample(margin.metric), run.sample(margin.metric)
    stored, values = (sample.values if sample is not None else () for sample in (old, new))
    if not stored:
        return uncompared(margin, "not comparable", state("values not kept"))
    if margin.scale == "absolute":
        found = compare_accuracy(stored, values, margin, criteria.alpha / criteria.family, new.classes if new else None)
        promise = state("error rate split", alpha=100 * criteria.alpha, family=criteria.family)
        return replace(found, promise=promise) if found.change is not None else found
    return compare_exact(METRICS[margin.metric], stored, values, margin)


def _differences(run: Run, figure: Figure, kept: StoredRun, old: Figure) -> tuple[Difference, ...]:
    """Return what makes the stored figure another quantity than that of the run: conditions, kind or source."""
    conditions = _conditions(run, kept)
    if old.source == figure.source:
        return conditions
    return (*conditions, Difference(name="source", baseline=old.source, candidate=figure.source))


def _conditions(run: Run, kept: StoredRun) -> tuple[Difference, ...]:
    conditions = differing(kept.run.conditions, run.conditions)
    if kept.run.kind and run.kind and kept.run.kind != run.kind:
        conditions = (*conditions, Difference(name="machine kind", baseline=kept.run.kind, candidate=run.kind))
    return conditions


def _absent(run: Run, margin: Margin, elsewhere: Sequence[Machine]) -> Comparison:
    others = [machine for machine in elsewhere if machine.fingerprint != run.machine.fingerprint]
    if not others:
        return uncompared(margin, "no baseline", state("no baseline"))
    same = [machine for machine in others if machine.hardware == run.machine.hardware]
    nearest = min((machine.differences(run.machine) for machine in same or others), key=len)
    return uncompared(margin, "not comparable", state("other versions" if same else "another machine", nearest))


def _why_absent(run: Run, figure: Figure | None, margin: Margin) -> Statement:
    if figure is not None:
        return state("only estimated", source=figure.source)
    remedy = state("not given", remedy=metric_of(margin.metric).remedy)
    return state("not measured", why=str(run.unmeasured.get(margin.metric) or remedy))
