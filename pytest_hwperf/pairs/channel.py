"""The conductor's end of a connection to a process of a pair: localhost TCP, a token, deadlines."""

import secrets
import selectors
import socket
import subprocess
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Protocol

from pytest_hwperf.core.errors import WorkerError
from pytest_hwperf.core.evidence import Side
from pytest_hwperf.core.statements import Statement, state
from pytest_hwperf.host.launch import Launched
from pytest_hwperf.host.worker_protocol import PROTOCOL
from pytest_hwperf.pairs.messages import Frame, Hello, ToWorker, decode_frame, encode_frame, read_exactly

_SLICE_S = 0.2  # between two checks whether the process lives: a forked child may hold its end of the connection
_EXIT_S = 0.5  # from the end of a connection to the end of its process
_HELLO_S = 10.0  # for a client that connects and sends nothing


class WorkerLostError(WorkerError):
    """A process of a pair crashed, hung, or broke the protocol; `side` says which, None where both are involved."""

    def __init__(self, sentence: str, *, side: Side | None = None, log: str = "") -> None:
        super().__init__(f"{side}: {sentence}" if side else sentence, log=log)
        self.side = side


def loss(error: WorkerLostError) -> Statement:
    """Return why a pair was lost, with the side that was."""
    return state("lost", why=str(error), side=error.side or "")


class Endpoint(Protocol):
    """One process of a pair, as the conductor sees it."""

    def send(self, message: ToWorker) -> None:
        """Send one message.

        Raises:
            WorkerLostError: the process is gone.
        """

    def receive(self, deadline_s: float) -> Frame:
        """Wait for the next message.

        Raises:
            WorkerLostError: the process is gone, or silent for longer than `deadline_s`.
        """


class Listener:
    """A listening socket on this machine, open for one pair."""

    def __init__(self) -> None:
        """Open it on a free port."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.token = secrets.token_hex(16)

    def accept(self, side: Side, launched: Launched, deadline_s: float) -> "Connection":
        """Wait for the process that was launched for `side`; a client without the token is refused.

        Raises:
            WorkerLostError: it ended, or did not connect in time.
        """
        until = monotonic() + deadline_s
        while monotonic() < until:
            if _readable(self._listener):
                connection = Connection(self._listener.accept()[0], launched, side)
                try:
                    if connection.is_from(self.token, side):
                        return connection
                except WorkerLostError:
                    connection.close()
                    raise
                connection.close()
            elif launched.process.poll() is not None:
                raise WorkerLostError(f"ended with code {launched.process.returncode} before it had connected")
        raise WorkerLostError(f"did not connect within {deadline_s:g} s")

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()


class Connection:
    """The connection to one process."""

    def __init__(
        self,
        connection: socket.socket,
        launched: Launched,
        side: Side | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Exchange messages with `launched`, which is one side, over `connection`."""
        self._side = side
        self._connection = connection
        self._launched = launched
        self._clock = clock
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: ToWorker) -> None:
        """Send one message.

        Raises:
            WorkerLostError: the process is gone.
        """
        try:
            self._connection.sendall(encode_frame(Frame(message=message)))
        except OSError as error:
            raise self._gone() from error

    def receive(self, deadline_s: float) -> Frame:
        """Wait for the next message.

        Raises:
            WorkerLostError: the process is gone, or silent for longer than `deadline_s`.
        """
        until = self._clock() + deadline_s
        try:
            wait = partial(self._wait, until, deadline_s)
            return decode_frame(lambda count: read_exactly(self._connection, count, wait))
        except OSError as error:
            raise self._gone() from error

    def is_from(self, token: str, side: str) -> bool:
        """Whether it was opened by the process of that side.

        Raises:
            WorkerLostError: it is, but uses another protocol.
        """
        try:
            hello = self.receive(_HELLO_S).message
        except WorkerError:
            return False
        if not isinstance(hello, Hello) or not secrets.compare_digest(
            hello.token.encode(errors="surrogatepass"), token.encode()
        ):
            return False
        if hello.protocol != PROTOCOL:
            raise WorkerLostError(
                f"uses protocol {hello.protocol} instead of {PROTOCOL}: both sides need the same version of "
                "pytest-hwperf"
            )
        return hello.side == side

    def close(self) -> None:
        """Close this end: the process ends itself then."""
        self._connection.close()

    def _wait(self, until: float, deadline_s: float) -> None:
        while not _readable(self._connection):
            if self._launched.process.poll() is not None and not _readable(self._connection):
                raise self._gone()
            if self._clock() > until:
                raise WorkerLostError(f"was silent for {deadline_s:.3g} s")

    def _gone(self) -> WorkerLostError:
        try:  # its end of the connection closes a moment before its code is known
            how = f"ended with code {self._launched.process.wait(_EXIT_S)}"
        except subprocess.TimeoutExpired:
            how = "closed its connection"
        return WorkerLostError(f"{how} in the middle of the pair", side=self._side)


def _readable(connection: socket.socket) -> bool:
    with selectors.DefaultSelector() as selector:  # select() itself ends at 1024 open files
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(_SLICE_S))
