"""Calls that change what the next call gets, and calls that only keep something: no clock decides here."""

import collections
import functools
import random
import threading
import unittest.mock
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression, SGDClassifier

from pytest_hwperf.measure.inputs import BodyCall, InputChangedError, inputs_of, sizes_of


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test depend on the speed of this machine."""
    monkeypatch.setattr("pytest_hwperf.measure.contents._LOOK_NS", 10**12)


def shuffled(size: int = 60) -> list[int]:
    return random.Random(1).sample(range(1000, 1000 + size), size)


def values(*shape: int) -> "np.ndarray[Any, Any]":
    return np.random.default_rng(0).random(shape or (300,))


@dataclass
class Box:
    """An object that holds rows."""

    rows: Any
    calls: int = 0
    is_ready: bool = False
    found: Any = None
    _cache: dict[Any, Any] = field(default_factory=dict)
    history: list[Any] = field(default_factory=list)


class Slotted:
    """The same without a dictionary."""

    __slots__ = ("rows", "unset")

    def __init__(self, rows: Any) -> None:
        self.rows = rows


class Pair(NamedTuple):
    """Two arrays."""

    one: Any
    two: Any


class Tensor:
    """Converted to an array, as tensors of other libraries are; one that records gradients has to be detached."""

    def __init__(self, content: Any, *, records: bool = False) -> None:
        self.content, self.records = content, records

    def __array__(self) -> Any:
        if self.records:
            raise RuntimeError("call detach() first")
        return self.content

    def detach(self) -> "Tensor":
        return Tensor(self.content)


def sort_frame(frame: Any) -> None:
    frame[:] = frame.sort_values("a").to_numpy()


def sort_field(box: Any) -> None:
    box.rows = sorted(box.rows)


def swap(pair: list[Any]) -> None:
    if pair[0][0] < pair[1][0]:
        pair[0], pair[1] = pair[1], pair[0]


def scale(matrix: Any) -> None:
    np.clip(matrix.data, 0, 0.5, out=matrix.data)


def set_categories(frame: Any) -> None:
    frame["a"] = sorted(frame["a"])


def large() -> "np.ndarray[Any, Any]":
    return values(1000, 400)


CHANGED: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "list": (shuffled, lambda it: it.sort()),
    "long list": (lambda: shuffled(50_000), lambda it: it.sort()),
    "array": (values, lambda it: it.sort()),
    "large array": (large, lambda it: it.sort(axis=0)),
    "view": (lambda: values(50, 50).T[::2], lambda it: it.sort()),
    "reversed view": (lambda: values()[::-1], lambda it: it.sort()),
    "dates": (lambda: values().view("datetime64[s]"), lambda it: it.sort()),
    "structured": (lambda: values().view([("a", float)]), lambda it: it.sort(order="a")),
    "objects": (lambda: np.array([*map(str, shuffled())], dtype=object), lambda it: it.sort()),
    "array.array": (lambda: array("q", shuffled()), lambda it: it.reverse()),
    "bytearray": (lambda: bytearray(b"abc"), lambda it: it.reverse()),
    "memoryview": (lambda: memoryview(bytearray(b"abc")), lambda it: it.__setitem__(0, 7)),
    "strided memoryview": (lambda: memoryview(bytearray(b"abcd"))[::2], lambda it: it.__setitem__(0, 7)),
    "dict of lists": (lambda: {"rows": shuffled()}, lambda it: it["rows"].sort()),
    "nested lists": (lambda: [shuffled() for _ in range(500)], lambda it: [one.sort() for one in it]),
    "list of arrays": (lambda: [values()], lambda it: it[0].sort()),
    "swapped arrays": (lambda: [values(), values() + 1], swap),
    "named tuple": (lambda: Pair(values(), values()), lambda it: it.two.sort()),
    "deque": (lambda: collections.deque(shuffled()), lambda it: it.rotate()),
    "set": (lambda: {*shuffled()}, lambda it: it and it.pop()),
    "more in a set": (lambda: {1}, lambda it: it.add(2)),
    "more in a list": (lambda: [1], lambda it: it.append(2)),
    "more in a dict": (dict, lambda it: it.update(a=1)),
    "objects in a list": (lambda: [Box(one) for one in shuffled()], lambda it: it.sort(key=lambda one: one.rows)),
    "closed objects in a list": (lambda: [object(), object()], lambda it: it.reverse()),
    "dataclass": (lambda: Box(shuffled()), lambda it: it.rows.sort()),
    "replaced field": (lambda: Box(shuffled()), sort_field),
    "field of another kind": (lambda: Box(shuffled()), lambda it: setattr(it, "rows", tuple(sorted(it.rows)))),
    "array in slots": (lambda: Slotted(values()), lambda it: it.rows.sort()),
    "number in a field": (lambda: Box([], calls=7), lambda it: setattr(it, "calls", 0)),
    "text in a field": (lambda: Slotted(" a "), lambda it: setattr(it, "rows", it.rows.strip())),
    "deleted field": (lambda: Box([1]), lambda it: vars(it).pop("rows", None)),
    "emptied field": (lambda: Box(shuffled()), lambda it: it.rows and it.rows.pop()),
    "two levels": (lambda: {"a": [Box({"rows": values()})]}, lambda it: it["a"][0].rows["rows"].sort()),
    "frame": (lambda: pd.DataFrame({"a": values(), "b": 1}), sort_frame),
    "more columns": (lambda: pd.DataFrame({"a": [1]}), lambda it: it.insert(1, "b", 2) if "b" not in it else None),
    "fewer columns": (lambda: pd.DataFrame({"a": [1], "b": 2}), lambda it: it.pop("b") if "b" in it else None),
    "columns of other names": (lambda: pd.DataFrame({"a": [1]}), lambda it: setattr(it, "columns", ["b"])),
    "name of a series": (lambda: pd.Series([1], name="a"), lambda it: setattr(it, "name", "b")),
    "private table that is emptied": (lambda: Box([], _cache={1: 2}), lambda it: it._cache.clear()),
    "long frame": (lambda: pd.DataFrame({"a": values(100_000)}), sort_frame),
    "frame of texts": (lambda: pd.DataFrame({"a": [*map(str, shuffled())]}), sort_frame),
    "categories": (lambda: pd.DataFrame({"a": pd.Categorical([*"bca"])}), set_categories),
    "series": (lambda: pd.Series(shuffled()), lambda it: it.update(pd.Series(sorted(it)))),
    "index": (lambda: pd.DataFrame({"a": 1}, index=shuffled()), lambda it: setattr(it, "index", sorted(it.index))),
    "sparse": (lambda: scipy.sparse.random(50, 50, 0.5, "csr", rng=0), scale),
    "tensor": (lambda: Tensor(values()), lambda it: it.content.sort()),
    "tensor with gradients": (lambda: Tensor(values(), records=True), lambda it: it.content.sort()),
}


def named(call: Callable[[Any], object]) -> Callable[..., object]:
    """Return the same call of a fixture with the name `it`."""

    def body(it: Any) -> None:
        call(it)

    return body


def run(call: Callable[..., object], *args: Any, **kwargs: Any) -> None:
    """Make the first call and a later one, as a measurement does."""
    watched = inputs_of(call, args, kwargs)
    watched.begin()
    call(*args, **kwargs)
    watched.check_first()
    call(*args, **kwargs)
    watched.check_later()
    assert not watched.is_awaited


@pytest.mark.parametrize("name", CHANGED)
def test_a_change_of_the_input_is_found(name: str) -> None:
    """Whether it is a fixture or an argument, which the error names."""
    make, call = CHANGED[name]
    with pytest.raises(InputChangedError, match=r"call has changed its argument 1, so that .* setup="):
        run(call, make())
    with pytest.raises(InputChangedError, match="call has changed its fixture 'it'"):
        run(BodyCall(named(call), it=make()))


class Memo:
    """Computes a value once."""

    def __init__(self) -> None:
        self.rows = values()

    @functools.cached_property
    def total(self) -> float:
        return float(self.rows.sum())


TABLE = {"a": values(), "b": values(), "c": values() > 0.5}
FITTED = LogisticRegression().fit(values(40, 3), [0, 1] * 20)


def train(model: Any) -> None:
    model.partial_fit(values(40, 3), [0, 1] * 20)


def count_call(box: Box) -> None:
    box.calls += 1
    box.history.append(box.calls)
    box._cache[box.calls] = box.calls


def fill(box: Box) -> None:
    box.found = [1, 2]
    box.is_ready = True
    box._cache.clear()
    box._cache["a"] = 1
    box.more = 3  # type: ignore[attr-defined]


def held_by_itself() -> list[Any]:
    held: list[Any] = []
    held.append(held)
    return held


def draw(generator: Any) -> None:
    generator.random()


def make_kept() -> Box:
    return Box(values(), _cache={"old": 1})


KEPT: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "nothing": (values, lambda it: it.sum()),
    "numbers": (lambda: [float("nan"), 1, "a", None, b"b"], lambda it: it.copy()),
    "cached property": (Memo, lambda it: it.total),
    "counter, history and cache": (lambda: Box([]), count_call),
    "places that were free, and a flag": (make_kept, fill),
    "empty array to be filled": (lambda: np.zeros(300), lambda it: np.copyto(it, values())),
    "empty bytearray to be filled": (lambda: bytearray(8), lambda it: it.__setitem__(0, 7)),
    "free places of a list": (lambda: [None, None], lambda it: it.__setitem__(0, 7)),
    "frame": (lambda: pd.DataFrame(TABLE), lambda it: it.groupby("c").mean()),
    "text and number that tell something": (lambda: Slotted("a"), lambda it: setattr(it, "rows", it.rows + "b")),
    "index cache": (lambda: pd.DataFrame(TABLE), lambda it: it.index.is_unique and it.loc[3]),
    "replaced by equal ones": (lambda: [[1.5], [2.5]], lambda it: it.__setitem__(0, [1.5])),
    "prediction": (lambda: FITTED, lambda it: it.predict(values(40, 3))),
    "fit": (LogisticRegression, lambda it: it.fit(values(40, 3), [0, 1] * 20)),
    "training": (lambda: SGDClassifier(random_state=0).fit(values(40, 3), [0, 1] * 20), train),
    "numpy generator": (lambda: np.random.default_rng(0), draw),
    "python generator": (lambda: random.Random(0), draw),
    "mock": (unittest.mock.MagicMock, lambda it: it(1)),
    "lock": (threading.Lock, lambda it: it.acquire() and it.release()),
    "itself": (held_by_itself, len),
    "function": (lambda: draw, lambda it: setattr(it, "seen", 1)),
    "module": (lambda: random, lambda it: it.seed(1)),
    "large": (lambda: values(2000, 2000), lambda it: it[0].sum()),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_only_kept_is_no_change_of_the_input(name: str) -> None:
    """Caches, counters, histories, places to be filled, states that go on with each call."""
    make, call = KEPT[name]
    run(call, make())
    run(BodyCall(named(call), it=make()))


def test_what_a_call_reaches_is_watched_too() -> None:
    """Its object, and variables around it; what it adds there is its own business."""
    rows, seen = shuffled(), list[int]()
    with pytest.raises(InputChangedError, match="first call has changed its variable 'rows'"):
        run(lambda: rows.sort())  # noqa: PLW0108 - the variable is what counts
    with pytest.raises(InputChangedError, match="first call has changed its own object"):
        run(shuffled().sort)
    run(lambda: seen.append(1))
    run(seen.append, 3)

    run(lambda: later if not seen else None)
    later = 1


SHARED = shuffled()
TABLE_OF_NAMES = dict[str, int]()
HISTORY = list[int]()


def sort_shared() -> None:
    SHARED.sort()


def keep_in_module() -> None:
    TABLE_OF_NAMES["a"] = 1
    HISTORY.append(1)


class Suite:
    """A test class, whose data all its methods share."""

    rows: ClassVar = shuffled()
    loaded: ClassVar = {"is_ready": False}

    def sort(self) -> None:
        self.rows.sort()

    def prepare(self) -> None:
        self.loaded["is_ready"] = True


def test_data_of_the_module_and_of_the_class_are_watched_too() -> None:
    """As far as the function names them; caches and histories there are no data."""
    with pytest.raises(InputChangedError, match="first call has changed its global variable 'SHARED'"):
        run(sort_shared)
    with pytest.raises(InputChangedError, match="first call has changed its class attribute 'rows'"):
        run(Suite().sort)
    run(keep_in_module)
    run(Suite().prepare)


def test_arrays_frames_and_lists_that_are_given_are_counted() -> None:
    """Objects of the user are not asked for a length."""
    box = unittest.mock.MagicMock()
    given = inputs_of(len, [shuffled(), values(3, 2), pd.DataFrame(TABLE), np.array(1), box, 5])
    assert list(sizes_of(given).items())[:2] == [("argument 1", "60 items"), ("argument 2", "3 items")]
    assert len(sizes_of(given)) == 3


def test_a_change_by_a_later_call_is_one() -> None:
    rows = shuffled()
    calls = list[int]()

    def call(given: list[int]) -> None:
        calls.append(1)
        if len(calls) == 2:
            given.reverse()

    with pytest.raises(InputChangedError, match="second call has changed its argument 1"):
        run(call, rows)


def test_what_there_is_no_time_for_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the time is over in the first look or in the next one."""
    for first, later in ((10**12, 0), (0, 10**12)):
        frame = pd.DataFrame({"a": values()})
        monkeypatch.setattr("pytest_hwperf.measure.contents._LOOK_NS", first)
        watched = inputs_of(len, [frame])
        watched.begin()
        monkeypatch.setattr("pytest_hwperf.measure.contents._LOOK_NS", later)
        sort_frame(frame)
        watched.check_first()


def test_a_look_goes_into_so_many_parts_only() -> None:
    """The work is bounded, whatever there is."""
    from pytest_hwperf.measure import contents

    rows = [[[*range(50)] for _ in range(200)] for _ in range(200)]
    held = contents.look({"rows": rows})["rows"]

    def count(one: Any) -> int:
        return 1 + sum(map(count, one.parts.values()))

    assert count(held) <= 1 + 100 + 100 * 100
