"""Lines broken between words: a long word, such as a test id, stays whole so that it can be copied."""

import textwrap

INDENT = "  "


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Break one paragraph; the lines after the first are indented further, and an empty one is no line."""
    if len(indent) + len(text) <= width:  # nearly always
        return [indent + text] if text else []
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
