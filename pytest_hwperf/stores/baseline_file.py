"""One baseline file: the sessions of one test on one machine, as readable JSON that notices damage."""

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pytest_hwperf.core.codec import SCHEMA, from_plain, to_plain
from pytest_hwperf.core.errors import CodecError, StoreError
from pytest_hwperf.core.records import Machine, StoredRun

WHAT = "pytest-hwperf baseline"
_FIELDS = {"digest", "label", "machine", "schema", "sessions", "test", "what"}
_LONGEST_SLUG = 80  # characters: with the digits and the ending far below the 255 bytes of a file name
_SIGNED = len('{"digest":"",') + 64  # bytes before the first signed field
_ENTRY = b'{"figures":['  # how the JSON of a session begins
# Where a line ends. Inside a JSON string each quote follows a backslash, so that none of these is ever found in one.
_LINE_ENDS = ((_ENTRY + b"{", _ENTRY + b"\n{"), (b'},{"', b'},\n{"'), (b',"run":{"', b',\n"run":{"'))
_shortest = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A session beside its JSON, so that saving the next one need not write it again."""

    session: StoredRun
    text: bytes  # shortest JSON, sorted, without what the file says once for all its sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The sessions of one test on one machine."""

    machine: Machine
    test: str  # node id
    label: str
    entries: tuple[Entry, ...]  # oldest first, at least one

    @property
    def sessions(self) -> tuple[StoredRun, ...]:
        """The sessions alone, oldest first."""
        return tuple(entry.session for entry in self.entries)


def file_name(test: str, label: str) -> str:
    """Return the file name of a test: a slug to read, and digits of its whole id since slugs collide."""
    slug = re.sub(r"\W+", "-", f"{test} {label}", flags=re.ASCII).strip("-")[-_LONGEST_SLUG:]
    digits = hashlib.sha256(f"{test}\0{label}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{slug}-{digits}.json"


def extend(earlier: History | None, sessions: Sequence[StoredRun], keep: int) -> History:
    """Append sessions of one test on one machine, at least one, to those before; only the newest `keep` are left."""
    run = sessions[0].run
    entries = (*(earlier.entries if earlier else ()), *map(_entry, sessions))
    return History(machine=run.machine, test=run.test, label=run.label, entries=entries[-keep:])


def render(history: History) -> bytes:
    """Write a history: sorted, a line for each figure and each run, so that version control shows what changed."""
    sessions = b",".join(entry.text for entry in history.entries)
    for whole, with_line_end in _LINE_ENDS:
        sessions = sessions.replace(whole, with_line_end)
    head = {"label": history.label, "machine": to_plain(history.machine), "schema": SCHEMA}
    lines = b",\n".join(
        (*_fields(head), b'"sessions":[\n%s\n]' % sessions, *_fields({"test": history.test, "what": WHAT}))
    )
    digest = _digest(b"{%s}" % lines.translate(None, b"\n"))
    return b'{"digest":"%s",\n%s}\n' % (digest.encode("ascii"), lines)


def parse(path: Path, content: bytes) -> History:
    """Read what `render` wrote to `path`.

    Raises:
        StoreError: truncated, foreign, of a newer schema, edited by hand, or moved from its place; says what to do.
    """
    plain, signed = _payload(path, content)
    try:
        machine = from_plain(Machine, plain["machine"])
        owner = {"label": plain["label"], "machine": plain["machine"], "test": plain["test"]}
        sessions = tuple(from_plain(StoredRun, _with_owner(session, owner)) for session in plain["sessions"])
    except CodecError as error:
        _refuse(path, f"does not hold what a baseline holds ({error})")
    if not sessions:
        _refuse(path, "holds no session")
    texts = _texts(signed)
    if len(texts) != len(sessions) or not texts[0].startswith(_ENTRY):
        _refuse(path, "does not hold its fields in the order of a baseline")
    place = f"{machine.fingerprint}/{file_name(plain['test'], plain['label'])}"
    if f"{path.parent.name}/{path.name}" != place:
        raise StoreError(f"{path} belongs at {place} of its baseline: move it back, or delete it")
    entries = tuple(Entry(session=session, text=text) for session, text in zip(sessions, texts, strict=True))
    return History(machine=machine, test=plain["test"], label=plain["label"], entries=entries)


def _payload(path: Path, content: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the checked fields of a file, not yet turned into records, and their shortest JSON."""
    try:
        plain = json.loads(content)
    except (ValueError, RecursionError):
        _refuse(path, "is not whole JSON (cut off, or with the marks of a merge conflict)")
    if type(plain) is not dict or plain.get("what") != WHAT:
        _refuse(path, f"is not a {WHAT}")
    schema = plain.get("schema")
    if type(schema) is int and schema > SCHEMA:
        raise StoreError(
            f"{path} was written by a newer pytest-hwperf (schema {schema}, this one reads {SCHEMA}): "
            "upgrade pytest-hwperf"
        )
    if plain.keys() != _FIELDS or schema != SCHEMA or type(plain["sessions"]) is not list:
        _refuse(path, "does not hold the fields of a baseline")
    # The digest finds edits by hand and half merges. It is no protection against intent: anyone can compute it.
    digest = plain.pop("digest")
    signed = b"{" + content.translate(None, b"\r\n")[_SIGNED:]  # a JSON string holds no line end of its own
    if digest != _digest(signed):  # white space besides line ends is no damage either, but costs writing it anew
        signed = json.dumps(plain, sort_keys=True, separators=(",", ":")).encode("ascii")
        if digest != _digest(signed):
            _refuse(path, "was edited by hand or half merged (its digest does not fit)")
    return plain, signed


def _fields(plain: dict[str, Any]) -> list[bytes]:
    return [f'"{name}":{_shortest(value)}'.encode("ascii") for name, value in plain.items()]


def _texts(signed: bytes) -> list[bytes]:
    """Cut the JSON of a whole file into that of its sessions; only they are objects of a list that begin so."""
    sessions = signed.partition(b'"sessions":[')[2].rpartition(b'],"test":')[0]
    first, *others = sessions.split(b"," + _ENTRY)
    return [first, *(_ENTRY + other for other in others)]


def _refuse(path: Path, problem: str) -> NoReturn:
    raise StoreError(
        f"{path} {problem}: restore it with `git checkout -- {shlex.quote(str(path))}`, or delete it to start anew"
    ) from None


def _digest(signed: bytes) -> str:
    """Return the SHA-256 of the shortest JSON of all other fields: independent of white space and line ends."""
    return hashlib.sha256(signed).hexdigest()


def _entry(session: StoredRun) -> Entry:
    """Write a session without what the file says once for all of them."""
    plain = to_plain(session)
    for name in ("label", "machine", "test"):
        del plain["run"][name]
    return Entry(session=session, text=_shortest(plain).encode("ascii"))


def _with_owner(plain: Any, owner: dict[str, Any]) -> Any:
    if type(plain) is dict and type(plain.get("run")) is dict:
        return {**plain, "run": {**plain["run"], **owner}}
    return plain
