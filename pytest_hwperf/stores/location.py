"""The location of a store as a user writes it: SCHEME:LOCATION, or a folder."""

import re
from pathlib import Path


def locate(url: str, root: Path) -> tuple[str, str]:
    """Return the scheme of a store and where it lies: a folder below `root`, another store's location as it is.

    A bare path is a folder of JSON files. Nothing of the core is loaded here, since every run of pytest reads it.

    Raises:
        ValueError: it names no place; says what to give.
    """
    scheme, colon, location = url.partition(":")
    if not colon or not re.fullmatch(r"[a-z][a-z0-9+]+", scheme):
        scheme, location = "json", url
    if not location:
        raise ValueError(f"{url!r} names no place. Give a folder, such as json:.hwperf")
    return scheme, str(root / location) if scheme == "json" else location
