"""The table as lines for a terminal of any width."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from pytest_hwperf.records.report import Report
from pytest_hwperf.reports import explained
from pytest_hwperf.reports.document import GAP, aligned, room_of
from pytest_hwperf.reports.explained import OperatorTable, operator_tables
from pytest_hwperf.reports.summary import HEADS, Summary, summary_of
from pytest_hwperf.reports.table import Column, Detail, Group, Row, Section, Table, Tone, rows
from pytest_hwperf.reports.wrapping import INDENT, wrapped

Style = Mapping[str, bool]  # markup as pytest's terminal writer takes it: {"red": True}
Line = tuple[str, Style]

_ROW_INDENT = INDENT * 2
_WORDS = {place for place, head in enumerate(HEADS) if head in {"test", "tightest budget"}}  # aligned at their left
_TIE = "\xa0"  # a space at which no line breaks; in texts from outside it is escaped
_STYLES: Mapping[Tone, Style] = {"bad": {"red": True}, "doubtful": {"yellow": True}, "good": {"green": True}}
_BOLD: Style = {"bold": True}
_PLAIN: Style = {}


def render(report: Report, *, width: int, color: bool, detail: Detail = "normal") -> list[Line]:
    """Draw a report as lines of text, each with its style."""
    table = rows(report, detail=detail)
    operators = [line for one in table.operators for line in _operators(one, width)]
    moved = [] if detail == "quiet" else _moved(report, width)
    lines = [*_grid(table, width), *_footnotes(table, width), *operators, *moved, *_remarks(table, width)]
    return _colored([*lines, *_counts(table, width)], color=color)


def render_summary(report: Report, *, width: int, color: bool, quiet: bool = False) -> list[Line]:
    """Draw a line for each measurement, and below it what is not well; `quiet`: only what fails or is inconclusive."""
    summary = summary_of(report, quiet=quiet)
    legend = _wrapped(summary.legend, width, indent=INDENT)
    operators = [line for one in operator_tables(report, every=False) for line in _operators(one, width)]
    moved = [] if quiet else _moved(report, width)
    above = [*_list(summary, width), *legend, *_footnotes(summary, width), *operators, *moved]
    return _colored([*above, *_remarks(summary, width), *_counts(summary, width)], color=color)


def render_counts(report: Report, *, width: int, color: bool) -> list[Line]:
    """Draw the last lines alone: how many verdicts have which outcome."""
    return _colored(_counts(summary_of(report), width), color=color)


def _moved(report: Report, width: int) -> list[Line]:
    """Draw what moved where the failure of a test has not said all of it."""
    return [(line, _PLAIN) for line in explained.lines_of(report, width)]


def _colored(lines: list[Line], *, color: bool) -> list[Line]:
    return lines if color else [(text, _PLAIN) for text, _ in lines]


def _list(summary: Summary, width: int) -> Iterator[Line]:
    """Yield the head, then the lines of each file; a name without room has a line of its own."""
    cells = [line.cells for file in summary.files for line in file.lines]
    if not cells:
        return
    used = [place for place in range(len(HEADS)) if any(one[place] for one in cells)]
    widths = {place: max(map(room_of, [HEADS[place], *(one[place] for one in cells)])) for place in used}
    room = width - len(INDENT) - sum(len(GAP) + widths[place] for place in used[1:])
    widths[0] = max(min(widths[0], room), len(HEADS[0]))

    def listed(cells: Sequence[str]) -> str:
        return (INDENT + aligned(cells, widths, used, _WORDS)).rstrip()

    yield listed(HEADS), _BOLD
    for file in summary.files:
        yield file.path, _BOLD
        for line in file.lines:
            style = _STYLES.get(line.tone, _PLAIN)
            if room_of(line.cells[0]) > widths[0] and any(line.cells[1:]):
                yield INDENT + line.cells[0], style
                yield listed(("", *line.cells[1:])), style
            else:
                yield listed(line.cells), style
            for text in line.below:
                yield from _wrapped(text, width, indent=_ROW_INDENT + INDENT)


def _footnotes(shown: Table | Summary, width: int) -> list[Line]:
    return [line for i, note in enumerate(shown.footnotes, 1) for line in _wrapped(f"[{i}] {note}", width)]


def _remarks(shown: Table | Summary, width: int) -> list[Line]:
    """Draw what has to be known of the whole run."""
    interrupted = ["interrupted: what is shown is complete, but not all tests ran"] if shown.partial else []
    texts = [*(f"warning: {text}" for text in shown.warnings), *interrupted]
    return [line for text in texts for line in _wrapped(text, width, _STYLES["doubtful"])]


def _grid(table: Table, width: int) -> list[Line]:
    """Draw the tests, their columns aligned throughout."""
    cells = [row.cells for group in table.groups for section in group.sections for row in section.rows]
    names = [column.name for column in table.columns]
    widths = [max(map(room_of, column)) for column in zip(names, *cells, strict=True)]
    inside = [i for i, column in enumerate(table.columns) if not column.phrase]
    below = [i for i, column in enumerate(table.columns) if column.phrase]
    lines = [(_aligned(names, widths, inside), _BOLD)] if cells else []
    for group in table.groups:
        lines += _head(group, width)
        for section in group.sections:
            lines += _subhead(group, section, width)
            for row in section.rows:
                text, marks = _line(row, widths, inside, width)
                rest = " ".join(filter(None, [_phrases(table.columns, row, below), marks]))
                lines.append((text, _STYLES.get(row.tone, _PLAIN)))
                lines += _wrapped(rest, width, indent=_ROW_INDENT + INDENT)
    return lines


def _operators(table: OperatorTable, width: int) -> list[Line]:
    """Draw where the time of a call goes; the last column, the name of a node, moves below where it has no room."""
    lines = [*_wrapped(table.title, width, _BOLD), *_wrapped(table.setting, width, indent=INDENT)]
    work = [line for text in table.work for line in _wrapped(text, width, indent=INDENT)]
    widths = [max(map(room_of, column)) for column in zip(*table.rows, strict=True)]
    every = range(len(widths))
    fits = not widths or _total(every, widths) <= width
    for row in table.rows:
        lines.append((_aligned(row, widths, every if fits else every[:-1]), _PLAIN))
        lines += [] if fits else _wrapped(row[-1], width, indent=_ROW_INDENT + INDENT)
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
    return _wrapped(_tied(below, width), width, indent=INDENT)


def _subhead(group: Group, section: Section, width: int) -> list[Line]:
    """Draw the lines above the rows of a scenario, its test id last, whole and not repeated."""
    test = section.test if section.test != group.title else ""
    texts = filter(None, [section.name, section.ratio, _tied(section.setting, width), test])
    return _wrapped(GAP.join(texts), width, _BOLD, indent=INDENT)


def _line(row: Row, widths: Sequence[int], inside: Sequence[int], width: int) -> tuple[str, str]:
    """Draw what fits of a row, the marks of its footnotes behind its outcome; where they do not fit, apart."""
    text = _aligned([*row.cells[:-1], _marked(row)], widths, inside)
    return (text, "") if room_of(text) <= width else (_aligned(row.cells, widths, inside), _marks(row))


def _marks(row: Row) -> str:
    return f"[{','.join(map(str, row.notes))}]" if row.notes else ""


def _marked(row: Row) -> str:
    """Return the last cell with the marks of footnotes behind it."""
    return f"{row.cells[-1]} {_marks(row)}".strip()


def _counts(table: Table | Summary, width: int) -> list[Line]:
    """Draw the counts side by side, or one below the other."""
    style = {"bold": True, "red": True} if table.fails else _BOLD
    together = "; ".join(table.counts)
    texts = [together] if room_of(together) <= width else table.counts
    return [line for text in texts for line in _wrapped(_tied(text, width), width, style)]


def _tied(text: str, width: int) -> str:
    """Let a list break behind its commas and semicolons rather than within `1 no baseline`."""
    parts = re.split(r"(?<=[,;]) ", text)
    return " ".join(part.replace(" ", _TIE) if len(part) <= width // 2 else part for part in parts)


def _total(inside: Sequence[int], widths: Sequence[int]) -> int:
    return len(_ROW_INDENT) + sum(widths[i] for i in inside) + len(GAP) * (len(inside) - 1)


def _aligned(texts: Sequence[str], widths: Sequence[int], inside: Sequence[int]) -> str:
    return (_ROW_INDENT + aligned(texts, widths, inside, inside)).rstrip()


def _wrapped(text: str, width: int, style: Style = _PLAIN, indent: str = "") -> list[Line]:
    return [(line.replace(_TIE, " "), style) for line in wrapped(text, width, indent)]
