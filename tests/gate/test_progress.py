"""How far the pairs are, as one line."""

import pytest

from pytest_hwperf.gate.conductor import Progress
from pytest_hwperf.gate.progress import fit, progress_text


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


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("screen pair 1", 14, "screen pair 1"),
        ("screen pair 1", 13, "screen pai…"),
        ("日本語 pair", 12, "日本語 pair"),
        ("日本語 pair", 11, "日本語 p…"),
        ("screen", 1, "…"),
        ("", 1, ""),
    ],
)
def test_a_line_leaves_one_cell_free(text: str, width: int, shown: str) -> None:
    """A letter that is not of ASCII may take two, the ellipsis included."""
    assert shown == fit(text, width)
