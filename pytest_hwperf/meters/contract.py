"""The contract that every energy meter has to hold, as a test class: subclass it for a meter of your own."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import ClassVar, get_args
from unittest import SkipTest  # pytest takes it for a skip

from pytest_hwperf.records.contracts import CountingMeter, Covered, Meter
from pytest_hwperf.records.errors import MeterUnavailable
from pytest_hwperf.records.metrics import BOARD_ENERGY, ENERGY
from pytest_hwperf.records.run import Reading

_LONGER = 1.25  # windows of the contract, as multiples of the shortest one
_LEAST_S = 0.05  # the same, where a meter takes windows of any length
_MOST_INNER = 0.9  # of the energy of a window, in the second half of its time


class MeterContract:
    """The rules for a meter, one test each. A subclass whose name begins with `Test` gives `factory`."""

    factory: ClassVar[Callable[..., Meter]]  # staticmethod(my_meter), as the entry point names it
    environment: Mapping[str, str] = {}  # in which the meter can be opened
    absent: Mapping[str, str] | None = None  # in which it cannot

    def work(self, seconds: float) -> None:
        """Let time pass, and something that the meter counts: here a processor works."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass

    def test_it_says_what_it_counts(self) -> None:
        """Its fields are of the types that reports and comparisons take."""
        with self._opened() as meter:
            _require(meter.metric in (ENERGY, BOARD_ENERGY), f"metric is {meter.metric!r}: {ENERGY} or {BOARD_ENERGY}")
            _require(meter.covers in get_args(Covered), f"covers is {meter.covers!r}: {', '.join(get_args(Covered))}")
            _require(bool(meter.source) and meter.source.isprintable(), f"source {meter.source!r} is no line of text")
            is_marked = meter.source.startswith("estimate:") == (meter.covers == "estimate")
            _require(is_marked, f"source {meter.source!r}: an estimate, and nothing else, begins with 'estimate:'")
            shortest_s: object = meter.shortest_window_s
            is_time = isinstance(shortest_s, int | float) and 0 <= shortest_s < math.inf
            _require(is_time, f"shortest_window_s is {shortest_s!r}: a number of seconds")
            warnings: object = meter.warnings
            are_texts = isinstance(warnings, tuple) and all(isinstance(one, str) for one in warnings)
            _require(are_texts, f"warnings is {warnings!r}: a tuple of texts")
            if isinstance(meter, CountingMeter):
                _check_counter(meter)

    def test_a_window_has_a_value(self) -> None:
        """In joules, after work that takes longer than the shortest window."""
        with self._opened() as meter, meter.attended() if isinstance(meter, CountingMeter) else nullcontext():
            started = meter.start()
            self._work(meter)
            _require(_check(meter.end(started), "a window") > 0, "work takes no energy: nothing is counted")

    def test_windows_may_nest_and_overlap(self) -> None:
        """The meter itself keeps nothing of a window."""
        with self._opened() as meter:
            outer = meter.start()
            self._work(meter)
            inner, later = meter.start(), meter.start()
            self._work(meter)
            of_inner = _check(meter.end(inner), "an inner window")
            of_outer = _check(meter.end(outer), "the window around it")
            _check(meter.end(later), "a window that ends after the one around it")
            both = f"an inner window has {of_inner:g} J, and the one around it, twice as long, {of_outer:g} J"
            _require(of_inner <= _MOST_INNER * of_outer, f"{both}: count from what `start` returned")

    def test_a_window_without_work_is_small_or_refused(self) -> None:
        """A window that is too short is refused with a reason."""
        with self._opened() as meter:
            started = meter.start()
            reading = meter.end(started)
            if meter.shortest_window_s > 0:
                is_refused = reading.value is None and bool(reading.reason)
                _require(is_refused, f"a window that is too short has {reading.value!r} J: give None, and a reason")
            else:
                _check(reading, "an empty window")

    def test_it_says_why_it_is_not_there(self) -> None:
        """`MeterUnavailable` has the cause and the remedy."""
        if self.absent is None:
            raise SkipTest("this test class gives no `absent`, an environment without the counter")
        try:
            type(self).factory(self.absent, refused=()).close()
        except MeterUnavailable as cause:
            _require(bool(str(cause).strip()), "MeterUnavailable says no cause: its text is shown to the user")
        else:
            raise AssertionError("the meter opens where `absent` says that there is none: raise MeterUnavailable")

    @contextmanager
    def _opened(self) -> Iterator[Meter]:
        try:
            meter = type(self).factory(self.environment, refused=())
        except MeterUnavailable as cause:
            raise SkipTest(f"not on this machine: {cause}") from cause
        try:
            yield meter
        finally:
            meter.close()

    def _work(self, meter: Meter) -> None:
        self.work(max(_LEAST_S, _LONGER * meter.shortest_window_s))


def _check_counter(meter: CountingMeter) -> None:
    """The bound of a window follows from the step of its counter."""
    _require(meter.tick_s > 0, f"tick_s is {meter.tick_s!r}: the seconds between two steps, above 0")
    _require(bool(meter.domains), "domains is empty: name what is added up")
    longer = meter.longest_window_s > meter.shortest_window_s
    _require(longer, f"longest_window_s is {meter.longest_window_s!r}: longer than the shortest one")


def _check(reading: Reading, of: str) -> float:
    """Return the value of a window that has to have one."""
    value: object = reading.value
    _require(value is not None, f"{of} has no value: {reading.reason or 'and no reason, which it needs'}")
    is_number = isinstance(value, int | float) and 0 <= value < math.inf
    _require(is_number, f"{of} has {value!r} J: give a finite number from 0 on, or None with a reason")
    return float(reading.value or 0.0)


def _require(condition: bool, sentence: str) -> None:  # noqa: FBT001 - as of an assert statement
    if not condition:
        raise AssertionError(sentence)
