"""Requests that are really sent, over loopback, to a server of this process."""

from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec

import numpy as np
import pytest
from fakes.sums_server import Handler, serving

from pytest_hwperf.cli import main
from pytest_hwperf.gate.models.load import served_by
from pytest_hwperf.gate.models.requests import subject_of_address
from pytest_hwperf.loads.http import Request
from pytest_hwperf.loads.local import schedule
from pytest_hwperf.measure.stream import OwnLoop
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.markers import Load

pytestmark = pytest.mark.runtime
LOAD = Load(kind="server", qps=300, seconds=0.2)


@pytest.fixture
def address() -> Iterator[str]:
    pytest.importorskip("httpx", reason="needs the extra http")
    with serving() as found:
        yield found


@pytest.fixture
def loop() -> Iterator[OwnLoop]:
    with closing(OwnLoop()) as found:
        yield found


def test_every_request_of_a_schedule_is_answered(address: str, loop: OwnLoop) -> None:
    subject = subject_of_address(Request(url=f"{address}/predict"), np.ones((4, 3)), LOAD, 2, loop)
    loaded = subject.load()
    with loaded.scope():
        stream = loaded.stream()
        first = stream.first()
        served = served_by(LOAD, stream, elsewhere=True)
    assert b"[3.0, 3.0]" == first.value
    assert Handler.seen == len(served.due) + 1
    assert served.failed == 0
    assert subject.conditions == {"load": str(LOAD), "url": "http://127.0.0.1/predict"}


def test_rows_of_a_data_frame_are_sent_and_not_its_columns(address: str, loop: OwnLoop) -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    loaded = subject_of_address(Request(url=f"{address}/predict"), frame, LOAD, 2, loop).load()
    with loaded.scope():
        assert b"[4.0, 6.0]" == loaded.stream().first().value


def test_what_is_refused_is_counted_as_failed_and_never_as_served(address: str, loop: OwnLoop) -> None:
    loaded = subject_of_address(Request(url=f"{address}/busy"), np.ones((4, 3)), LOAD, 1, loop).load()
    with loaded.scope():
        stream = loaded.stream()
        stream.first()
        served = served_by(LOAD, stream, elsewhere=True)
    assert Handler.seen == len(served.due) + served.failed + 1
    assert abs(len(served.due) - served.failed) <= 1


@pytest.mark.parametrize(
    ("path", "said"), [(":1/none", "ConnectError"), ("/busy", "POST http://127.0.0.1:*/busy: 503 *3.0*")]
)
def test_a_request_that_fails_says_why(address: str, loop: OwnLoop, path: str, said: str) -> None:
    url = "http://127.0.0.1:1/none?key=secret" if path.startswith(":") else address + path
    url = url.replace("://", "://me:secret@")
    Handler.seen = 1
    loaded = subject_of_address(Request(url=url), np.ones((1, 3)), LOAD, 1, loop).load()
    with loaded.scope(), pytest.raises(MeasurementError) as caught:
        loaded.stream().first()
    pytest.LineMatcher([str(caught.value)]).fnmatch_lines([f"*{said}*"])
    assert "secret" not in str(caught.value)


def test_rows_that_are_no_whole_request_are_a_usage_error(address: str, loop: OwnLoop) -> None:
    with pytest.raises(UsageProblem, match="2 rows are no request of 3"):
        subject_of_address(Request(url=address), np.ones((2, 3)), LOAD, 3, loop)


@pytest.mark.live
def test_two_workers_of_locust_share_the_schedule(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each makes every other call."""
    if find_spec("locust") is None:  # to import it would let gevent replace the threads of this process
        pytest.skip("needs the extra locust")
    load = ["--qps=60", "--seconds=1", "--engine=locust", "--workers=2"]
    assert main(["load", f"{address}/predict", "--body=[[1, 2]]", *load]) == 0
    due = len(schedule(Load(kind="server", qps=60, seconds=1)))
    assert due == Handler.seen
    assert f"{due} calls" in capsys.readouterr().out


@pytest.mark.live
def test_a_test_under_a_load_of_requests(address: str, pytester: pytest.Pytester) -> None:
    """The address is in the marker, or where it is known at run time only, in the call."""
    pytester.makepyfile(
        f"""
        import pytest
        @pytest.mark.hwload(kind="server", qps=300, seconds=0.1, url="{address}/keyed", headers={{"X-Key": "k"}})
        @pytest.mark.hwbudget(latency_p50_ms=1000, memory_max_mb=1)
        def test_marked(hwperf): hwperf([[1, 2]])
        @pytest.mark.hwload(kind="concurrency", in_flight=2, seconds=0.1)
        def test_called(hwperf): assert hwperf("{address}/predict", [[1, 2]]).result == b"[3]"
        def test_without(hwperf): hwperf("{address}/predict", [[1, 2]])
        @pytest.mark.hwload(kind="offline", headers={{"X-Key": "k"}})
        def test_local(hwperf): hwperf(list)
        """
    )
    result = pytester.runpytest_subprocess("--hwperf-sample-time=0.02", "--hwperf-energy=off")

    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(["memory unmeasured*: requests are answered by another process: measure*"])
    result.stdout.fnmatch_lines(["*UsageProblem: requests need a load and rows: @pytest.mark.hwload(*"])
    result.stdout.fnmatch_lines(["*UsageProblem: hwload: headers= are of requests: give url=, or hwperf(*"])
