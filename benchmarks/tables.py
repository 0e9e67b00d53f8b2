"""Tables in Markdown, and shares with their intervals."""

from collections.abc import Iterable, Sequence

from pytest_hwperf.stats.figures.exact import share_interval


def markdown(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a table whose columns are aligned, so that it is also readable in a terminal."""
    texts = [[*map(str, row)] for row in (head, *rows)]
    widths = [max(3, *map(len, column)) for column in zip(*texts, strict=True)]
    texts.insert(1, ["-" * width for width in widths])
    return "\n".join(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |" for row in texts
    )


def share(found: int, of: int, *, digits: int = 1) -> str:
    """Return `0 of 40 (0.0 .. 8.8 %)`, in brackets the Clopper-Pearson interval of 95 %."""
    if not of:
        return "-"
    return f"{found} of {of} ({interval(found, of, digits=digits)})"


def interval(found: int, of: int, *, digits: int = 1) -> str:
    """Return `0.0 .. 8.8 %`: the Clopper-Pearson interval of 95 %."""
    low, high = share_interval(found, of, 0.95)
    return f"{100 * low:.{digits}f} .. {100 * high:.{digits}f} %"
