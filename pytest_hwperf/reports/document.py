"""What a command prints, as blocks, drawn in a terminal or as Markdown; foreign text in them is shown and does nothing.

GitHub turns `@name` into a message to a person or a team, `#12` and `GH-12` into a note in another thread, and an
address into a link, wherever they stand in text, also as entities; within code it does not. Test ids are therefore
code. In sentences a zero-width space, as other bots set it, stands behind the sign that would begin such a name.
"""

import re
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_hwperf.records.text import visible

Style = Mapping[str, bool]  # markup as pytest's terminal writer takes it: {"red": True}
StyledLine = tuple[str, Style]

PLAIN: Style = {}
BOLD: Style = {"bold": True}
STYLES: Mapping[str, Style] = {"bad": {"red": True}, "doubtful": {"yellow": True}, "good": {"green": True}}  # by tone
INDENT, GAP = "  ", "  "
LONGEST_NAME = 120  # characters of a test id in a table of Markdown
LONGEST_TEXT = 300  # of a sentence in one
_LONGEST = 2_000  # of a paragraph in Markdown
_FIRST_COMBINING = "\u0300"  # no letter before it is wide or combines with another
_KEPT = "\ufdd0"  # stands for a space of a command; no text has this character
_COMMAND = re.compile(r"`[^`]+`|(?<=: )(?:git|hwperf|pip|pytest|python|sudo) .*?(?=[;,.]? \(|[;,.] |[.)]?$)")
_BREAK = "&#8203;"  # zero-width space
_ENTITIES = {0: _BREAK} | {ord(one): f"&#{ord(one)};" for one in r"&<>|\`*_~[]$"}
_UNSAFE_IN_CODE = re.compile(r"[`|\\]|^\s|\s$")  # `code` would end, be split as a cell, or lose a space
_LINKS = r":(?=//)|\bwww(?=\.)|@"
_IN_CODE = re.compile(_LINKS)
_IN_TEXT = re.compile(rf"{_LINKS}|#|!|\b[Gg][Hh](?=-\d)")  # !12 is a merge request of GitLab's


class Title(NamedTuple):
    """A heading."""

    text: str
    level: int = 2  # in Markdown
    tone: str = ""  # of `STYLES`, in which the terminal shows it


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
    return [line for line, _ in styled(document, width)]


def styled(document: Iterable[Block], width: int) -> Iterator[StyledLine]:
    """Draw the same, each line with its style."""
    is_first = True
    for block in document:
        style = PLAIN
        if isinstance(block, Title):
            style = {**BOLD, **STYLES.get(block.tone, PLAIN)}
            yield from () if is_first else [("", PLAIN)]
        for line in _lines(block, width):
            yield line, style
            is_first = False


def _lines(block: Block, width: int) -> Iterable[str]:
    match block:
        case Title(text):
            return wrapped(visible(text), width)
        case Paragraph(text, depth):
            return wrapped(visible(text), width, INDENT * depth)
        case Listing(rows, depth):
            return _listed(rows, INDENT * depth, width)
        case Grid():
            return _drawn(block, width) if block.rows else ()
        case Code(text, depth):
            return [f"{INDENT * depth}{visible(text)}"]


def as_markdown(document: Iterable[Block]) -> str:
    """Write a document in GitHub's Markdown, in which foreign text is shown and does nothing."""
    written = ""
    for block in document:
        match block:
            case Title(text, level):
                part = f"{'#' * level} {prose(text, _LONGEST)}"
            case Paragraph(text, depth):
                part = f"{'- ' * bool(depth)}{prose(text, _LONGEST)}"
            case Listing(rows):
                texts = ([": ".join(filter(None, row[:2])), *row.commands, *row.notes] for row in rows)
                part = "\n".join(f"- {prose(text, _LONGEST)}" for of_row in texts for text in of_row)
            case Grid(columns, rows):
                head, *others = (table_row([prose(cell, _LONGEST) for cell in cells]) for cells in (columns, *rows))
                part = "\n".join([head, table_row(["---"] * len(columns)), *others])
            case Code(text):
                part = fenced(visible(text))
        is_next_item = part.startswith("- ") and written.rpartition("\n")[2].startswith("- ")
        written += ("\n" if is_next_item else "\n\n" if written else "") + part
    return f"{written}\n"


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
    room = left = width - sum(len(GAP) + widths[place] for place in names)
    parts = [list[int]()]
    for place in others:  # each part is a table that has room, with one column at least
        left -= len(GAP) + widths[place]
        if parts[-1] and left < 0:
            parts.append([])
            left = room - len(GAP) - widths[place]
        parts[-1].append(place)
    for number, part in enumerate(parts):
        for row in (head, *rows):
            text = aligned(row, widths, names if len(row) < len(head) else [*names, *part])
            if len(row) == len(head):
                yield from [f"{INDENT}{text}".rstrip()] if not number or any(row[place] for place in part) else ()
            elif not number:
                indent = " " * (len(text) - len(text.lstrip()))
                yield from wrapped(f"{text.lstrip()}{GAP}{row[-1]}", width, INDENT + indent)


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


def wrapped(text: str, width: int, indent: str = "", rest: str | None = None) -> list[str]:
    """Break one paragraph; the lines after the first begin with `rest`, or are indented further; none is empty."""
    if len(indent) + len(text) <= width:  # nearly always
        return [indent + text] if text else []
    lines = textwrap.wrap(
        _COMMAND.sub(lambda found: found[0].replace(" ", _KEPT), text),
        width,
        initial_indent=indent,
        subsequent_indent=indent + INDENT if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_KEPT, " ") for line in lines]


def prose(foreign: str, most: int = LONGEST_TEXT) -> str:
    """Write a sentence of unknown origin within a line of Markdown."""
    shown = visible(foreign)
    if len(shown) > most:
        shown = f"{shown[: most - 1]}…"
    return _escaped(shown, _IN_TEXT)


def code(foreign: str) -> str:
    """Write a name of unknown origin as code; of a long one beginning and end, which tell parameters apart."""
    shown, end = visible(foreign), LONGEST_NAME // 2
    if len(shown) > LONGEST_NAME:
        shown = f"{shown[: end - 1]}…{shown[-end:]}"
    if _UNSAFE_IN_CODE.search(shown):
        return f"<code>{_escaped(shown, _IN_CODE)}</code>"
    return f"`{shown}`" if shown else ""


def fenced(lines: str) -> str:
    """Write a block of code, fenced by more backticks than are in it."""
    longest = max((len(run) for run in re.findall("`+", lines)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{lines}\n{fence}"


def _escaped(shown: str, calls: re.Pattern[str]) -> str:
    """Write signs of markup as entities, and a break behind what would begin a link or a message."""
    return calls.sub("\\g<0>\0", shown).translate(_ENTITIES)


def table_row(cells: Sequence[str]) -> str:
    """Write a row of a table."""
    return f"| {' | '.join(cells)} |"
