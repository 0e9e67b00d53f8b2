"""What a command prints, as blocks, drawn in a terminal or as Markdown; what they quote is made visible there."""

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_hwperf.records.text import visible
from pytest_hwperf.reports import markdown_text as md
from pytest_hwperf.reports.wrapping import INDENT, wrapped

GAP = "  "
_LONGEST = 2_000  # characters of a paragraph in Markdown
_FIRST_COMBINING = "\u0300"  # no letter before it is wide or combines with another


class Title(NamedTuple):
    """A heading."""

    text: str
    level: int = 2  # in Markdown


class Paragraph(NamedTuple):
    """A line, wrapped where it has no room."""

    text: str
    depth: int = 0  # of its indentation; in Markdown an indented one is an item of a list


class Titled(NamedTuple):
    """A text beside its title, with what stands below it."""

    title: str  # shown once where several in a row have it
    text: str
    notes: Sequence[str] = ()
    commands: Sequence[str] = ()  # to be copied: never wrapped


class Listing(NamedTuple):
    """Texts beside their titles, all texts in one column."""

    rows: Sequence[Titled]
    depth: int = 1


class Grid(NamedTuple):
    """A table. A row with one cell more than the `first` ones has a sentence there instead of all others."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    first: int = 1  # columns that name a row


class Code(NamedTuple):
    """A command to be copied: never wrapped."""

    text: str
    depth: int = 1


Block = Title | Paragraph | Listing | Grid | Code


def as_text(document: Iterable[Block], width: int) -> list[str]:
    """Draw a document; no line but a command or a long word is longer than `width`."""
    lines = list[str]()
    for block in document:
        match block:
            case Title(text):
                lines += [*[""][: len(lines)], *wrapped(visible(text), width)]
            case Paragraph(text, depth):
                lines += wrapped(visible(text), width, INDENT * depth)
            case Listing(rows, depth):
                lines += _listed(rows, INDENT * depth, width)
            case Grid():
                lines += _drawn(block, width) if block.rows else ()
            case Code(text, depth):
                lines.append(f"{INDENT * depth}{visible(text)}")
    return lines


def as_markdown(document: Iterable[Block]) -> str:
    """Write a document in GitHub's Markdown, in which foreign text is shown and does nothing."""
    written = ""
    for block in document:
        part = _written(block)
        is_next_item = part.startswith("- ") and written.rpartition("\n")[2].startswith("- ")
        written += ("\n" if is_next_item else "\n\n" if written else "") + part
    return f"{written}\n"


def _written(block: Block) -> str:
    match block:
        case Title(text, level):
            return f"{'#' * level} {_escaped(text)}"
        case Paragraph(text, depth):
            return f"{'- ' * bool(depth)}{_escaped(text)}"
        case Listing(rows):
            texts = ([": ".join(filter(None, row[:2])), *row.commands, *row.notes] for row in rows)
            return "\n".join(f"- {_escaped(text)}" for of_row in texts for text in of_row)
        case Grid(columns, rows):
            marks = md.row(["---"] * len(columns))
            head, *others = (md.row([*map(_escaped, cells)]) for cells in (columns, *rows))
            return "\n".join([head, marks, *others])
        case Code(text):
            return md.fenced(visible(text))


def _escaped(text: str) -> str:
    return md.text(text, _LONGEST)


def _listed(rows: Sequence[Titled], indent: str, width: int) -> Iterator[str]:
    """Yield titles and texts; a title is not repeated, and a note hangs below its text."""
    before: str | None = None
    column = " " * (len(indent) + len(GAP) + max((room_of(visible(row.title)) for row in rows), default=0))
    for title, text, notes, commands in rows:
        lead = indent if title == before else f"{indent}{visible(title)}"
        lead += " " * (len(column) - room_of(lead))
        yield from wrapped(visible(text), width, lead, column + INDENT) or [lead.rstrip()]
        yield from (f"{column}{visible(command)}" for command in commands)
        yield from (line for note in notes for line in wrapped(f"- {visible(note)}", width, column))
        before = title


def _drawn(grid: Grid, width: int) -> Iterator[str]:
    """Yield the rows; columns without room stand below, behind the first ones, and empty ones nowhere."""
    head, *rows = [[visible(cell) for cell in row] for row in (grid.columns, *grid.rows)]
    full = [row for row in rows if len(row) == len(head)]
    names = [place for place in range(grid.first) if any(row[place] for row in rows)]
    others = [place for place in range(grid.first, len(head)) if any(row[place] for row in full)]
    cells = {place: [row[place] for row in (head, *(rows if place in names else full))] for place in (*names, *others)}
    widths = {place: max(map(room_of, column)) for place, column in cells.items()}
    for number, part in enumerate(_parts(others, widths, width - _total(names, widths))):
        for row in (head, *rows):
            text = aligned(row, widths, names if len(row) < len(head) else [*names, *part])
            if len(row) == len(head):
                yield from [f"{INDENT}{text}".rstrip()] if not number or any(row[place] for place in part) else ()
            elif not number:
                indent = " " * (len(text) - len(text.lstrip()))
                yield from wrapped(f"{text.lstrip()}{GAP}{row[-1]}", width, INDENT + indent)


def _parts(places: Sequence[int], widths: Mapping[int, int], room: int) -> list[list[int]]:
    """Divide columns into tables that have room, each with one column at least."""
    parts = [list[int]()]
    for place in places:
        if parts[-1] and _total([*parts[-1], place], widths) > room:
            parts.append([])
        parts[-1].append(place)
    return parts


def _total(places: Sequence[int], widths: Mapping[int, int]) -> int:
    """Return the room that columns take, each with the gap before it."""
    return sum(len(GAP) + widths[place] for place in places)


def aligned(
    cells: Sequence[str], widths: Mapping[int, int] | Sequence[int], places: Iterable[int], left: Collection[int] = ()
) -> str:
    """Write some cells in their columns: at the right, but for those of `left`."""
    spaces = ((place, " " * (widths[place] - room_of(cells[place]))) for place in places)
    return GAP.join(cells[place] + space if place in left else space + cells[place] for place, space in spaces)


def room_of(text: str) -> int:
    """Return how many cells of a terminal a text takes: two for a wide letter, none for a combining one."""
    if text.isascii() or max(text) < _FIRST_COMBINING:  # nearly always, and a hundred times faster
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )
