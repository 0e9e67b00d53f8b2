"""Explanations of what the pairs have decided: the functions, operators and allocations that moved."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from pytest_hwperf.records.evidence import Explanation, Hypothesis, Measurement, MeasurementKey, PairedProfiles
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.profiles import HeldMemory, Mover, MoverKind, SampledCalls
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.units import relative
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.call_trees import SampledSides, stacks_of
from pytest_hwperf.stats.movers import Seconds, moved_most, moved_operators, mover_between, pooled, profile_of

MOST_OF_IT = 0.5  # of a change: what operators hold of it is not looked for in functions
_MOST_MOVERS = 10  # that are kept
_COVERED = (0.8, 1.25)  # share of the change, within which movers add up to it
_SLOW = 0.5  # overhead of a profiler from which on it is said
_DISTORTING = 10.0  # from which on nothing that it found is
_SAME_CALLS = 0.01  # relative: counts that are no further apart are the same


def explained(
    decided: Mapping[Hypothesis, Comparison],
    profiles: Iterable[PairedProfiles] = (),
    explanations: Iterable[Explanation] = (),
) -> dict[MeasurementKey, Comparison]:
    """Return each comparison; that of something that changed with what moved most, where it is known.

    The profiles give the shares, and the pairs the times that are shared out.
    """
    comparisons = {hypothesis.key: comparison for hypothesis, comparison in decided.items()}
    by_key: dict[MeasurementKey, list[Explanation]] = {}
    for one in explanations:
        by_key.setdefault(one.key, []).append(one)
    by_measurement: dict[Measurement, list[PairedProfiles]] = {}
    for profile in profiles:
        by_measurement.setdefault(profile.measurement, []).append(profile)
    for key, comparison in comparisons.items():
        if has_changed(comparison):
            alike = by_measurement.get(key[0], []) if metric_of(key[1]).is_profiled(key[2]) else []
            sides = [one.baseline for one in alike], [one.candidate for one in alike]
            both = zip(sides, _figures(comparison), strict=True)
            operators = moved_most(*(profile_of(pooled(side), call_s) for side, call_s in both)) if alike else None
            moved = _told(by_key.get(key, []), operators)
            comparisons[key] = replace(comparison, moved=comparison.moved or moved)
    return {key: _with_calls(key, comparison, comparisons) for key, comparison in comparisons.items()}


def _with_calls(
    key: MeasurementKey, comparison: Comparison, comparisons: Mapping[MeasurementKey, Comparison]
) -> Comparison:
    """Return what moves with the calls, such as a percentile, with what moved the calls of its measurement."""
    if comparison.moved is not None or not has_changed(comparison) or not metric_of(key[1]).goes_with_calls:
        return comparison
    for (measurement, metric, statistic), one in comparisons.items():
        profiled = metric_of(metric).is_profiled(statistic) and measurement == key[0]
        if profiled and one.outcome == comparison.outcome and one.moved is not None:
            texts = one.moved.texts
            by = f"{texts['name']} ({texts['where']})" if {"name", "where"} <= texts.keys() else texts.get("operator")
            other = metric_of(metric).called(statistic)
            return replace(comparison, moved=state("moved with", other=other, by=by or str(one.moved)))
    return comparison


def unexplained(hypothesis: Hypothesis) -> Statement:
    """Say why no profile explains what changed, where none of its calls does."""
    metric = metric_of(hypothesis.margin.metric)
    return state("calls unmoved") if metric.goes_with_calls else state("not profiled", why=metric.unexplained)


def has_changed(comparison: Comparison) -> bool:
    """Whether there is a change to explain: of one that may be none, a share is noise."""
    return comparison.outcome in ("regressed", "improved") and comparison.candidate is not None


def _told(explanations: Sequence[Explanation], operators: Statement | None) -> Statement | None:
    """Return what is said of the change: its operator if that holds most of it, else its function or allocation."""
    if any(one.kind == "operator" and one.movers and one.movers[0].share >= MOST_OF_IT for one in explanations):
        return operators
    others = [one for one in explanations if one.kind != "operator"]
    named = [one.movers[0] for one in others if one.movers]
    if named:
        return sentence_of(max(named, key=lambda one: one.share), others[0].repeats)
    return operators or next((one.withheld for one in others if one.withheld), None)


def _figures(comparison: Comparison) -> tuple[float, float]:
    """Return what the pairs have found for both sides, in base units; a call may not take less than nothing.

    Of a rate of calls, it is the time of a call.
    """
    sides = [max(0.0, comparison.baseline or 0.0), max(0.0, comparison.candidate or 0.0)]
    if metric_of(comparison.metric).is_rate:
        sides = [1 / rate if rate else 0.0 for rate in sides]
    return sides[0], sides[1]


def sentence_of(mover: Mover, repeats: int) -> Statement:
    """Say what has moved, by how much, and how often it is called where that has changed."""
    facts: dict[str, str | float] = {
        "name": f"{mover.holds}, changed, within {mover.name}" if mover.holds else mover.name,
        "where": f"{mover.where}, most of it in {mover.within}" if mover.within else mover.where,
        "moved": mover.moved,
        "share": mover.share,
        "low": min(mover.spread),
        "high": max(mover.spread),
        "repeats": repeats,
    }
    if mover.kind == "allocation":
        return state("allocation moved", **facts)
    then, now = mover.baseline_calls, mover.candidate_calls
    if then is None or now is None or abs(now - then) <= _SAME_CALLS * then:
        return state("function moved", **facts)
    return (
        state("function called otherwise", **facts, times=relative(now, then))
        if then
        else state("function called", **facts)
    )


def explain_functions(
    hypothesis: Hypothesis, comparison: Comparison, baseline: Sequence[SampledCalls], candidate: Sequence[SampledCalls]
) -> Explanation:
    """Explain a latency by the functions of Python, from a profile of each repeat and side."""
    baseline_s, candidate_s = _figures(comparison)
    sides, overhead = SampledSides(baseline, candidate), _overhead_of((*baseline, *candidate))
    tree = sides.tree(baseline_s, candidate_s)
    stacks = stacks_of(tree)
    distorts = overhead is not None and overhead > _DISTORTING
    clear = sides.movers(tree, candidate_s - baseline_s) if has_changed(comparison) else ()
    movers = () if distorts else sides.seen_apart(clear)
    found = _explanation(hypothesis, comparison, movers, kind="function", repeats=len(baseline))
    if has_changed(comparison) and not movers:
        changed = f"; changed functions that it runs: {sides.changed}" if sides.changed else ""
        kind = "profiler distorts" if distorts else "profiles unlike pairs" if clear else "nothing moved"
        found = replace(
            found,
            withheld=state(kind, repeats=len(baseline), times=1 + (overhead or 0.0), what="function", changed=changed),
        )
    slow = (state("profiler slows", overhead=overhead),) if overhead and _SLOW < overhead <= _DISTORTING else ()
    return replace(
        found,
        remarks=(*found.remarks, *slow),
        method=baseline[0].source,
        overhead=overhead,
        baseline_stacks=stacks[0],
        candidate_stacks=stacks[1],
    )


def _overhead_of(profiles: Sequence[SampledCalls]) -> float | None:
    """Return how much longer a call takes under the profiler, as a share; None where one was too short to be timed."""
    if not all(one.plain_s for one in profiles):
        return None
    return fmean(one.call_s / one.plain_s for one in profiles) - 1


def explain_operators(
    hypothesis: Hypothesis, comparison: Comparison, profiles: Sequence[PairedProfiles]
) -> Explanation:
    """Explain a latency by the operators of a runtime, from a profile of each repeat and side."""
    then, now = [one.baseline for one in profiles], [one.candidate for one in profiles]
    movers = moved_operators(then, now, *_figures(comparison)) if has_changed(comparison) else ()
    found = _explanation(hypothesis, comparison, movers, kind="operator", repeats=len(profiles))
    return replace(found, method=then[0].source)


def explain_memory(
    hypothesis: Hypothesis,
    comparison: Comparison,
    baseline: Sequence[Sequence[HeldMemory]],
    candidate: Sequence[Sequence[HeldMemory]],
) -> Explanation:
    """Explain a peak of memory by what held it, from the sites of each repeat and side."""
    then, now = ([_held(one) for one in side] for side in (baseline, candidate))
    largest = _places(baseline) | _places(candidate)
    change = _figures(comparison)[1] - _figures(comparison)[0]
    movers = [
        mover_between(
            "allocation",
            (site[0] or "outside Python", largest[site], ""),
            Seconds(tuple(one.get(site, 0.0) for one in then), tuple(one.get(site, 0.0) for one in now)),
            change,
        )
        for site in (largest if has_changed(comparison) and change else ())
    ]
    clear = sorted((one for one in movers if one.is_clear), key=lambda one: -one.share)
    found = _explanation(hypothesis, comparison, clear, kind="allocation", repeats=len(baseline))
    return replace(found, method="memray")


def _held(sites: Sequence[HeldMemory]) -> dict[tuple[str, str], float]:
    """Return what each function holds: its lines may be others in the other version."""
    found: dict[tuple[str, str], float] = {}
    for one in sites:
        found[_site(one)] = found.get(_site(one), 0.0) + one.size
    return found


def _places(side: Sequence[Sequence[HeldMemory]]) -> dict[tuple[str, str], str]:
    """Return the line of each function that holds most."""
    found: dict[tuple[str, str], str] = {}
    for one in sorted((one for sites in side for one in sites), key=lambda one: one.size):
        found[_site(one)] = one.called_at or (f"{one.file}:{one.line}" if one.function else "")
    return found


def _site(held: HeldMemory) -> tuple[str, str]:
    """Return the function that something is held by, and its file: that of the tests' own code if there is one."""
    if held.called_at:
        return held.caller, held.called_at.rpartition(":")[0]
    return held.function, held.file


def explain_nothing(hypothesis: Hypothesis, comparison: Comparison, kind: MoverKind, why: Statement) -> Explanation:
    """Say why nothing was profiled, or could be."""
    return replace(_explanation(hypothesis, comparison, (), kind=kind, repeats=0), withheld=why)


def _explanation(
    hypothesis: Hypothesis, comparison: Comparison, movers: Sequence[Mover], *, kind: MoverKind, repeats: int
) -> Explanation:
    baseline, candidate = _figures(comparison)
    movers = tuple(movers[:_MOST_MOVERS])
    covered = sum(one.share for one in movers)
    withheld = None
    if not has_changed(comparison):
        withheld = state("nothing to explain")
    elif not movers:
        withheld = state("nothing moved", what=kind, repeats=repeats, changed="")
    apart = movers and not _COVERED[0] <= covered <= _COVERED[1]
    return Explanation(
        measurement=hypothesis.measurement,
        metric=hypothesis.margin.metric,
        statistic=hypothesis.margin.statistic,
        kind=kind,
        baseline=baseline,
        candidate=candidate,
        movers=movers,
        covered=covered,
        withheld=withheld,
        remarks=(state("movers miss", covered=covered),) if apart else (),
        repeats=repeats,
        method="",
    )
