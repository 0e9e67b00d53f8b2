"""Rows that a static quantisation takes its ranges from: training rows, never those that are predicted later."""

from typing import Any

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.scenarios.estimators import Fitted
from pytest_hwperf.scenarios.rows import count_shared, cut, digest, evenly_spaced

_MOST_ROWS = 512
_BATCH = 32  # equal batches: some calibration methods stack what each batch yields


class Calibration:
    """Equal batches of calibration rows, read as ONNX Runtime's quantiser reads them."""

    def __init__(self, rows: Any, input_name: str) -> None:
        self._batches = iter(cut(rows, min(_BATCH, len(rows))))
        self._input = input_name

    def get_next(self) -> dict[str, Any] | None:
        """Return the next batch as the session's inputs, None at the end."""
        batch = next(self._batches, None)
        return None if batch is None else {self._input: batch}


def choose_rows(fitted: Fitted, X: Any, X_calibration: Any) -> Any:
    """Return at most 512 rows of `X_calibration`, evenly spaced, a multiple of 32 where there are as many.

    Raises:
        UsageProblem: some of its rows are rows of `X`.
        MeasurementError: it is no numeric matrix of the same width.
    """
    rows = fitted.rows(X_calibration)
    if shared := count_shared(rows, fitted.rows(X)):
        raise UsageProblem(
            f"{shared} of {len(rows)} rows of X_calibration occur in X, so test rows would calibrate the model that is "
            "tested on them: give training rows, without those that X repeats"
        )
    most = min(_MOST_ROWS, len(rows))
    return evenly_spaced(rows, most - most % _BATCH if most > _BATCH else most)


def describe(rows: Any) -> str:
    """Write count and digest of the rows that calibrate."""
    return f"{len(rows)} rows, {digest(rows)}"
