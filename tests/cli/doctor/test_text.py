"""Text in columns."""

import pytest

from pytest_hwperf.cli.doctor.command import fitting_width, paragraph, table


@pytest.mark.parametrize(("columns", "width"), [(0, 80), (80, 80), (93, 93), (200, 100)])
def test_the_width_reads_well_on_every_terminal(columns: int, width: int) -> None:
    assert width == fitting_width(columns)


def test_texts_are_aligned_and_notes_hang_below_them() -> None:
    rows = [("a", "one two three", ()), ("longer", "four", ["five six seven"])]
    assert [
        "  a       one two",
        "          three",
        "  longer  four",
        "          - five six",
        "            seven",
    ] == list(table(rows, 20))


def test_commands_are_never_wrapped() -> None:
    """They are copied."""
    command = "  sudo " + "x" * 100
    assert ["  do", f"  {command}"] == list(paragraph(f"do\n{command}", 80, lead="  ", indent=2))


def test_a_path_is_never_broken() -> None:
    path = "/sys/devices/system/cpu/intel-pstate/" + "x" * 80
    assert path in [line.strip() for line in paragraph(f"echo {path}", 80)]


def test_an_empty_text_is_its_lead() -> None:
    assert ["  name"] == list(paragraph("", 80, lead="  name  "))


def test_a_table_without_rows_is_nothing() -> None:
    assert [] == list(table([], 80))
