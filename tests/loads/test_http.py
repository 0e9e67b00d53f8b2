"""Requests of a load: their bodies, headers and address; no client is needed."""

import numpy as np
import pytest

from pytest_hwperf.gate.models.requests import headers_of
from pytest_hwperf.loads.http import bodies_of, headers_for, without_port
from pytest_hwperf.records.errors import UsageProblem

BODIES: list[tuple[object, int, list[bytes]]] = [
    (np.arange(6).reshape(3, 2), 1, [b"[[0, 1]]", b"[[2, 3]]", b"[[4, 5]]"]),
    (np.arange(6).reshape(3, 2), 2, [b"[[0, 1], [2, 3]]"]),  # a shorter last request would take another time
    ([{"text": "a"}, {"text": "b"}], 1, [b'[{"text": "a"}]', b'[{"text": "b"}]']),
    (["one", "two"], 1, [b"one", b"two"]),
    (b"raw", 1, [b"raw"]),
    (np.zeros((0, 2)), 1, []),
]
HEADERS: list[tuple[bytes, dict[str, str], dict[str, str]]] = [
    (b"[[1]]", {}, {"content-type": "application/json"}),
    (b' {"rows": [1]}', {"a": "b"}, {"content-type": "application/json", "a": "b"}),
    (b"[[1]]", {"Content-Type": "text/csv"}, {"Content-Type": "text/csv"}),
    (b"12", {"a": "b"}, {"a": "b"}),  # any text may be a number
    (b"[" * 100_000, {}, {}),
    (b"", {}, {}),
]


def test_rows_are_json_and_texts_are_sent_as_they_are() -> None:
    assert [bodies for *_, bodies in BODIES] == [bodies_of(rows, size) for rows, size, _ in BODIES]


def test_rows_that_json_does_not_take_are_a_usage_error() -> None:
    with pytest.raises(UsageProblem, match="rows of requests are numbers, texts, bytes or what JSON takes"):
        bodies_of([{1, 2}], 1)


def test_json_is_said_to_be_json() -> None:
    """Also where it was given as text."""
    assert [sent for *_, sent in HEADERS] == [headers_for([body], given) for body, given, _ in HEADERS]
    assert {} == headers_for([b"[[1]]", b"one"], {})


def test_headers_are_given_as_lines() -> None:
    assert {"Authorization": "Bearer a:b", "X": ""} == headers_of(["Authorization: Bearer a:b", "X:"])


def test_a_server_under_test_has_another_port_every_time() -> None:
    assert "http://127.0.0.1/predict" == without_port("http://127.0.0.1:8123/predict?a=b")
