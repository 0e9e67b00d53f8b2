"""The location of a store as a user writes it: SCHEME:LOCATION, or a folder."""

import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

_POSTGRES = ("postgresql", "postgresql+psycopg")  # the second as SQLAlchemy takes it
_LONGEST = 100  # characters of a baseline's name, which is a folder
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Windows has devices of these names, whatever their case and ending, and takes a last dot for none.
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*\.", re.IGNORECASE)


def why_no_name(name: str) -> str:
    """Return why no baseline can be called so on every file system, "" where one can."""
    if len(name) > _LONGEST:
        return f"{name[:_LONGEST]!r}… ({len(name)} characters): a name has {_LONGEST} at most, such as main"
    if not _NAME.fullmatch(name):
        return (
            f"{name!r}: a name is made of letters, digits, '.', '_' and '-', and begins with a letter or digit, such "
            "as main"
        )
    if _RESERVED.fullmatch(name):
        return (
            f"{name!r}: no folder can have this name on Windows, where the repository may be cloned; give another, "
            "such as main"
        )
    return ""


def locate(url: str, root: Path) -> tuple[str, str]:
    """Return the scheme of a store and where it lies: a folder or file below `root`, another location as it is.

    A bare path is a folder of JSON files. It loads nothing else of the package, since every run of pytest reads it.
    """
    scheme, colon, location = url.partition(":")
    if not colon or not re.fullmatch(r"[a-z][a-z0-9+]+", scheme):
        scheme, location = "json", url
    if location.rpartition("/")[2] == ":memory:":
        raise ValueError(f"{url!r} would be gone with this process. Give a file or a folder, such as json:.hwperf")
    if scheme == "sql":
        return scheme, _database(location, root)
    if not location:
        raise ValueError(f"{url!r} names no place. Give a folder, such as json:.hwperf")
    return scheme, str(root / location) if scheme == "json" else location


def _database(url: str, root: Path) -> str:
    """Return the URL of a database as SQLAlchemy takes it, a file with its whole path.

    A password is refused: the command line stands in the list of processes, for everyone to read.
    """
    kind, found, rest = url.partition("://")
    if found and kind == "sqlite" and rest[:1] == "/" and rest[1:]:
        return f"sqlite:///{root / rest[1:]}"
    if not found or kind not in _POSTGRES:
        raise ValueError(
            "sql:… names no database that can be used. Give a file, as sql:sqlite:///team.db, or a database of a "
            "server, as sql:postgresql+psycopg://host/name"
        )
    asked = rest.partition("?")[0]
    try:
        parts = urlsplit(f"postgresql://{rest}")
        named = {name.lower() for name, _ in parse_qsl(parts.query)}
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        has_port, named = False, set[str]()
    if ":" in asked.rpartition("@")[0] or named & {"password", "sslpassword"}:
        raise ValueError(
            "sql:postgresql…: it holds a password, which everyone could read in the list of processes. Leave it out, "
            "and give it in PGPASSWORD, in ~/.pgpass or in a service file (sql:postgresql+psycopg:///?service=NAME)"
        )
    if not has_port or "#" in rest:
        raise ValueError(
            "sql:postgresql…: it is no URL. Give sql:postgresql+psycopg://user@host:5432/name, with special characters "
            "as %XX"
        )
    return f"{_POSTGRES[-1]}://{rest}"
