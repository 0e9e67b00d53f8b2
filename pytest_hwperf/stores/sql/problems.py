"""What databases answer instead of what they were asked for, in a sentence with its remedy."""

from dataclasses import dataclass

from pytest_hwperf.core.errors import StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedies:
    """What to do about each kind of problem; each completes "…: "."""

    unreachable: str
    refused: str  # for want of a right
    held: str
    damaged: str
    foreign: str  # it holds something else


# SQLSTATE of PostgreSQL, its class where that says as much, or a text of SQLite → the kind of problem and its words.
_KINDS = {
    "42501": ("refused", "may not be written or read"),
    "25006": ("refused", "may only be read"),
    "55P03": ("held", "is busy"),
    "XX001": ("damaged", "is damaged"),
    "XX002": ("damaged", "is damaged"),
    "28": ("unreachable", "cannot be reached"),
    "3D": ("unreachable", "cannot be reached"),
    "53": ("unreachable", "is full"),
    "is locked": ("held", "is busy"),
    "readonly": ("refused", "may only be read"),
    "not a database": ("foreign", "is no database of SQLite"),
    "malformed": ("damaged", "is damaged"),
    "disk i/o error": ("damaged", "cannot be read or written"),
    "unable to open": ("refused", "cannot be opened"),
    "is full": ("refused", "has no space left"),
    "no such table": ("damaged", "lacks a table"),
    "no such column": ("damaged", "lacks a column"),
    "42P01": ("damaged", "lacks a table"),
    "42703": ("damaged", "lacks a column"),
}
_STOPPING = ("57P01", "57P02", "57P03")  # a server that shuts down, has crashed, or is starting


def is_gone(error: Exception) -> bool:
    """Whether a server has gone in the middle, so that the same may work a moment later."""
    from sqlalchemy.exc import DBAPIError, OperationalError

    if not isinstance(error, DBAPIError) or type(error.orig).__module__ == "sqlite3":
        return False
    state = _state(error)
    return error.connection_invalidated or state in _STOPPING or (isinstance(error, OperationalError) and not state)


def explained(error: Exception, name: str, remedies: Remedies) -> StoreError:
    """Return the error for the user: what the database said, in one line, and what to do."""
    from sqlalchemy.exc import DBAPIError

    said = str(error.orig if isinstance(error, DBAPIError) else error).strip().partition("\n")[0]
    state = _state(error)
    for sign, (kind, words) in _KINDS.items():
        if state.startswith(sign) if state else sign in said.lower():
            return StoreError(f"{name} {words} ({said}): {getattr(remedies, kind)}")
    words, remedy = ("failed", "nothing was changed") if state else ("cannot be reached", remedies.unreachable)
    return StoreError(f"{name} {words} ({said}): {remedy}")


def _state(error: Exception) -> str:
    """Return the SQLSTATE, "" where there is none, as of SQLite."""
    return getattr(getattr(error, "orig", None), "sqlstate", None) or ""
