"""The candidates of a test: measurements of a report or rows of a table, told apart by their operating points."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import join
from typing import TypeVar

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import nearest
from pytest_hwperf.records.metrics import ACCURACY
from pytest_hwperf.records.run import AS_TRAINED, Classes, Estimate, Key, Run, Values
from pytest_hwperf.records.verdict import Comparison, Judgement

CONDITIONS: Mapping[str, str] = {"batch_size": "", "threads": "", "load": "single_stream"}  # → unless declared
_CALLED = {"batch_size": "batch", "threads": "threads", "load": "load"}  # conditions, as names of candidates say them
_MOST_DIGITS = 9  # of the rows of a call

Point = tuple[tuple[str, str], ...]  # conditions that tell points apart, each with its value
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What is to be chosen among others."""

    name: str
    values: Mapping[Key, Estimate]  # metric and statistic → estimate, base units
    test: str = ""  # node id of its measurement; "" where it comes from elsewhere
    label: str = ""  # of its measurement within the test
    scenario: str = ""
    rows: int = 1  # of a call
    conditions: Mapping[str, str] = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)  # metric → why
    kind: str = ""  # of machine on which it was measured; "" where nobody named it
    price_per_hour: float | None = None  # of such a machine, where the file says it
    right: Values | None = None  # 1 or 0 of each example; None where they are not known
    classes: Classes | None = None  # of the examples
    as_trained: bool = False  # whether nothing has converted the model; False: not known
    guesses: Mapping[Key, Estimate] = field(default_factory=dict)  # what was estimated, and not measured
    pairs: Mapping[str, Mapping[Key, Comparison]] = field(default_factory=dict)  # name of a baseline → against it

    def is_guessed(self, key: Key) -> bool:
        """Whether a value is known only by an estimate."""
        return key in self.guesses and key not in self.values

    def is_called(self, name: str) -> bool:
        """Whether it has a name, alone or followed by its conditions, the kind of machine or its number."""
        return self.name == name or self.name.startswith((f"{name},", f"{name} on ", f"{name} ("))


def points_of(declared: Sequence[Mapping[str, str]]) -> list[Point]:
    """Return the operating point of each measurement, by the conditions that it declares.

    A condition tells points apart if several values of it are declared; then those that declare none have a point of
    their own. Where all that declare it agree, the others are taken to agree too.
    """
    known = {name: {one.get(name, usual) for one in declared} - {""} for name, usual in CONDITIONS.items()}
    telling = [name for name, values in known.items() if len(values) > 1]
    return [tuple((name, one.get(name, CONDITIONS[name])) for name in telling) for one in declared]


def described(point: Iterable[tuple[str, str]]) -> str:
    """Write a point as `batch_size=32, threads=1`; "" where nothing tells it from others."""
    return ", ".join(f"{name}={value or 'not declared'}" for name, value in point)


def parse_point(texts: Sequence[str]) -> dict[str, str]:
    """Turn `batch_size=32` into the conditions that are asked for."""
    found = dict[str, str]()
    for text in texts:
        name, _, value = text.partition("=")
        if name not in CONDITIONS:
            allowed = f"{nearest(name, CONDITIONS)} Allowed: {', '.join(CONDITIONS)}"
            raise UsageProblem(f"--at={text}: unknown condition.{allowed}")
        if not value or found.get(name, value) != value:
            raise UsageProblem(f"--at={text}: one value for each condition, such as --at batch_size=32")
        found[name] = value
    return found


def lies_at(conditions: Mapping[str, str], asked: Mapping[str, str]) -> bool:
    """Whether a measurement declares the conditions that are asked for."""
    return all(conditions.get(name, CONDITIONS[name]) == value for name, value in asked.items())


def without_parameters(test: str) -> str:
    """Return the id of a test without its parameters, which may hold brackets themselves: `test_x[a[0]]` → `test_x`."""
    file, colons, name = test.partition("::")
    if not colons:
        file, name = "", test
    return f"{file}{colons}{name.partition('[')[0]}" if name.endswith("]") else test


def pairs_of(tests: Iterable[str]) -> str:
    """Return the command that compares the scenarios of these tests in pairs."""
    return f"hwperf tradeoffs --pairs -- {join(dict.fromkeys(map(without_parameters, tests)))}"


def rows_of_call(text: str) -> int:
    """Return the rows of a call, as conditions name them; 1 where they do not."""
    return max(1, int(text)) if text.isdecimal() and len(text) <= _MOST_DIGITS else 1


def by_test(measured: Sequence[T], named: Iterable[Run | Candidate]) -> dict[str, list[T]]:
    """Return what is compared, by test: without its parameters, which are scenarios and points of a sweep.

    Where they are more, such as models or data, each of those is a test of its own. `named` are its runs or candidates.
    """
    functions: dict[str, list[tuple[T, Run | Candidate]]] = {}
    for one, its in zip(measured, named, strict=True):
        functions.setdefault(without_parameters(its.test), []).append((one, its))
    found: dict[str, list[T]] = {}
    for function, ones in functions.items():
        told = {(its.scenario or its.test, its.label, its.kind, *map(its.conditions.get, _CALLED)) for _, its in ones}
        for one, its in ones:
            others = ""
            if len(told) < len(ones):  # scenario and point do not tell them apart
                others = f"-{its.test[len(function) + 1 : -1]}-".replace(f"-{its.scenario}-", "-", 1).strip("-")
            found.setdefault(f"{function}[{others}]" if others else function, []).append(one)
    return found


def distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Number candidates of the same name."""
    names, seen, found = Counter(one.name for one in candidates), Counter[str](), list[Candidate]()
    for one in candidates:
        seen[one.name] += 1
        found.append(replace(one, name=f"{one.name} ({seen[one.name]})") if names[one.name] > 1 else one)
    return found


def candidates_of(judgements: Sequence[Judgement]) -> list[Candidate]:
    """Return measurements of a test as candidates, named by their scenario and the conditions in which they differ."""
    declared = dict.fromkeys(name for one in judgements for name in one.run.conditions if name in _CALLED)
    differing = [name for name in declared if len({one.run.conditions.get(name) for one in judgements}) > 1]
    return distinct([candidate_of(one, differing) for one in judgements])


def candidate_of(judgement: Judgement, differing: Iterable[str] = ()) -> Candidate:
    """Return one measurement, named by its scenario and by those conditions."""
    run = judgement.run
    told = [f"{_CALLED[name]} {run.conditions[name]}" for name in differing if name in run.conditions]
    name, labelled = ", ".join(filter(None, [run.scenario or run.test, run.label, *told])), run.sample(ACCURACY)
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
        rows=rows_of_call(run.conditions.get("batch_size", "")),
        conditions=run.conditions,
        unmeasured={metric: str(why) for metric, why in run.unmeasured.items()},
    )
