"""`--hwperf-all`: tests that nobody wrote to be measured, each of which is measured if it can be called again."""

from collections.abc import Mapping
from functools import partial
from time import perf_counter_ns
from typing import Any

import pytest

from pytest_hwperf.host.tracing import untraced
from pytest_hwperf.measure.inputs import InputChangedError
from pytest_hwperf.measure.rounds import USED_UP, is_used_up
from pytest_hwperf.measure.subjects import Subject
from pytest_hwperf.plugin.measurement import empty_run
from pytest_hwperf.plugin.session import is_benchmark_body, node_of, session_of, test_of
from pytest_hwperf.records.errors import HwperfError, MeasurementError
from pytest_hwperf.records.messages import Statement, said, state
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.run import Run, replace
from pytest_hwperf.records.verdict import Skip

_RAISED = (Exception, pytest.fail.Exception, pytest.skip.Exception, pytest.xfail.Exception)
_CALLS_AGAIN = 2  # the faster one tells how long a call takes: the first call imports and fills caches
_LONGEST_REASON = 200  # characters of what a call has raised
_HAS_RAISED = "raised"  # fact about a body that is not repeatable
_SECOND = 1_000_000_000  # ns


class FixtureValues:
    """The values that a body is called with."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def why_not_again(self) -> str:
        """Say which of them a call uses up, as far as that can be seen; "" where none."""
        return next(
            (f"its fixture {name!r} {USED_UP}" for name, value in self._values.items() if is_used_up(value)), ""
        )


def measure_if_repeatable(item: pytest.Item, subject: Subject, label: str) -> Run:
    """Measure the body of a test that can be called again and is long enough; else return a run that says why not.

    A process of a pair leaves the test there with the reason, and tells its conductor of a call that is too short.
    """
    session = session_of(item.config)
    is_plain = not session.judges and not session.takes_turns
    if is_plain or session.has_failing_calls(node_of(item), label):
        return session.measure(item, subject, label)
    why = why_not_measured(item, subject)
    if session.takes_turns:
        if why is not None and why.kind != "too short":
            test_of(item).fails_again = _HAS_RAISED in why.numbers
            pytest.skip(str(why))
        test_of(item).short_s = why.numbers["call_s"] if why is not None else 0.0
        return session.measure(item, subject, label)
    if why is None:
        try:
            return session.measure(item, subject, label)
        except MeasurementError as error:
            why = said(error)
        except HwperfError:
            raise
        except _RAISED as error:
            why = _not_again(error)
    return unmeasured_run(item, why, label)


def why_not_measured(item: pytest.Item, subject: Subject) -> Statement | None:
    """Call the body three times, and say why it is not measured; None where it is."""
    # Whoever marks a test as a benchmark means it, however short it is.
    least_s = 0.0 if is_benchmark_body(item) else session_of(item.config).settings.shortest_s
    loaded, fixtures = subject.load(), test_of(item).fixtures
    with loaded.scope():
        stream = loaded.stream()
        try:
            test_of(item).first_s = stream.first().seconds
        except InputChangedError as error:
            return state("not repeatable", why=error.why)
        if fixtures is not None and (used_up := fixtures.why_not_again()):
            return state("not repeatable", why=used_up)
        try:
            taken = untraced(partial(stream.times, _CALLS_AGAIN, perf_counter_ns))
        except InputChangedError as error:
            return state("not repeatable", why=error.why)
        except _RAISED as error:
            return _not_again(error)
    call_s = min(taken) / _SECOND
    if not call_s:
        return state("below the clock")
    return state("too short", call_s=call_s, least_s=least_s) if call_s < least_s else None


def unmeasured_run(item: pytest.Item, why: Statement, label: str = "") -> Run:
    """Return the run of a test that is not measured: as what cannot be compared, or where nothing is, as a skip."""
    settings, run = session_of(item.config).settings, empty_run(item.config, node_of(item), label)
    if settings.against or settings.compare:
        return replace(run, unmeasured={MEDIAN_LATENCY[0]: why})
    test_of(item).skips.append(Skip(test=node_of(item), scenario="", cause=why))
    return run


def _not_again(error: BaseException) -> Statement:
    lines = str(error).splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return state(
        "not repeatable", why=f"a call after the first one raised {text}"[:_LONGEST_REASON], **{_HAS_RAISED: 1.0}
    )
