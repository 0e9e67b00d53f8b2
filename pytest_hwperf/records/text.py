"""Text from outside, made visible: no surface shows a character that a terminal, XML or an editor would obey.

Names of tests, labels, messages of third-party code and everything in files may hold any character. A terminal obeys
`ESC [2J`, a bidirectional control reorders the line it stands in, XML cannot hold most control characters at all, and
a lone surrogate cannot be encoded. Every surface passes such text through one of these functions.
"""

import re
import shlex
from collections.abc import Iterable, Sequence

# A spreadsheet runs a cell that begins with one of these signs; where its cells are parted by semicolons, as in half of
# Europe, each part of a text is a cell. Quotes around it are taken off.
_FORMULA = re.compile(r'(?:^|(?<![;"\s])[;"\s]+)(?=[=+\-@＝＋－＠])')
_ASCII = bytes(range(0x20, 0x7F))  # printable


def visible(text: str) -> str:
    r"""Write control and invisible characters as escapes, line ends too: `\x1b`, `\n`, `\u202e`, `\udc80`."""
    if text.isprintable():  # nearly always
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shortened(text: str, most: int = 100) -> str:
    """Quote a text that was given, of a long one its beginning and its length."""
    return repr(text) if len(text) <= most else f"{text[:most]!r}… ({len(text)} characters)"


def named(texts: Sequence[str], most: int = 3) -> str:
    """Return the first few of several texts, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return f"{', '.join(texts[:most])}{more}"


def visible_lines(text: str) -> str:
    r"""Make each line of a text visible; only `\n` ends one.

    For text that this package has put together of several lines. What is foreign in one line of it is to be made
    visible before, or else it could begin a line.
    """
    return text if text.isprintable() else "\n".join(map(visible, text.split("\n")))


def spreadsheet_cell(text: str) -> str:
    """Make a text visible, and write it so that no spreadsheet takes it for a formula."""
    return _FORMULA.sub(_disarmed, visible(text))


def visible_json(text: bytes) -> bytes:
    r"""Write the same in JSON, in UTF-8; the escapes `\u001b` and `\u202e` are JSON's own: it reads as before."""
    if text.translate(None, delete=_ASCII).decode().isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _json_escaped(c) for c in text.decode()).encode()


def shell_word(text: str) -> str:
    r"""Quote a text for bash: what is copied from a terminal is the text itself, as `'a b'` and `$'a\\nb'`."""
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(map(_shell_escaped, text))}'"


def shell_line(words: Iterable[str]) -> str:
    """Return a command that bash splits into these words."""
    return " ".join(map(shell_word, words))


def _disarmed(before: re.Match[str]) -> str:
    """Put an apostrophe in front of a sign, if what stands before it can make it the beginning of a cell."""
    if before.start() and ";" not in before[0]:
        return before[0]
    return f"{before[0]}'" if before[0].strip() else f"'{before[0]}"


def _shell_escaped(character: str) -> str:
    """Write a character between `$'` and `'`; `?` for one that no command line can hold."""
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    try:
        return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return "?"


def _json_escaped(character: str) -> str:
    units = character.encode("utf-16-be", errors="surrogatepass")
    return "".join(rf"\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
