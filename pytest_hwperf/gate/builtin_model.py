"""A small built-in model, for measurements of the machine."""

from functools import lru_cache
from typing import Any

MODEL = "pytest_hwperf.gate.builtin_model:score"
ROWS, COLUMNS = 64, 64  # of a call


def rows() -> Any:
    """Return rows for `score`, shape (64, 64), the same in every process."""
    import numpy as np

    return np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(np.float32)


def score(X: Any) -> Any:
    """Send rows of shape (n, 64) through two dense layers; about 0.1 ms for 64 rows, always in one thread.

    The products are numpy's own loops, not those of a BLAS: what threads it would use is another question.
    """
    import numpy as np

    weights = _weights()
    hidden = np.tanh(np.einsum("ij,jk->ik", X, weights))
    return np.einsum("ij,jk->ik", hidden, weights)


@lru_cache(maxsize=1)
def _weights() -> Any:
    import numpy as np

    return np.random.default_rng(1).normal(size=(COLUMNS, COLUMNS)).astype(np.float32) / COLUMNS**0.5
