"""Methods of `unittest.TestCase` that are measured: each call between its own setUp and tearDown, untimed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isfunction
from typing import Any
from unittest import TestCase

import pytest

from pytest_hwperf.measure.rounds import Arguments, Rounds
from pytest_hwperf.plugin.hwperf import Hwperf
from pytest_hwperf.plugin.session import test_of
from pytest_hwperf.plugin.subtests import RepeatedSubtests, ReportedError

_CLEANED_UP = frozenset({"addCleanup", "enterContext"})  # names by which code asks for a cleanup after the test


def is_method(item: pytest.Item) -> bool:
    """Whether a test is a method of a `unittest.TestCase`."""
    cls = getattr(item, "cls", None)
    return isinstance(cls, type) and issubclass(cls, TestCase)


def why_not_repeated(cls: type[TestCase]) -> str:
    """Say why methods of a class cannot be called many times in one test; "" where they can."""
    if hasattr(cls, "asyncSetUp"):
        return "an IsolatedAsyncioTestCase is set up on a loop that only unittest runs"
    own = [name for name in ("run", "__call__") if getattr(cls, name) is not getattr(TestCase, name)]
    return f"its class prepares each test in a {own[0]} of its own, which is not called before each call" if own else ""


def measured_method(item: pytest.Function) -> Callable[[], None]:
    """Return a stand-in for the method of a test that measures it.

    unittest calls the stand-in when it has set up the test, and tears down after it: both are done again between calls.
    """
    case, body, test = item.instance, item.obj, test_of(item)
    subtests = RepeatedSubtests(case.subTest)

    @wraps(body)
    def stand_in() -> None:
        __tracebackhide__ = True
        test.has_failed = True  # until it has not: unittest keeps what it raises to itself
        try:
            with _replaced(case, subTest=subtests.test):
                _measure(item, case, body, subtests)
        except ReportedError:
            return
        test.has_failed = False

    return stand_in


def _measure(item: pytest.Function, case: TestCase, body: Callable[[], object], subtests: RepeatedSubtests) -> None:
    __tracebackhide__ = True
    if _is_prepared(type(case)):

        def call() -> None:
            body()
            subtests.end_call()

        Hwperf(item).in_rounds(call, Rounds(prepare=_Between(case), interrupts=True, rounds=None))
        return
    cleanups = list[tuple[Any, ...]]()

    def call_alone() -> None:
        body()
        subtests.end_call()
        if cleanups:  # asked for by a helper of the method, in a class without a set-up: they belong to the call
            cleanups.clear()
            _clean_up(case)

    real = case.addCleanup

    def noted(function: Callable[..., object], /, *args: Any, **kwargs: Any) -> None:
        cleanups.append((function,))
        real(function, *args, **kwargs)

    with _replaced(case, addCleanup=noted):
        Hwperf(item)(call_alone)


class _Between:
    """Prepares each call but the first, for which unittest has done it: ends the test before it, and sets up anew."""

    def __init__(self, case: TestCase) -> None:
        self._case, self._called = case, False

    def __call__(self) -> Arguments:
        if self._called:
            cls = type(self._case)  # with --pdb, pytest puts off the tearDown of the object
            cls.tearDown(self._case)
            _clean_up(self._case)
            cls.setUp(self._case)
        self._called = True
        return (), {}


def _clean_up(case: TestCase) -> None:
    clean_up: Callable[[], object] = case.doCleanups  # whether all is well, though typeshed knows of no value
    if not clean_up():  # unittest has noted the error
        raise ReportedError


def _is_prepared(cls: type[TestCase]) -> bool:
    """Whether anything has to be done between two calls of a method of this class."""
    if any(getattr(cls, name) is not getattr(TestCase, name) for name in ("setUp", "tearDown")):
        return True
    own = cls.__mro__[: cls.__mro__.index(TestCase)]
    functions = (value for one in own for value in vars(one).values() if isfunction(value))
    return any(not _CLEANED_UP.isdisjoint(function.__code__.co_names) for function in functions)


@contextmanager
def _replaced(case: TestCase, **methods: Callable[..., object]) -> Iterator[None]:
    """Let one object have other methods than its class."""
    before = {name: vars(case)[name] for name in methods if name in vars(case)}
    vars(case).update(methods)
    try:
        yield
    finally:
        for name in methods:
            del vars(case)[name]
        vars(case).update(before)
