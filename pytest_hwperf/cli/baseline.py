"""`hwperf baseline`: the stored runs of a baseline."""

import argparse
import hashlib
from collections.abc import Iterator, Sequence

from pytest_hwperf.cli import arguments as arg
from pytest_hwperf.cli.output import FAILED, OK, complain, say
from pytest_hwperf.host.machine import describe_machine
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.errors import StoreError, UsageProblem
from pytest_hwperf.records.evidence import COMMIT_DIGITS
from pytest_hwperf.records.run import Run, StoredRun
from pytest_hwperf.records.units import counted, show_interval
from pytest_hwperf.reports.rows import metric_of
from pytest_hwperf.stores.store import Store

_LIMITS = "a folder of JSON files keeps the newest 20 of a test, and values of single examples up to 50 MB"
_SUPERSEDED = "the database has them, and a run that was accepted later has taken their place"
_BATCH = 500  # runs that are copied at once


def copy_runs(options: argparse.Namespace) -> int:
    """Copy what the target does not have yet, and count what it does not keep."""
    source, _ = arg.open_store(options.source, "FROM")
    target, place = arg.open_store(options.target, "TO")
    names = [options.baseline] if options.baseline else source.baselines()
    copied = [_copy(source, target, name, place, held=held) for name in names for held in (False, True)]
    notes = source.annotations()
    for note in notes:
        target.annotate(note)
    if notes:
        say(f"{counted(len(notes), 'note')} copied to {place}")
    if not any(count for count, _ in copied) and not notes:
        complain(f"{options.source} has no accepted or held run, and no note")
        return FAILED
    return FAILED if any(failed for _, failed in copied) else OK


def upgrade_store(options: argparse.Namespace) -> int:
    """Give a database the newest schema."""
    store, place = arg.open_store(options.store)
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
        what, there = "failed run" if held else "run", len(sent & _digests(target, name, held=held))
        say(f"baseline {name}: {counted(there, what)} in {place}")
        if lost := len(sent) - there - failed:
            why = _SUPERSEDED if hasattr(target, "upgrade") else _LIMITS
            say(f"  {counted(lost, 'older run')} left out: {why}")
    return len(sent), failed


def _batches(source: Store, name: str, known: set[bytes], sent: set[bytes], *, held: bool) -> Iterator[list[StoredRun]]:
    """Yield runs that are newer than what is known of their test, and note all that there are in `sent`."""
    batch = list[StoredRun]()
    for runs in source.histories(name, held=held):
        digests = [_digest(one) for one in runs]
        sent.update(digests)
        newest = max((place for place, digest in enumerate(digests) if digest in known), default=-1)
        batch += runs[newest + 1 :]
        if len(batch) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _digests(store: Store, name: str, *, held: bool) -> set[bytes]:
    return {_digest(one) for runs in store.histories(name, held=held) for one in runs}


def _digest(stored: StoredRun) -> bytes:
    return hashlib.sha256(to_json(stored, check=False)).digest()


def list_runs(options: argparse.Namespace) -> int:
    """Print a line for each test, label and machine of which there are runs."""
    store, location = arg.open_store(options.store)
    lines = list[str]()
    for name in [options.baseline] if options.baseline else store.baselines():
        for held in (False, True):
            for runs in store.histories(name, held=held):
                count = (
                    counted(len(runs), "failed run") + " waiting to be accepted" if held else counted(len(runs), "run")
                )
                lines.append(f"{name}: {_name(runs[-1].run)}: {count}, the newest {_origin(runs[-1])}")
    return _told(lines, f"no run is stored in {location}; save some with pytest --hwperf-save")


def show_runs(options: argparse.Namespace) -> int:
    """Print the figures of the newest runs of some tests."""
    store, location = arg.open_store(options.store)
    lines = list[str]()
    for runs in store.histories(options.baseline, options.test, held=False):
        run = runs[-1].run
        lines.append(f"{_name(run)}: {_origin(runs[-1])}")
        for one in runs[-1].figures:
            value, n = one.estimate, counted(one.estimate.n, one.per)
            shown = show_interval(value.value, value.low, value.high, metric_of(run, one.metric).unit)
            lines.append(f"  {one.metric} {one.statistic} {shown}, n={n}, {one.source}")
    return _told(lines, _unmatched("stored run", options, location))


def remove_runs(options: argparse.Namespace) -> int:
    """Remove the runs of some tests, whose first comparison then has no baseline."""
    store, location = arg.open_store(options.store)
    removed = store.remove(options.baseline, options.test)
    lines = [f"removed from baseline {options.baseline}: {test}" for test in removed]
    return _told(lines, _unmatched("run", options, location))


def accept_runs(options: argparse.Namespace) -> int:
    """Make held runs the baseline of their tests; their earlier stored runs, of other code, are removed."""
    store, location = arg.open_store(options.store)
    store.check(options.baseline, writing=True)
    accepted = store.accept(options.baseline, options.test)
    lines = [f"accepted as baseline {options.baseline}: {test}" for test in accepted]
    return _told(lines, _unmatched("held run", options, location, "a failed run is held by pytest --hwperf-save"))


def prune_runs(options: argparse.Namespace) -> int:
    """Remove runs that nothing on this machine is compared with any more; runs of other machines stay."""
    store, location = arg.open_store(options.store)
    store.check(options.baseline, writing=True)
    removed = store.prune(options.baseline, describe_machine())
    lines = [f"removed runs of other versions from baseline {options.baseline}: {test}" for test in removed]
    none = f"nothing to remove from baseline {options.baseline} of {location}: it holds no run of this machine with"
    return _told(lines or [f"{none} other versions that was saved again"], "")


def _told(lines: Sequence[str], otherwise: str) -> int:
    """Print what was found or done; where there is nothing, what is wrong."""
    for line in lines:
        say(line)
    if not lines:
        complain(otherwise)
    return OK if lines else FAILED


def _unmatched(
    what: str, options: argparse.Namespace, location: str, remedy: str = "list them with hwperf baseline list"
) -> str:
    return f"no {what} matches {options.test!r} in baseline {options.baseline} of {location}; {remedy}"


def _name(run: Run) -> str:
    return " ".join(filter(None, [run.test, run.label and f"[{run.label}]"]))


def _origin(stored: StoredRun) -> str:
    run = stored.run
    code = f"of {run.revision[:COMMIT_DIGITS]}{'+changes' * run.changed}" if run.revision else "of no commit"
    return f"{code}, {run.started_at}, machine {run.machine.fingerprint} ({run.machine.cpu_model})"


_STORED = (
    arg.STORE,
    arg.option("test", None, "choose tests by id or pattern, e.g. 'tests/test_models.py::*'"),
    arg.BASELINE,
)
_EVERY = arg.option("--baseline", "NAME", "take only the baseline of this name; default: all")
_FOUND = {0: "done", 1: "nothing matched"}
COMMAND = arg.Subcommand(
    "baseline",
    None,
    "list, show, accept, remove, prune or copy stored runs",
    actions=(
        arg.Subcommand("list", list_runs, "list tests with stored runs", (arg.STORE, _EVERY), answers=_FOUND),
        arg.Subcommand(
            "show", show_runs, "show the newest stored figures of tests on each machine", _STORED, answers=_FOUND
        ),
        arg.Subcommand("remove", remove_runs, "remove stored and rejected runs of tests", _STORED, answers=_FOUND),
        arg.Subcommand(
            "accept", accept_runs, "accept the newest rejected runs as the new baseline", _STORED, answers=_FOUND
        ),
        arg.Subcommand(
            "prune",
            prune_runs,
            "remove this machine's runs of other versions or settings, if newer ones exist",
            (arg.STORE, arg.BASELINE),
        ),
        arg.Subcommand(
            "copy",
            copy_runs,
            "copy runs and notes from one store to another",
            (
                arg.option("source", "FROM", "copy from this store, e.g. json:.hwperf"),
                arg.option("target", "TO", "copy to this store, e.g. sql:sqlite:///team.db"),
                _EVERY,
            ),
            answers={0: "copied", 1: "nothing to copy, or a run could not be copied"},
        ),
        arg.Subcommand(
            "upgrade",
            upgrade_store,
            "give a database the newest schema; needs its owner's role",
            (
                arg.option(
                    "--store", "URL", "upgrade this database, e.g. sql:postgresql+psycopg://host/name", required=True
                ),
            ),
        ),
    ),
)
