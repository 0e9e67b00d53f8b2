"""Rows in the form of KServe's inference protocol; no client is needed."""

import json
from typing import Any

import numpy as np
import pytest

from pytest_hwperf.loads.http import infer_bodies, is_infer
from pytest_hwperf.records.errors import UsageProblem

ROWS = np.array([[1, 2], [3, 4]])


def test_the_address_says_that_a_model_is_asked() -> None:
    urls = {
        "http://127.0.0.1:8000/v2/models/double/infer": True,
        "https://a.example/served/v2/models/double/versions/3/infer": True,
        "http://127.0.0.1:8000/v2/models/double": False,
        "http://127.0.0.1:8000/predict": False,
    }
    assert urls == {url: is_infer(url) for url in urls}


def test_rows_get_the_type_of_the_input() -> None:
    (body,) = infer_bodies([ROWS], {"X": "FP32"})
    assert {"name": "X", "shape": [2, 2], "datatype": "FP32", "data": [1.0, 2.0, 3.0, 4.0]} == tensor(body)


def test_several_inputs_are_given_by_name() -> None:
    (body,) = infer_bodies([{"mask": ROWS > 1, "ids": ROWS}], {"ids": "INT64", "mask": "BOOL"})
    assert ["ids", "mask"] == [one["name"] for one in json.loads(body)["inputs"]]
    assert [False, True, True, True] == tensor(body, 1)["data"]


WRONG: list[tuple[Any, dict[str, str], str]] = [
    ({"Z": ROWS}, {"X": "FP32"}, "the served model takes X (FP32): give its rows, of several inputs as a mapping*"),
    (ROWS, {"X": "FP32", "Y": "INT8"}, "the served model takes X (FP32), Y (INT8): give its rows*"),
    (ROWS, {}, "the served model takes no input: give its rows*"),
    (np.array([["a", "b"]]), {"X": "FP32"}, "the rows do not fit what the served model takes*FP32*"),
    (ROWS, {"X": "FP8"}, "the served model has an input of type 'FP8'. Known: BOOL, UINT8, *"),
]


def test_rows_that_do_not_fit_are_a_usage_error() -> None:
    for rows, inputs, said in WRONG:
        with pytest.raises(UsageProblem) as caught:
            infer_bodies([rows], inputs)
        pytest.LineMatcher([str(caught.value)]).fnmatch_lines([said])


def tensor(body: bytes, number: int = 0) -> Any:
    return json.loads(body)["inputs"][number]
