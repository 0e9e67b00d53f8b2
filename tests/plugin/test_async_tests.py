"""Async callables and streams in tests: plain ones, and those of pytest-asyncio and anyio."""

import re
from collections.abc import Mapping

import pytest

pytest.importorskip("pytest_asyncio")
pytest.importorskip("anyio")

ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
ANYIO = ("-p", "anyio.pytest_plugin")
HEAD = "import asyncio, pytest\nfrom fakes.simulated_time import spend\nbudget = pytest.mark.hwbudget\n"


def check(pytester: pytest.Pytester, text: str, failures: Mapping[str, str], *options: str) -> None:
    """Run tests: these fail, each saying what the expression finds, and no other does."""
    pytester.makepyfile(test_it=HEAD + text)
    result = pytester.runpytest_inprocess("-pfakes.simulated_time", "--hwperf-energy=off", *options)
    logged = result.reprec.getreports("pytest_runtest_logreport")  # type: ignore[attr-defined] # of runs in process
    assert [] != logged
    failed = {one.nodeid.rpartition("::")[2]: one.longreprtext for one in logged if one.failed}
    assert failures.keys() == failed.keys()
    assert {} == {name: failed[name] for name, found in failures.items() if not re.search(found, failed[name])}
    assert "pytest_hwperf/" not in result.stdout.str()


def test_async_functions_and_streams_are_measured_in_plain_tests(pytester: pytest.Pytester) -> None:
    """The first item takes 1 ms, and each of three others 0.1 ms: 3077 items a second."""
    text = """
async def predict(x):
    spend(1000)
    return x
@budget(latency_p95_ms=2)
def test_kept(hwperf): assert hwperf(predict, 3).result == 3
@budget(latency_p50_ms=0.5)
def test_slow(hwperf): hwperf(lambda: predict(3))

def tokens():
    spend(1000)
    yield "a"
    for token in "bcd":
        spend(100)
        yield token
@budget(first_item_p95_ms=1.2, item_p95_ms=0.2, throughput_min_ips=2500)
def test_stream(hwperf):
    run = hwperf(tokens)
    assert run.result == list("abcd")
    assert run.sample("first_item").per == "call"
@budget(first_item_p95_ms=0.5, item_p95_ms=0.05, throughput_min_ips=5000)
def test_slow_stream(hwperf): hwperf(tokens)
@budget(item_p95_ms=1)
def test_no_stream(hwperf): hwperf(spend, 100)

@budget(latency_p50_ms=1)
async def test_that_no_plugin_runs(): pass
"""
    failures = {
        "test_slow": "latency p50 .*limit 500 µs; ",
        "test_slow_stream": r"(?s)first_item p95 1\.0.* ms.*\nitem p95 10.*µs.*\nitem_throughput .*limit >= 5 k",
        "test_no_stream": "it needs a callable that returns a generator",
        "test_that_no_plugin_runs": "async def functions are not natively supported",
    }
    check(pytester, text, failures)


BODY = """
loops = set()
@pytest.fixture
def row():
    return 3
class TestClass:
    @budget(latency_p95_ms={limit})
    @pytest.mark.{plugin}
    async def test_{name}(self, row):
        assert row == 3
        loops.add(asyncio.get_running_loop())
        assert len(loops) == 1
        spend(1000)
"""


def bodies(plugin: str) -> str:
    """Return the text of two async tests whose bodies are the calls: on the loop of its plugin, with its fixtures."""
    limits = {"body_kept": 2, "body_slow": 0.5}
    return "\n".join(BODY.format(plugin=plugin, name=name, limit=limit) for name, limit in limits.items())


def test_tests_of_pytest_asyncio_measure_on_their_own_loop(pytester: pytest.Pytester) -> None:
    """Where their fixtures live: a future belongs to its loop."""
    text = """
import pytest_asyncio
@pytest_asyncio.fixture
async def answer():
    future = asyncio.get_running_loop().create_future()
    future.set_result(42)
    return future
async def check(hwperf, answer):
    async def predict():
        spend(1000)
        return await answer
    run = await hwperf.awaitable(predict)
    assert run.result == 42
    assert len(run.sample("latency").values) >= 300
@pytest.mark.asyncio
async def test_future(hwperf, answer): await check(hwperf, answer)
@budget(latency_p95_ms=2)
@pytest.mark.asyncio
async def test_future_with_budget(hwperf, answer): await check(hwperf, answer)

async def breaks(): raise ValueError("no such row")
@pytest.mark.asyncio
async def test_breaks(hwperf):
    await hwperf.awaitable(breaks)
@pytest.mark.asyncio
async def test_not_awaited(hwperf):
    hwperf(breaks)
"""
    failures = {
        "test_body_slow": "limit 500 µs; ",
        "test_breaks": r"(?s)await hwperf.awaitable\(breaks\).*\nE +ValueError: no such row",
        "test_not_awaited": r"\nE .*In an async test write run = await hwperf.awaitable\(predict, X\)",
    }
    check(pytester, text + bodies("asyncio"), failures, *ASYNCIO)


def test_tests_of_anyio_measure_on_each_of_their_loops(pytester: pytest.Pytester) -> None:
    """Also on trio's, which knows nothing of asyncio."""
    pytest.importorskip("trio")
    text = """
import anyio
async def predict():
    spend(1000)
    await anyio.sleep(0)
    return 1
async def tokens():
    for token in range(3):
        spend(100)
        yield token
@pytest.mark.anyio
async def test_each_loop(hwperf):
    assert (await hwperf.awaitable(predict, label="answer")).result == 1
    assert (await hwperf.awaitable(tokens, label="tokens")).result == [0, 1, 2]
"""
    slow = {"test_body_slow[asyncio]": "limit 500 µs; "}
    check(pytester, text + bodies("anyio"), slow, *ANYIO, "-k", "each_loop or not trio")


def test_nothing_is_sampled_where_measuring_is_disabled(pytester: pytest.Pytester) -> None:
    """A body reads the times of a single call."""
    text = """
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
    check(pytester, text, {}, "--hwperf-disable", *ASYNCIO)


@pytest.mark.live
@pytest.mark.usefixtures("fakes_in_reach")
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
    options = ("--hwperf-energy=off", "--hwperf-sample-time=0.1", "-p", "fakes.short_growth", "-v")
    result = pytester.runpytest_inprocess(*ASYNCIO, *options)
    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines([r" +memory .* passed"])
