"""Movers: the functions, operators and lines of code whose part of a change is known."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.profiles import (
    Mover,
    MoverKind,
    Operator,
    OperatorProfile,
    ProfiledCalls,
    ProfiledOperator,
    is_clear,
)
from pytest_hwperf.records.units import relative


@dataclass(frozen=True, slots=True)
class Seconds:
    """What a part of a call takes on each side, in s (or B) of a call, for each repeat."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]

    @property
    def moved(self) -> float:
        return fmean(self.candidate) - fmean(self.baseline)

    @property
    def low(self) -> float:
        """Least that two repeats of the sides are apart."""
        return min(self.candidate) - max(self.baseline)

    @property
    def high(self) -> float:
        """Most that two repeats of the sides are apart."""
        return max(self.candidate) - min(self.baseline)

    @property
    def none(self) -> "Seconds":
        """As many repeats in which nothing was spent."""
        return Seconds((0.0,) * len(self.baseline), (0.0,) * len(self.candidate))

    @property
    def is_clear(self) -> bool:
        return is_clear(self.low, self.high)


def mover_between(
    kind: MoverKind,
    named: tuple[str, str, str],
    repeats: Seconds,
    change: float,
    calls: tuple[float | None, float | None] = (None, None),
    holds: str = "",
) -> Mover:
    """Make a mover, by its name, where it is and within what, from the repeats of both sides."""
    name, where, within = named
    return Mover(
        kind=kind,
        name=name,
        where=where,
        within=within,
        holds=holds,
        baseline=fmean(repeats.baseline),
        candidate=fmean(repeats.candidate),
        low=repeats.low,
        high=repeats.high,
        share=relative(repeats.moved, change),
        baseline_calls=calls[0],
        candidate_calls=calls[1],
    )


LEAST_COVERAGE = 0.8  # of a call: below it the profile says too little about the rest
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


def profile_of(profiled: ProfiledCalls, latency_s: float | None = None) -> OperatorProfile:
    """Scale a profile to calls without a profiler, or say why it tells nothing about them.

    Where nothing is known of such calls, its shares are of calls under the profiler.
    """
    total = sum(one.seconds for one in profiled.operators)
    whole = max(profiled.call_s, total)  # durations are cut to whole microseconds: a sum may be above the call's
    coverage, call_s = total / whole if whole else 0.0, whole if latency_s is None else latency_s
    withheld = None if latency_s is None else _why_withheld(profiled, latency_s, coverage)
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


def _why_withheld(profiled: ProfiledCalls, latency_s: float, coverage: float) -> Statement | None:
    executed = sum(one.calls for one in profiled.operators)
    if profiled.rows < _LARGE_BATCH and latency_s <= _LONG_OPERATOR_S * executed:
        return state("too short to profile", latency=latency_s, operators=executed, rows=profiled.rows)
    if coverage < LEAST_COVERAGE:
        return state("low coverage", coverage=coverage, least=LEAST_COVERAGE)
    return None


def by_family(operators: Iterable[Operator]) -> Mapping[str, float]:
    """Return the seconds of each kind of operator in a call, kernels of one purpose together, the slowest first."""
    found: dict[str, float] = {}
    for one in operators:
        found[_family(one)] = found.get(_family(one), 0.0) + one.seconds
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _family(one: Operator) -> str:
    return _FAMILIES.get(one.kind, one.kind)


def pooled(profiles: Sequence[ProfiledCalls]) -> ProfiledCalls:
    """Join the profiles of several processes of one side, of which each counts the same."""
    found: dict[tuple[str, str], list[ProfiledOperator]] = {}
    for operator in (operator for one in profiles for operator in one.operators):
        found.setdefault((operator.name, operator.kind), []).append(operator)
    return ProfiledCalls(
        source=profiles[0].source,
        operators=tuple(
            ProfiledOperator(
                name=name,
                kind=kind,
                calls=sum(one.calls for one in alike) / len(profiles),
                seconds=sum(one.seconds for one in alike) / len(profiles),
            )
            for (name, kind), alike in found.items()
        ),
        call_s=sum(one.call_s for one in profiles) / len(profiles),
        calls=sum(one.calls for one in profiles),
        rows=profiles[0].rows,
    )


def moved_operators(
    baseline: Sequence[ProfiledCalls], candidate: Sequence[ProfiledCalls], baseline_s: float, candidate_s: float
) -> tuple[Mover, ...]:
    """Return the kinds of operators that clearly moved from one side to the other, the largest first."""
    pairs = ((baseline, baseline_s), (candidate, candidate_s))
    whole_then, whole_now = (profile_of(pooled(side), call_s) for side, call_s in pairs)
    if whole_then.withheld or whole_now.withheld:
        return ()
    change = candidate_s - baseline_s
    then, now = ([by_family(_scaled(one, call_s)) for one in side] for side, call_s in pairs)
    sign = 1.0 if change >= 0 else -1.0
    found = []
    for kind in dict.fromkeys(kind for one in (*now, *then) for kind in one):
        repeats = Seconds(*(tuple(one.get(kind, 0.0) for one in side) for side in (then, now)))
        name = _named(kind, whole_then.operators, whole_now.operators, sign)
        found.append(mover_between("operator", (name, "", ""), repeats, change))
    return tuple(sorted((one for one in found if one.is_clear), key=lambda one: -one.share))


def _scaled(profiled: ProfiledCalls, latency_s: float) -> tuple[Operator, ...]:
    """Return the operators of one repeat, scaled to calls without a profiler."""
    whole = max(profiled.call_s, sum(one.seconds for one in profiled.operators))
    shares = ((one, one.seconds / whole if whole else 0.0) for one in profiled.operators)
    return tuple(
        Operator(name=one.name, kind=one.kind, calls=one.calls, share=share, seconds=share * latency_s)
        for one, share in sorted(shares, key=lambda found: -found[1])
    )


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
    then, now = ({one.name: one.seconds for one in side if _family(one) == kind} for side in (baseline, candidate))
    names = [*(now or then)]
    if len(names) == 1 and names[0]:
        return f"{kind} ({names[0]})"
    if then.keys() != now.keys() or "" in now:
        return kind
    return f"{kind} (most of it in {max(names, key=lambda name: sign * (now[name] - then[name]))})"
