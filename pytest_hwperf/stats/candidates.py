"""The candidates of a test at an operating point, as a choice: requirements, scores, ranks and who is best."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from shlex import join
from typing import Any, NamedTuple, TypeVar

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Gate
from pytest_hwperf.records.markers import nearest
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.metrics import ACCURACY, metric_of
from pytest_hwperf.records.run import AS_TRAINED, Key, Run
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.stats.quantisation import Worth, quantised_pairs, worth_of
from pytest_hwperf.stats.rivals import DIMENSIONS, Candidate, lost_by, per_row, without_parameters
from pytest_hwperf.stats.tradeoffs import (
    WEIGHTS,
    Requirement,
    Score,
    composite,
    dimensions_of,
    meets,
    not_below,
    pareto,
    score,
    weights_of,
    with_estimates,
)

CONDITIONS: Mapping[str, str] = {"batch_size": "", "threads": "", "load": "single_stream"}  # → unless declared

Point = tuple[tuple[str, str], ...]  # conditions that tell points apart, each with its value


def points_of(declared: Sequence[Mapping[str, str]]) -> list[Point]:
    """Return the operating point of each measurement, by the conditions that it declares.

    A condition tells points apart if several values of it are declared; then those that declare none have a point of
    their own. Where all that declare it agree, the others are taken to agree too.
    """
    known = {name: {one.get(name, usual) for one in declared} - {""} for name, usual in CONDITIONS.items()}
    telling = [name for name, values in known.items() if len(values) > 1]
    return [tuple((name, one.get(name, CONDITIONS[name])) for name in telling) for one in declared]


def described(point: Point) -> str:
    """Write a point as `batch_size=32, threads=1`; "" where nothing tells it from others."""
    return ", ".join(f"{name}={value or 'not declared'}" for name, value in point)


def parse_point(texts: Sequence[str]) -> dict[str, str]:
    """Turn `batch_size=32` into the conditions that are asked for."""
    found = dict[str, str]()
    for text in texts:
        name, _, value = text.partition("=")
        if name not in CONDITIONS:
            raise UsageProblem(
                f"--at={text}: unknown condition.{nearest(name, CONDITIONS)} Allowed: {', '.join(CONDITIONS)}"
            )
        if not value or found.get(name, value) != value:
            raise UsageProblem(f"--at={text}: one value for each condition, such as --at batch_size=32")
        found[name] = value
    return found


def lies_at(conditions: Mapping[str, str], asked: Mapping[str, str]) -> bool:
    """Whether a measurement declares the conditions that are asked for."""
    return all(conditions.get(name, CONDITIONS[name]) == value for name, value in asked.items())


USUAL_REFERENCE = "onnx_fp32"

T = TypeVar("T")

_MOST_DIGITS = 9  # of the rows of a call
_CALLED = {"batch_size": "batch", "threads": "threads", "load": "load"}  # conditions, as names of candidates say them


class Ranked(NamedTuple):
    """A candidate in its place."""

    candidate: Candidate
    score: Score | None  # None: a value of 0 has no ratio
    composite: float
    inconclusive: bool  # whether its score is not shown to be below the highest
    put_back: bool  # behind all others: a quantised form that is not worthwhile


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The candidates of one test at one operating point, which may be compared with each other, and by what."""

    test: str  # "" where a table names none
    point: str  # "" where nothing tells it from others
    candidates: Sequence[Candidate]  # at least one
    judgements: Sequence[Judgement] = ()  # of each candidate; () where none are needed
    requirements: Mapping[str, Sequence[Requirement]] = field(default_factory=dict)  # name of a candidate → of it
    called: str = USUAL_REFERENCE  # reference of the scores; the first candidate where none is called so
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)  # dimension → weight
    rank_by: str = "score"  # "score", "composite" or a dimension
    prices: Mapping[str, float] = field(default_factory=dict)  # kind of machine → price per hour
    gates: Sequence[Gate] = ()  # what pairs of the candidates have observed
    with_estimates: bool = False  # whether scores take an estimate of energy where nothing was measured

    @cached_property
    def reference(self) -> Candidate:
        """What scores are relative to."""
        return next((one for one in self.candidates if is_called(one, self.called)), self.candidates[0])

    @cached_property
    def dimensions(self) -> Mapping[str, Key]:
        """What all candidates have."""
        return dimensions_of(self.candidates)[0]

    @cached_property
    def lacking(self) -> Mapping[str, Sequence[str]]:
        """Any other dimension → the candidates that lack it."""
        return dimensions_of(self.candidates)[1]

    @cached_property
    def scored(self) -> Mapping[str, Candidate]:
        """Name → the candidate as scores take it."""
        found = with_estimates(self.candidates) if self.with_estimates else self.candidates
        return {one.name: one for one in found}

    @cached_property
    def weighted(self) -> Mapping[str, float]:
        """The weights of the scores, 1 in all; {} where no dimension that is left has any."""
        return weights_of(self.weights, dimensions_of([*self.scored.values()])[0])

    @property
    def estimated(self) -> tuple[str, ...]:
        """The dimensions of the scores that were not measured, but estimated."""
        return tuple(name for name in self.weighted if name not in self.dimensions)

    @cached_property
    def scores(self) -> Mapping[str, Score]:
        """Name → score of each candidate that has one."""
        if not self.weighted:
            return {}
        reference = self.scored[self.reference.name]
        found = {name: score(one, reference, self.weighted) for name, one in self.scored.items()}
        return {name: one for name, one in found.items() if one}

    @cached_property
    def front(self) -> list[Candidate]:
        """The Pareto set over the dimensions that all candidates have."""
        return pareto(self.candidates, [*self.dimensions.values()]) if self.dimensions else []

    @cached_property
    def left(self) -> list[Candidate]:
        """The candidates that no requirement bars."""
        return [one for one in self.candidates if meets(self.requirements.get(one.name, ()))]

    @cached_property
    def worths(self) -> list[tuple[Candidate, Candidate, Worth]]:
        """The rule of quantisation for each INT8 candidate against the same form in FP32, called alike."""
        return [(one, other, worth_of(one, other)) for one, other in quantised_pairs(self.candidates)]

    def lost_by(self, candidate: Candidate) -> Statement | None:
        """Name the classes that a candidate loses against the reference, None where it loses none."""
        return lost_by(candidate, self.reference)

    @property
    def unranked(self) -> str:
        """Why there is no ranking; "" where there is one."""
        if not self.left:
            return "no candidate meets the requirements"
        if self.rank_by in DIMENSIONS and self.rank_by not in self.dimensions:
            return f"not by {self.rank_by}, which is left out"
        return "" if self.weighted else "no dimension that is left has a weight"

    @cached_property
    def ranked(self) -> list[Ranked]:
        """The candidates that meet the requirements, best first; [] where there is no ranking."""
        if self.unranked:
            return []
        candidates = [self.scored[one.name] for one in self.left]
        known = [one for one in candidates if one.name in self.scores]
        best = max(known, key=lambda one: self.scores[one.name].value, default=None)
        inconclusive = not_below(candidates, best, self.weighted) if best else []
        last = {one.name for one, _, found in self.worths if found.outcome == "not worthwhile"}
        last = set() if self.rank_by in DIMENSIONS else last
        return [
            Ranked(one, self.scores.get(one.name), composite(one, self.weighted), one in inconclusive, one.name in last)
            for one in sorted(candidates, key=lambda one: (one.name in last, self._place(one)))
        ]

    def _place(self, one: Candidate) -> float:
        """Return what the ranking sorts by, less being better."""
        if self.rank_by in DIMENSIONS:
            key = DIMENSIONS[self.rank_by]
            return per_row(one, key).value * (-1 if metric_of(key[0]).better == "higher" else 1)
        if self.rank_by == "composite":
            return -composite(one, self.weighted)
        return -self.scores[one.name].value if one.name in self.scores else 0.0


def choices_of(
    test: str, candidates: Sequence[Candidate], judgements: Sequence[Judgement] = (), **others: Any
) -> Iterator[Choice]:
    """Yield a choice for each operating point of a test, in their order; `others` are further fields of each."""
    points = points_of([one.conditions for one in candidates])
    for point in dict.fromkeys(points):
        here = [one for one, its in zip(candidates, points, strict=True) if its == point]
        of = [one for one, its in zip(judgements, points, strict=False) if its == point]
        yield Choice(test=test, point=described(point), candidates=here, judgements=of, **others)


def measured_together(judgements: Sequence[Judgement]) -> list[Choice]:
    """Return the measurements of a report, those together that may be compared."""
    found = by_test(judgements, lambda one: one.run).items()
    return [choice for test, of in found for choice in choices_of(test, distinct(_of_judgements(of)), of)]


def is_called(candidate: Candidate, name: str) -> bool:
    """Whether a candidate has a name, alone or followed by its conditions, the kind of machine or its number."""
    return candidate.name == name or candidate.name.startswith((f"{name},", f"{name} on ", f"{name} ("))


def candidates_of(judgements: Sequence[Judgement]) -> dict[str, list[Candidate]]:
    """Return the measurements of a report as candidates, those of one test together."""
    return {test: distinct(_of_judgements(found)) for test, found in by_test(judgements, lambda one: one.run).items()}


def by_test(named: Iterable[T], what: Callable[[T], Run | Candidate]) -> dict[str, list[T]]:
    """Return what is compared, by test: without its parameters, which are scenarios and points of a sweep.

    Where they are more, such as models or data, each of those is a test of its own.
    """
    functions: dict[str, list[T]] = {}
    for one in named:
        functions.setdefault(without_parameters(what(one).test), []).append(one)
    return {test: found for function, ones in functions.items() for test, found in _parted(function, ones, what)}


def _parted(function: str, ones: Sequence[T], what: Callable[[T], Run | Candidate]) -> Iterable[tuple[str, list[T]]]:
    """Return the measurements of a function, parted by what tells those of one scenario and point apart."""
    told = (tuple(one.conditions.get(name) for name in _CALLED) for one in map(what, ones))
    names = {(one.scenario or one.test, one.label, one.kind, at) for one, at in zip(map(what, ones), told, strict=True)}
    if len(names) == len(ones):
        return [(function, [*ones])]
    parts: dict[str, list[T]] = {}
    for one in ones:
        its = what(one)
        others = f"-{its.test[len(function) + 1 : -1]}-".replace(f"-{its.scenario}-", "-", 1).strip("-")
        parts.setdefault(f"{function}[{others}]" if others else function, []).append(one)
    return parts.items()


def distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Number candidates of the same name."""
    names, seen = Counter(one.name for one in candidates), Counter[str]()
    found = []
    for one in candidates:
        seen[one.name] += 1
        found.append(replace(one, name=f"{one.name} ({seen[one.name]})") if names[one.name] > 1 else one)
    return found


def _of_judgements(judgements: Sequence[Judgement]) -> list[Candidate]:
    """Return measurements as candidates, named by their scenario and by the conditions in which they differ."""
    differing = [
        name
        for name in dict.fromkeys(name for one in judgements for name in one.run.conditions)
        if name in _CALLED and len({one.run.conditions.get(name) for one in judgements}) > 1
    ]
    return [candidate_of(one, differing) for one in judgements]


def candidate_of(judgement: Judgement, differing: Iterable[str] = ()) -> Candidate:
    """Return one measurement, named by its scenario and by those conditions."""
    run = judgement.run
    told = [f"{_CALLED[name]} {run.conditions[name]}" for name in differing if name in run.conditions]
    rows, labelled = run.conditions.get("batch_size", ""), run.sample(ACCURACY)
    name = ", ".join(part for part in [run.scenario or run.test, run.label, *told] if part)
    return Candidate(
        name=f"{name} on {run.kind}" if run.kind else name,
        test=run.test,
        label=run.label,
        scenario=run.scenario,
        kind=run.kind,
        values={figure.key: figure.estimate for figure in judgement.figures if not figure.estimated},
        guesses={figure.key: figure.estimate for figure in judgement.figures if figure.estimated},
        right=labelled.values if labelled else None,
        classes=labelled.classes if labelled else None,
        as_trained=run.context.items() >= AS_TRAINED.items() or bool(run.conditions and "form" not in run.conditions),
        rows=rows_of_call(rows),
        conditions=run.conditions,
        unmeasured={metric: str(why) for metric, why in run.unmeasured.items()},
    )


def pairs_of(tests: Iterable[str]) -> str:
    """Return the command that compares the scenarios of these tests in pairs."""
    return f"hwperf tradeoffs --pairs -- {join(dict.fromkeys(map(without_parameters, tests)))}"


def rows_of_call(text: str) -> int:
    """Return the rows of a call, as conditions name them; 1 where they do not."""
    return max(1, int(text)) if text.isdecimal() and len(text) <= _MOST_DIGITS else 1
