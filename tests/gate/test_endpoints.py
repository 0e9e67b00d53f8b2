"""An address as one side of a comparison: its failures are counted, and its labels read."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from fakes.sums_server import serving

from pytest_hwperf.gate.models.requests import CountedRequests, requests_in, subject_of_endpoint
from pytest_hwperf.host.worker_protocol import ModelSpec
from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.stats.choice.rollout import Requests


class FakeClient:
    """Answers as it is told; a text is an error."""

    def __init__(self, *answers: bytes | str) -> None:
        self.answers = list(answers)

    async def send(self, body: bytes) -> bytes:
        assert body
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            raise MeasurementError(answer)
        return answer


def counted(*answers: bytes | str) -> CountedRequests:
    return CountedRequests(FakeClient(*answers))  # type: ignore[arg-type] # sends, which is all that is asked of it


def send(requests: CountedRequests, times: int) -> list[bytes]:
    return [asyncio.run(requests.send(b"[[1]]")) for _ in range(times)]


def test_requests_that_fail_are_counted_with_the_first_reason(tmp_path: Path) -> None:
    requests = counted(b"[1]", "503 busy", b"[1]", "timeout")
    assert [b"[1]", b"", b"[1]", b""] == send(requests, 4)
    for _ in range(2):  # as two processes would
        requests.leave(str(tmp_path))
    assert Requests(made=8, failed=4, why="503 busy") == requests_in(tmp_path)


def test_a_first_request_is_tried_again_and_counted_until_it_has_always_failed() -> None:
    requests = counted("busy", "busy", b"[1]", b"[2]")
    assert [b"[1]", b"[2]"] == send(requests, 2)
    assert (4, 2, "busy") == (requests.made, requests.failed, requests.why)
    with pytest.raises(MeasurementError, match="refused"):
        send(counted("refused", "refused", "refused"), 1)


def test_nothing_left_is_nothing_known(tmp_path: Path) -> None:
    counted().leave("")
    assert requests_in(tmp_path) is None


@pytest.mark.runtime
def test_every_row_is_asked_for_its_label(tmp_path: Path) -> None:
    """The last request has fewer rows."""
    pytest.importorskip("httpx", reason="needs the extra http")
    with serving() as address:
        spec = ModelSpec(
            model=f"{address}/predict", data="", batch_size=2, threads=1, requests_to=str(tmp_path), test="t", label=""
        )
        loaded = subject_of_endpoint(spec, np.ones((5, 3)), np.full(5, 3.0)).load()
        with loaded.scope():
            assert b"[3.0, 3.0]" == loaded.stream().first().value
            assert loaded.predictions is not None
            found = loaded.predictions()
    assert found is not None
    assert [3.0] * 5 == found.labels.tolist()
    assert Requests(made=4, failed=0) == requests_in(tmp_path)
