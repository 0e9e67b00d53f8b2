"""`hwperf baseline copy` and `upgrade`: from one store to another, and a database's newest schema."""

import argparse
import hashlib
from collections.abc import Iterator

from pytest_hwperf.cli.output import complain, say
from pytest_hwperf.cli.stores import open_store
from pytest_hwperf.core.contracts import Store
from pytest_hwperf.core.errors import StoreError, UsageProblem
from pytest_hwperf.core.history import HistoryStore
from pytest_hwperf.core.records import StoredRun
from pytest_hwperf.core.serialisation import to_json
from pytest_hwperf.core.units import counted

OK, NOTHING = 0, 1  # the second also where a run could not be copied

_LIMITS = "a folder of JSON files keeps the newest 20 of a test, and values of single examples up to 50 MB"
_SUPERSEDED = "the database has them, and a run that was accepted later has taken their place"
_BATCH = 500  # runs that are copied at once

Key = tuple[str, str, str]  # test, label, fingerprint of the machine


def add_actions(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add both actions to `hwperf baseline`."""
    what = "copy the accepted and the held runs, and the notes, of one store to another"
    copy = actions.add_parser("copy", help=what, description=f"{what[0].upper()}{what[1:]}.")
    copy.add_argument("source", metavar="FROM", help="store, such as json:.hwperf")
    copy.add_argument("target", metavar="TO", help="store, such as sql:sqlite:///team.db")
    copy.add_argument("--baseline", metavar="NAME", help="default: all")
    copy.set_defaults(run=copy_runs)
    what = "give a database the newest schema, as its owner"
    upgrade = actions.add_parser("upgrade", help=what, description=f"{what[0].upper()}{what[1:]}.")
    upgrade.add_argument("--store", required=True, metavar="URL", help="such as sql:postgresql+psycopg://host/name")
    upgrade.set_defaults(run=upgrade_store)


def copy_runs(options: argparse.Namespace) -> int:
    """Copy what the target does not have yet, and count what it does not keep."""
    source, _ = open_store(options.source, "FROM")
    target, place = open_store(options.target, "TO")
    names = [options.baseline] if options.baseline else source.baselines()
    copied = [_copy(source, target, name, place, held=held) for name in names for held in (False, True)]
    notes = _copy_notes(source, target)
    if notes:
        say(f"{counted(notes, 'note')} copied to {place}")
    if not any(count for count, _ in copied) and not notes:
        complain(f"{options.source} has no accepted or held run, and no note")
        return NOTHING
    return NOTHING if any(failed for _, failed in copied) else OK


def upgrade_store(options: argparse.Namespace) -> int:
    """Give a database the newest schema."""
    store, place = open_store(options.store)
    upgrade = getattr(store, "upgrade", None)
    if upgrade is None:
        raise UsageProblem(f"--store={options.store}: only a database has a schema: give sql:…")
    upgrade()
    say(f"{place} has the newest schema")
    return OK


def _copy(source: Store, target: Store, name: str, place: str, *, held: bool) -> tuple[int, int]:
    """Copy the runs of one baseline; return how many there are, and how many could not be copied."""
    known, sent, failed = _digests(target, name, held=held), set[bytes](), 0
    for batch in _batches(source, name, known, sent, held=held):
        answers = (target.hold if held else target.save)(name, batch)
        for problem in [answer for answer in answers if isinstance(answer, StoreError)]:
            complain(f"not copied: {problem}")
            failed += 1
    if sent:
        found = {digest for one in _digests(target, name, held=held).values() for digest in one}
        what, there = "failed run" if held else "run", len(sent & found)
        say(f"baseline {name}: {counted(there, what)} in {place}")
        if lost := len(sent) - there - failed:
            why = _SUPERSEDED if hasattr(target, "upgrade") else _LIMITS
            say(f"  {counted(lost, 'older run')} left out: {why}")
    return len(sent), failed


def _batches(
    source: Store, name: str, known: "dict[Key, list[bytes]]", sent: set[bytes], *, held: bool
) -> Iterator[list[StoredRun]]:
    """Yield runs that are newer than what is known of their test, and note all that there are in `sent`."""
    batch = list[StoredRun]()
    for runs in source.histories(name, held=held):
        digests = [_digest(one) for one in runs]
        sent.update(digests)
        there = {*known.get(_key(runs[-1]), ())}
        newest = max((place for place, digest in enumerate(digests) if digest in there), default=-1)
        batch += runs[newest + 1 :]
        if len(batch) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _copy_notes(source: Store, target: Store) -> int:
    """Copy the notes where both stores have them; return how many there are."""
    if not (isinstance(source, HistoryStore) and isinstance(target, HistoryStore)):
        return 0
    notes = source.annotations()
    for note in notes:
        target.annotate(note)
    return len(notes)


def _digests(store: Store, name: str, *, held: bool) -> dict[Key, list[bytes]]:
    return {_key(runs[-1]): [_digest(one) for one in runs] for runs in store.histories(name, held=held)}


def _key(stored: StoredRun) -> Key:
    return stored.run.test, stored.run.label, stored.run.machine.fingerprint


def _digest(stored: StoredRun) -> bytes:
    return hashlib.sha256(to_json(stored, check=False)).digest()
