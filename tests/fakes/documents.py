"""What the documentation shows of a program's output."""

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def rows_after(page: str, command: str) -> list[str]:
    """Return the lines of the first block of text behind a command; a page may leave some of its output out."""
    behind = (DOCS / page).read_text(encoding="utf-8").partition(f"`{command}`")[2]
    return behind.partition("```text\n")[2].partition("```")[0].splitlines()
