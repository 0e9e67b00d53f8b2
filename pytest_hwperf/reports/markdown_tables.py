"""Tables and lists of the Markdown report, as many rows of each as there is room for; what is left out is counted."""

from collections.abc import Sequence

from pytest_hwperf.core.structs import Record

MOST_ROWS = 30  # of a table that is not collapsed


class Table(Record, frozen=True, kw_only=True):
    """A table below its heading."""

    heading: str
    columns: Sequence[str]  # () where the rows are items of a list
    rows: Sequence[str]
    most: int = MOST_ROWS
    below: Sequence[str] = ()
    collapsed: bool = False
    elsewhere: str = ""  # where rows are that are left out


def row(cells: Sequence[str]) -> str:
    """Write a row of a table."""
    return f"| {' | '.join(cells)} |"


def _head(table: Table) -> list[str]:
    """Return the lines above the rows of a table."""
    opening = [f"<details><summary>{table.heading}</summary>", ""]
    heading = opening if table.collapsed else [f"#### {table.heading} ({len(table.rows)})", ""]
    if not table.columns:
        return heading
    return [*heading, row(table.columns), row(["---"] * len(table.columns))]


def _left_out(table: Table, shown: int) -> str:
    left = len(table.rows) - shown
    return f"{left} more {table.elsewhere}." if left else ""


def fixed(table: Table) -> int:
    """Return the size of all that is written around the rows of a table."""
    if not table.rows:
        return 0
    return sum(map(size, (*_head(table), *table.below, _left_out(table, 0), "</details>")))


def draw(table: Table, room: int) -> tuple[list[str], int]:
    """Return the lines of a table with as many rows as there is room for, and the room behind them."""
    kept: list[str] = []
    for line in table.rows[: table.most]:
        if size(line) > room:
            break
        kept.append(line)
        room -= size(line)
    if not table.rows:
        return [], room
    lines = "\n".join([*_head(table), *kept])
    left = _left_out(table, len(kept))
    closing = ["</details>"] if table.collapsed else []
    return [lines, *filter(None, [left]), *table.below, *closing], room


def size(lines: str) -> int:
    """Return the bytes of a paragraph with the line ends behind it."""
    return len(lines.encode()) + 2
