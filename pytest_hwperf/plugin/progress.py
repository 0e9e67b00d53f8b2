"""The line in pytest's terminal that shows how far the pairs are."""

from contextlib import AbstractContextManager, nullcontext

import pytest

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.units import show
from pytest_hwperf.gate.progress import fit, progress_text
from pytest_hwperf.pairs.conductor import Progress

_LONG_S = 10.0  # without a word a test that takes longer looks as if it hung


class ProgressLine:
    """One line that is written over, or without a terminal a line for each pair; nothing with -qq.

    It is shown from within a test too, where pytest captures what is written: capturing is interrupted for it.
    """

    def __init__(self, config: pytest.Config) -> None:
        """Write into the terminal of `config`; an xdist worker has none."""
        self._config = config
        self._terminal: pytest.TerminalReporter | None = config.pluginmanager.getplugin("terminalreporter")
        if config.get_verbosity() < -1:
            self._terminal = None
        self._last: tuple[str, int] = ("", 0)

    def show(self, progress: Progress) -> None:
        """Show `progress`; without a terminal only when another pair has begun."""
        if self._terminal is None:
            return
        text = visible(progress_text(progress))
        with self._uncaptured():
            if self._last == ("", 0):
                self._terminal.ensure_newline()  # of the line in which the test is named
            if self._terminal.isatty:
                self._terminal.rewrite(fit(text, self._config.get_terminal_writer().fullwidth), erase=True)
            elif self._last != (progress.stage, progress.pair):
                self._terminal.write_line(text)
        self._last = (progress.stage, progress.pair)

    def say(self, text: str) -> None:
        """Write one line that stays."""
        self.clear()
        if self._terminal is not None:
            with self._uncaptured():
                self._terminal.ensure_newline()
                self._terminal.write_line(visible(text))

    def clear(self) -> None:
        """Remove the line; what stands without a terminal stays."""
        if self._terminal is not None and self._terminal.isatty:
            with self._uncaptured():
                self._terminal.rewrite("", erase=True)
                self._terminal.rewrite("")  # back to the first column

    def _uncaptured(self) -> AbstractContextManager[None]:
        capturing = self._config.pluginmanager.getplugin("capturemanager")
        found: AbstractContextManager[None] = capturing.global_and_fixture_disabled() if capturing else nullcontext()
        return found


def processes_left(node: str, role: str, total: int, answers: int, seconds: float) -> str:
    """Return what is said while fresh processes are waited for; "" where those that are left are quick.

    Args:
        node: id of the test.
        role: "memory" or "cold".
        total: processes.
        answers: of them, that have answered so far.
        seconds: that the last group of them took; those that are left take as long, one after another at most.
    """
    left_s = (total - answers) * seconds
    if left_s < _LONG_S:
        return ""
    measured = "cold start" if role == "cold" else "memory in fresh process"
    return f"hwperf: {node}: {measured} {answers} of {total} took {show(seconds, 's')}, up to {show(left_s, 's')} to go"
