"""Labels in answers of a server that may say anything."""

import pytest

from pytest_hwperf.loads.http import labels_of
from pytest_hwperf.records.errors import MeasurementError

LABELS: dict[bytes, list[object]] = {
    b"[1, 0]": [1, 0],
    b'["cat", "dog"]': ["cat", "dog"],
    b'{"predictions": [1.0, 2.0]}': [1.0, 2.0],
    b'{"outputs": [true, false], "version": "3"}': [True, False],
}
OTHERS = {
    b"": "is no JSON",
    b"\xff\xfe": "is no JSON",
    b"[" * 100_000: "is no JSON",
    b"[NaN, 1]": "is no JSON",
    b'{"labels": [1, 0]}': "names none of them",
    b'{"predictions": [1, 0], "outputs": [1, 0]}': "names both",
    b'{"predictions": "10"}': "has no list",
    b"7": "has no list",
    b"[1]": "has 1 entries for 2 rows",
    b"[[0.1, 0.9], [0.8, 0.2]]": "has entries that are no labels",
    b"[1, null]": "has entries that are no labels",
    b'[1, "1"]': "mixes texts and numbers",
}


def test_labels_are_a_list_or_named() -> None:
    assert LABELS == {answer: labels_of(answer, 2) for answer in LABELS}


def test_other_answers_say_what_is_read() -> None:
    for answer, why in OTHERS.items():
        with pytest.raises(MeasurementError, match=f'{why}: predictions are read from a list .* as "predictions" or '):
            labels_of(answer, 2)


def test_a_long_answer_is_quoted_by_its_beginning() -> None:
    with pytest.raises(MeasurementError) as caught:
        labels_of(b"<html>\x1b[2J" + b"x" * 10_000, 2)
    assert len(str(caught.value)) < 400
    assert "\x1b" not in str(caught.value)
