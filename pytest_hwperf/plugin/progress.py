"""Live progress of the pairs, in pytest's own terminal: one line that is written over, or a line a pair."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_hwperf.pairs.conductor import Progress


class ProgressLine:
    """Tells where the pairs are; silent with -q -q."""

    def __init__(self, config: pytest.Config) -> None:
        """Write into the terminal of `config`."""
        self._terminal: pytest.TerminalReporter | None = config.pluginmanager.getplugin("terminalreporter")
        self._quiet = config.get_verbosity() < -1
        self._last: tuple[str, int] = ("", 0)

    def tell(self, progress: "Progress") -> None:
        """Show `progress`; without a terminal only when another pair has begun."""
        if self._terminal is None or self._quiet:
            return
        text = line_of(progress)
        if self._terminal.isatty:
            self._terminal.rewrite(text, erase=True)
        elif self._last != (progress.stage, progress.pair):
            self._terminal.write_line(text)
        self._last = (progress.stage, progress.pair)

    def say(self, text: str) -> None:
        """Write one line that stays."""
        if self._terminal is None or self._quiet:
            return
        if self._terminal.isatty:
            self._terminal.rewrite("", erase=True)
        self._terminal.write_line(text)


def line_of(progress: "Progress") -> str:
    """Return the line: stage, pair, what is decided, time left until the next decision, and the test."""
    if progress.stage == "rehearsal":
        return f"hwperf: rehearsal of both sides {progress.test}".rstrip()
    parts = [f"hwperf: {progress.stage} pair {progress.pair} of {progress.of}"]
    if progress.stage == "confirm":
        parts.append(f"{progress.decided} of {progress.hypotheses} decided")
    if progress.left_s is not None:
        parts.append(f"about {max(1, round(progress.left_s))} s left")
    return ", ".join([*parts, progress.test] if progress.test else parts)
