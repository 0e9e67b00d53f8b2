"""The table or the summary of a report as lines for a terminal of any width."""

import re
from collections.abc import Iterable, Iterator, Sequence

from pytest_hwperf.records.report import Report
from pytest_hwperf.records.text import visible
from pytest_hwperf.reports.document import (
    BOLD,
    GAP,
    INDENT,
    PLAIN,
    STYLES,
    Style,
    StyledLine,
    aligned,
    room_of,
    wrapped,
)
from pytest_hwperf.reports.explained import OperatorTable, lines_of, operator_tables
from pytest_hwperf.reports.summary import HEADS, Summary, counts_of, summary_of
from pytest_hwperf.reports.table import COLUMNS, Detail, Line, TableHeading, marked, rows

_ROW_INDENT = INDENT * 2
_NOTE_INDENT = INDENT * 3
_WORDS = {place for place, head in enumerate(HEADS) if head in {"test", "tightest budget"}}  # aligned at their left
_PHRASES = {place for place, name in enumerate(COLUMNS) if name in {"budget", "baseline", "change"}}  # below a row
_TIE = "\xa0"  # a space at which no line breaks; in texts from outside it is escaped


def render(report: Report, *, width: int, detail: Detail = "normal") -> list[StyledLine]:
    """Draw a report as lines of text, each with its style."""
    (table, footnotes), is_quiet = rows(report, detail=detail), detail == "quiet"
    counts = [*counts_of(report, listed=not is_quiet)]
    operators = operator_tables(report, every=detail == "verbose")
    lines = [*_grid(table, width), *_footnotes(footnotes, width)]
    lines += _ending(report, operators, map(visible, report.warnings), width, moved=not is_quiet)
    return [*lines, *_counts(report, counts, width)]


def render_summary(report: Report, *, width: int, quiet: bool = False) -> list[StyledLine]:
    """Draw a line for each measurement, and below it what is not well; `quiet`: only what fails or is inconclusive."""
    summary, operators = summary_of(report, quiet=quiet), operator_tables(report, every=False)
    legend = _wrapped(summary.legend, width, indent=INDENT)
    lines = [*_list(summary, width), *legend, *_footnotes(summary.footnotes, width)]
    lines += _ending(report, operators, summary.warnings, width, moved=not quiet)
    return [*lines, *_counts(report, summary.counts, width)]


def render_counts(report: Report, *, width: int) -> list[StyledLine]:
    """Draw the last lines alone: how many verdicts have which outcome."""
    return [*_counts(report, summary_of(report).counts, width)]


def _ending(
    report: Report, operators: Iterable[OperatorTable], warnings: Iterable[str], width: int, *, moved: bool
) -> Iterator[StyledLine]:
    """Yield what is between tests and counts; what moved only where the failure of a test has not said all of it.

    The last column of operators, the name of a node, is below where it has no room.
    """
    for table in operators:
        yield from (*_wrapped(table.title, width, BOLD), *_wrapped(table.setting, width, indent=INDENT))
        widths = [max(map(room_of, column)) for column in zip(*table.rows, strict=True)]
        every = range(len(widths))
        fits = len(_ROW_INDENT) + sum(widths) + len(GAP) * (len(widths) - 1) <= width
        for row in table.rows:
            yield _aligned(row, widths, every if fits else every[:-1]), PLAIN
            yield from [] if fits else _wrapped(row[-1], width, indent=_NOTE_INDENT)
        for text in table.work:
            yield from _wrapped(text, width, indent=INDENT)
    yield from ((line, PLAIN) for line in (lines_of(report, width) if moved else ()))
    interrupted = ["interrupted: what is shown is complete, but not all tests ran"] if report.partial else []
    for text in (*(f"warning: {text}" for text in warnings), *interrupted):
        yield from _wrapped(text, width, STYLES["doubtful"])


def _counts(report: Report, counts: Sequence[str], width: int) -> Iterator[StyledLine]:
    """Yield the counts side by side, or one below the other."""
    fails = any(judgement.fails for judgement in report.judgements)
    together = "; ".join(counts)
    for text in [together] if room_of(together) <= width else counts:
        yield from _wrapped(_tied(text, width), width, {"bold": True, "red": True} if fails else BOLD)


def _list(summary: Summary, width: int) -> Iterator[StyledLine]:
    """Yield the head, then the lines of each file; a name without room has a line of its own."""
    cells = [line.cells for _, lines in summary.files for line in lines]
    if not cells:
        return
    used = [place for place in range(len(HEADS)) if any(one[place] for one in cells)]
    widths = {place: max(map(room_of, [HEADS[place], *(one[place] for one in cells)])) for place in used}
    room = width - len(INDENT) - sum(len(GAP) + widths[place] for place in used[1:])
    widths[0] = max(min(widths[0], room), len(HEADS[0]))

    def listed(cells: Sequence[str]) -> str:
        return (INDENT + aligned(cells, widths, used, _WORDS)).rstrip()

    yield listed(HEADS), BOLD
    for path, lines in summary.files:
        yield path, BOLD
        for line in lines:
            style, (name, *others) = STYLES.get(line.tone, PLAIN), line.cells
            if room_of(name) > widths[0] and any(others):
                yield INDENT + name, style
                name = ""
            yield listed([name, *others]), style
            for text in line.below:
                yield from _wrapped(text, width, indent=_NOTE_INDENT)


def _footnotes(footnotes: Iterable[str], width: int) -> list[StyledLine]:
    return [line for i, note in enumerate(footnotes, 1) for line in _wrapped(f"[{i}] {note}", width)]


def _grid(table: Sequence[TableHeading | Line], width: int) -> Iterator[StyledLine]:
    """Yield the tests, their columns aligned throughout; those in which no row has anything to say are left out."""
    lines = [one for one in table if isinstance(one, Line)]
    used = [place for place in range(len(COLUMNS)) if any(line.cells[place] for line in lines)]
    if any(line.notes for line in lines) and used[-1:] != [len(COLUMNS) - 1]:
        used.append(len(COLUMNS) - 1)  # it carries the marks of footnotes
    inside = [place for place in used if place not in _PHRASES]
    widths = [max(map(room_of, column)) for column in zip(COLUMNS, *(line.cells for line in lines), strict=True)]
    yield from [(_aligned(COLUMNS, widths, inside), BOLD)] if lines else []
    for one in table:
        if isinstance(one, Line):
            yield from _row(one, widths, inside, width)
        else:
            text = GAP.join(_tied(text, width) for text in one.texts if text)
            yield from _wrapped(text, width, BOLD if one.is_bold else PLAIN, INDENT * one.depth)


def _row(line: Line, widths: Sequence[int], inside: Sequence[int], width: int) -> Iterator[StyledLine]:
    """Yield what fits of a row, the marks of its footnotes behind its outcome; below it what has no room."""
    marks = marked(line.notes)
    text = _aligned([*line.cells[:-1], f"{line.cells[-1]} {marks}".strip()], widths, inside)
    if room_of(text) <= width:
        marks = ""
    else:
        text = _aligned(line.cells, widths, inside)
    yield text, STYLES.get(line.tone, PLAIN)
    phrases = (f"{COLUMNS[i]} {line.cells[i]}".replace(" ", _TIE) for i in sorted(_PHRASES) if line.cells[i])
    yield from _wrapped(" ".join(filter(None, [", ".join(phrases), marks])), width, indent=_NOTE_INDENT)


def _tied(text: str, width: int) -> str:
    """Let a list break behind its commas and semicolons rather than within `1 no baseline`."""
    parts = re.split(r"(?<=[,;]) ", text)
    return " ".join(part.replace(" ", _TIE) if len(part) <= width // 2 else part for part in parts)


def _aligned(texts: Sequence[str], widths: Sequence[int], inside: Sequence[int]) -> str:
    return (_ROW_INDENT + aligned(texts, widths, inside, inside)).rstrip()


def _wrapped(text: str, width: int, style: Style = PLAIN, indent: str = "") -> list[StyledLine]:
    return [(line.replace(_TIE, " "), style) for line in wrapped(text, width, indent)]
