"""What databases answer instead of what they were asked for, in a sentence with its remedy."""

import sqlite3
from dataclasses import dataclass

from pytest_hwperf.records.errors import StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedies:
    """What to do about each kind of problem; each completes "…: "."""

    unreachable: str
    refused: str  # for want of a right
    held: str
    damaged: str
    foreign: str  # it holds something else


# The beginning of an SQLSTATE of PostgreSQL → the kind of problem, and its words.
_STATES = {
    "42501": ("refused", "may not be written or read"),
    "25006": ("refused", "may only be read"),
    "55P03": ("held", "is busy"),
    "XX00": ("damaged", "is damaged"),
    "42P01": ("damaged", "lacks a table"),
    "42703": ("damaged", "lacks a column"),
    "28": ("unreachable", "cannot be reached"),
    "3D": ("unreachable", "cannot be reached"),
    "": ("unreachable", "failed"),
}
# The same of a text of SQLite.
_TEXTS = {
    "is locked": ("held", "is busy"),
    "readonly": ("refused", "may only be read"),
    "unable to open": ("refused", "cannot be opened"),
    "interrupted": ("damaged", "takes too long to answer"),
    "is full": ("refused", "has no space left"),
    "disk i/o error": ("refused", "cannot be read or written: the disk may be full"),  # of its log and shared memory
    "not a database": ("foreign", "is no database of SQLite"),
    "no such table": ("damaged", "lacks a table"),
    "no such column": ("damaged", "lacks a column"),
    "": ("damaged", "is damaged"),
}
_UNREACHABLE = ("unreachable", "cannot be reached")
_STOPPING = ("57P01", "57P02", "57P03")  # a server that shuts down, has crashed, or is starting


def is_gone(error: Exception) -> bool:
    """Whether a server has gone in the middle, so that the same may work a moment later."""
    from sqlalchemy.exc import DBAPIError, OperationalError

    if not isinstance(error, DBAPIError) or isinstance(error.orig, sqlite3.Error):
        return False
    state = _state(error)
    return error.connection_invalidated or state in _STOPPING or (isinstance(error, OperationalError) and not state)


def explained(error: Exception, name: str, remedies: Remedies) -> StoreError:
    """Return the error for the user: what the database said, in one line, and what to do."""
    raised = getattr(error, "orig", None) or error
    said, state = str(raised).strip().partition("\n")[0], _state(error)
    if isinstance(raised, sqlite3.Error):
        kind, words = next(found for sign, found in _TEXTS.items() if sign in said.lower())
    elif state:
        kind, words = next(found for sign, found in _STATES.items() if state.startswith(sign))
    else:
        kind, words = _UNREACHABLE
    return StoreError(f"{name} {words} ({said}): {getattr(remedies, kind)}")


def _state(error: Exception) -> str:
    """Return the SQLSTATE, "" where there is none, as of SQLite."""
    return getattr(getattr(error, "orig", None), "sqlstate", None) or ""
