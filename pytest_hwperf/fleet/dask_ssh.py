"""The processes of dask over SSH, whose start has an end: without one, a host that hangs would hold the whole fleet."""

import asyncio
from typing import Any

from distributed.deploy import ssh
from distributed.deploy.spec import ProcessInterface

from pytest_hwperf.records.text import visible

_MOST = 300  # characters of what a host says


class Scheduler(ssh.Scheduler):  # type: ignore[misc]  # dask is not typed
    """The scheduler, without which there is no fleet."""

    def __init__(self, *, within_s: float, **given: Any) -> None:
        super().__init__(**given)
        self._within_s = within_s

    async def start(self) -> None:
        host = self.address  # which will be that of the scheduler
        if problem := await _started(super().start(), self._within_s):
            raise OSError(f"{host}: the scheduler {problem}; put another host first")


class Worker(ssh.Worker):  # type: ignore[misc]
    """A worker, without which the others go on."""

    def __init__(self, scheduler: str, *, within_s: float, **given: Any) -> None:
        super().__init__(scheduler, **given)
        self._within_s = within_s
        self.problem = ""  # why it has not been started

    async def start(self) -> None:
        """Start it, or note why it cannot be."""
        self.problem = await _started(super().start(), self._within_s)
        if self.problem:
            await ProcessInterface.start(self)  # for dask it is one that is about to come


async def _started(start: Any, within_s: float) -> str:
    """Say why something has not been started, "" where it has."""
    try:
        async with asyncio.timeout(within_s):
            await start
    except TimeoutError:
        return f"has not started within {within_s:g} s"
    except Exception as error:  # noqa: BLE001 - dask and asyncssh raise whatever a host makes of it
        return f"cannot be started ({visible(str(error) or type(error).__name__)[:_MOST]})"
    return ""
