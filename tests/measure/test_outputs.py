"""NaN is refused where it can only mean that a model is broken."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from pytest_hwperf.measure.accuracy import refuse_nan, why_unfinished
from pytest_hwperf.records.errors import MeasurementError

NAN = float("nan")


@pytest.mark.parametrize(
    ("output", "reported"),
    [
        (np.array([1.0, NAN, 3.0, NAN]), "2 of 4 outputs"),
        (np.full((3, 2), NAN, dtype="float32"), "6 of 6 outputs"),
    ],
)
def test_nan_in_an_array_is_refused(output: object, reported: str) -> None:
    with pytest.raises(MeasurementError, match=f"{reported} of one batch are NaN: the model is broken here"):
        refuse_nan(output)


@pytest.mark.parametrize(
    "output",
    [
        np.array([1.0, np.inf]),
        np.array([1, 2]),
        np.array(["a"]),
        np.ma.masked_array([1.0, NAN], mask=[False, True]),
        pd.DataFrame({"a": [1.0, NAN]}),
        [1.0, NAN],
        None,
    ],
    ids=["infinite", "whole numbers", "text", "masked", "data frame", "list", "nothing"],
)
def test_other_values_are_left_alone(output: object) -> None:
    refuse_nan(output)


def test_what_is_no_array_loads_no_numpy() -> None:
    """A library that is loaded between the first call and the timed ones would disturb them."""
    code = "import sys; from pytest_hwperf.measure.accuracy import refuse_nan; refuse_nan(1.0); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "numpy" not in done.stdout.split()


class LaterArray:
    """As JAX returns it: computed some time after the call."""

    def __init__(self, *, ready: bool) -> None:
        self._ready = ready

    def is_ready(self) -> bool:
        return self._ready

    def block_until_ready(self) -> "LaterArray":
        return self


@pytest.mark.parametrize("output", [LaterArray(ready=False), [LaterArray(ready=False)]], ids=["alone", "in a list"])
def test_an_array_that_is_not_computed_yet_is_said(output: object) -> None:
    assert "LaterArray before it was computed: end it with .block_until_ready()" in str(why_unfinished(output))


@pytest.mark.parametrize("output", [LaterArray(ready=True), [], np.ones(2), None, "text"])
def test_of_other_outputs_nothing_is_said(output: object) -> None:
    assert None is why_unfinished(output)
