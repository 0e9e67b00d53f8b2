"""The processes of dask over SSH do not hold a fleet: one that hangs or fails while it starts is named."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

dask_ssh = pytest.importorskip("pytest_hwperf.fleet.dask_ssh", reason="the extra fleet is not installed")
from distributed.deploy import ssh  # noqa: E402 - not before it is known to be there
from distributed.deploy.spec import ProcessInterface  # noqa: E402

GIVEN = {"address": "a", "connect_options": {}, "kwargs": {"name": "a"}, "remote_python": "python3"}


async def hang(_: object) -> None:
    await asyncio.Event().wait()


async def fail(_: object) -> None:
    raise ValueError("Worker failed\x1b to start")


async def work(process: Any) -> None:
    await ProcessInterface.start(process)


def started(cls: str, start: Callable[[object], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(getattr(ssh, cls), "start", start)

    async def begin() -> Any:
        place = ("tcp://s",) if cls == "Worker" else ()
        return await getattr(dask_ssh, cls)(*place, within_s=0.01, **GIVEN)

    return asyncio.run(begin())


@pytest.mark.parametrize(
    ("start", "problem"),
    [
        (work, ""),
        (hang, "has not started within 0.01 s"),
        (fail, "cannot be started (Worker failed"),
    ],
)
def test_a_worker_that_does_not_start_is_left_out(
    start: Callable[[object], Awaitable[None]], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = started("Worker", start, monkeypatch)
    assert "running" == found.status.name
    assert found.problem.startswith(problem)
    assert bool(found.problem) == bool(problem)
    assert "\x1b" not in found.problem


def test_without_a_scheduler_there_is_no_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "running" == started("Scheduler", work, monkeypatch).status.name

    with pytest.raises(OSError, match=r"a: the scheduler has not started within 0.01 s; put another host first"):
        started("Scheduler", hang, monkeypatch)
