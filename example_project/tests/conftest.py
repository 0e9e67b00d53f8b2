"""The data that every scenario predicts."""

import pytest
from digits_models import Digits, load


@pytest.fixture(scope="session")
def digits() -> Digits:
    """The digits, loaded once."""
    return load()


@pytest.fixture(scope="session")
def hwperf_data(digits: Digits) -> dict:
    """Test rows with their labels, and training rows that static quantisation may look at."""
    return {"X": digits.X_test, "y": digits.y_test, "X_calibration": digits.X_train[:512]}
