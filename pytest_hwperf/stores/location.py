"""The location of a store as a user writes it: SCHEME:LOCATION, or a folder."""

import re
from pathlib import Path

_LONGEST = 100  # characters of a baseline's name, which is a folder
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Windows has devices of these names, whatever their case and ending, and takes a last dot for none.
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*\.", re.IGNORECASE)


def check_name(name: str) -> None:
    """Refuse a name that no baseline can have on every file system.

    Raises:
        ValueError: says what a name is made of.
    """
    if len(name) > _LONGEST:
        raise ValueError(f"{name[:_LONGEST]!r}… ({len(name)} characters): a name has {_LONGEST} at most, such as main")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r}: a name is made of letters, digits, '.', '_' and '-', and begins with a letter or digit, such "
            "as main"
        )
    if _RESERVED.fullmatch(name):
        raise ValueError(
            f"{name!r}: no folder can have this name on Windows, where the repository may be cloned; give another, "
            "such as main"
        )


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
