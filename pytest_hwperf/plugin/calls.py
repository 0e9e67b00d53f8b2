"""Bodies of tests that are measured themselves: a test with a budget and without the fixture is the call."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial, wraps
from inspect import isfunction
from types import TracebackType
from typing import Any
from unittest import SkipTest, TestCase

import pytest

from pytest_hwperf.measure.rounds import Arguments, Rounds
from pytest_hwperf.plugin.hwperf import Hwperf
from pytest_hwperf.plugin.session import test_of
from pytest_hwperf.plugin.whole_suites import FixtureValues

_GOES_ON = (pytest.skip.Exception, pytest.xfail.Exception, SkipTest)  # after which a body continues


class ReportedError(Exception):
    """The body has failed in what pytest or unittest report by themselves: it is measured no further."""


class RepeatedSubtests:
    """Stands for the fixture `subtests`, or for `TestCase.subTest`, in a body that is called many times."""

    def __init__(self, real: Callable[..., AbstractContextManager[object]]) -> None:
        """Make subtests by `real` until the first call has ended."""
        self._real, self._in_first = real, True
        self.failed = False  # whether one of the first call has

    def test(self, *args: Any, **kwargs: Any) -> AbstractContextManager[object]:
        """Return the context of a subtest."""
        return _Reported(self, self._real(*args, **kwargs)) if self._in_first else _QUIET

    def end_call(self) -> None:
        """Note that a call of the body has ended."""
        if self._in_first:
            self._in_first = False
            if self.failed:
                raise ReportedError


class _Reported:
    """A real subtest, whose failure is noted."""

    def __init__(self, subtests: RepeatedSubtests, real: AbstractContextManager[object]) -> None:
        self._subtests, self._real = subtests, real

    def __enter__(self) -> object:
        return self._real.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None and not isinstance(error, _GOES_ON):
            self._subtests.failed = True
        return bool(self._real.__exit__(kind, error, trace))


class _Quiet:
    """A subtest that is not reported; its failure ends the body, which passed in its first call."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return isinstance(error, _GOES_ON)


_QUIET = _Quiet()


_SUBTESTS = "subtests"


def measured_body(item: pytest.Function) -> Callable[..., None]:
    """Return a stand-in for the test's body that measures it."""
    body = item.obj

    def stand_in(**fixtures: Any) -> None:
        __tracebackhide__ = True
        subtests = _repeated(item, fixtures)
        call = partial(body, **fixtures) if fixtures else body

        def call_with_subtests() -> None:
            call()
            assert subtests is not None  # noqa: S101 - for the type checker
            subtests.end_call()

        with _failure_reported(item):
            Hwperf(item)(call if subtests is None else call_with_subtests)

    return stand_in


def measured_async_body(item: pytest.Function) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return a stand-in for the body of an async test that measures it on the loop that runs the test."""
    body = item.obj

    async def stand_in(**fixtures: Any) -> None:
        __tracebackhide__ = True
        subtests = _repeated(item, fixtures)
        call = partial(body, **fixtures) if fixtures else body

        async def call_with_subtests() -> None:
            await call()
            assert subtests is not None  # noqa: S101 - for the type checker
            subtests.end_call()

        with _failure_reported(item):
            await Hwperf(item).awaitable(call if subtests is None else call_with_subtests)

    return stand_in


def _repeated(item: pytest.Item, fixtures: dict[str, Any]) -> RepeatedSubtests | None:
    """Note the fixtures of a body; put a stand-in for `subtests` among them, and return it; None where it has none."""
    if test_of(item).markers.by_all:
        test_of(item).fixtures = FixtureValues(fixtures)
    real = getattr(fixtures.get(_SUBTESTS), "test", None)
    if real is None:
        return None
    fixtures[_SUBTESTS] = found = RepeatedSubtests(real)
    return found


@contextmanager
def _failure_reported(item: pytest.Item) -> Iterator[None]:
    """Let a body end whose subtests have failed: pytest fails the test for them."""
    try:
        yield
    except ReportedError:
        test_of(item).has_failed = True


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
