"""Messages of hosts: of any type and in any order, put together or refused."""

import os
import zlib

import pytest

from pytest_hwperf.fleet import dispatch
from pytest_hwperf.fleet.dask_task import parts_of
from pytest_hwperf.fleet.dispatch import Mail, News
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.fleet import HostAnswer


def test_an_answer_in_parts_comes_back_in_whatever_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_hwperf.fleet.dask_task.PART", 50)
    sent = HostAnswer(exit_code=0, report=os.urandom(200).hex())
    parts, box = parts_of(sent), Mail()
    news = [box.open({"job": "a", **part}) for part in reversed(parts)]
    assert len(parts) > 3
    assert [f"sending its answer, part {n} of {len(parts)}" for n in range(1, len(parts))] == [
        one.sign for one in news[:-1] if one
    ]
    assert news[-1] is not None
    assert news[-1].answer is not None
    assert sent == from_json(HostAnswer, news[-1].answer)


@pytest.mark.parametrize(
    "message",
    [
        None,
        b"\x80\x04.",
        {"sign": "x"},
        {"job": 7, "sign": "x"},
        {"job": "a"},
        {"job": "a", "part": "0", "of": 1, "bytes": b""},
        {"job": "a", "part": True, "of": 1, "bytes": b""},
        {"job": "a", "part": 0, "of": 1, "bytes": "text"},
    ],
)
def test_what_is_no_message_tells_nothing(message: object) -> None:
    assert Mail().open(message) is None


@pytest.mark.parametrize(
    ("part", "died"),
    [
        ({"part": 0, "of": 1, "bytes": b"no zlib"}, "its answer is damaged"),
        ({"part": 0, "of": 1, "bytes": zlib.compress(b"x" * 1000)[:-4]}, "its answer is cut off"),
        ({"part": 0, "of": 1, "bytes": zlib.compress(b"x" * 100_000)}, "its answer is cut off, or larger"),
        ({"part": 0, "of": 1, "bytes": os.urandom(3000)}, "its answer is larger than any report"),
        ({"part": 1, "of": 1, "bytes": b""}, "its answer is larger than any report"),
        ({"part": 0, "of": 10**9, "bytes": b""}, "its answer is larger than any report"),
    ],
)
def test_what_cannot_be_an_answer_ends_its_job(
    part: dict[str, object], died: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_LARGEST", 50_000)
    monkeypatch.setattr(dispatch, "_LARGEST_PACKED", 2000)
    news = Mail().open({"job": "a", **part})
    assert news is not None
    assert news.died.startswith(died)


def test_a_sign_is_cut() -> None:
    assert News(job="a", sign="x" * 1000) == Mail().open({"job": "a", "sign": "x" * 5000})
