"""Text in columns that reads well at 80 to 100 characters, without colour."""

import textwrap
from collections.abc import Iterator, Sequence

NARROWEST, WIDEST = 80, 100


def fitting(columns: int) -> int:
    """Return the width to write for on a terminal of so many columns."""
    return min(WIDEST, max(NARROWEST, columns))


def paragraph(text: str, width: int, *, lead: str = "", indent: int = 0) -> Iterator[str]:
    """Wrap a text after `lead`; its further lines begin at `indent`.

    Lines after the first are commands to be copied: they are never wrapped.
    """
    first, *commands = text.splitlines() or [""]
    rest = " " * indent
    yield from textwrap.wrap(
        first, width, initial_indent=lead, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    ) or [lead.rstrip()]
    yield from (f"{rest}{command}" for command in commands)


def table(rows: Sequence[tuple[str, str, Sequence[str]]], width: int) -> Iterator[str]:
    """Write a label, a text and notes below it for each row; the texts are aligned."""
    indent = 4 + max((len(label) for label, _, _ in rows), default=0)
    for label, text, notes in rows:
        yield from paragraph(text, width, lead=f"  {label}".ljust(indent), indent=indent)
        for note in notes:
            yield from paragraph(note, width, lead=f"{' ' * indent}- ", indent=indent + 2)
