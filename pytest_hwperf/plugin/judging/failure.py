"""The failure of a test by its verdicts, as pytest shows it: wrapped, and in the summary the numbers first."""

from typing import Protocol

import pytest

from pytest_hwperf.reports.document import wrapped

LOOK_FURTHER = "details: "  # how the command that shows more begins


class _Writer(Protocol):
    """What is used of pytest's terminal writer."""

    @property
    def fullwidth(self) -> int: ...

    def line(self, s: str = "", **markup: bool) -> None: ...


class Failure:
    """What pytest keeps of a failed test: its text in full, and how it is drawn in a terminal.

    Everything else, such as where it was raised, is that of the representation which pytest made.
    """

    def __init__(self, text: str, made: object) -> None:
        self._text = text
        self._made = made

    def __str__(self) -> str:
        return self._text

    def __getattr__(self, name: str) -> object:
        return getattr(self._made, name)

    def toterminal(self, writer: _Writer) -> None:
        """Write each line, wrapped unless it is a command; what failed in red, what is known of it plain."""
        for text in self._text.split("\n"):
            said = text.lstrip()
            indent = text[: len(text) - len(said)]
            is_command = said.startswith(LOOK_FURTHER)  # in two lines, it would be two commands once it is pasted
            for line in [said] if is_command else wrapped(said, writer.fullwidth, indent):
                writer.line(line, red=not indent and not is_command)


def note_failure(report: pytest.TestReport, text: str) -> None:
    """Let the short summary begin with the numbers, and send the text to the process that shows it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if report.failed and crash is not None:
        crash.message = text
        report.hwperf_failure = text  # type: ignore[attr-defined] # pytest lets plugins add to a report


def draw_failure(report: pytest.TestReport) -> None:
    """Let a report that has failed by its verdicts draw itself in the width of the terminal."""
    text = getattr(report, "hwperf_failure", "")
    if text and report.failed:
        report.longrepr = Failure(text, report.longrepr)  # type: ignore[assignment] # pytest asks for these methods only
