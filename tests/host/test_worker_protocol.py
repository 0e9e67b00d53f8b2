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


def test_a_task_and_an_answer_read_back() -> None:
    assert (TASK, ANSWER) == (decode_task(encode(TASK)), decode_result(encode(ANSWER)))


def test_an_older_answer_without_series_reads_too() -> None:
    """The baseline's side may have an older version of this package."""
    plain = json.loads(encode(ANSWER))
    for name in ("sources", "series", "sites"):
        del plain[name]
    assert ({}, {}, ()) == ((found := decode_result(json.dumps(plain))).sources, found.series, found.sites)


def test_an_answer_without_numbers_cannot_be_written() -> None:
    with pytest.raises(SerialisationError, match=r"^WorkerResult: .* at `\$\.values"):
        encode(WorkerResult(values={"memory": float("nan")}, reasons={}, notes=[], runs=[]))


def test_a_foreign_task_is_refused() -> None:
    changes: tuple[dict[str, Any], ...] = (
        {"role": "root"}, {"node": 5}, {"reply_to": None}, {"side": "left"}, {"more": 1}
    )  # fmt: skip
    for change in changes:
        with pytest.raises(WorkerError, match="holds no task of pytest-hwperf; unset it"):
            decode_task(json.dumps({**json.loads(encode(TASK)), **change}))


def test_a_foreign_answer_is_refused() -> None:
    """Of values that are no numbers it says where."""
    kinds: dict[str, Any] = {"values": [], "reasons": None, "notes": {}, "runs": "x", "series": [], "sites": {}}
    wrong = [(name, value, "") for name, value in kinds.items()]
    for value in (True, "5", None):
        wrong += [("values", {"memory": value}, "Expected `float`")]
        wrong += [("series", {"memory": [1.0, value]}, "Expected `float`")]
    for name, value, why in wrong:
        with pytest.raises(WorkerError, match=rf"something that is no answer \(WorkerResult: {why}.* at `\$.{name}"):
            decode_result(json.dumps({**json.loads(encode(ANSWER)), name: value}))


def test_another_protocol_and_a_torn_message_are_refused() -> None:
    for text in ('{"protocol": 2}', "[]", "5"):
        with pytest.raises(WorkerError, match=f"another protocol than {PROTOCOL}: both sides need the same pytest-hw"):
            decode_result(text)
    for torn in (encode(ANSWER)[:-4], b"\xff\xfe{}"):
        with pytest.raises(WorkerError, match="a message is not JSON"):
            decode_result(torn)


def test_a_reply_appears_whole(tmp_path: Path) -> None:
    answer = WorkerResult(values={"memory": 1.0}, reasons={}, notes=[], runs=[])
    reply(answer, WorkerTask(role="memory", reply_to=str(tmp_path / "answer.json")))
    assert decode_result((tmp_path / "answer.json").read_text(encoding="utf-8")) == answer
    assert [path.name for path in tmp_path.iterdir()] == ["answer.json"]
