"""Requests to a model server of KServe's protocol, really sent: over gRPC by tritonclient, and over HTTP."""

import http.server
import json
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.core.errors import MeasurementError, UsageProblem
from pytest_hwperf.core.loads import Load
from pytest_hwperf.gate.load import served_by
from pytest_hwperf.gate.load_target import subject_of_address
from pytest_hwperf.loads.http import Request
from pytest_hwperf.measure.event_loop import OwnLoop

pytestmark = pytest.mark.runtime
LOAD = Load(kind="server", qps=300, seconds=0.2)
X = np.arange(8.0).reshape(4, 2)


def servicer(seen: list[str]) -> Any:
    """A model `double` of two numbers a row, by the servicer that tritonclient brings; `busy` is unavailable."""
    grpc = pytest.importorskip("grpc", reason="needs the extra triton")
    triton = pytest.importorskip("tritonclient.grpc", reason="needs the extra triton")
    from tritonclient.grpc import service_pb2_grpc

    class Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc] # it has no types
        def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC calls it so
            if request.name == "none":
                context.abort(grpc.StatusCode.NOT_FOUND, "no model none")
            answer = triton.service_pb2.ModelMetadataResponse(name=request.name)
            answer.inputs.add(name="X", datatype="FP32", shape=[-1, 2])
            return answer

        def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802 - the same
            seen.append(f"{request.model_name} {request.model_version} {[*request.inputs[0].shape]}")
            if request.model_name == "busy" and len(seen) % 2 == 0:
                context.abort(grpc.StatusCode.UNAVAILABLE, "too busy")
            rows = np.frombuffer(request.raw_input_contents[0], np.float32)
            answer = triton.service_pb2.ModelInferResponse(model_name=request.model_name)
            answer.outputs.add(name="Y", datatype="FP32", shape=request.inputs[0].shape)
            answer.raw_output_contents.append(
                (2 * rows).tobytes() if request.model_name != "huge" else bytes(70_000_000)
            )
            return answer

    return Servicer()


@pytest.fixture
def seen() -> list[str]:
    """What the server was asked."""
    return []


@pytest.fixture
def address(seen: list[str]) -> Iterator[str]:
    model = servicer(seen)
    import grpc
    from tritonclient.grpc import service_pb2_grpc

    server = grpc.server(futures.ThreadPoolExecutor(4))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(model, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"grpc://127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.fixture
def loop() -> Iterator[OwnLoop]:
    with closing(OwnLoop()) as found:
        yield found


def test_every_request_of_a_schedule_is_answered_by_the_model(address: str, seen: list[str], loop: OwnLoop) -> None:
    subject = subject_of_address(Request(url=f"{address}/double/3"), X, LOAD, 2, loop)
    loaded = subject.load()
    with loaded.scope():
        stream = loaded.stream()
        first: Any = stream.first().value
        served = served_by(LOAD, stream, elsewhere=True)

    assert [[0.0, 2.0], [4.0, 6.0]] == first.as_numpy("Y").tolist()
    assert ["double 3 [2, 2]"] * (len(served.due) + 1) == seen
    assert (2, 0) == (subject.rows, served.failed)
    assert {"load": str(LOAD), "url": "grpc://127.0.0.1/double/3"} == subject.conditions


def test_what_the_server_refuses_is_never_counted_as_served(address: str, seen: list[str], loop: OwnLoop) -> None:
    loaded = subject_of_address(Request(url=f"{address}/busy"), {"X": X}, LOAD, 1, loop).load()
    with loaded.scope():
        stream = loaded.stream()
        stream.first()
        served = served_by(LOAD, stream, elsewhere=True)

    assert len(seen) == len(served.due) + served.failed + 1
    assert abs(len(served.due) - served.failed) <= 1


@pytest.mark.parametrize(
    ("path", "rows", "error", "said"),
    [
        ("/none", X, MeasurementError, "model none: *NOT_FOUND* no model none"),
        ("", X, UsageProblem, "names no model: write grpc://host:port/model"),
        ("/double", {"Z": X}, UsageProblem, "the served model takes X (FP32): give its rows, of several inputs as a*"),
        ("/double", np.array([["a", "b"]]), UsageProblem, "the rows do not fit what the served model takes*FP32*"),
        ("/double", None, UsageProblem, "a model server takes rows: give arrays, *"),
        ("/double", X[:0], MeasurementError, "the data has no rows*"),
    ],
)
def test_what_cannot_be_asked_says_why(
    address: str, loop: OwnLoop, path: str, rows: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as caught:
        subject_of_address(Request(url=address + path), rows, LOAD, 1, loop).load()

    pytest.LineMatcher([str(caught.value)]).fnmatch_lines([f"*{said}"])


def test_an_answer_that_is_too_large_is_not_taken(address: str, loop: OwnLoop) -> None:
    loaded = subject_of_address(Request(url=f"{address}/huge"), X, LOAD, 1, loop).load()
    with loaded.scope(), pytest.raises(MeasurementError, match=r"RESOURCE_EXHAUSTED.*larger than max"):
        loaded.stream().first()


def test_the_command_puts_a_load_on_a_model(
    address: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pytest_hwperf.gate.load_target._WARM_UP_S", 0.05)
    np.save(tmp_path / "rows.npy", X)
    arguments = ["load", f"{address}/double", "--kind=offline", "--calls=60", f"--data={tmp_path / 'rows.npy'}"]

    assert main(arguments) in (0, 3)
    assert "60 calls due at once, tasks, at most 256 at once" in " ".join(capsys.readouterr().out.split())
    assert USAGE == main([*arguments, "--method=PUT"])
    assert "a model server over gRPC takes --data" in capsys.readouterr().err


class Handler(http.server.BaseHTTPRequestHandler):
    """The model `double` over HTTP."""

    def do_GET(self) -> None:
        named = self.path == "/v2/models/double"
        self._answer({"inputs": [{"name": "X", "datatype": "INT64", "shape": [-1, 2]}]} if named else {})

    def do_POST(self) -> None:
        (tensor,) = json.loads(self.rfile.read(int(self.headers["content-length"])))["inputs"]
        self._answer({"outputs": [{**tensor, "name": "Y", "data": [2 * one for one in tensor["data"]]}]})

    def _answer(self, content: object) -> None:
        answer = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@pytest.fixture
def over_http() -> Iterator[str]:
    pytest.importorskip("httpx", reason="needs the extra http")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_over_http_rows_are_sent_in_the_form_of_the_protocol(over_http: str, loop: OwnLoop) -> None:
    loaded = subject_of_address(Request(url=f"{over_http}/v2/models/double/infer"), X, LOAD, 2, loop).load()
    with loaded.scope():
        answer: Any = loaded.stream().first().value

    assert {"name": "Y", "shape": [2, 2], "datatype": "INT64", "data": [0, 2, 4, 6]} == json.loads(answer)["outputs"][0]


def test_a_server_that_describes_no_model_is_named(over_http: str, loop: OwnLoop) -> None:
    with pytest.raises(MeasurementError, match="v2/models/other does not describe a model: KeyError 'inputs'"):
        subject_of_address(Request(url=f"{over_http}/v2/models/other/infer"), X, LOAD, 2, loop)
