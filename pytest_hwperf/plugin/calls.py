"""Bodies of tests that are measured themselves: a test with a budget and without the fixture is the call."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import wraps
from inspect import iscoroutinefunction, isfunction
from typing import Any
from unittest import SkipTest, TestCase

import pytest

from pytest_hwperf.measure.inputs import BodyCall, InputChangedError
from pytest_hwperf.measure.rounds import Arguments, FixtureValues, Rounds, refuse_used_up
from pytest_hwperf.plugin.hwperf import Hwperf
from pytest_hwperf.plugin.session import test_of
from pytest_hwperf.records.errors import UsageProblem

_GOES_ON = (pytest.skip.Exception, pytest.xfail.Exception, SkipTest)  # after which a body continues


class ReportedError(Exception):
    """The body has failed in what pytest or unittest report by themselves: it is measured no further."""


class RepeatedSubtests:
    """Stands for the fixture `subtests`, or for `TestCase.subTest`, in a body that is called many times."""

    def __init__(self, real: Callable[..., AbstractContextManager[object]], item: pytest.Item) -> None:
        self._real = real
        self._item = item
        self._in_first = True

    def test(self, *args: Any, **kwargs: Any) -> AbstractContextManager[object]:
        """Return the context of a subtest; after the first call none is reported, and a failure ends the body."""
        return self._real(*args, **kwargs) if self._in_first else _QUIET

    def end_call(self) -> None:
        """End the body with its first call where pytest fails the test for a subtest."""
        self._in_first = False
        if test_of(self._item).failed_subtest:
            raise ReportedError


_QUIET = suppress(*_GOES_ON)


def stand_in(item: pytest.Function) -> Callable[..., Any]:
    """Return what stands in for the body of a test, and measures it: a function, an async one or a method."""
    if item.cls is not None and issubclass(item.cls, TestCase):
        return _measured_method(item)
    body, is_async = item.obj, iscoroutinefunction(item.obj)

    def prepared(fixtures: dict[str, Any]) -> tuple[Callable[[], Any], RepeatedSubtests | None]:
        """Note the fixtures; return the body with them, and what stands in for `subtests` among them."""
        if test_of(item).markers.by_all:
            test_of(item).fixtures = FixtureValues(fixtures)
        else:
            try:
                refuse_used_up((), fixtures, "fixture")
            except UsageProblem as error:  # of which no line of the body is the place
                pytest.fail(str(error), pytrace=False)
        real = getattr(fixtures.get("subtests"), "test", None)
        subtests = RepeatedSubtests(real, item) if real else None
        if subtests:
            fixtures["subtests"] = subtests
        return BodyCall(body, **fixtures) if fixtures else body, subtests

    @wraps(body)
    def measured(**fixtures: Any) -> None:
        __tracebackhide__ = True
        call, subtests = prepared(fixtures)

        def call_with_subtests(**same: Any) -> None:
            body(**same)
            subtests.end_call()  # type: ignore[union-attr] # there are some

        with _failure_reported(item):
            Hwperf(item)(BodyCall(call_with_subtests, **fixtures) if subtests else call)

    @wraps(body)
    async def awaited(**fixtures: Any) -> None:
        __tracebackhide__ = True
        call, subtests = prepared(fixtures)

        async def call_with_subtests(**same: Any) -> None:
            await body(**same)
            subtests.end_call()  # type: ignore[union-attr] # there are some

        with _failure_reported(item):
            await Hwperf(item).awaitable(BodyCall(call_with_subtests, **fixtures) if subtests else call)

    return awaited if is_async else measured


@contextmanager
def _failure_reported(item: pytest.Item) -> Iterator[None]:
    """Let a body end whose subtests have failed: pytest fails the test for them. One that changes its input fails."""
    __tracebackhide__ = True
    try:
        yield
    except ReportedError:
        test_of(item).has_failed = True
    except InputChangedError as error:  # of which no line of the body is the place
        raise pytest.fail.Exception(str(error), pytrace=False) from None


_TEAR_DOWN = "tearDown"
_CLEANED_UP = frozenset({"addCleanup", "enterContext"})  # names by which code asks for a cleanup after the test


class RepeatedCase:
    """Stands between unittest and a method that is called many times: each call gets its set-up and its cleanups.

    unittest would note the failure of a cleanup for the test, which in its first call has none.
    """

    def __init__(self, case: TestCase) -> None:
        """Take the place of `case.addCleanup`; the set-up before the first call is that of unittest."""
        self._case, self._add_to_unittest, self._called = case, case.addCleanup, False
        self.pending = list[tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]]()

    def add_cleanup(self, function: Callable[..., object], /, *args: Any, **kwargs: Any) -> None:
        self.pending.append((function, args, kwargs))

    def clean_up(self) -> None:
        while self.pending:
            function, args, kwargs = self.pending.pop()
            function(*args, **kwargs)

    def hand_over(self) -> None:
        for function, args, kwargs in self.pending:
            self._add_to_unittest(function, *args, **kwargs)
        self.pending.clear()

    def prepare(self) -> Arguments:
        if self._called:
            own = vars(self._case)
            kept = {name: value for name, value in own.items() if name == _TEAR_DOWN}
            own[_TEAR_DOWN] = lambda: None  # if this fails, the test has been torn down, or is not set up
            cls = type(self._case)  # with --pdb, pytest puts off the tearDown of the object
            cls.tearDown(self._case)
            self.clean_up()
            clean_up: Callable[[], object] = self._case.doCleanups  # of the set-up that unittest has made
            if not clean_up():  # it has noted the error
                raise ReportedError
            cls.setUp(self._case)
            del own[_TEAR_DOWN]
            own.update(kept)
        self._called = True
        return (), {}


def _measured_method(item: pytest.Function) -> Callable[[], None]:
    """Return a stand-in for the method of a test that measures it.

    unittest calls the stand-in when it has set up the test, and tears down after it: both are done again between calls.
    """
    case, body, test = item.instance, item.obj, test_of(item)

    @wraps(body)
    def measured() -> None:
        __tracebackhide__ = True
        test.has_failed = True  # until it has not: unittest keeps what it raises to itself
        subtests, repeated = RepeatedSubtests(case.subTest, item), RepeatedCase(case)

        def call() -> None:
            body()
            subtests.end_call()

        def call_alone() -> None:
            call()
            if repeated.pending:  # asked for by a helper of the method, in a class without a set-up: part of the call
                repeated.clean_up()

        try:
            with _replaced(case, subTest=subtests.test, addCleanup=repeated.add_cleanup):
                if _is_prepared(type(case)):
                    Hwperf(item).in_rounds(call, Rounds(prepare=repeated.prepare, interrupts=True, rounds=None))
                else:
                    Hwperf(item)(call_alone)
        except ReportedError:
            return
        finally:
            repeated.hand_over()
        test.has_failed = False

    return measured


def _is_prepared(cls: type[TestCase]) -> bool:
    """Whether anything has to be done between two calls of a method of this class."""
    if any(getattr(cls, name) is not getattr(TestCase, name) for name in ("setUp", "tearDown")):
        return True
    own = cls.__mro__[: cls.__mro__.index(TestCase)]
    functions = (value for one in own for value in vars(one).values() if isfunction(value))
    return any(not _CLEANED_UP.isdisjoint(function.__code__.co_names) for function in functions)


@contextmanager
def _replaced(case: TestCase, **methods: Callable[..., object]) -> Iterator[None]:
    before = {name: vars(case)[name] for name in methods if name in vars(case)}
    vars(case).update(methods)
    try:
        yield
    finally:
        for name in methods:
            del vars(case)[name]
        vars(case).update(before)
