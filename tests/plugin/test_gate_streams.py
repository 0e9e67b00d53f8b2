"""Async calls and streams in the paired gate, on the loop of their test too."""

import pytest
from fakes.reruns import INI, REPEATED, Project, repository

from pytest_hwperf.records.verdict import ComparisonOutcome

pytest.importorskip("pytest_asyncio")
pytestmark = [pytest.mark.live, pytest.mark.usefixtures("quick_pairs", "fakes_in_reach")]

WORK = """
from fakes.simulated_time import spend


async def predict():
    spend({call})


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


@pytest.mark.hwregression(first_item_p50="2%", item_p50="2%")
def test_stream(hwperf):
    assert hwperf(work.tokens).result == [0, 1, 2, 3, 4]


@pytest.mark.asyncio
async def test_awaited(hwperf):
    assert (await hwperf.awaitable(work.tokens_async)).result == [0, 1, 2, 3, 4]
"""
ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    files = {"work.py": WORK.format(call=300, item=40), "pytest.ini": INI, "test_work.py": TESTS}
    return repository(pytester, files)


def outcomes(project: Project) -> dict[str, ComparisonOutcome]:
    asked = [("test_call", "latency"), ("test_stream", "latency"), ("test_awaited", "latency")]
    found = {name: project.compared(name, metric).outcome for name, metric in asked}
    return found | {metric: project.compared("test_stream", metric).outcome for metric in ("first_item", "item")}


def test_what_got_slower_fails_and_what_did_not_passes(project: Project) -> None:
    """Items take half as long again: the first one, with 200 µs before it, a twelfth; the call itself is the same."""
    project.write({"work.py": WORK.format(call=300, item=60)})
    project.run(*ASYNCIO, REPEATED).assert_outcomes(failed=2, passed=1)
    found = outcomes(project)
    assert found.pop("test_call") != "regressed"
    assert {"regressed"} == {*found.values()}


def test_an_async_call_that_got_slower_fails(project: Project) -> None:
    project.write({"work.py": WORK.format(call=330, item=40)})
    project.run(*ASYNCIO, REPEATED).assert_outcomes(failed=1, passed=2)
    assert outcomes(project)["test_call"] == "regressed"
