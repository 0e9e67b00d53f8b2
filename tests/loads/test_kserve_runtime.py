"""Requests to a model server of KServe's protocol, really sent."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_hwperf.cli import main
from pytest_hwperf.gate.models.requests import subject_of_address
from pytest_hwperf.loads.http import Request
from pytest_hwperf.measure.stream import OwnLoop
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.markers import Load

pytestmark = pytest.mark.runtime
LOAD = Load(kind="server", qps=300, seconds=0.2)
X = np.arange(8.0).reshape(4, 2)


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
def address() -> Iterator[str]:
    pytest.importorskip("httpx", reason="needs the extra http")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def loop() -> Iterator[OwnLoop]:
    with closing(OwnLoop()) as found:
        yield found


def test_rows_are_sent_in_the_form_of_the_protocol(address: str, loop: OwnLoop) -> None:
    loaded = subject_of_address(Request(url=f"{address}/v2/models/double/infer"), X, LOAD, 2, loop).load()
    with loaded.scope():
        answer: Any = loaded.stream().first().value
    assert {"name": "Y", "shape": [2, 2], "datatype": "INT64", "data": [0, 2, 4, 6]} == json.loads(answer)["outputs"][0]


def test_a_server_that_describes_no_model_is_named(address: str, loop: OwnLoop) -> None:
    with pytest.raises(MeasurementError, match="v2/models/other does not describe a model: KeyError 'inputs'"):
        subject_of_address(Request(url=f"{address}/v2/models/other/infer"), X, LOAD, 2, loop)


def test_fewer_rows_than_a_request_has_are_a_usage_error(address: str, loop: OwnLoop) -> None:
    """Of rows by name their number is meant, and not that of the names."""
    with pytest.raises(UsageProblem, match=r"4 rows are no request of 5: give more rows, or a smaller batch_size="):
        subject_of_address(Request(url=f"{address}/v2/models/double/infer"), {"X": X}, LOAD, 5, loop)


def test_the_command_puts_a_load_on_a_model(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pytest_hwperf.gate.models.requests._WARM_UP_S", 0.05)
    np.save(tmp_path / "rows.npy", X)
    url, load = f"{address}/v2/models/double/infer", ["--kind=offline", "--calls=60", "--in-flight=4"]
    assert main(["load", url, *load, f"--data={tmp_path / 'rows.npy'}"]) in (0, 3)
    assert "60 calls due at once, tasks, at most 4 at once" in " ".join(capsys.readouterr().out.split())
