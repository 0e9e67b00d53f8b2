"""The table as lines for a terminal of any width."""

import math
import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations

from pytest_hwperf.core.report import Report
from pytest_hwperf.reports.operators import OperatorTable
from pytest_hwperf.reports.table import Column, Detail, Group, Row, Section, Table, Tone, rows

Style = Mapping[str, bool]  # markup as pytest's terminal writer takes it: {"red": True}
Line = tuple[str, Style]

_INDENT = "  "
_ROW_INDENT = _INDENT * 2
_GAP = "  "
_FIRST_COMBINING = "\u0300"  # no letter before it is wide or combines with another
_TIE = "\xa0"  # a space at which no line breaks; in texts from outside it is escaped
_STYLES: Mapping[Tone, Style] = {"bad": {"red": True}, "doubtful": {"yellow": True}, "good": {"green": True}}
_BOLD: Style = {"bold": True}
_PLAIN: Style = {}


def render(report: Report, *, width: int, color: bool, detail: Detail = "normal") -> list[Line]:
    """Draw a report as lines of text, each with its style.

    Args:
        report: the whole run.
        width: columns of the terminal. What does not fit moves to a line below, least important
            first; no value or outcome is ever cut, so that a line with one long word may be longer.
        color: whether styles are given at all; the text itself never holds colour codes.
        detail: as for `table.rows`.
    """
    table = rows(report, detail=detail)
    lines = [
        *_grid(table, width),
        *(line for i, note in enumerate(table.footnotes, 1) for line in _wrapped(f"[{i}] {note}", width)),
        *(line for one in table.operators for line in _operators(one, width)),
        *(line for text in table.warnings for line in _wrapped(f"warning: {text}", width, _STYLES["doubtful"])),
    ]
    if table.partial:
        text = "interrupted: what is shown is complete, but not all tests ran"
        lines += _wrapped(text, width, _STYLES["doubtful"])
    lines += _counts(table, width)
    return lines if color else [(text, _PLAIN) for text, _ in lines]


def _grid(table: Table, width: int) -> list[Line]:
    """Draw the tests, their columns aligned throughout."""
    cells = [row.cells for group in table.groups for section in group.sections for row in section.rows]
    names = [column.name for column in table.columns]
    widths = [max(map(_size(column), column)) for column in zip(names, *cells, strict=True)]
    inside = _fitting(table, widths, width)
    below = [i for i in range(len(table.columns)) if i not in inside]
    lines = [(_aligned(names, widths, inside), _BOLD)] if cells else []
    for group in table.groups:
        lines += _head(group, width)
        for section in group.sections:
            lines += _subhead(group, section, width)
            for row in section.rows:
                text, marks = _line(row, widths, inside, width)
                rest = " ".join(filter(None, [_phrases(table.columns, row, below), marks]))
                lines.append((text, _STYLES.get(row.tone, _PLAIN)))
                lines += _wrapped(rest, width, indent=_ROW_INDENT + _INDENT)
    return lines


def _operators(table: OperatorTable, width: int) -> list[Line]:
    """Draw where the time of a call goes; the last column, the name of a node, moves below where it has no room."""
    lines = [*_wrapped(table.title, width, _BOLD), *_wrapped(table.setting, width, indent=_INDENT)]
    work = [line for text in table.work for line in _wrapped(text, width, indent=_INDENT)]
    widths = [max(map(_cells, column)) for column in zip(*table.rows, strict=True)]
    every = range(len(widths))
    fits = not widths or _total(every, widths) <= width
    for row in table.rows:
        lines.append((_aligned(row, widths, every if fits else every[:-1]), _PLAIN))
        lines += [] if fits else _wrapped(row[-1], width, indent=_ROW_INDENT + _INDENT)
    return [*lines, *work]


def _phrases(columns: Sequence[Column], row: Row, below: Sequence[int]) -> str:
    """Write the cells of a row that have no room in the grid."""
    return ", ".join(columns[i].phrase.format(row.cells[i]).replace(" ", _TIE) for i in below if row.cells[i])


def _head(group: Group, width: int) -> list[Line]:
    """Draw the lines above the scenarios of a test."""
    return [*_wrapped(group.title, width, _BOLD), *_settings(group.setting, group.sources, width)]


@lru_cache(maxsize=100)  # most tests have those of the one above
def _settings(setting: str, sources: str, width: int) -> list[Line]:
    below = "; ".join(filter(None, [setting, sources and f"sources: {sources}"]))
    return _wrapped(_tied(below, width), width, indent=_INDENT)


def _subhead(group: Group, section: Section, width: int) -> list[Line]:
    """Draw the lines above the rows of a scenario, its test id last, whole and not repeated."""
    test = section.test if section.test != group.title else ""
    texts = filter(None, [section.name, section.ratio, _tied(section.setting, width), test])
    return _wrapped(_GAP.join(texts), width, _BOLD, indent=_INDENT)


def _line(row: Row, widths: Sequence[int], inside: Sequence[int], width: int) -> tuple[str, str]:
    """Draw what fits of a row, the marks of its footnotes behind its outcome; where they do not fit, apart."""
    text = _aligned([*row.cells[:-1], _marked(row)], widths, inside)
    return (text, "") if _cells(text) <= width else (_aligned(row.cells, widths, inside), _marks(row))


def _marks(row: Row) -> str:
    return f"[{','.join(map(str, row.notes))}]" if row.notes else ""


def _marked(row: Row) -> str:
    """Return the last cell with the marks of footnotes behind it."""
    return f"{row.cells[-1]} {_marks(row)}".strip()


def _counts(table: Table, width: int) -> list[Line]:
    """Draw the counts side by side, or one below the other."""
    style = {"bold": True, "red": True} if table.fails else _BOLD
    together = "; ".join(table.counts)
    texts = [together] if _cells(together) <= width else table.counts
    return [line for text in texts for line in _wrapped(_tied(text, width), width, style)]


def _tied(text: str, width: int) -> str:
    """Let a list break behind its commas and semicolons rather than within `1 no baseline`."""
    parts = re.split(r"(?<=[,;]) ", text)
    return " ".join(part.replace(" ", _TIE) if len(part) <= width // 2 else part for part in parts)


def _fitting(table: Table, widths: Sequence[int], width: int) -> list[int]:
    """Return the positions of the columns that are drawn side by side.

    Of the sets that fit, the one that leaves the fewest rows with a line below; of equal ones, the one without which
    the least important columns go. Marks of footnotes may go below by themselves.
    """
    columns = table.columns
    every = range(len(columns))
    free = [i for i in every if columns[i].rank]
    rows = Counter(
        (tuple(map(bool, row.cells)), _cells(_marked(row))) for g in table.groups for s in g.sections for row in s.rows
    )  # what is filled, and the width with the marks: few of all rows differ in these

    def cost(inside: Sequence[int]) -> tuple[int, float, int]:
        outside = [i for i in free if i not in inside]
        room = width - _total(inside, widths) + widths[-1]
        below = sum(n for (filled, last), n in rows.items() if last > room or any(filled[i] for i in outside))
        return below, -min((columns[i].rank for i in outside), default=math.inf), len(outside)

    sets = ([i for i in every if i not in left] for size in range(len(free)) for left in combinations(free, size))
    least = [i for i in every if not columns[i].rank]
    return min((inside for inside in sets if _total(inside, widths) <= width), key=cost, default=least)


def _total(inside: Sequence[int], widths: Sequence[int]) -> int:
    return len(_ROW_INDENT) + sum(widths[i] for i in inside) + len(_GAP) * (len(inside) - 1)


def _aligned(texts: Sequence[str], widths: Sequence[int], inside: Sequence[int]) -> str:
    size = _size(texts)
    cells = [texts[i] + " " * (widths[i] - size(texts[i])) for i in inside]
    return (_ROW_INDENT + _GAP.join(cells)).rstrip()


def _size(texts: Sequence[str]) -> Callable[[str], int]:
    """Return what counts the cells that each of some texts takes."""
    return len if "".join(texts).isascii() else _cells


def _cells(text: str) -> int:
    """Return how many cells of a terminal a text takes: two for a wide letter, none for a combining one."""
    if text.isascii() or max(text) < _FIRST_COMBINING:  # nearly always, and a hundred times faster
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def _wrapped(text: str, width: int, style: Style = _PLAIN, indent: str = "") -> list[Line]:
    """Break a text between words; a long word, such as a test id, stays whole so that it can be copied."""
    if len(indent) + len(text) <= width:  # nearly always
        return [(indent + text.replace(_TIE, " "), style)] if text else []
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [(line.replace(_TIE, " "), style) for line in lines]
