"""pytest-timeout stands still while a test waits for fresh processes, and goes on with the time that was left."""

import signal
from typing import NoReturn

import pytest

from pytest_hwperf.records.errors import WorkerError

pytest.importorskip("pytest_timeout")
OPTIONS = ("--hwperf-sample-time=0.05", "--hwperf-energy=off")


@pytest.fixture
def left_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the timer showed during each wait; no process is started."""
    seen = list[float]()

    def ask(*_: object, **__: object) -> NoReturn:
        seen.append(signal.getitimer(signal.ITIMER_REAL)[0])
        raise WorkerError("none is started here")

    monkeypatch.setattr("pytest_hwperf.plugin.measuring.fresh.ask", ask)
    return seen


TIMED = ("-p", "pytest_timeout", "--timeout=600", "--timeout-method=signal")
NO_TIMER = pytest.mark.skipif(not hasattr(signal, "getitimer"), reason="there is no such timer on Windows")


@NO_TIMER
def test_the_timer_of_a_test_is_paused(pytester: pytest.Pytester, left_s: list[float]) -> None:
    """Where there is one: neither without a time, nor without the plugin."""
    pytester.makepyfile(
        """
        import pytest, signal

        def left_s():
            return signal.getitimer(signal.ITIMER_REAL)[0]

        @pytest.mark.hwbudget(memory_max_mb=1)
        def test_it(hwperf):
            before = left_s()
            with pytest.raises(Exception, match="none is started"):
                hwperf(int)
            assert left_s() <= before
            print("timer", "running" if left_s() > 0 else "none")
        """
    )
    cases = (
        (TIMED, "running"),
        ((*TIMED, "-o", "timeout_func_only=true"), "running"),
        (TIMED[:2], "none"),
        ((), "none"),
    )
    for options, after in cases:
        pytester.runpytest_inprocess("-s", *OPTIONS, *options).stdout.fnmatch_lines([f"*timer {after}"])
    assert [0] * len(cases) == left_s
    assert 0 == signal.getitimer(signal.ITIMER_REAL)[0]


@NO_TIMER
def test_the_timer_of_an_async_test_is_paused_in_its_own_thread(pytester: pytest.Pytester, left_s: list[float]) -> None:
    """Another one measures, and cannot set a signal."""
    pytest.importorskip("pytest_asyncio")
    pytester.makepyfile(
        """
        import pytest, signal

        async def predict():
            pass

        @pytest.mark.asyncio
        @pytest.mark.hwbudget(memory_max_mb=1)
        async def test_it(hwperf):
            with pytest.raises(Exception, match="none is started"):
                await hwperf.awaitable(predict)
            print("timer", "running" if signal.getitimer(signal.ITIMER_REAL)[0] > 0 else "none")
        """
    )
    scope = "asyncio_default_fixture_loop_scope=function"
    result = pytester.runpytest_inprocess("-s", *OPTIONS, *TIMED, "-p", "pytest_asyncio.plugin", "-o", scope)
    result.stdout.fnmatch_lines(["*timer running"])
    assert left_s == [0]
