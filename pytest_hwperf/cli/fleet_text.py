"""What all hosts of a fleet do, a line for each, on standard error."""

import shutil
import sys
from collections.abc import Mapping

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.gate.progress import fit

_UP, _CLEAR = "\033[{}A", "\r\033[J"  # lines up; all that is below
_TOLD = ("starting", "ending", "ended", "lost", "has not")  # what is worth a line where nothing can be written over


class HostLines:
    """A block of lines that is written over; without a terminal, a line whenever a host begins or ends something."""

    def __init__(self) -> None:
        """Show nothing yet."""
        self._shown = 0
        self._told: dict[str, str] = {}

    def show(self, states: Mapping[str, str]) -> None:
        """Replace the block by what each host does now."""
        lines = [visible(f"{name}: {text}") for name, text in states.items()]
        if sys.stderr.isatty():
            columns = shutil.get_terminal_size().columns
            text = "\n".join(fit(line, columns) for line in lines)
            print(f"{self._above()}{text}", file=sys.stderr, flush=True)
            self._shown = len(lines)
            return
        for name, line in zip(states, lines, strict=True):
            said = states[name].partition(": ")[2]
            if said.startswith(_TOLD) and self._told.get(name) != line:
                self._told[name] = line
                print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Remove the block; what stands without a terminal stays."""
        if self._shown:
            print(self._above(), end="", file=sys.stderr, flush=True)
            self._shown = 0

    def _above(self) -> str:
        return f"{_UP.format(self._shown) if self._shown else ''}{_CLEAR}"
