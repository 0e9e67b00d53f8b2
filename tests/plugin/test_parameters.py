"""What stands behind the id of a parametrised test: a description that tells other parameters from the same ones."""

import enum
import subprocess
import sys
from collections import OrderedDict
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from fakes.reruns import INI, REHEARSED, repository

from pytest_hwperf.plugin.worker.parameters import parameters_of


def first() -> int:
    return 1


def second() -> int:
    return 2


def made(number: int) -> Any:
    def inner() -> int:
        return number

    return inner


class Given:
    """An object that runs none of its code to be described."""

    __slots__ = ("number", "unset")

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        raise RuntimeError("asked for its text")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    __hash__ = None  # type: ignore[assignment]

    @property
    def secret(self) -> int:
        raise RuntimeError("asked for a property")


class Plain:
    def __init__(self, number: int) -> None:
        self.number = number

    def method(self) -> int:
        return self.number


class Text(str):
    __slots__ = ()

    def __repr__(self) -> str:
        raise RuntimeError("asked for its text")


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def described(**parameters: object) -> dict[str, str]:
    config = SimpleNamespace(rootpath=Path("/project"))
    return parameters_of(cast("Any", SimpleNamespace(callspec=SimpleNamespace(params=parameters), config=config)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (first, second),
        (partial(first), partial(second)),
        (made(1), made(2)),
        (lambda: first() + 1, lambda: second() + 1),
        (lambda number=1: number, lambda number=2: number),
        (Plain, Given),
        (Given(1), Given(2)),
        (Plain(1).method, Plain(2).method),
        (Colour.RED, Colour.BLUE),
        ({"rows": [1, 2]}, {"rows": [2, 1]}),
        (OrderedDict(a=1), OrderedDict(a=2)),
        ({1, 2}, {1, 3}),
        ((1,), [1]),
        (1, True),
        (Text("a"), Text("b")),
        ("x" * 999 + "a", "x" * 999 + "b"),
        (np.zeros(3), np.ones(3)),
        (np.zeros(3), np.zeros(3, np.float32)),
        (np.float64(1), np.float64(2)),
        (Path("/project/a"), Path("/project/b")),
        (len, max),
        (subprocess, sys),
        (None, ...),
    ],
)
def test_another_value_is_described_otherwise(one: object, other: object) -> None:
    assert described(value=one) != described(value=other)


def test_the_same_value_is_described_alike_in_every_process_and_at_any_place() -> None:
    """No address is in it, no order that the hash seed gives, and no folder that each side has for itself."""
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from plugin.test_parameters import *\n"
        "values = [first, partial(first), made(1), Given(1), Plain(1).method, {'b', 'a', 'c'}, object(), np.zeros(2),\n"
        "          np.array([object()]), Plain, lambda: first(), [Plain(1)], {str(n) for n in range(99)}]\n"
        "print(described(values=values), described(**{str(n): one for n, one in enumerate(values)}))\n"
    )
    tests = str(Path(__file__).parents[1])
    texts = {
        subprocess.run(
            [sys.executable, "-c", program, tests],
            env={"PYTHONHASHSEED": seed, "PATH": ""}, check=True, capture_output=True, text=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert 1 == len(texts)
    assert "0x" not in texts.pop()
    assert {"file": "'ROOT/data.csv'"} == described(file="/project/data.csv")


def test_a_description_is_short_whatever_the_value_holds() -> None:
    endless: list[Any] = []
    endless.extend([endless] * 1000)
    deep = described(value=endless, long="x" * 10_000, many=list(range(10_000)), large=np.zeros(10_000_000))
    assert max(map(len, deep.values())) < 200
    assert {} == parameters_of(cast("Any", SimpleNamespace(config=SimpleNamespace(rootpath=Path("/project")))))


CASES = """
from fakes.simulated_time import spend

class Case:
    def __init__(self, units): self.units = units
    def __call__(self): spend(self.units)
    def __repr__(self): raise RuntimeError

CASES = [Case(300), Case(400)]
SIZES = [{"units": 300}, {"units": 400}]
KEPT = [Case(300)]
"""
TESTS = """
import pytest
import work

@pytest.mark.parametrize("case", work.CASES)
def test_case(hwperf, case): hwperf(case)

@pytest.fixture
def size(request): return request.param["units"]

@pytest.mark.parametrize("size", work.SIZES, ids=["small", "large"], indirect=True)
class TestSizes:
    @pytest.mark.parametrize("again", [1, 2])
    def test_size(self, hwperf, size, again): hwperf(work.spend, size)

@pytest.mark.parametrize("kept", work.KEPT)
def test_kept(hwperf, kept): hwperf(kept)
"""


@pytest.mark.live
@pytest.mark.usefixtures("quick_pairs", "fakes_in_reach")
def test_a_position_that_holds_another_parameter_on_each_side_is_remarked(pytester: pytest.Pytester) -> None:
    """Equal parameters are no remark."""
    project = repository(pytester, {"work.py": CASES, "test_it.py": TESTS, "pytest.ini": INI})
    moved = CASES.replace("[Case(300), Case(400)]", "[Case(400), Case(300)]")
    project.write({"work.py": moved.replace('[{"units": 300}, {"units": 400}]', '[{"units": 400}, {"units": 300}]')})
    project.run(REHEARSED)
    (remark,) = (one for one in project.gate().warnings if one.startswith("the same test id stands for another"))
    case = "case is work.Case('units', {}) in the baseline, work.Case('units', {}) now"
    assert f"test_it.py::test_case[case0] ({case.format(300, 400)})" in remark
    assert f"test_it.py::test_case[case1] ({case.format(400, 300)})" in remark
    assert "and 3 more" in remark  # of the class
    assert "test_kept" not in remark
