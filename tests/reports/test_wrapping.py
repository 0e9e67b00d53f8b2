"""Paragraphs in the width of a terminal."""

import pytest

from pytest_hwperf.reports.wrapping import wrapped

TRADEOFFS = "hwperf tradeoffs --pairs -- tests/test_models.py::test_model"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (f"torch_int8 may be slower than torch_fp32. Measure in pairs: {TRADEOFFS}", TRADEOFFS),
        (f"inconclusive: {TRADEOFFS} (three pairs)", TRADEOFFS),
        (
            "the clone is shallow: get its history with `git fetch --unshallow origin main`, or ",
            "`git fetch --unshallow",
        ),
        ("Load the driver: sudo modprobe intel_rapl_msr (on your host); containers see it too", "sudo modprobe intel"),
    ],
)
@pytest.mark.parametrize("width", [30, 45, 60, 80])
def test_a_command_stands_on_one_line(text: str, command: str, width: int) -> None:
    """In two lines it would be two commands once it is pasted; the text around it is wrapped."""
    lines = wrapped(text, width)
    assert any(command in line for line in lines)
    assert text.split() == " ".join(lines).split()
    assert all(len(line) <= width for line in lines if command not in line)
