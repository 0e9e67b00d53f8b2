"""What a fresh process is asked and answers."""

import json
from pathlib import Path
from typing import Any

import pytest
from fakes import records as fake

from pytest_hwperf.host.worker_protocol import (
    PROTOCOL,
    WorkerResult,
    WorkerTask,
    decode_result,
    decode_task,
    encode,
    reply,
)
from pytest_hwperf.records.errors import SerialisationError, WorkerError
from pytest_hwperf.records.profiles import HeldMemory

TASK = WorkerTask(role="memory", node="t.py::test[é ✓ a/b]", label="batch 32", reply_to="x/result.json")
ANSWER = WorkerResult(
    values={"memory": 67108864.0},
    reasons={"x": "refused"},
    notes=["note"],
    runs=[fake.run()],
    sources={"memory": "VmHWM"},
    series={"held": [1.0, 2.0]},
    sites=(HeldMemory(function="f", file="a.py", line=1, called_at="", size=5, allocations=1),),
)


def test_a_task_reads_back() -> None:
    assert decode_task(encode(TASK)) == TASK


def test_an_answer_reads_back() -> None:
    assert decode_result(encode(ANSWER)) == ANSWER


def test_an_older_answer_without_series_reads_too() -> None:
    """The baseline's side may have an older version of this package."""
    plain = json.loads(encode(ANSWER))
    for name in ("sources", "series", "sites"):
        del plain[name]
    assert ({}, {}, ()) == ((found := decode_result(json.dumps(plain))).sources, found.series, found.sites)


def test_an_answer_without_numbers_cannot_be_written() -> None:
    with pytest.raises(SerialisationError, match=r"^WorkerResult: .* at `\$\.values"):
        encode(WorkerResult(values={"memory": float("nan")}, reasons={}, notes=[], runs=[]))


@pytest.mark.parametrize("change", [{"role": "root"}, {"node": 5}, {"reply_to": None}, {"side": "left"}, {"more": 1}])
def test_a_foreign_task_is_refused(change: dict[str, Any]) -> None:
    text = json.dumps({**json.loads(encode(TASK)), **change})
    with pytest.raises(WorkerError, match="holds no task of pytest-hwperf; unset it"):
        decode_task(text)


@pytest.mark.parametrize(
    "change", [{"values": []}, {"reasons": None}, {"notes": {}}, {"runs": "x"}, {"series": []}, {"sites": {}}]
)
def test_a_foreign_answer_is_refused(change: dict[str, Any]) -> None:
    text = json.dumps({**json.loads(encode(ANSWER)), **change})
    with pytest.raises(WorkerError, match="something that is no answer"):
        decode_result(text)


@pytest.mark.parametrize("value", [True, "5", None])
@pytest.mark.parametrize("place", ["values", "series"])
def test_values_that_are_no_numbers_are_refused(place: str, value: object) -> None:
    given = value if place == "values" else [1.0, value]
    text = json.dumps({**json.loads(encode(ANSWER)), place: {"memory": given}})
    with pytest.raises(
        WorkerError, match=rf"something that is no answer \(WorkerResult: Expected `float`.* at `\$.{place}"
    ):
        decode_result(text)


@pytest.mark.parametrize("text", ['{"protocol": 2}', "[]", "5"])
def test_another_protocol_is_refused(text: str) -> None:
    with pytest.raises(WorkerError, match=f"another protocol than {PROTOCOL}: both sides need the same pytest-hwperf"):
        decode_result(text)


def test_a_truncated_message_is_refused() -> None:
    with pytest.raises(WorkerError, match="a message is not JSON"):
        decode_result(encode(ANSWER)[:-4])


def test_a_reply_appears_whole(tmp_path: Path) -> None:
    answer = WorkerResult(values={"memory": 1.0}, reasons={}, notes=[], runs=[])
    reply(answer, WorkerTask(role="memory", reply_to=str(tmp_path / "answer.json")))
    assert decode_result((tmp_path / "answer.json").read_text(encoding="utf-8")) == answer
    assert [path.name for path in tmp_path.iterdir()] == ["answer.json"]


def test_an_answer_that_is_not_even_text_is_refused() -> None:
    with pytest.raises(WorkerError, match="not JSON"):
        decode_result(b"\xff\xfe{}")
