"""Explanations of what the pairs have decided: the functions, operators and allocations that moved."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from pytest_hwperf.records.evidence import Explanation, Hypothesis, MeasurementKey, PairedProfiles
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.profiles import (
    HeldMemory,
    Mover,
    MoverKind,
    Operator,
    OperatorProfile,
    ProfiledCalls,
    ProfiledOperator,
    SampledCalls,
)
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.units import relative
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.causes.call_trees import Seconds, stacks_of
from pytest_hwperf.stats.causes.movers import SampledSides

MOST_OF_IT = 0.5  # of a change: what operators hold of it is not looked for in functions
LEAST_COVERAGE = 0.8  # of a call: below it the profile says too little about the rest
_MOST_MOVERS = 10  # that are kept
_COVERED = (0.8, 1.25)  # share of the change, within which movers add up to it
_SLOW = 0.5  # overhead of a profiler from which on it is said
_DISTORTING = 10.0  # from which on nothing that it found is
_SAME_CALLS = 0.01  # relative: counts that are no further apart are the same
_LARGE_BATCH = 256  # rows from which on the profiler's own cost does not matter
_LONG_OPERATOR_S = 20e-6  # mean of a call's operators from which on it does not: it costs 4 to 6 µs each
# Kernels of one purpose, of which a runtime takes another when what stands beside it changes: MatMul, Add and Relu may
# be one FusedGemm. Sides are compared by these.
_FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(("FusedGemm", "FusedMatMul", "Gemm", "MatMul"), "matrix products"),
    **dict.fromkeys(("Conv", "FusedConv", "NhwcFusedConv"), "convolutions"),
    **dict.fromkeys(
        ("DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "QGemm", "QLinearMatMul"),
        "integer matrix products",
    ),
}


def explained(
    decided: Mapping[Hypothesis, Comparison],
    profiles: Sequence[PairedProfiles] = (),
    explanations: Sequence[Explanation] = (),
) -> dict[MeasurementKey, Comparison]:
    """Return each comparison; that of something that changed with what moved most, where it is known.

    The profiles give the shares, and the pairs the times that are shared out. What moves with the calls, such as a
    percentile, gets what moved the calls of its measurement.
    """
    found = {hypothesis.key: comparison for hypothesis, comparison in decided.items()}
    changed = [key for key, comparison in found.items() if has_changed(comparison)]
    for key in changed:
        is_profiled, comparison = metric_of(key[1]).is_profiled(key[2]), found[key]
        alike = [one for one in profiles if is_profiled and one.measurement == key[0]]
        sides = [one.baseline for one in alike], [one.candidate for one in alike]
        both = zip(sides, _figures(comparison), strict=True)
        operators = moved_most(*(profile_of(pooled(side), call_s) for side, call_s in both)) if alike else None
        moved = _told([one for one in explanations if one.key == key], operators)
        found[key] = replace(comparison, moved=comparison.moved or moved)
    with_calls = {key: _moved_with(key, found) for key in changed if found[key].moved is None}
    return found | {key: replace(found[key], moved=moved) for key, moved in with_calls.items()}


def _moved_with(key: MeasurementKey, found: Mapping[MeasurementKey, Comparison]) -> Statement | None:
    """Return what moved the calls of a measurement, for what goes with them and has no cause of its own."""
    if not metric_of(key[1]).goes_with_calls:
        return None
    for (measurement, metric, statistic), one in found.items():
        profiled = metric_of(metric).is_profiled(statistic) and measurement == key[0]
        if profiled and one.outcome == found[key].outcome and one.moved is not None:
            texts = one.moved.texts
            by = f"{texts['name']} ({texts['where']})" if {"name", "where"} <= texts.keys() else texts.get("operator")
            return state("moved with", other=metric_of(metric).called(statistic), by=by or str(one.moved))
    return None


def unexplained(hypothesis: Hypothesis) -> Statement:
    """Say why no profile explains what changed, where none of its calls does."""
    metric = metric_of(hypothesis.margin.metric)
    return state("calls unmoved") if metric.goes_with_calls else state("not profiled", why=metric.unexplained)


def has_changed(comparison: Comparison) -> bool:
    """Whether there is a change to explain: of one that may be none, a share is noise."""
    return comparison.outcome in ("regressed", "improved") and comparison.candidate is not None


def _told(explanations: Sequence[Explanation], operators: Statement | None) -> Statement | None:
    """Name the operator that holds most of the change, else the function or allocation that holds more than others."""
    if any(one.kind == "operator" and one.movers and one.movers[0].share >= MOST_OF_IT for one in explanations):
        return operators
    others = [one for one in explanations if one.kind != "operator"]
    named = [one.movers[0] for one in others if one.movers]
    if not named:
        return operators or next((one.withheld for one in others if one.withheld), None)
    mover = max(named, key=lambda one: one.share)
    facts: dict[str, str | float] = {
        "name": f"{mover.holds}, changed, within {mover.name}" if mover.holds else mover.name,
        "where": f"{mover.where}, most of it in {mover.within}" if mover.within else mover.where,
        "moved": mover.moved,
        "share": mover.share,
        "low": min(mover.spread),
        "high": max(mover.spread),
        "repeats": others[0].repeats,
    }
    kind, then, now = "function moved", mover.baseline_calls, mover.candidate_calls
    if mover.kind == "allocation":
        kind = "allocation moved"
    elif then is not None and now is not None and abs(now - then) > _SAME_CALLS * then:
        kind = "function called otherwise" if then else "function called"
        facts |= {"times": relative(now, then)} if then else {}
    return state(kind, **facts)


def _figures(comparison: Comparison) -> tuple[float, float]:
    """Return what the pairs have found for both sides, in base units; a call may not take less than nothing.

    Of a rate of calls, it is the time of a call.
    """
    sides = [max(0.0, comparison.baseline or 0.0), max(0.0, comparison.candidate or 0.0)]
    if metric_of(comparison.metric).is_rate:
        sides = [1 / rate if rate else 0.0 for rate in sides]
    return sides[0], sides[1]


def explain_functions(
    hypothesis: Hypothesis, comparison: Comparison, baseline: Sequence[SampledCalls], candidate: Sequence[SampledCalls]
) -> Explanation:
    """Explain a latency by the functions of Python, from a profile of each repeat and side."""
    baseline_s, candidate_s = _figures(comparison)
    profiles, sides, overhead = (*baseline, *candidate), SampledSides(baseline, candidate), None
    if all(one.plain_s for one in profiles):  # none was too short to be timed
        overhead = fmean(one.call_s / one.plain_s for one in profiles) - 1
    tree, withheld = sides.tree(baseline_s, candidate_s), None
    distorts = overhead is not None and overhead > _DISTORTING
    clear = sides.moved(tree) if has_changed(comparison) and candidate_s != baseline_s else {}
    movers = sides.movers(tree, {} if distorts else sides.seen(clear, tree), candidate_s - baseline_s)
    movers = movers if any(one.share > 0 for one in movers) else []  # what moved against the change is no cause of it
    if has_changed(comparison) and not movers:
        changed = f"; changed functions that it runs: {sides.changed}" if sides.changed else ""
        kind = "profiler distorts" if distorts else "profiles unlike pairs" if clear else "nothing moved"
        facts = {"repeats": min(len(baseline), len(candidate)), "times": 1 + (overhead or 0.0)}
        withheld = state(kind, what="function", changed=changed, **facts)
    found = explain_nothing(hypothesis, comparison, "function", withheld, movers, (len(baseline), baseline[0].source))
    slow = (state("profiler slows", overhead=overhead),) if overhead and _SLOW < overhead <= _DISTORTING else ()
    then, now = stacks_of(tree)
    remarks = (*found.remarks, *slow)
    return replace(found, remarks=remarks, overhead=overhead, baseline_stacks=then, candidate_stacks=now)


def explain_operators(
    hypothesis: Hypothesis, comparison: Comparison, profiles: Sequence[PairedProfiles]
) -> Explanation:
    """Explain a latency by the kinds of operators of a runtime, from a profile of each repeat and side."""
    times = _figures(comparison)
    sides = [[one.baseline for one in profiles], [one.candidate for one in profiles]]
    wholes = [profile_of(pooled(side), call_s) for side, call_s in zip(sides, times, strict=True)]
    change, found = times[1] - times[0], list[Mover]()
    if has_changed(comparison) and not any(one.withheld for one in wholes):
        then, now = ([by_family(_scaled(one, s)) for one in side] for side, s in zip(sides, times, strict=True))
        for kind in dict.fromkeys(kind for one in (*now, *then) for kind in one):
            repeats = Seconds(*(tuple(one.get(kind, 0.0) for one in side) for side in (then, now)))
            if repeats.is_clear:
                name = _named(kind, wholes[0].operators, wholes[1].operators, 1.0 if change >= 0 else -1.0)
                found.append(repeats.mover("operator", change, name))
    return explain_nothing(hypothesis, comparison, "operator", None, found, (len(profiles), sides[0][0].source))


def explain_memory(
    hypothesis: Hypothesis,
    comparison: Comparison,
    baseline: Sequence[Sequence[HeldMemory]],
    candidate: Sequence[Sequence[HeldMemory]],
) -> Explanation:
    """Explain a peak of memory by what held it, from the sites of each repeat and side.

    A site is a function and its file, those of the tests' own code if there are any: its lines may be others in the
    other version.
    """
    lines, sides = dict[tuple[str, str], str](), list[list[dict[tuple[str, str], float]]]()
    for side in (baseline, candidate):
        held: list[dict[tuple[str, str], float]] = [defaultdict(float) for _ in side]
        placed = [(one, place) for place, sites in enumerate(side) for one in sites]
        for one, place in sorted(placed, key=lambda found: found[0].size):  # so that the line that holds most stays
            site = (one.caller, one.called_at.rpartition(":")[0]) if one.called_at else (one.function, one.file)
            lines[site] = one.called_at or (f"{one.file}:{one.line}" if one.function else "")
            held[place][site] += one.size
        sides.append(held)
    then, now = _figures(comparison)
    found = []
    for site, line in lines.items() if has_changed(comparison) and then != now else ():
        repeats = Seconds(*(tuple(one.get(site, 0.0) for one in held) for held in sides))
        if repeats.is_clear:
            found.append(repeats.mover("allocation", now - then, site[0] or "outside Python", line))
    return explain_nothing(hypothesis, comparison, "allocation", None, found, (len(baseline), "memray"))


def explain_nothing(
    hypothesis: Hypothesis,
    comparison: Comparison,
    kind: MoverKind,
    why: Statement | None,
    movers: Sequence[Mover] = (),
    profiled: tuple[int, str] = (0, ""),
) -> Explanation:
    """Say what moved in so many profiles of a method, or why nothing was profiled, could be, or is named."""
    baseline, candidate = _figures(comparison)
    movers = tuple(sorted(movers, key=lambda one: -one.share)[:_MOST_MOVERS])
    covered = sum(one.share for one in movers)
    if why is None and not has_changed(comparison):
        why = state("nothing to explain")
    elif why is None and not movers:
        why = state("nothing moved", what=kind, repeats=profiled[0], changed="")
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
        withheld=why,
        remarks=(state("movers miss", covered=covered),) if apart else (),
        repeats=profiled[0],
        method=profiled[1],
    )


def profile_of(profiled: ProfiledCalls, latency_s: float | None = None) -> OperatorProfile:
    """Scale a profile to calls without a profiler, or say why it tells nothing about them.

    Where nothing is known of such calls, its shares are of calls under the profiler.
    """
    total, executed = sum(one.seconds for one in profiled.operators), sum(one.calls for one in profiled.operators)
    whole = max(profiled.call_s, total)  # durations are cut to whole microseconds: a sum may be above the call's
    coverage, call_s, withheld = total / whole if whole else 0.0, whole if latency_s is None else latency_s, None
    if latency_s is not None and profiled.rows < _LARGE_BATCH and latency_s <= _LONG_OPERATOR_S * executed:
        withheld = state("too short to profile", latency=latency_s, operators=executed, rows=profiled.rows)
    elif latency_s is not None and coverage < LEAST_COVERAGE:
        withheld = state("low coverage", coverage=coverage, least=LEAST_COVERAGE)
    return OperatorProfile(
        source=profiled.source,
        calls=profiled.calls,
        latency_s=call_s,
        coverage=coverage,
        operators=() if withheld else _scaled(profiled, call_s),
        withheld=withheld,
        under_profiler=latency_s is None,
    )


def profiler_costs(profiled: ProfiledCalls) -> bool:
    """Whether the profiler's own cost is a large part of what it shows: operators of less than 20 µs on average."""
    return profiled.call_s < _LONG_OPERATOR_S * sum(one.calls for one in profiled.operators)


def _scaled(profiled: ProfiledCalls, latency_s: float) -> tuple[Operator, ...]:
    """Return the operators of one repeat, scaled to calls without a profiler."""
    whole = max(profiled.call_s, sum(one.seconds for one in profiled.operators))
    shares = ((one, one.seconds / whole if whole else 0.0) for one in profiled.operators)
    return tuple(
        Operator(name=one.name, kind=one.kind, calls=one.calls, share=share, seconds=share * latency_s)
        for one, share in sorted(shares, key=lambda found: -found[1])
    )


def by_family(operators: Iterable[Operator]) -> Mapping[str, float]:
    """Return the seconds of each kind of operator in a call, kernels of one purpose together, the slowest first."""
    found = defaultdict[str, float](float)
    for one in operators:
        found[_FAMILIES.get(one.kind, one.kind)] += one.seconds
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def pooled(profiles: Sequence[ProfiledCalls]) -> ProfiledCalls:
    """Join the profiles of several processes of one side, of which each counts the same."""
    found, count = defaultdict[tuple[str, str], list[ProfiledOperator]](list), len(profiles)
    for operator in (operator for one in profiles for operator in one.operators):
        found[operator.name, operator.kind].append(operator)
    operators = tuple(
        replace(alike[0], calls=sum(x.calls for x in alike) / count, seconds=sum(x.seconds for x in alike) / count)
        for alike in found.values()
    )
    call_s, calls = sum(one.call_s for one in profiles) / count, sum(one.calls for one in profiles)
    return replace(profiles[0], operators=operators, call_s=call_s, calls=calls)


def moved_most(baseline: OperatorProfile, candidate: OperatorProfile) -> Statement:
    """Name the kind of operator whose time has moved most in the direction of the whole change, with its share of it.

    Nodes have other names after another conversion, so that kinds are compared, kernels of one purpose together; a
    node is named where it is known.
    """
    for side, profile in (("baseline", baseline), ("candidate", candidate)):
        if profile.withheld:
            return state("operators unknown", side=side, why=str(profile.withheld))
    change = candidate.latency_s - baseline.latency_s
    then, now = by_family(baseline.operators), by_family(candidate.operators)
    sign = 1.0 if change >= 0 else -1.0
    moves = {kind: sign * (now.get(kind, 0.0) - then.get(kind, 0.0)) for kind in (*then, *now)}
    kind = max(moves, key=moves.__getitem__, default="")
    own = sign * (candidate.framework_s - baseline.framework_s)
    if not kind or moves[kind] <= max(0.0, own):
        return state("framework moved", share=own / abs(change) if change else 0.0)
    return state(
        "operator moved",
        operator=_named(kind, baseline.operators, candidate.operators, sign),
        baseline=then.get(kind, 0.0),
        candidate=now.get(kind, 0.0),
        share=moves[kind] / abs(change) if change else 0.0,
    )


def _named(kind: str, baseline: Sequence[Operator], candidate: Sequence[Operator], sign: float) -> str:
    """Return the kind with its only node, or the node that moved most where both sides have the same ones."""
    sides = ([one for one in side if _FAMILIES.get(one.kind, one.kind) == kind] for side in (baseline, candidate))
    then, now = ({one.name: one.seconds for one in side} for side in sides)
    names = [*(now or then)]
    if len(names) == 1 and names[0]:
        return f"{kind} ({names[0]})"
    if then.keys() != now.keys() or "" in now:
        return kind
    return f"{kind} (most of it in {max(names, key=lambda name: sign * (now[name] - then[name]))})"
