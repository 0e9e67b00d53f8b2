"""What a load is sent to: an address, module:function, or an ONNX file."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hwperf.gate.models.targets import check_target, failures_explained, find_module, function_of, kind_of
from pytest_hwperf.host.files import read_file, replace_file
from pytest_hwperf.host.worker_protocol import ModelSpec
from pytest_hwperf.loads.http import (
    Client,
    Request,
    bodies_of,
    headers_for,
    infer_bodies,
    inputs_of,
    is_infer,
    labels_of,
    without_port,
)
from pytest_hwperf.measure.plan import SamplingLimits
from pytest_hwperf.measure.rows import count_rows, cut_rows
from pytest_hwperf.measure.sampling import Sampler
from pytest_hwperf.measure.stream import Loop, OwnLoop, Stream
from pytest_hwperf.measure.subjects import LoadedSubject, Subject, subject_of_callable, subject_of_scenario
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.contracts import Predictions
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.markers import Load
from pytest_hwperf.records.run import replace as replace_record
from pytest_hwperf.runtimes.onnx_file import compared_file
from pytest_hwperf.stats.choice.rollout import Requests

_WARM_UP_S = 1.0


def subject_of_address(request: Request, X: Any, load: Load, rows: int, loop: Loop) -> Subject:
    """Return requests as something to measure."""
    X = X.to_numpy() if hasattr(X, "to_numpy") else X  # whose rows a data frame does not give by position
    sent, bodies = requests_of(request, X, rows)
    client = Client(sent, load.at_once(waiting=True))
    scope = partial(client.opened, loop)
    ready = partial(LoadedSubject, function=client.send, inputs=bodies, scope=scope, loop=loop)
    return Subject(
        scenario="",
        load=ready,
        load_one=ready,
        rows=None if X is None or _is_raw(X) else rows,
        conditions={"load": str(load), "url": without_port(request.url)},
        elsewhere=True,
    )


def requests_of(request: Request, X: Any, rows: int) -> tuple[Request, list[bytes]]:
    """Return requests with the headers that their bodies need, and these bodies."""
    if X is not None and is_infer(request.url) and not _is_raw(X):
        starts = range(0, count_rows(X) - rows + 1, rows)
        bodies = infer_bodies([cut_rows(X, start, start + rows) for start in starts], inputs_of(request))
    else:
        bodies = [b""] if X is None else bodies_of(X, rows)
    if not bodies:
        raise UsageProblem(f"{count_rows(X)} rows are no request of {rows}: give more rows, or a smaller batch_size=")
    return replace_record(request, headers=headers_for(bodies, request.headers)), bodies


def _is_raw(X: Any) -> bool:
    """Whether rows are bodies already, of which nobody knows the rows."""
    if isinstance(X, Mapping):
        return False
    return isinstance(X, str | bytes) or (len(X) > 0 and isinstance(X[0], str | bytes))


def subject_of_target(request: Request, X: Any, load: Load, loop: Loop, *, batch_size: int, threads: int) -> Subject:
    """Return what the user typed, the address of the request, as something to measure."""
    target = request.url
    check_target(target, ("address", "function", "ONNX file"))
    kind = kind_of(target)
    if kind == "address":
        return subject_of_address(request, X, load, batch_size, loop)
    if kind == "function":
        find_module(target)
        size, given = (None, ()) if X is None else (batch_size, (X,))
        return subject_of_callable(function_of(target), given, {}, y_true=None, batch_size=size, loop=loop)
    if X is None:
        raise UsageProblem(f"{target}: an ONNX file needs rows: give --data=FILE")
    return subject_of_scenario(replace(compared_file(Path(target), threads), classifies=False), X, None, batch_size)


@contextmanager
def warmed_up(subject: Subject) -> Iterator[Stream]:
    """Load a subject, call it until it is steady, and yield its calls."""
    loaded = subject.load()
    with loaded.scope():
        stream = loaded.stream()
        with failures_explained("the target"):
            Sampler(stream, SamplingLimits(max_time_s=_WARM_UP_S)).run((), lambda _: 1)
        yield stream


def headers_of(lines: list[str]) -> Mapping[str, str]:
    """Return `Name: value` lines as headers."""
    pairs = [line.partition(":") for line in lines]
    for line, (name, colon, _) in zip(lines, pairs, strict=True):
        if not (colon and name.strip()):
            raise UsageProblem(f"--header={line!r}: write NAME: VALUE, such as --header='Authorization: Bearer …'")
    return {name.strip(): value.strip() for name, _, value in pairs}


_ONE_BY_ONE = Load(kind="single_stream")
_TRIES = 3  # of a request that has to be answered
_LARGEST = 10_000  # bytes of a count


@dataclass(slots=True)
class CountedRequests:
    """Requests of this process, of which those that fail are counted."""

    client: Client
    made: int = 0
    failed: int = 0
    why: str = ""  # of the first that failed

    async def send(self, body: bytes) -> bytes:
        """Send one request; b"" where it fails, and its time until then counts as any other. The first is answered."""
        if not self.made:
            return await self.answered(body)
        answer = await self._tried(body)
        return b"" if isinstance(answer, MeasurementError) else answer

    async def answered(self, body: bytes) -> bytes:
        """Send one request until it is answered; each time that it fails is counted."""
        for _ in range(_TRIES - 1):
            answer = await self._tried(body)
            if not isinstance(answer, MeasurementError):
                return answer
        answer = await self._tried(body)
        if isinstance(answer, MeasurementError):
            raise answer
        return answer

    async def _tried(self, body: bytes) -> bytes | MeasurementError:
        self.made += 1
        try:
            return await self.client.send(body)
        except MeasurementError as error:
            self.failed += 1
            self.why = self.why or str(error)
            return error

    def leave(self, folder: str) -> None:
        """Leave the count in a folder, where `requests_in` finds it."""
        if folder:
            content = to_json(Requests(made=self.made, failed=self.failed, why=self.why))
            replace_file(Path(folder) / f"{os.getpid()}-{os.urandom(4).hex()}.json", content)


def subject_of_endpoint(spec: ModelSpec, X: Any, y: Any | None) -> Subject:
    """Return requests to an address as something to measure; nothing is sent yet."""
    request = Request(url=spec.model, headers=spec.headers, timeout_s=spec.timeout_s)
    loop = OwnLoop()
    load = partial(_loaded, spec, request, X, y, loop)
    outside = subject_of_address(request, X, _ONE_BY_ONE, spec.batch_size, loop)
    return replace(outside, load=load, load_one=load, y_true=y)


def requests_in(folder: Path) -> Requests | None:
    """Return what all processes of a side have left there; None where none has."""
    found = [from_json(Requests, read_file(file, _LARGEST)) for file in sorted(folder.glob("*.json"))]
    if not found:
        return None
    return Requests(
        made=sum(one.made for one in found),
        failed=sum(one.failed for one in found),
        why=next((one.why for one in found if one.why), ""),
    )


def _loaded(spec: ModelSpec, request: Request, X: Any, y: Any | None, loop: OwnLoop) -> LoadedSubject:
    sent, bodies = requests_of(request, X, spec.batch_size)
    client = Client(sent, connections=1)
    counted = CountedRequests(client)
    labelled = _all_bodies(request, X, spec.batch_size) if y is not None else None
    return LoadedSubject(
        function=counted.send,
        inputs=bodies,
        scope=partial(_opened, client, counted, spec.requests_to, loop),
        predictions=None if labelled is None else partial(_predictions, counted, labelled, loop),
        loop=loop,
    )


@contextmanager
def _opened(client: Client, counted: CountedRequests, folder: str, loop: OwnLoop) -> Iterator[None]:
    """Close the connection at the end, and leave the count."""
    with ExitStack() as stack:
        stack.callback(loop.close)
        stack.enter_context(client.opened(loop))
        stack.callback(counted.leave, folder)
        yield


def _all_bodies(request: Request, X: Any, rows: int) -> list[tuple[bytes, int]]:
    """Return a body for all rows, each with its number of rows: the last may be a shorter one."""
    count = count_rows(X)
    _, whole = requests_of(request, X, rows)
    found = [(body, rows) for body in whole]
    rest = count - rows * len(whole)
    if rest:
        _, (last,) = requests_of(request, cut_rows(X, count - rest, count), rest)
        found.append((last, rest))
    return found


def _predictions(requests: CountedRequests, bodies: Sequence[tuple[bytes, int]], loop: OwnLoop) -> Predictions:
    """Ask for the labels of every row."""
    import numpy as np

    labels = [label for body, rows in bodies for label in labels_of(loop.run(requests.answered(body)), rows)]
    return Predictions(labels=np.asarray(labels))
