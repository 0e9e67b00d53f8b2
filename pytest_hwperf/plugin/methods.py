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

_TEAR_DOWN = "tearDown"
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


class Cleanups:
    """Cleanups that a test asks for while it is measured: run after each call, those of the last one by unittest.

    unittest would note the failure of one for the test, which in its first call has none.
    """

    def __init__(self, case: TestCase) -> None:
        """Take the place of `case.addCleanup`."""
        self._add_to_unittest = case.addCleanup
        self.pending = list[tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]]()

    def add(self, function: Callable[..., object], /, *args: Any, **kwargs: Any) -> None:
        """Ask for one."""
        self.pending.append((function, args, kwargs))

    def run(self) -> None:
        """Run them, the latest first."""
        while self.pending:
            function, args, kwargs = self.pending.pop()
            function(*args, **kwargs)

    def hand_over(self) -> None:
        """Let unittest run them."""
        for function, args, kwargs in self.pending:
            self._add_to_unittest(function, *args, **kwargs)
        self.pending.clear()


class _Between:
    """Prepares each call but the first, for which unittest has done it: ends the test before it, and sets up anew."""

    def __init__(self, case: TestCase, cleanups: Cleanups) -> None:
        self._case, self._cleanups, self._called = case, cleanups, False

    def __call__(self) -> Arguments:
        if self._called:
            kept = {name: value for name, value in vars(self._case).items() if name == _TEAR_DOWN}
            vars(self._case)[_TEAR_DOWN] = _nothing  # if this fails, the test has been torn down, or is not set up
            self._set_up_again()
            del vars(self._case)[_TEAR_DOWN]
            vars(self._case).update(kept)
        self._called = True
        return (), {}

    def _set_up_again(self) -> None:
        cls = type(self._case)  # with --pdb, pytest puts off the tearDown of the object
        cls.tearDown(self._case)
        self._cleanups.run()
        clean_up: Callable[[], object] = self._case.doCleanups  # of the set-up that unittest has made
        if not clean_up():  # it has noted the error
            raise ReportedError
        cls.setUp(self._case)


def _nothing() -> None:
    """Tear nothing down."""


def measured_method(item: pytest.Function) -> Callable[[], None]:
    """Return a stand-in for the method of a test that measures it.

    unittest calls the stand-in when it has set up the test, and tears down after it: both are done again between calls.
    """
    case, body, test = item.instance, item.obj, test_of(item)

    @wraps(body)
    def stand_in() -> None:
        __tracebackhide__ = True
        test.has_failed = True  # until it has not: unittest keeps what it raises to itself
        subtests, cleanups = RepeatedSubtests(case.subTest), Cleanups(case)
        try:
            with _replaced(case, subTest=subtests.test, addCleanup=cleanups.add):
                _measure(item, body, subtests, cleanups)
        except ReportedError:
            return
        finally:
            cleanups.hand_over()
        test.has_failed = False

    return stand_in


def _measure(item: pytest.Function, body: Callable[[], object], subtests: RepeatedSubtests, cleanups: Cleanups) -> None:
    __tracebackhide__ = True

    def call() -> None:
        body()
        subtests.end_call()

    def call_alone() -> None:
        call()
        if cleanups.pending:  # asked for by a helper of the method, in a class without a set-up: part of the call
            cleanups.run()

    if _is_prepared(type(item.instance)):
        prepare = _Between(item.instance, cleanups)
        Hwperf(item).in_rounds(call, Rounds(prepare=prepare, interrupts=True, rounds=None))
    else:
        Hwperf(item)(call_alone)


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
