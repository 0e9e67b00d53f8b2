"""What `hwperf tradeoffs` says of the candidates of one test: requirements first, then how they compare."""

import math
from collections.abc import Iterable, Iterator

from pytest_hwperf.records.metrics import METRICS, metric_of
from pytest_hwperf.records.run import Estimate
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
from pytest_hwperf.stats.candidates import Choice, pairs_of
from pytest_hwperf.stats.quantisation import LEAST_GAIN, Worth
from pytest_hwperf.stats.recommendations import as_cheap, bottlenecks, matrix, on_hardware
from pytest_hwperf.stats.rivals import (
    DIMENSIONS,
    MOST_LOSS,
    Candidate,
    between_processes,
    is_of_one_process,
    per_row,
)
from pytest_hwperf.stats.tradeoffs import Requirement, Score, best_by


def document_of(choice: Choice) -> list[Block]:
    """Return what is said of one test."""
    at = f" at {choice.point}" if choice.point else ""
    counts = counted(len(choice.candidates), "candidate")
    return [Paragraph(f"{choice.test or 'candidates'}{at}: {counts}"), Listing([*_facts(choice)])]


def _facts(choice: Choice) -> Iterator[Titled]:
    yield from _requirements(choice)
    for name, names in choice.lacking.items():
        whom = "any" if len(names) == len(choice.candidates) else "; ".join(names)
        reasons = dict.fromkeys(filter(None, (one.unmeasured.get(DIMENSIONS[name][0]) for one in choice.candidates)))
        why = f" ({'; '.join(reasons)})" if reasons else ""
        scored = "; its estimate enters the scores" if name in choice.estimated else ""
        yield Titled("left out", f"{name}, not measured for {whom}{why}{scored}")
    if choice.dimensions:
        yield Titled("pareto set", _names(choice.front))
        yield from _ranking(choice)
        yield from _best(choice)
    for one in choice.candidates:
        for name, found in one.pairs.items():
            yield from (Titled("pairs", f"{one.name} against {name}: {_pair(it)}") for it in found.values())
    yield from _hardware(choice)
    for quantised, reference, worth in choice.worths:
        batch = reference.conditions.get("batch_size", "")
        called = f"{quantised.scenario} against {reference.scenario}{f', batch {batch}' if batch else ''}"
        called += f" on {quantised.kind}" if quantised.kind else ""
        yield Titled("quantisation", f"{called}: {worth.outcome}: {_gain(worth)}; {_loss(worth)}")
    for one in choice.candidates:
        if lost := choice.lost_by(one):
            yield Titled("classes lost", f"{one.name} against {choice.reference.name}: {lost}")
    yield from _inconclusive(choice)
    advised = dict[str, list[Candidate]]()
    for one in choice.candidates:
        for text in bottlenecks(one, choice.requirements[one.name]):
            advised.setdefault(text, []).append(one)
    yield from (Titled("advice", f"{_names(of)}: {text}") for text, of in advised.items())


def _names(candidates: Iterable[Candidate]) -> str:
    return "; ".join(one.name for one in candidates)


def _best(choice: Choice) -> Iterator[Titled]:
    """Yield the best candidate of each dimension, and which to take for which purpose."""
    if not choice.left:
        return
    for name, key in choice.dimensions.items():
        best = best_by(choice.left, key)
        told = f"{best.first.name}: {show_estimate(per_row(best.first, key), name)}"
        told += f"; as good within the margin: {_names(best.as_good)}" if best.as_good else ""
        told += f"; inconclusive against: {_names(best.inconclusive)}" if best.inconclusive else ""
        yield Titled(f"best {name}", told)
    for one in matrix(choice.left, choice.dimensions):
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


def _requirements(choice: Choice) -> Iterator[Titled]:
    """Yield a line for each candidate, those that miss least first."""
    lines = list[tuple[float, str]]()
    for one in choice.candidates:
        asked = choice.requirements[one.name]
        missed = [_missed(one, found) for found in asked if found.is_missed]
        kept = [found for found in asked if not found.is_missed]
        doubts = [f"{found.budget.keyword} is {found.outcome}" for found in kept if found.outcome != "passed"]
        doubts += [f"{it.budget.keyword} is kept by an estimate" for it in kept if one.is_guessed(it.budget.key)]
        met = f"{one.name} {f'misses {missed[0]}' if missed else 'misses none' if doubts else 'meets all'}"
        excess = sum(math.inf if found.excess is None else found.excess for found in asked)
        if asked:
            lines.append((excess, "; ".join([met, *missed[1:], *doubts])))
    yield from (Titled("requirements", line) for _, line in sorted(lines, key=lambda line: line[0]))


def _missed(one: Candidate, found: Requirement) -> str:
    metric, budget = METRICS[found.budget.metric], found.budget
    value = show(found.estimate.value, metric.unit) if found.estimate else ""
    value += " estimated" if one.is_guessed(budget.key) else ""
    by = f" by {show_excess(found.excess)}" if found.excess else ""
    doubt = ", inconclusive" if found.outcome == "inconclusive" else ""
    return f"{budget.keyword}{by} ({value}, limit {show_limit(budget.limit, metric.unit, metric.better)}{doubt})"


def _ranking(choice: Choice) -> Iterator[Titled]:
    """Yield the candidates that meet the requirements, best first, with score and composite beside each other."""
    if choice.unranked:
        yield Titled("ranking", choice.unranked)
        return
    marks = dict.fromkeys(choice.estimated, " (estimated)")
    told = ", ".join(f"{name} {show_share(weight)}{marks.get(name, '')}" for name, weight in choice.weighted.items())
    by_estimate = f", both with estimated {' and '.join(marks)}" if marks else ""
    yield Titled("ranking", f"by {choice.rank_by}; weights {told}; score 100 is {choice.reference.name}")
    for number, one in enumerate(choice.ranked, 1):
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


def _pair(found: Comparison) -> str:
    """Say what pairs of fresh processes have shown of the median latency."""
    if found.change is None:
        return f"{found.outcome}: {found.reason}"
    why = f": {found.reason}" if found.reason else ""
    told = f"latency {show_change_interval(found.change.value, found.change.low, found.change.high, 'relative')}"
    return f"{told}, {counted(found.pairs, 'fresh pair')}, {found.outcome}{why}"


def _inconclusive(choice: Choice) -> Iterator[Titled]:
    """Yield which answers need more examples or pairs of fresh processes, and the command that measures them."""
    timed = {name: key for name, key in choice.dimensions.items() if choice.left and is_of_one_process(key[0])}
    doubtful = {name: best_by(choice.left, key) for name, key in timed.items()}
    names = [
        f"{name} of {best.first.name} and {_names(best.inconclusive)}"
        for name, best in doubtful.items()
        if best.inconclusive
    ]
    examples = list[str]()
    for one, other, found in choice.worths:
        if found.outcome == "inconclusive":
            (examples if found.is_fast else names).append(f"{one.name} against {other.name}")
    if examples:
        yield Titled("inconclusive", f"{'; '.join(examples)}: only accuracy is in doubt: give more labelled examples")
    if not names:
        return
    test = choice.candidates[0].test
    how = pairs_of([test]) if test else "hwperf compare OLD NEW --data ROWS"
    apart = show_share(math.expm1(between_processes()))
    what = f"timings of single processes of equal code differ by up to {apart}. Measure in pairs: {how}"
    if any(one.pairs for one in choice.candidates):
        what = "give the pairs more time with --time"
    yield Titled("inconclusive", f"{'; '.join(names)}: {what}")


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
