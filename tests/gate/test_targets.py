"""What a model is that is named in one word."""

from pathlib import Path

import numpy as np
import pytest

from pytest_hwperf.gate.models.targets import (
    COLUMNS,
    MODEL,
    ROWS,
    TargetKind,
    check_target,
    is_function,
    kind_of,
    rows,
    score,
    shown,
)
from pytest_hwperf.records.errors import UsageProblem

ALL: tuple[TargetKind, ...] = ("ONNX file", "estimator", "function", "address")


KINDS: dict[str, TargetKind] = {
    "models/new.onnx": "ONNX file",
    "new": "ONNX file",
    "new.skops": "estimator",
    "NEW.SKOPS": "estimator",
    "new.joblib": "pickle",
    "new.PKL": "pickle",
    "new.pickle": "pickle",
    "models.onnx:predict": "function",
    "http://127.0.0.1:8000/predict": "address",
    "https://a.example/v1/model.skops": "address",
    "http://[::1]:8000/predict": "address",
}


def test_the_name_tells_what_it_is() -> None:
    assert KINDS == {target: kind_of(target) for target in KINDS}


def test_a_pickle_is_refused_with_the_way_to_convert_it(tmp_path: Path) -> None:
    """Nobody looks into it: it need not even be one."""
    for name in ("old.joblib", "it's.pkl", "x.pickle"):
        (tmp_path / name).write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")
        with pytest.raises(UsageProblem, match=r"never loaded here\. If you trust it, convert it .* skops\.io\.dump\("):
            check_target(str(tmp_path / name), ALL)


def test_what_is_not_there_is_refused_with_the_forms_that_are_taken() -> None:
    files = ["none.onnx", "none.skops", ".", "a\0b"]
    for target in [*files, "http://[::1/p", "http://a:b/p", "http://a:70000", "http://@/p", "grpc://a"]:
        with pytest.raises(UsageProblem, match="is neither a file nor of the form module:function, nor an address"):
            check_target(target, ALL)


def test_another_kind_than_is_taken_is_named() -> None:
    with pytest.raises(UsageProblem, match=r"is of the kind 'address'\. Allowed: ONNX file, estimator"):
        check_target("http://127.0.0.1:8000/predict", ("ONNX file", "estimator"))


def test_passwords_are_not_shown() -> None:
    told = {
        "http://me:secret@a.example:8000/predict": "http://a.example:8000/predict",
        "http://a/predict?key=secret": "http://a/predict?…",
        "htp://me:secret@a.example": "htp://a.example",
        "new\x1b[2J.onnx": "new\\x1b[2J.onnx",
    }
    assert told == {target: shown(target) for target in told}


def test_every_row_is_scored_by_itself_and_the_same_in_every_process() -> None:
    """Two dense layers: no row knows of the others. Rows and weights come from seeds."""
    X = rows()
    assert (ROWS, COLUMNS) == X.shape == score(X).shape
    assert np.array_equal(rows(), X)
    assert np.array_equal(score(X), score(X))
    assert np.allclose(score(X[:1]), score(X)[:1], atol=1e-5)


def test_it_can_be_named_to_a_fresh_process() -> None:
    assert is_function(MODEL)
    assert MODEL.endswith(f":{score.__name__}")
