"""Requests over HTTP: a client whose connections are as many as its load needs. It needs the extra `http`.

A server may be broken or hostile: each request ends within its time, and an answer has a largest size, unpacked too.
"""

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NoReturn, Protocol
from urllib.parse import urlsplit

from pytest_hwperf.host.extras import require
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.markers import TIMEOUT_S, shown_address
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import shortened

LARGEST_ANSWER = 64_000_000  # bytes, unpacked
_LARGEST_TOGETHER = 4 * LARGEST_ANSWER  # of all answers that are being read
_MOST_ENCODINGS = 2  # of an answer, one around the other: unpacking each takes time that no deadline cuts off
_LONGEST = 200  # characters of an answer that are quoted


class Request(Record, frozen=True, kw_only=True):
    """What every request of a load has in common."""

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = {}
    timeout_s: float = TIMEOUT_S  # after which a request has failed, whatever has arrived of its answer


class Runner(Protocol):
    """What runs the client's own work on the loop of its requests."""

    def run(self, work: Any) -> Any:
        """Await it."""


class Client:
    """Sends requests; what is no success raises."""

    def __init__(self, request: Request, connections: int) -> None:
        require("http", "requests are sent by httpx, which is not installed", "httpx", "anyio")
        import anyio
        import httpx

        self._request = request
        self._name = f"{request.method} {shown_address(request.url)}"
        self._error, self._deadline, self._held = httpx.HTTPError, anyio.fail_after, 0
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=None)
        # What is unpacked here, whatever else is installed.
        headers = {
            "accept-encoding": "gzip, deflate",
            **{name.lower(): value for name, value in request.headers.items()},
        }
        # No proxy and no password of the environment: a load goes where it was sent, and nowhere else.
        try:
            self._client = httpx.AsyncClient(limits=limits, timeout=None, trust_env=False, headers=headers)  # noqa: S113 - `send` has a deadline around the whole request
        except (TypeError, ValueError) as error:
            raise UsageProblem(f"the headers of {self._name} cannot be sent: {error}") from error

    async def send(self, body: bytes) -> bytes:
        request = self._request
        try:
            with self._deadline(request.timeout_s):
                async with self._client.stream(request.method, request.url, content=body or None) as answer:
                    content = _unpacked(await self._received(answer), answer.headers.get("content-encoding", ""))
        except TimeoutError:
            raise MeasurementError(f"{self._name}: no whole answer within {request.timeout_s:g} s") from None
        except _AnswerError as error:
            raise MeasurementError(f"{self._name}: {error}") from None
        except self._error as error:
            said = str(error).replace(request.url, shown_address(request.url))
            raise MeasurementError(f"{self._name}: {type(error).__name__} {said}".rstrip()) from None
        if not answer.is_success:
            said = " ".join(content[:_LONGEST].decode(errors="replace").split())
            raise MeasurementError(f"{self._name}: {answer.status_code} {said}".rstrip())
        return content

    async def _received(self, answer: Any) -> bytes:
        """Return an answer as it came, still packed."""
        parts, size = list[bytes](), 0
        try:
            async for part in answer.aiter_raw():
                size += len(part)
                self._held += len(part)
                if size > LARGEST_ANSWER or self._held > _LARGEST_TOGETHER:
                    raise _AnswerError(_TOO_LARGE)
                parts.append(part)
        finally:
            self._held -= size
        return b"".join(parts)

    async def sent_once(self, body: bytes = b"") -> bytes:
        async with self._client:
            return await self.send(body)

    @contextmanager
    def opened(self, loop: Runner) -> Iterator[None]:
        try:
            yield
        finally:
            loop.run(self._client.aclose())


class _AnswerError(Exception):
    """An answer that is not taken."""


_TOO_LARGE = f"the answer is larger than {LARGEST_ANSWER / 1e6:g} MB"


def _unpacked(content: bytes, encodings: str) -> bytes:
    """Return an answer as it was before each of its encodings, the last first; one that is not known is left."""
    named = encodings.lower().split(",")
    if len(named) > _MOST_ENCODINGS:
        raise _AnswerError(f"the answer is packed {len(named)} times")
    for encoding in reversed(named):
        if encoding.strip() in ("gzip", "x-gzip", "deflate"):
            content = _inflated(content)
    return content


def _inflated(packed: bytes) -> bytes:
    # Of deflate some servers leave the header out, without which the low half of the first byte is no 8.
    bare = packed[:1] != b"\x1f" and packed[:1] and packed[0] & 15 != zlib.DEFLATED
    reader = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
    try:
        content = reader.decompress(packed, LARGEST_ANSWER)
    except zlib.error as error:
        raise _AnswerError(f"the answer cannot be unpacked: {error}") from None
    if reader.unconsumed_tail:
        raise _AnswerError(f"{_TOO_LARGE} when unpacked")
    if packed and not reader.eof:
        raise _AnswerError("the answer cannot be unpacked: its end is missing")
    return content


def without_port(url: str) -> str:
    """Return an address by which measurements are told apart: a server under test has another port every time."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{parts.path}"


def bodies_of(X: Any, rows: int) -> list[bytes]:
    """Return the bodies of requests: `rows` rows each, as JSON; texts and bytes are sent as they are, one each."""
    if isinstance(X, str | bytes):
        X = [X]
    if len(X) > 0 and isinstance(X[0], str | bytes):
        return [one.encode() if isinstance(one, str) else one for one in X]
    whole = range(0, len(X) - rows + 1, rows)
    try:
        return [json.dumps(_plain(X[start : start + rows])).encode() for start in whole]
    except (TypeError, ValueError) as error:
        raise UsageProblem(f"rows of requests are numbers, texts, bytes or what JSON takes: {error}") from error


def headers_for(bodies: Sequence[bytes], given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers: what is JSON is said to be JSON, unless the user says otherwise."""
    named = {name.lower() for name in given}
    json_too = "content-type" not in named and bodies and all(map(_is_json, bodies))
    return {**({"content-type": "application/json"} if json_too else {}), **given}


def _is_json(body: bytes) -> bool:
    """Whether a body is a list or an object of JSON; a bare number or word may be any text."""
    try:
        return isinstance(json.loads(body), list | dict)
    except (ValueError, RecursionError):
        return False


def _plain(rows: Any) -> Any:
    return rows.tolist() if hasattr(rows, "tolist") else list(rows)


NAMES = ("predictions", "outputs")
_FORMS = 'a list with a label for each row, or an object with such a list as "predictions" or "outputs"'
Label = str | int | float | bool


def labels_of(answer: bytes, rows: int) -> Sequence[Label]:
    """Return the labels of an answer, one for each row of the request."""
    try:
        plain = json.loads(answer, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise _other(answer, "is no JSON") from error
    if isinstance(plain, dict):
        named = [name for name in NAMES if name in plain]
        if len(named) != 1:
            raise _other(answer, "names none of them" if not named else "names both")
        plain = plain[named[0]]
    if not isinstance(plain, list):
        raise _other(answer, "has no list")
    if len(plain) != rows:
        raise _other(answer, f"has {len(plain)} entries for {rows} rows")
    if not all(isinstance(one, str | int | float) for one in plain):
        raise _other(answer, "has entries that are no labels")
    if len({isinstance(one, str) for one in plain}) > 1:
        raise _other(answer, "mixes texts and numbers")
    return plain


def _other(answer: bytes, why: str) -> MeasurementError:
    given = shortened(answer.decode(errors="replace"))
    return MeasurementError(f"the answer {given} {why}: predictions are read from {_FORMS}; or leave the labels out")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"JSON has no {constant}")


_TYPES: Mapping[str, str] = MappingProxyType(  # of the protocol → of NumPy
    {
        "BOOL": "bool",
        **{f"UINT{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
        **{f"INT{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
        **{f"FP{bits}": f"float{bits}" for bits in (16, 32, 64)},
        "BYTES": "object",
    }
)
_INFER = re.compile(r"(https?://.+/v2/models/[^/?]+(?:/versions/[^/?]+)?)/infer")


def is_infer(url: str) -> bool:
    """Whether an address is that of a model's inference over HTTP: http://host/v2/models/NAME/infer."""
    return _INFER.fullmatch(url) is not None


def inputs_of(request: Request) -> Mapping[str, str]:
    """Ask a server for the inputs of the model at `request.url`, name → type, such as "FP32"."""
    import asyncio

    found = _INFER.fullmatch(request.url)
    asked = replace(request, url=found[1] if found else request.url, method="GET")
    with ThreadPoolExecutor(1) as thread:  # in which no event loop runs yet
        answer = thread.submit(lambda: asyncio.run(Client(asked, connections=1).sent_once())).result()
    try:
        return {one["name"]: one["datatype"] for one in json.loads(answer)["inputs"]}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        said = f"{type(error).__name__} {error}"
        raise MeasurementError(f"GET {shown_address(asked.url)} does not describe a model: {said}") from None


def infer_bodies(batches: Iterable[Any], inputs: Mapping[str, str]) -> list[bytes]:
    """Return a JSON body for each batch of rows."""
    bodies = []
    for batch in batches:
        tensors = [
            {"name": name, "shape": [*array.shape], "datatype": inputs[name], "data": array.ravel().tolist()}
            for name, array in _arrays_for(batch, inputs).items()
        ]
        bodies.append(json.dumps({"inputs": tensors}).encode())
    return bodies


def _arrays_for(batch: Any, inputs: Mapping[str, str]) -> dict[str, Any]:
    """Return the array of each input, in its type: rows are those of the only one, several are given by name."""
    import numpy as np

    given = batch if isinstance(batch, Mapping) else {next(iter(inputs), ""): batch}
    if {*given} != {*inputs}:
        shown = ", ".join(f"{name} ({datatype})" for name, datatype in inputs.items())
        raise UsageProblem(
            f"the served model takes {shown or 'no input'}: give its rows, of several inputs as a mapping name → array"
        )
    try:
        return {
            name: np.ascontiguousarray(np.asarray(given[name]).astype(_TYPES[datatype]))
            for name, datatype in inputs.items()
        }
    except KeyError as error:
        raise UsageProblem(f"the served model has an input of type {error}. Known: {', '.join(_TYPES)}") from None
    except (TypeError, ValueError) as error:
        raise UsageProblem(f"the rows do not fit what the served model takes, {inputs}: {error}") from None
