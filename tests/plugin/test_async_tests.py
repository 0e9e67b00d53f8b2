"""Async callables and streams in tests: plain ones, and those of pytest-asyncio and anyio."""

import pytest

pytest.importorskip("pytest_asyncio")
pytest.importorskip("anyio")

ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
ANYIO = ("-p", "anyio.pytest_plugin")
QUICK = ("-p", "fakes.simulated_time", "--hwperf-energy=off")


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*QUICK, *options)


def test_an_async_function_is_measured_in_a_plain_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from fakes.simulated_time import spend
        async def predict(x):
            spend(1000)
            return x
        @pytest.mark.hwbudget(latency_p95_ms=2)
        def test_it(hwperf):
            assert hwperf(predict, 3).result == 3
        @pytest.mark.hwbudget(latency_p50_ms=0.5)
        def test_slow(hwperf):
            hwperf(lambda: predict(3))
        """
    )
    result = run(pytester)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["latency p50 *limit 500 µs; *"])


def test_budgets_of_a_stream_are_judged(pytester: pytest.Pytester) -> None:
    """The first item takes 1 ms, and each of three others 0.1 ms: 3077 items a second."""
    pytester.makepyfile(
        """
        import pytest
        from fakes.simulated_time import spend
        def tokens():
            spend(1000)
            yield "a"
            for token in "bcd":
                spend(100)
                yield token
        @pytest.mark.hwbudget(first_item_p95_ms=1.2, item_p95_ms=0.2, throughput_min_ips=2500)
        def test_kept(hwperf):
            run = hwperf(tokens)
            assert run.result == list("abcd")
            assert run.sample("first_item").per == "call"
        @pytest.mark.hwbudget(first_item_p95_ms=0.5, item_p95_ms=0.05, throughput_min_ips=5000)
        def test_missed(hwperf):
            hwperf(tokens)
        @pytest.mark.hwbudget(item_p95_ms=1)
        def test_none(hwperf):
            hwperf(spend, 100)
        """
    )
    result = run(pytester)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        ["*first_item p95 1.0* ms*", "*item p95 10*µs*", "*it needs a callable that returns a generator*"]
    )


@pytest.mark.parametrize("marker", ["", "@pytest.mark.hwbudget(latency_p95_ms=2)"])
def test_an_async_test_of_pytest_asyncio_measures_on_its_own_loop(pytester: pytest.Pytester, marker: str) -> None:
    """Where its fixtures live: a future belongs to its loop."""
    pytester.makepyfile(
        f"""
        import asyncio, pytest, pytest_asyncio
        from fakes.simulated_time import spend
        @pytest_asyncio.fixture
        async def answer():
            future = asyncio.get_running_loop().create_future()
            future.set_result(42)
            return future
        @pytest.mark.asyncio
        {marker}
        async def test_it(hwperf, answer):
            async def predict():
                spend(1000)
                return await answer
            run = await hwperf.awaitable(predict)
            assert run.result == 42
            assert len(run.sample("latency").values) >= 300
        """
    )
    result = run(pytester, *ASYNCIO)
    result.assert_outcomes(passed=1)


BODY = """
import asyncio, pytest
from fakes.simulated_time import spend
loops = set()
@pytest.fixture
def row():
    return 3
class TestClass:
    @pytest.mark.hwbudget(latency_p95_ms={limit})
    @pytest.mark.{plugin}
    async def test_it(self, row):
        assert row == 3
        loops.add(asyncio.get_running_loop())
        assert len(loops) == 1
        spend(1000)
"""


@pytest.mark.parametrize(("plugin", "options"), [("asyncio", ASYNCIO), ("anyio", ANYIO)])
@pytest.mark.parametrize(("limit", "outcome"), [(2, "passed"), (0.5, "failed")])
def test_the_body_of_an_async_test_with_a_budget_is_the_call(
    pytester: pytest.Pytester, plugin: str, options: tuple[str, ...], limit: float, outcome: str
) -> None:
    """On the loop of its plugin, with its fixtures."""
    pytester.makepyfile(BODY.format(plugin=plugin, limit=limit))
    result = run(pytester, *options, "-k", "not trio")
    assert result.parseoutcomes() == {outcome: 1} | ({"deselected": 1} if plugin == "anyio" else {})
    assert ("limit 500 µs; " in result.stdout.str()) == (outcome == "failed")


def test_an_async_test_that_no_plugin_runs_fails_as_pytest_has_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.hwbudget(latency_p50_ms=1)\nasync def test_it(): pass")
    result = run(pytester)
    result.stdout.fnmatch_lines(["*async def functions are not natively supported*"])


def test_an_async_test_that_does_not_await_its_measurement_is_told_how(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        async def predict(): pass
        @pytest.mark.asyncio
        async def test_it(hwperf):
            hwperf(predict)
        """
    )
    result = run(pytester, *ASYNCIO)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *In an async test write run = await hwperf.awaitable(predict, X)"])
    assert "pytest_hwperf/plugin" not in result.stdout.str()


def test_what_an_awaited_call_raises_points_at_the_users_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        async def predict(): raise ValueError("no such row")
        @pytest.mark.asyncio
        async def test_it(hwperf):
            await hwperf.awaitable(predict)
        """
    )
    result = run(pytester, *ASYNCIO)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *ValueError: no such row"])
    assert "pytest_hwperf/" not in result.stdout.str()


def test_an_async_test_of_anyio_measures_on_each_of_its_loops(pytester: pytest.Pytester) -> None:
    """Also on trio's, which knows nothing of asyncio."""
    pytest.importorskip("trio")
    pytester.makepyfile(
        """
        import anyio, pytest
        from fakes.simulated_time import spend
        async def predict():
            spend(1000)
            await anyio.sleep(0)
            return 1
        async def tokens():
            for token in range(3):
                spend(100)
                yield token
        @pytest.mark.anyio
        async def test_it(hwperf):
            assert (await hwperf.awaitable(predict, label="answer")).result == 1
            assert (await hwperf.awaitable(tokens, label="tokens")).result == [0, 1, 2]
        """
    )
    result = run(pytester, *ANYIO)
    result.assert_outcomes(passed=2)


def test_nothing_is_sampled_where_measuring_is_disabled(pytester: pytest.Pytester) -> None:
    """A body reads the times of a single call."""
    pytester.makepyfile(
        """
        import pytest
        calls = []
        async def tokens():
            calls.append(1)
            yield 1
            yield 2
        @pytest.mark.asyncio
        async def test_it(hwperf):
            run = await hwperf.awaitable(tokens)
            assert [len(calls), run.result] == [1, [1, 2]]
            assert [len(run.sample(name).values) for name in ("first_item", "item")] == [1, 1]
        """
    )
    pytester.runpytest_inprocess("--hwperf-disable", *ASYNCIO).assert_outcomes(passed=1)


@pytest.mark.live
def test_memory_of_an_async_call_is_measured(pytester: pytest.Pytester) -> None:
    """In fresh processes, each on the loop of its test."""
    pytester.makepyfile(
        """
        import pytest
        async def predict(): return bytes(10_000_000)
        @pytest.mark.asyncio
        @pytest.mark.hwbudget(memory_max_mb=30)
        async def test_it(hwperf):
            await hwperf.awaitable(predict)
        """
    )
    result = pytester.runpytest_subprocess(*ASYNCIO, "--hwperf-energy=off", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines([r" +memory .* passed"])
