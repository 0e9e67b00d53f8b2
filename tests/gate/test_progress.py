"""How far the pairs are, as one line."""

import pytest

from pytest_hwperf.gate.progress import fit


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
