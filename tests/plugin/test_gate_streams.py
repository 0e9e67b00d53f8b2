"""Async calls and streams in the paired gate, on the loop of their test too."""

import pytest
from fakes.reruns import INI, REPEATED, repository

pytest.importorskip("pytest_asyncio")
pytestmark = [pytest.mark.live, pytest.mark.usefixtures("quick_pairs", "fakes_in_reach")]

WORK = """
from fakes.simulated_time import spend


async def predict():
    spend({call})


async def steady():
    spend(300)


def tokens():
    spend(200)
    for token in range(5):
        spend({item})
        yield token


async def tokens_async():
    for token in tokens():
        yield token
"""
TESTS = """
import pytest
import work


def test_call(hwperf):
    hwperf(work.predict)


def test_steady(hwperf):
    hwperf(work.steady)


@pytest.mark.hwregression(first_item_p50="2%", item_p50="2%")
def test_stream(hwperf):
    assert hwperf(work.tokens).result == [0, 1, 2, 3, 4]


@pytest.mark.asyncio
async def test_awaited(hwperf):
    assert (await hwperf.awaitable(work.tokens_async)).result == [0, 1, 2, 3, 4]
"""
ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")


def test_what_got_slower_fails_and_what_did_not_passes(pytester: pytest.Pytester) -> None:
    """Items take half as long again: the first one, with 200 µs before it, a twelfth; another call a tenth more."""
    files = {"work.py": WORK.format(call=300, item=40), "pytest.ini": INI, "test_work.py": TESTS}
    project = repository(pytester, files)
    project.write({"work.py": WORK.format(call=330, item=60)})
    project.run(*ASYNCIO, REPEATED).assert_outcomes(failed=3, passed=1)
    asked = [*(("test_stream", metric) for metric in ("latency", "first_item", "item")), ("test_awaited", "latency")]
    assert {"regressed"} == {project.compared(*one).outcome for one in [("test_call", "latency"), *asked]}
    assert "regressed" != project.compared("test_steady").outcome
