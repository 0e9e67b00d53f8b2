"""Ctrl-C ends any command with one line."""

import io
import sys
from typing import Any

import pytest

from pytest_hwperf.cli import INTERRUPTED, doctor, main, report


class Terminal(io.StringIO):
    """Standard error that is shown to someone."""

    def isatty(self) -> bool:
        return True


def pressed(*_: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("arguments", [["report", "report.json"], ["doctor"]])
def test_ctrl_c_ends_a_command_with_one_line(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By 130, as in shells, and without a traceback."""
    monkeypatch.setattr(report, "read_report", pressed)
    monkeypatch.setattr(doctor, "collect_findings", pressed)
    assert 130 == INTERRUPTED == main(arguments)
    assert ("", "hwperf: interrupted\n") == capsys.readouterr()


def test_a_line_of_progress_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(doctor, "collect_findings", pressed)
    monkeypatch.setattr(sys, "stderr", terminal)
    main(["doctor"])
    assert ["", "", "hwperf: interrupted\n"] == [text.lstrip() for text in terminal.getvalue().split("\r")]
