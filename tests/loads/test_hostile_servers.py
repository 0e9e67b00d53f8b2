"""Servers that are broken or hostile: no request, and no load, takes longer or holds more than it may."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec

import numpy as np
import pytest
from fakes.hostile_server import hostile_server

from pytest_hwperf.cli import main
from pytest_hwperf.gate.models.load import served_by
from pytest_hwperf.gate.models.requests import subject_of_address
from pytest_hwperf.loads import http
from pytest_hwperf.loads.http import Client, Request, inputs_of
from pytest_hwperf.measure.stream import OwnLoop
from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.records.markers import Load

pytestmark = pytest.mark.runtime


@pytest.fixture
def address() -> Iterator[str]:
    pytest.importorskip("httpx", reason="needs the extra http")
    with hostile_server() as found:
        yield found


def answer(url: str, timeout_s: float = 60.0) -> bytes:
    return asyncio.run(Client(Request(url=url, timeout_s=timeout_s), connections=1).sent_once(b"[[1, 2]]"))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("bomb", "larger than 64 MB when unpacked"),
        ("twice", "larger than 64 MB when unpacked"),
        ("thrice", "the answer is packed 3 times"),
        ("endless", "larger than 64 MB"),
        ("drip", "no whole answer within 0.3 s"),
        ("cut", "cannot be unpacked: its end is missing"),
        ("damaged", "cannot be unpacked: "),
    ],
)
def test_the_command_ends_and_says_what_the_server_does(
    address: str, how: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the screen; what is unpacked is never larger than what is taken."""
    timeout = "0.3" if how == "drip" else "60"
    code = main(["load", f"{address}/{how}", "--body=[[1]]", "--qps=50", "--seconds=0.1", f"--timeout={timeout}"])
    assert code not in (0, 3)
    assert said in " ".join(capsys.readouterr().err.split())


def test_honest_encodings_are_unpacked_and_unknown_ones_left(address: str) -> None:
    assert [b"[3]"] * 3 == [answer(f"{address}/{how}") for how in ("whole", "bare", "unknown")]


def test_answers_that_are_read_at_once_share_a_limit(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_LARGEST_TOGETHER", 1_000_000)
    with pytest.raises(MeasurementError, match="the answer is larger than"):
        answer(f"{address}/endless")


@pytest.mark.parametrize(("how", "said"), [("bomb", "larger than 64 MB when unpacked"), ("drip", "no whole answer")])
def test_the_description_of_a_model_is_held_to_the_same(address: str, how: str, said: str) -> None:
    request = Request(url=f"{address}/v2/models/{how}/infer", timeout_s=0.3 if how == "drip" else 60.0)
    with pytest.raises(MeasurementError, match=said):
        inputs_of(request)


def test_a_load_ends_one_timeout_after_its_seconds(address: str) -> None:
    """Calls that wait for others do so in their own time: 100 of 2 s each, two at a time, are over in half a second."""
    load = Load(kind="server", qps=400, seconds=0.25, in_flight=2, timeout_s=0.3)
    with closing(OwnLoop()) as loop:
        request = Request(url=f"{address}/drip", timeout_s=60.0)
        loaded = subject_of_address(request, np.ones((1, 2)), load, 1, loop).load()
        with loaded.scope():
            stream = loaded.stream()
            stream.first()
            with pytest.raises(MeasurementError, match=r"not answered within 0\.3 s from when it was due"):
                served_by(load, stream, elsewhere=True)


@pytest.mark.live
def test_locust_is_held_to_the_same(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    if find_spec("locust") is None:  # to import it would let gevent replace the threads of this process
        pytest.skip("needs the extra locust")
    for how in ("drip", "endless"):
        given = ["--qps=20", "--seconds=1", "--engine=locust", "--workers=1", "--timeout=0.5" if how == "drip" else ""]
        code = main(["load", f"{address}/{how}", "--body=[[1]]", *filter(None, given)])
        assert code not in (0, 3)
        assert "requests failed" in capsys.readouterr().err
