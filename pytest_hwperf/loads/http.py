"""Requests over HTTP: a client whose connections are as many as its load needs. It needs the extra `http`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

from pytest_hwperf.core.errors import MeasurementError, UsageProblem
from pytest_hwperf.core.load_plans import shown_address
from pytest_hwperf.core.structs import Record

_LONGEST = 200  # characters of an answer that are quoted


class Request(Record, frozen=True, kw_only=True):
    """What every request of a load has in common."""

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = {}
    timeout_s: float = 10.0  # after which a request has failed


class Runner(Protocol):
    """What runs the client's own work on the loop of its requests."""

    def run(self, work: Any) -> Any:
        """Await it."""


class Client:
    """Sends requests; what is no success raises."""

    def __init__(self, request: Request, connections: int) -> None:
        """Open nothing yet.

        Args:
            request: what each has in common.
            connections: at most; each stays open for the next request.

        Raises:
            UsageProblem: httpx is not installed, or a header is none.
        """
        try:
            import httpx
        except ImportError:
            raise UsageProblem(
                "requests are sent by httpx, which is not installed: pip install 'pytest-hwperf[http]'"
            ) from None
        self._request = request
        self._name = f"{request.method} {shown_address(request.url)}"
        self._error = httpx.HTTPError
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=None)
        # No proxy and no password of the environment: a load goes where it was sent, and nowhere else.
        timeout = httpx.Timeout(request.timeout_s, pool=None)
        try:
            self._client = httpx.AsyncClient(
                limits=limits, timeout=timeout, trust_env=False, headers=dict(request.headers)
            )
        except (TypeError, ValueError) as error:
            raise UsageProblem(f"the headers of {self._name} cannot be sent: {error}") from error

    async def send(self, body: bytes) -> bytes:
        """Send one request and return the body of its answer.

        Raises:
            MeasurementError: no answer in time, no connection, or a status that is no success.
        """
        request = self._request
        try:
            answer = await self._client.request(request.method, request.url, content=body or None)
        except self._error as error:
            said = str(error).replace(request.url, shown_address(request.url))
            raise MeasurementError(f"{self._name}: {type(error).__name__} {said}".rstrip()) from None
        if not answer.is_success:
            said = " ".join(answer.text[:_LONGEST].split())
            raise MeasurementError(f"{self._name}: {answer.status_code} {said}".rstrip())
        content: bytes = answer.content
        return content

    @contextmanager
    def opened(self, loop: Runner) -> Iterator[None]:
        """Close all connections at the end."""
        try:
            yield
        finally:
            loop.run(self._client.aclose())


def without_port(url: str) -> str:
    """Return an address by which measurements are told apart: a server under test has another port every time."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{parts.path}"


def bodies_of(X: Any, rows: int) -> list[bytes]:
    """Return the bodies of requests: `rows` rows each, as JSON; texts and bytes are sent as they are, one each.

    Raises:
        UsageProblem: rows that are neither.
    """
    if isinstance(X, str | bytes):
        X = [X]
    if len(X) > 0 and isinstance(X[0], str | bytes):
        return [one.encode() if isinstance(one, str) else one for one in X]
    whole = range(0, len(X) - rows + 1, rows)
    try:
        return [json.dumps(_plain(X[start : start + rows])).encode() for start in whole]
    except (TypeError, ValueError) as error:
        raise UsageProblem(f"rows of requests are numbers, texts, bytes or what JSON takes: {error}") from error


def headers_for(bodies: Sequence[bytes], given: Mapping[str, str], *, raw: bool) -> Mapping[str, str]:
    """Return the headers: JSON is said to be JSON, unless the user says otherwise."""
    named = {name.lower() for name in given}
    json_too = bool(bodies and bodies[0]) and not raw and "content-type" not in named
    return {**({"content-type": "application/json"} if json_too else {}), **given}


def _plain(rows: Any) -> Any:
    return rows.tolist() if hasattr(rows, "tolist") else list(rows)
