"""Lines broken between words: what is to be copied, such as a test id or a command, stays whole."""

import re
import textwrap

INDENT = "  "

_KEPT = "\ufdd0"  # stands for a space of a command; no text has this character
_COMMAND = re.compile(r"`[^`]+`|(?<=: )(?:git|hwperf|pip|pytest|python|sudo) .*?(?=[;,.]? \(|[;,.] |[.)]?$)")


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
