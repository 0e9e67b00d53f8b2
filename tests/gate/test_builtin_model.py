"""The built-in model."""

import numpy as np

from pytest_hwperf.gate.builtin_model import COLUMNS, MODEL, ROWS, rows, score
from pytest_hwperf.gate.targets import is_function


def test_it_is_the_same_in_every_process() -> None:
    """Rows and weights come from seeds."""
    X = rows()
    assert (ROWS, COLUMNS) == X.shape
    assert np.array_equal(rows(), X)
    assert np.array_equal(score(X), score(X))


def test_every_row_is_scored_by_itself() -> None:
    """Two dense layers: no row knows of the others."""
    X = rows()
    assert (ROWS, COLUMNS) == score(X).shape
    assert np.allclose(score(X[:1]), score(X)[:1], atol=1e-5)


def test_it_can_be_named_to_a_fresh_process() -> None:
    assert is_function(MODEL)
    assert MODEL.endswith(f":{score.__name__}")
