"""Hosts of SSH that never were: a module that stands for asyncssh, which hangs, fails or answers as it is told."""

from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self


class Stream:
    """What a program has written, a part at a time."""

    def __init__(self, *parts: str, endless: bool = False) -> None:
        self.parts, self.endless, self.read_bytes = [*parts], endless, 0

    async def read(self, most: int) -> str:
        if self.endless:
            self.parts = ["x" * most]
        part = self.parts.pop(0) if self.parts else ""
        self.read_bytes += len(part)
        return part


@dataclass
class Connection:
    """A connection to one host, and the only program that runs by it."""

    stdout: Stream
    stderr: Stream
    commands: list[str] = field(default_factory=list)

    def create_process(self, command: str) -> Self:
        self.commands.append(command)
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Hanging:
    """A host that takes the connection, and says nothing."""

    async def __aenter__(self) -> None:
        import asyncio

        await asyncio.Event().wait()

    async def __aexit__(self, *_: object) -> None:
        return None


class Ssh:
    """What is used of asyncssh."""

    class Error(Exception):
        """As there."""

    def __init__(self, **hosts: Any) -> None:
        """Take hosts by their addresses: a connection, or an error."""
        self.hosts = hosts
        self.given: dict[str, dict[str, Any]] = {}

    def connect(self, address: str, **given: Any) -> Any:
        self.given[address] = given
        host = self.hosts[address]
        if isinstance(host, Exception):
            raise host
        return host
