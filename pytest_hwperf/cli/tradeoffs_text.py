"""What `hwperf tradeoffs` says of the candidates of one test: requirements first, then how they compare."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_hwperf.records.evidence import Gate
from pytest_hwperf.records.metrics import METRICS, metric_of
from pytest_hwperf.records.run import Estimate, Key
from pytest_hwperf.records.units import (
    counted,
    show,
    show_change_interval,
    show_excess,
    show_interval,
    show_limit,
    show_number,
    show_share,
)
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.reports.document import Block, Listing, Paragraph, Titled
from pytest_hwperf.stats.candidates import pairs_of
from pytest_hwperf.stats.quantisation import LEAST_GAIN, Worth, quantised_pairs, worth_of
from pytest_hwperf.stats.recommendations import Advice, as_cheap, bottlenecks, matrix, on_hardware
from pytest_hwperf.stats.rivals import (
    DIMENSIONS,
    MOST_LOSS,
    Candidate,
    between_processes,
    is_of_one_process,
    lost_by,
    per_row,
)
from pytest_hwperf.stats.tradeoffs import (
    RequirementFit,
    Score,
    best_by,
    composite,
    dimensions_of,
    meets,
    not_below,
    pareto,
    score,
    weights_of,
    with_estimates,
)

_ADVICE: Mapping[Advice, str] = {
    "requirements met": "every requirement is met: more work on its speed gains nothing that was asked for",
    "not the bottleneck": "the model takes {share} of the call: a faster one helps little",
    "preprocess": "preprocessing takes {share} of the call: cache it, vectorise it or move it out of the call",
    "inference": "the model takes {share} of the call: quantise it, let the runtime optimise its graph, or make it "
    "smaller",
    "postprocess": "postprocessing takes {share} of the call: vectorise it",
}


class Ranked(NamedTuple):
    """A candidate in its place."""

    candidate: Candidate
    score: Score | None  # None: a value of 0 has no ratio
    composite: float
    inconclusive: bool  # whether its score is not shown to be below the highest
    put_back: bool  # behind all others: a quantised form that is not worthwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What one test has to choose from, and by what."""

    test: str  # "" where the file names none
    point: str = ""  # operating point of the candidates, where the test has several
    candidates: Sequence[Candidate]  # at least one, all of one operating point
    answers: Mapping[str, Sequence[RequirementFit]]  # name of a candidate → its answers to the requirements
    reference: Candidate  # of the score
    weights: Mapping[str, float]  # dimension → weight
    rank_by: str  # "score", "composite" or a dimension
    prices: Mapping[str, float] = field(default_factory=dict)  # kind of machine → price per hour
    gates: Sequence[Gate] = ()  # what pairs of the candidates have observed
    with_estimates: bool = False  # whether scores take an estimate of energy where nothing was measured

    @property
    def scored(self) -> Mapping[str, Candidate]:
        """Name → the candidate as scores take it."""
        found = with_estimates(self.candidates) if self.with_estimates else self.candidates
        return {one.name: one for one in found}

    @property
    def estimated(self) -> tuple[str, ...]:
        """The dimensions of the scores that were not measured, but estimated."""
        measured, _ = dimensions_of(self.candidates)
        return tuple(name for name in self.weighted if name not in measured)

    @property
    def weighted(self) -> Mapping[str, float]:
        """The weights of the scores, 1 in all; {} where no dimension that is left has any."""
        return weights_of(self.weights, dimensions_of([*self.scored.values()])[0])

    @property
    def left(self) -> list[Candidate]:
        """The candidates that no requirement bars."""
        return [one for one in self.candidates if meets(self.answers[one.name])]


def document_of(choice: Choice) -> list[Block]:
    """Return what is said of one test."""
    at = f" at {choice.point}" if choice.point else ""
    counts = counted(len(choice.candidates), "candidate")
    return [Paragraph(f"{choice.test or 'candidates'}{at}: {counts}"), Listing([*_facts(choice)])]


def _facts(choice: Choice) -> Iterator[Titled]:
    yield from _requirements(choice.answers)
    dimensions, lacking = dimensions_of(choice.candidates)
    for name, names in lacking.items():
        whom = "any" if len(names) == len(choice.candidates) else "; ".join(names)
        scored = "; its estimate enters the scores" if name in choice.estimated else ""
        yield Titled("left out", f"{name}, not measured for {whom}{_why(choice.candidates, name)}{scored}")
    if dimensions:
        yield Titled("pareto set", "; ".join(one.name for one in pareto(choice.candidates, list(dimensions.values()))))
        yield from _ranking(choice, dimensions)
        yield from _best(choice.left, dimensions)
    yield from _pairs(choice)
    yield from _hardware(choice)
    yield from _quantisation(choice)
    for one in choice.candidates:
        if lost := lost_by(one, choice.reference):
            yield Titled("classes lost", f"{one.name} against {choice.reference.name}: {lost}")
    yield from _inconclusive(choice, dimensions)
    said: dict[str, list[str]] = {}
    for candidate in choice.candidates:
        for advice in bottlenecks(candidate, choice.answers[candidate.name]):
            said.setdefault(_ADVICE[advice.advice].format(share=show_share(advice.share)), []).append(advice.candidate)
    for text, names in said.items():
        yield Titled("advice", f"{'; '.join(names)}: {text}")


def _best(candidates: Sequence[Candidate], dimensions: Mapping[str, Key]) -> Iterator[Titled]:
    """Yield the best candidate of each dimension, and which to take for which purpose."""
    if not candidates:
        return
    for name, key in dimensions.items():
        best = best_by(candidates, key)
        told = f"{best.first.name}: {show_estimate(per_row(best.first, key), name)}"
        told += _others("as good within the margin", best.as_good) + _others("inconclusive against", best.inconclusive)
        yield Titled(f"best {name}", told)
    for one in matrix(candidates, dimensions):
        first, *others = one.candidates or (None,)
        more = f", as good as {counted(len(others), 'other')}" if others and one.dimension else ""
        more += f", inconclusive against {counted(len(one.inconclusive), 'other')}" if one.inconclusive else ""
        yield Titled(one.purpose, f"{first.name}{more}" if first else "not known")


def show_estimate(estimate: Estimate, dimension: str) -> str:
    """Write a value with its interval, where it has one."""
    unit = metric_of(DIMENSIONS[dimension][0]).unit
    of_row = " a row" if dimension == "latency" else ""
    if estimate.low is None and estimate.high is None:
        return f"{show(estimate.value, unit)}{of_row}, without an interval"
    return show_interval(estimate.value, estimate.low, estimate.high, unit) + of_row


def _others(what: str, candidates: Sequence[Candidate]) -> str:
    return f"; {what}: {'; '.join(one.name for one in candidates)}" if candidates else ""


def _why(candidates: Sequence[Candidate], dimension: str) -> str:
    metric = DIMENSIONS[dimension][0]
    reasons = dict.fromkeys(one.unmeasured[metric] for one in candidates if metric in one.unmeasured)
    return f" ({'; '.join(reasons)})" if reasons else ""


def _requirements(found: Mapping[str, Sequence[RequirementFit]]) -> Iterator[Titled]:
    """Yield a line for each candidate, those that miss least first."""
    if not any(found.values()):
        return
    for name, of in sorted(found.items(), key=lambda one: sum(answer.excess for answer in one[1])):
        missed = [_missed(answer) for answer in of if answer.excess]
        doubts = [_doubt(answer) for answer in of if not answer.excess and answer.outcome != "passed"]
        doubts += [f"{one.budget.keyword} is kept by an estimate" for one in of if one.guessed and not one.excess]
        met = f"{name} misses {missed[0]}" if missed else f"{name} misses none" if doubts else f"{name} meets all"
        yield Titled("requirements", "; ".join([met, *missed[1:], *doubts]))


def _missed(answer: RequirementFit) -> str:
    unit, better = METRICS[answer.budget.metric].unit, METRICS[answer.budget.metric].better
    value = show(answer.estimate.value, unit) if answer.estimate else ""
    by = f" by {show_excess(answer.excess)}" if math.isfinite(answer.excess) else ""
    doubt = ", inconclusive" if answer.outcome == "inconclusive" else ""
    value = f"{value} estimated" if answer.guessed else value
    return f"{answer.budget.keyword}{by} ({value}, limit {show_limit(answer.budget.limit, unit, better)}{doubt})"


def _doubt(answer: RequirementFit) -> str:
    if answer.outcome == "unmeasured":
        return f"{answer.budget.keyword} is unmeasured"
    return f"{answer.budget.keyword} is inconclusive"


def why_unranked(choice: Choice, dimensions: Mapping[str, Key]) -> str:
    """Return why there is no ranking; "" where there is one."""
    if not choice.left:
        return "no candidate meets the requirements"
    if choice.rank_by in DIMENSIONS and choice.rank_by not in dimensions:
        return f"not by {choice.rank_by}, which is left out"
    return "" if choice.weighted else "no dimension that is left has a weight"


def ranked(choice: Choice) -> list[Ranked]:
    """Return the candidates that meet the requirements, best first, of a choice that has a ranking."""
    scored, weights, rank_by = choice.scored, choice.weighted, choice.rank_by
    candidates = [scored[one.name] for one in choice.left]
    scores = {one.name: score(one, scored[choice.reference.name], weights) for one in candidates}
    known = {name: one for name, one in scores.items() if one}
    best = max((one for one in candidates if one.name in known), key=lambda one: known[one.name].value, default=None)
    inconclusive = not_below(candidates, best, weights) if best else []
    not_worth = {one.name for one, _, found in worths(choice) if found.outcome == "not worthwhile"}

    def place(one: Candidate) -> float:
        if rank_by in DIMENSIONS:
            sign = -1 if metric_of(DIMENSIONS[rank_by][0]).better == "higher" else 1
            return sign * per_row(one, DIMENSIONS[rank_by]).value
        if rank_by == "composite":
            return -composite(one, weights)
        return -known[one.name].value if one.name in known else 0.0

    def is_put_back(one: Candidate) -> bool:
        return one.name in not_worth and rank_by not in DIMENSIONS

    return [
        Ranked(one, scores[one.name], composite(one, weights), one in inconclusive, is_put_back(one))
        for one in sorted(candidates, key=lambda one: (is_put_back(one), place(one)))
    ]


def _ranking(choice: Choice, dimensions: Mapping[str, Key]) -> Iterator[Titled]:
    """Yield the candidates that meet the requirements, best first, with score and composite beside each other."""
    if why := why_unranked(choice, dimensions):
        yield Titled("ranking", why)
        return
    estimated = choice.estimated
    marks = dict.fromkeys(estimated, " (estimated)")
    told = ", ".join(f"{name} {show_share(weight)}{marks.get(name, '')}" for name, weight in choice.weighted.items())
    by_estimate = f", both with estimated {' and '.join(estimated)}" if estimated else ""
    yield Titled("ranking", f"by {choice.rank_by}; weights {told}; score 100 is {choice.reference.name}")
    for number, one in enumerate(ranked(choice), 1):
        doubt = ", inconclusive against the highest" if one.inconclusive else ""
        last = ", last since it is not worthwhile" if one.put_back else ""
        told = f"score {_score(one.score)}{doubt}, composite {one.composite:.3f}{by_estimate}{last}"
        yield Titled("ranking", f"{number}. {one.candidate.name}: {told}")


def _score(found: Score | None) -> str:
    if found is None:
        return "– (a value of 0 has no ratio)"
    ends = [show_number(end) for end in (found.low, found.high) if end is not None and found.low != found.high]
    band = f" ({' .. '.join(ends)})" if len(ends) > 1 else ""
    return f"{show_number(found.value)}{band}"


def _hardware(choice: Choice) -> Iterator[Titled]:
    """Yield what each kind of machine makes of it, and which is the cheapest; nothing where no kind is named."""
    found = on_hardware(choice.candidates, choice.prices)
    for one in found:
        told = [
            f"latency {_shown(one.latency, 's')}",
            f"throughput {_shown(one.throughput, '1/s')}",
            f"energy of a call {_shown(one.energy, 'J')}",
            f"a million calls cost {_shown(one.cost, '')}" if one.price_per_hour else "price not given",
        ]
        yield Titled("hardware", f"{one.candidate}: {', '.join(told)}")
    if cheapest := as_cheap(found):
        first, *tied = cheapest
        more = f"; not shown to be dearer: {'; '.join(one.candidate for one in tied)}" if tied else ""
        yield Titled("cheapest", f"{first.candidate}{more}")


def _shown(estimate: Estimate | None, unit: str) -> str:
    if estimate is None:
        return "not measured"
    if unit:
        return show_interval(estimate.value, estimate.low, estimate.high, unit)
    ends = [show_number(one) if one is not None else "not known" for one in (estimate.low, estimate.high)]
    return f"{show_number(estimate.value)} ({' .. '.join(ends)})"


def worths(choice: Choice) -> Iterator[tuple[Candidate, Candidate, Worth]]:
    """Yield the rule for each INT8 candidate against the same form in FP32, called alike."""
    for quantised, reference in quantised_pairs(choice.candidates):
        yield quantised, reference, worth_of(quantised, reference)


def _quantisation(choice: Choice) -> Iterator[Titled]:
    for quantised, reference, found in worths(choice):
        batch = reference.conditions.get("batch_size", "")
        called = f"{quantised.scenario} against {reference.scenario}{f', batch {batch}' if batch else ''}"
        called += f" on {quantised.kind}" if quantised.kind else ""
        yield Titled("quantisation", f"{called}: {found.outcome}: {_gain(found)}; {_loss(found)}")


def _pairs(choice: Choice) -> Iterator[Titled]:
    """Yield what pairs of fresh processes have shown of the median latency."""
    for one in choice.candidates:
        for name, found in one.pairs.items():
            for comparison in found.values():
                yield Titled("pairs", f"{one.name} against {name}: {_comparison(comparison)}")


def _comparison(found: Comparison) -> str:
    if found.change is None:
        return f"{found.outcome}: {found.reason}"
    why = f": {found.reason}" if found.reason else ""
    told = f"latency {show_change_interval(found.change.value, found.change.low, found.change.high, 'relative')}"
    return f"{told}, {counted(found.pairs, 'fresh pair')}, {found.outcome}{why}"


def _inconclusive(choice: Choice, dimensions: Mapping[str, Key]) -> Iterator[Titled]:
    """Yield which answers need more examples or pairs of fresh processes, and the command that measures them."""
    timed = {name: key for name, key in dimensions.items() if is_of_one_process(key[0])}
    doubtful = {name: best_by(choice.left, key) for name, key in timed.items() if choice.left}
    names = [
        f"{name} of {best.first.name} and {'; '.join(one.name for one in best.inconclusive)}"
        for name, best in doubtful.items()
        if best.inconclusive
    ]
    examples = list[str]()
    for one, other, found in worths(choice):
        if found.outcome == "inconclusive":
            (examples if found.is_fast else names).append(f"{one.name} against {other.name}")
    if examples:
        yield Titled("inconclusive", f"{'; '.join(examples)}: only accuracy is in doubt: give more labelled examples")
    if not names:
        return
    if any(one.pairs for one in choice.candidates):
        yield Titled("inconclusive", f"{'; '.join(names)}: give the pairs more time with --time")
        return
    test = choice.candidates[0].test
    how = pairs_of([test]) if test else "hwperf compare OLD NEW --data ROWS"
    apart = show_share(math.expm1(between_processes()))
    yield Titled(
        "inconclusive",
        f"{'; '.join(names)}: timings of single processes of equal code differ by up to {apart}. "
        f"Measure in pairs: {how}",
    )


def _loss(found: Worth) -> str:
    if found.loss is None or found.loss.low is None or found.loss.high is None:
        return "accuracy on the same examples is unmeasured"
    low, high = -100 * found.loss.high, -100 * found.loss.low
    change = f"accuracy {0.0 - 100 * found.loss.value:+.2f} points ({low:+.2f} .. {high:+.2f})"
    return f"{change} on {counted(found.loss.n, 'example')}, allowed {-100 * MOST_LOSS:+g}"


def _gain(found: Worth) -> str:
    if found.gain is None:
        return "its gain is unmeasured"
    low, value, high = (None if end is None else -end for end in (found.gain.high, found.gain.value, found.gain.low))
    ends = ["?" if end is None else f"{100 * end:+.0f}" for end in (low, high)]
    told = f"latency {100 * (value or 0.0):+.0f} % ({ends[0]} .. {ends[1]}), {found.gain.method}"
    return f"{told}, asked for -{show_share(LEAST_GAIN)}"
