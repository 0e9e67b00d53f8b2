"""Candidates that the measurements of a report are: the scenarios of a test, at their operating points."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import join
from typing import TypeVar

from pytest_hwperf.records.budgets import nearest
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.metrics import ACCURACY
from pytest_hwperf.records.run import AS_TRAINED, Run
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.stats.rivals import Candidate, lost_by, without_parameters
from pytest_hwperf.stats.tradeoffs import dimensions_of, pareto

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured of one test at one operating point: candidates that may be compared with each other."""

    test: str
    point: str  # "" where nothing tells it from others
    candidates: Sequence[Candidate]
    judgements: Sequence[Judgement]  # of each candidate

    @property
    def reference(self) -> Candidate:
        """What scores are relative to: ONNX Runtime in FP32, else the first."""
        return next((one for one in self.candidates if is_called(one, USUAL_REFERENCE)), self.candidates[0])

    def lost_by(self, candidate: Candidate) -> Statement | None:
        """Name the classes that a candidate loses against the reference, None where it loses none."""
        return lost_by(candidate, self.reference)

    @property
    def front(self) -> list[Candidate]:
        """The Pareto set over the dimensions that all candidates have."""
        dimensions, _ = dimensions_of(self.candidates)
        return pareto(self.candidates, [*dimensions.values()]) if dimensions else []


def measured_together(judgements: Sequence[Judgement]) -> list[Measured]:
    """Return the measurements of a report, those together that may be compared."""
    found = list[Measured]()
    for test, of_test in by_test(judgements, lambda one: one.run).items():
        candidates = distinct(_of_judgements(of_test))
        points = points_of([one.run.conditions for one in of_test])
        for point in dict.fromkeys(points):
            here = [place for place, its in enumerate(points) if its == point]
            found.append(
                Measured(
                    test=test,
                    point=described(point),
                    candidates=[candidates[place] for place in here],
                    judgements=[of_test[place] for place in here],
                )
            )
    return found


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
