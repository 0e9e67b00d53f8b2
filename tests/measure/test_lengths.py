"""Rows of varying length: what counts as one, and how their mix is told."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from pytest_hwperf.measure.accuracy import digest
from pytest_hwperf.measure.rows import lengths_of, mix_of

TEXTS = ["a" * length for length in range(1, 101)]


@pytest.mark.parametrize(
    "X", [TEXTS, tuple(TEXTS), np.array(TEXTS), pd.Series(TEXTS), [text.encode() for text in TEXTS]]
)
def test_a_mix_is_told_by_count_median_and_p95(X: Any) -> None:
    """Nearest rank: the 50th and the 95th of a hundred."""
    assert mix_of(X)["lengths"].startswith("100 rows (median 50, p95 95, digest ")


def test_another_order_is_another_mix() -> None:
    """Calls take the rows in turn."""
    assert mix_of(TEXTS) != mix_of(TEXTS[::-1])


@pytest.mark.parametrize(
    "X",
    [np.ones((4, 3)), [[1, 2], [3, 4]], [1, 2, 3], "text", b"bytes", ["", "a"], pd.DataFrame({"a": [1]}), np.arange(3)],
)
def test_rows_of_one_length_or_none_have_no_mix(X: Any) -> None:
    assert mix_of(X) == {}


def test_an_input_is_as_long_as_its_rows_together() -> None:
    assert [3, 7] == lengths_of([["a", "bc"], ["abc", "defg"]])


def test_rows_of_tokens_have_a_digest() -> None:
    """No array of numbers holds them."""
    ragged = [[1, 2, 3], [4]]
    assert digest(ragged) == digest([np.array([1, 2, 3]), [4]])
    assert digest(ragged) != digest([[1, 2], [3, 4, 5]])
