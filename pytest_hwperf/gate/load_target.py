"""What a load is sent to: an address, module:function, or an ONNX file."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.loads import Load
from pytest_hwperf.core.records import replace as replace_record
from pytest_hwperf.gate.targets import check_target, failures_explained, find_module, function_of, kind_of
from pytest_hwperf.loads.http import Client, Request, bodies_of, headers_for, without_port
from pytest_hwperf.loads.kserve import infer_bodies, inputs_of, is_infer
from pytest_hwperf.measure.event_loop import Loop
from pytest_hwperf.measure.plan import SamplingLimits
from pytest_hwperf.measure.rows import count_rows, cut_rows
from pytest_hwperf.measure.sampling import Sampler
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.measure.subjects import LoadedSubject, Subject, subject_of_callable, subject_of_scenario
from pytest_hwperf.scenarios.onnx_file import compared_file

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
