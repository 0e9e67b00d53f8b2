"""How far the pairs are, as one line."""

import pytest

from pytest_hwperf.gate.conductor import Progress, progress_text


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress(stage="checkout", pair=1, of=1, test=""), "hwperf: checkout of the baseline"),
        (
            Progress(stage="processes", pair=1, of=4, test="t.py::t", left_s=62.4),
            "hwperf: comparison of fresh processes 1 of 4, about 62 s left, t.py::t",
        ),
        (Progress(stage="operators", pair=2, of=2, test="t.py::t"), "hwperf: operators, 2 of 2, t.py::t"),
        (Progress(stage="explain", pair=2, of=3, test="t.py::t"), "hwperf: what moved, 2 of 3, t.py::t"),
    ],
)
def test_what_is_done_beside_the_pairs_is_named(progress: Progress, text: str) -> None:
    assert text == progress_text(progress)
