"""Foreign text in GitHub's Markdown: it is shown, and is neither markup, nor a link, nor a message to anybody.

GitHub turns `@name` into a message to a person or a team, `#12` and `GH-12` into a note in another thread, and an
address into a link, wherever they stand in text, also as entities; within code it does not. Test ids are therefore
code. In sentences a zero-width space, as other bots set it, stands behind the sign that would begin such a name.
"""

import re
from collections.abc import Sequence

from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible

LONGEST_NAME = 120  # characters of a test id in a table
LONGEST_TEXT = 300  # of a sentence in one

_BREAK = "&#8203;"  # zero-width space
_ENTITIES = {0: _BREAK} | {ord(one): f"&#{ord(one)};" for one in r"&<>|\`*_~[]$"}
_UNSAFE_IN_CODE = re.compile(r"[`|\\]|^\s|\s$")  # `code` would end, be split as a cell, or lose a space
_LINKS = r":(?=//)|\bwww(?=\.)|@"
_IN_CODE = re.compile(f"({_LINKS})")
_IN_TEXT = re.compile(rf"({_LINKS}|#|!|\b[Gg][Hh](?=-\d))")  # !12 is a merge request of GitLab's


def text(foreign: str, most: int = LONGEST_TEXT) -> str:
    """Write a sentence of unknown origin within a line of Markdown."""
    shown = visible(foreign)
    if len(shown) > most:
        shown = f"{shown[: most - 1]}…"
    return _escaped(shown, _IN_TEXT)


def code(foreign: str, most: int = LONGEST_NAME) -> str:
    """Write a name of unknown origin as code; of a long one beginning and end, which tell parameters apart."""
    shown = _cut(visible(foreign), most)
    if not shown:
        return ""
    if _UNSAFE_IN_CODE.search(shown):
        return f"<code>{_escaped(shown, _IN_CODE)}</code>"
    return f"`{shown}`"


def fenced(lines: str) -> str:
    """Write a block of code, fenced by more backticks than are in it."""
    longest = max((len(run) for run in re.findall("`+", lines)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{lines}\n{fence}"


def _escaped(shown: str, calls: re.Pattern[str]) -> str:
    """Write signs of markup as entities, and a break behind what would begin a link or a message."""
    parts = calls.split(shown)
    return "".join(part if place % 2 == 0 else f"{part}\0" for place, part in enumerate(parts)).translate(_ENTITIES)


def _cut(shown: str, most: int) -> str:
    if len(shown) <= most:
        return shown
    end = most // 2
    return f"{shown[: most - end - 1]}…{shown[-end:]}"


MOST_ROWS = 30  # of a table that is not collapsed


class MarkdownTable(Record, frozen=True, kw_only=True):
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


def _head(table: MarkdownTable) -> list[str]:
    """Return the lines above the rows of a table."""
    opening = [f"<details><summary>{table.heading}</summary>", ""]
    heading = opening if table.collapsed else [f"#### {table.heading} ({len(table.rows)})", ""]
    if not table.columns:
        return heading
    return [*heading, row(table.columns), row(["---"] * len(table.columns))]


def _left_out(table: MarkdownTable, shown: int) -> str:
    left = len(table.rows) - shown
    return f"{left} more {table.elsewhere}." if left else ""


def fixed(table: MarkdownTable) -> int:
    """Return the size of all that is written around the rows of a table."""
    if not table.rows:
        return 0
    return sum(map(size, (*_head(table), *table.below, _left_out(table, 0), "</details>")))


def draw(table: MarkdownTable, room: int) -> tuple[list[str], int]:
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
