"""Code around the models: a test without the fixture is measured itself, its body is the call."""

import pytest
from digits_models import Digits, scaled


@pytest.mark.hwbudget(latency_p95_ms=50)
def test_scaling_the_pixels(digits: Digits) -> None:
    """The images are brought into the range 0 to 1."""
    assert scaled(digits.X_test).max() <= 1
