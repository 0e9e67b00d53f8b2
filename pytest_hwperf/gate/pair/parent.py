"""Sides of a pair that are forked from one parent: what both import from the same files is imported once for both.

Each pair has a fresh parent with a hash seed and a memory layout of its own, which both sides inherit. Under equal code
both children are alike, and which of them is forked first is drawn: the exact test holds as with two processes.
"""

import json
import math
import os
import selectors
import socket
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import IO, Any, Self, cast

from pytest_hwperf.host import pair_parent, signals, workdirs
from pytest_hwperf.host.interruption import uninterrupted
from pytest_hwperf.host.launch import Command, Launched, environment_of, hold, inherited, sockets, start
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.evidence import Side
from pytest_hwperf.stats.pairs.hypotheses import SIDES

_FORK_S = 30.0
_ANSWERS = 1 << 16  # bytes that are read at once


class ParentLostError(WorkerError):
    """A parent has ended, or says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imports:
    """What the parent of a pair imports, and the environment in which it does so."""

    modules: Mapping[str, str]  # name → file, in the order of their import
    environment: Mapping[str, str]  # as far as both sides have the same
    differing: Collection[str]  # variables by which they differ
    trees: Collection[str] = ()  # folders in which one side alone finds modules


@dataclass(slots=True)
class Parent:
    """A process that imports, and is then forked once; used as a context, it is gone afterwards with both sides."""

    folder: Path  # for the logs and files of both sides
    seed: int  # PYTHONHASHSEED
    connections: Mapping[Side, tuple[socket.socket, socket.socket]]  # ours, and that of the side
    pid: int
    orders: IO[bytes]
    answers: IO[bytes]
    codes: dict[str, int] = field(default_factory=dict)  # side → how it has ended
    _stack: ExitStack = field(default_factory=ExitStack)
    _answers: list[Mapping[str, Any]] = field(default_factory=list)  # that nobody has asked for yet
    _rest: bytes = b""
    _answered: Mapping[str, Any] | None = None
    is_over: bool = False

    @classmethod
    def start(cls, command: Command, imports: Imports, seed: int) -> "Parent":
        """Start one that imports what both sides have in common."""
        with ExitStack() as stack, uninterrupted():
            folder = stack.enter_context(workdirs.workdir())
            connections: dict[Side, tuple[socket.socket, socket.socket]] = {side: sockets() for side in SIDES}
            for one in (one for both in connections.values() for one in both):
                stack.callback(one.close)
            launched, program = start(
                [command.interpreter, *command.safely, pair_parent.__file__],
                folder / "log",
                folder,
                {**imports.environment, "PYTHONHASHSEED": str(seed)},
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                **inherited([theirs.fileno() for _, theirs in connections.values()]),
            )
            stack.callback(launched.end)
            orders, answers = (stack.enter_context(cast("IO[bytes]", pipe)) for pipe in (program.stdin, program.stdout))
            parent = cls(folder, seed, connections, program.pid, orders, answers)
            told = {"modules": imports.modules, "differing": sorted(imports.differing), "trees": [*imports.trees]}
            parent._send(told)
            parent._stack = stack.pop_all()
        return parent

    def __enter__(self) -> Self:
        """Use it for one pair."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.end()

    def end(self) -> None:
        with uninterrupted():
            self.is_over = True
            self._stack.close()

    def refused(self, seconds: float) -> Mapping[str, str]:
        """Wait until it has imported; return the packages that each side has to import itself, with the reasons."""
        self.go_on()
        if self._answered is None:
            self._answered = self._answer("refused", seconds)
        return dict(self._answered["refused"])

    @property
    def imported(self) -> Collection[str]:
        """Names of the modules that it has imported, once it has told."""
        return self._answered["imported"] if self._answered else ()

    def wait(self) -> None:
        """Stop it until it is to go on: a pair needs all processors."""
        self._hold(still=True)

    def go_on(self) -> None:
        """Let it compute."""
        self._hold(still=False)

    def _hold(self, *, still: bool) -> None:
        if not self.is_over:  # else its number may be that of another process
            hold(self.pid, still=still)

    def fork(self, sides: Sequence[tuple[Side, Command, WorkerTask]]) -> dict[Side, Launched]:
        """Fork both sides in this order."""
        told = []
        for side, command, task in sides:
            place = self.folder / side
            place.mkdir(exist_ok=True)
            (place / "log").touch()
            _, theirs = self.connections[side]
            whole = environment_of(command, task, {"PYTHONHASHSEED": str(self.seed)})
            told.append(
                {
                    "side": side,
                    "module": command.module,
                    "arguments": command.for_module(place),
                    "directory": str(command.directory),
                    "environment": whole,
                    "log": str(place / "log"),
                    "descriptor": theirs.fileno(),
                }
            )
        with uninterrupted():
            self._send({"sides": told})
            pids = {side: signals.own_child(pid) for side, pid in self._answer("forked", _FORK_S)["forked"].items()}
        for _, theirs in self.connections.values():
            theirs.close()
        return {side: Launched(process=Child(pids[side], side, self), log=self.folder / side / "log") for side in pids}

    def code_of(self, side: str, seconds: float) -> int | None:
        """Return how a side has ended, None where it has not within this time."""
        self.go_on()
        until = monotonic() + seconds
        while side not in self.codes:
            if self.is_over:
                return -1
            if not self._read(until - monotonic()):
                return None
        return self.codes[side]

    def _send(self, order: Mapping[str, Any]) -> None:
        text = json.dumps(order).encode() + b"\n"
        with suppress(BrokenPipeError):  # its answer will be missing
            while text:
                text = text[self.orders.write(text) :]

    def _answer(self, kind: str, seconds: float) -> Mapping[str, Any]:
        until = monotonic() + seconds
        while not self._answers:
            if self.is_over or not self._read(until - monotonic()):
                raise ParentLostError(f"the parent of a pair {'has ended' if self.is_over else 'is silent'}")
        answer = self._answers.pop(0)
        if kind not in answer:
            raise ParentLostError(f"the parent of a pair has answered {sorted(answer)} where {kind!r} was due")
        return answer

    def _read(self, seconds: float) -> bool:
        """Read what has come within this time; return whether anything has, its end included."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.answers, selectors.EVENT_READ)
            if not selector.select(None if seconds == math.inf else max(0.0, seconds)):
                return False
        part = os.read(self.answers.fileno(), _ANSWERS)
        self.is_over |= not part
        *lines, self._rest = (self._rest + part).split(b"\n")
        for answer in map(json.loads, lines):
            if "ended" in answer:
                self.codes[answer["ended"]] = answer["code"]
            else:
                self._answers.append(answer)
        return True


@dataclass(slots=True)
class Child:
    """A side that was forked, as `host.launch` knows processes."""

    pid: int
    side: Side
    parent: Parent

    def poll(self) -> int | None:
        """Return how it has ended, None while it runs."""
        return self.parent.code_of(self.side, 0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, or that of its parent."""
        code = self.parent.code_of(self.side, math.inf if timeout is None else timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.side, timeout or 0.0)
        return code
