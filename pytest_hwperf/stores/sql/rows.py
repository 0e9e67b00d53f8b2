"""Rows of the database: how runs become rows, how they are found and changed, and how they come back.

Each function that is given a connection is called within a transaction. One that writes is called by the only writer.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pytest_hwperf.records.codec import from_json, to_json, to_short_json
from pytest_hwperf.records.errors import SerialisationError, StoreError
from pytest_hwperf.records.evidence import Gate, Measurement
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Estimate, Figure, Machine, Run, StoredRun, figure_of
from pytest_hwperf.records.verdict import Budget, Judgement, Verdict
from pytest_hwperf.stats.stored.compare import stored_run_of
from pytest_hwperf.stats.stored.history import PastValue, Series, Statistic, is_anchor, lined_up
from pytest_hwperf.stores.sql.tables import select, table
from pytest_hwperf.stores.store import matches

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row, Select, Table

T = TypeVar("T")
Columns = Mapping[str, Any]

LARGEST = 50_000_000  # bytes of a run, as of a file of baselines: a larger one is not loaded into memory

# States of a run: `superseded` was of the baseline; `kept` never was, and waits for nothing.
ACCEPTED, HELD, SUPERSEDED, KEPT = "accepted", "held", "superseded", "kept"
# What a run that is there already may have been, to become what it is added as: nothing takes it from the baseline, and
# what was replaced in the baseline does not come back.
_BECOMES = {ACCEPTED: (KEPT, HELD), HELD: (KEPT,), KEPT: ()}
_AT_ONCE = 500  # values in a condition: each database has its own limit of parameters
_DAMAGED = "restore a backup, or remove the test's runs with hwperf baseline remove"


class StoredRow(NamedTuple):
    """A stored run with its row."""

    stored: StoredRun
    digest: bytes  # SHA-256 of its short JSON, the same in versions with more fields: what is there changes nothing
    record: bytes  # this JSON, compressed


class RunsPlace(NamedTuple):
    """The runs of one test on one machine under a baseline's name."""

    id: int
    test: str
    label: str
    machine: Machine
    has_accepted: bool


def entry_of(stored: StoredRun) -> StoredRow | StoreError:
    """Write a stored run, or return why it cannot be stored."""
    if (size := len(whole := to_json(stored))) > LARGEST:
        return StoreError(
            f"a run of {stored.run.test} takes {size / 1e6:.1f} MB, and {LARGEST / 1e6:g} MB are stored at most: give "
            "fewer examples with y_true="
        )
    known = from_json(StoredRun, whole)
    text = to_short_json(known)
    return StoredRow(stored=known, digest=hashlib.sha256(text).digest(), record=zlib.compress(text))


def read_runs(rows: "Iterable[Row[Any]]", name: str) -> tuple[StoredRun, ...]:
    """Read what `entry_of` wrote to the database `name`."""
    found = list[StoredRun]()
    for row in rows:
        place, unpacking = f"run {row.id} of {name}", zlib.decompressobj()
        try:
            text = unpacking.decompress(row.record, LARGEST)  # few bytes can stand for gigabytes
            if unpacking.unconsumed_tail or not unpacking.eof:
                raise zlib.error("cut off, or larger than any run")  # noqa: TRY301 - as any other damage
            if hashlib.sha256(text).digest() != bytes(row.digest):
                raise StoreError(f"{place} was changed (its digest does not fit): {_DAMAGED}")
            found.append(from_json(StoredRun, text))
        except (zlib.error, SerialisationError) as error:
            raise StoreError(f"{place} holds no valid run ({error}): {_DAMAGED}") from error
    return tuple(found)


@lru_cache(maxsize=64)
def _machine_of(number: int, record: str) -> Machine:
    try:
        return from_json(Machine, record)
    except SerialisationError as error:
        raise StoreError(f"machine {number} of the store is damaged ({error}): restore a backup") from error


def key_of(*parts: object) -> str:
    """Return 32 hexadecimal digits that stand for texts of any length and content, such as a test and its label."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the values, as many at once as a condition takes."""
    return (values[first : first + _AT_ONCE] for first in range(0, len(values), _AT_ONCE))


def runs_where(*conditions: Any) -> "Select[Any]":
    """Select runs, the oldest first."""
    run = table("run")
    columns = (run.c.id, run.c.digest, run.c.record, run.c.revision, run.c.changed)
    return select(*columns).where(*conditions).order_by(run.c.id)


def places(connection: "Connection", baseline: str, *conditions: Any) -> list[RunsPlace]:
    """Return the places of a baseline that fulfil some conditions."""
    place, test, machine, run = (table(name) for name in ("baseline", "test", "machine", "run"))
    accepted = select(run.c.id).where(run.c.baseline_id == place.c.id, run.c.state == ACCEPTED).exists()
    found = (
        select(place.c.id, test.c.name, test.c.label, machine.c.id, machine.c.record, accepted)
        .join_from(place, test, test.c.id == place.c.test_id)
        .outerjoin(machine, machine.c.id == place.c.machine_id)  # one that is missing is damage
        .where(place.c.name == baseline, *conditions)
        .order_by(place.c.id)
    )
    rows = connection.execute(found)
    return [RunsPlace(one, name, label, _machine_of(*its), bool(has)) for one, name, label, *its, has in rows]


def places_matching(connection: "Connection", baseline: str, pattern: str) -> list[RunsPlace]:
    """Return the places of the test of that id; where there is none, of tests that match the pattern."""
    alike = places(connection, baseline, table("test").c.name_key == key_of(pattern))
    named = [place for place in alike if place.test == pattern]
    if named or not {"*", "?"} & {*pattern}:
        return named
    return [place for place in places(connection, baseline) if matches(place.test, pattern)]


def places_of(connection: "Connection", baseline: str, measured: Iterable[tuple[str, str]]) -> list[RunsPlace]:
    """Return the places of some tests, each with its label."""
    keys, key = [key_of(test, label) for test, label in dict.fromkeys(measured)], table("test").c.key
    return [place for part in chunks(keys) for place in places(connection, baseline, key.in_(part))]


def series_at(connection: "Connection", found: Iterable[RunsPlace], newest: int) -> tuple[Series, ...]:
    """Return every statistic of some tests over time, of the newest runs of each."""
    series = list[Series]()
    for place in found:
        rows = sorted(_values_of(connection, place, newest), key=lambda row: int(row.id))
        values = list[tuple[Statistic, PastValue]]()
        try:
            for row in rows:
                names = ("value", "low", "high", "confidence", "n", "method")
                known = {name: getattr(row, name) for name in names}
                past = PastValue(
                    started_at=row.started_at,
                    revision=row.revision,
                    changed=bool(row.changed),
                    estimate=from_json(Estimate, row.warnings) if row.warnings else Estimate(**known),
                    accepted=row.state in (ACCEPTED, SUPERSEDED),
                )
                values.append((Statistic(row.name, row.statistic, row.source, row.better, row.anchor), past))
            lines = lined_up(place.test, place.label, place.machine, values)
            for one in lines:
                to_json(one)  # columns hold what their writer liked: this refuses what is no such record
        except (SerialisationError, ValueError, TypeError) as error:
            raise StoreError(f"the history of {place.test} is damaged ({error}): restore a backup") from error
        series += lines
    return tuple(series)


def _values_of(connection: "Connection", place: RunsPlace, newest: int) -> "Iterator[Row[Any]]":
    """Yield the estimates of a test's newest runs, of the baseline or not, then their changes from an anchor."""
    from sqlalchemy import literal, literal_column

    run, metric, estimate, verdict = (table(name) for name in ("run", "metric", "estimate", "verdict"))
    columns = (run.c.id, run.c.started_at, run.c.revision, run.c.changed, run.c.state)
    chosen = select(*columns).where(run.c.baseline_id == place.id).order_by(run.c.id.desc()).limit(newest)
    runs = chosen.subquery("chosen")
    of_metric = [metric.c[name] for name in ("name", "statistic", "source", "better", "confidence", "method")]
    is_change = (verdict.c.value.is_not(None), verdict.c.scale == "relative")
    change = (verdict.c.anchored.is_(literal_column("true")), *is_change)
    for values, anchor, conditions in ((estimate, literal(""), ()), (verdict, verdict.c.revision, change)):
        own = [values.c[name] for name in ("value", "low", "high", "n", "warnings")]
        yield from connection.execute(
            select(*runs.c, *of_metric, *own, anchor.label("anchor"))
            .join_from(runs, values, values.c.run_id == runs.c.id)
            .outerjoin(metric, metric.c.id == values.c.metric_id)  # one that is missing is damage
            .where(*conditions)
        )


def try_out(connection: "Connection") -> None:
    """Find out whether runs can be added, removed and accepted: rights are asked for though nothing is there."""
    for name in ("run", "estimate", "verdict", "baseline"):
        connection.execute(table(name).delete().where(table(name).c[0] == -1))
    run = table("run")
    connection.execute(run.update().where(run.c.id == -1).values(state=KEPT))


def add_runs(connection: "Connection", name: str, entries: Sequence[StoredRow], state: str) -> list[int]:
    """Add runs to a baseline, but for those that it has already; return the number of each row."""
    run, at = table("run"), _add_places(connection, name, [entry.stored.run for entry in entries])
    of_entry = [(at[_place_key(name, entry.stored.run)], entry.digest) for entry in entries]
    known, wanted = dict[tuple[int, bytes], int](), {*of_entry}
    for chunk in chunks(list({digest for _, digest in of_entry})):
        chosen = select(run.c.baseline_id, run.c.digest, run.c.id).where(run.c.digest.in_(chunk))
        found = {(place, bytes(digest)): number for place, digest, number in connection.execute(chosen)}
        known |= {key: number for key, number in found.items() if key in wanted}
    new, number = dict[tuple[int, bytes], StoredRow](), _last_id(connection, run)
    for key, entry in zip(of_entry, entries, strict=True):
        if key not in known:
            number += 1
            known[key], new[key] = number, entry
    rows, none = list[Columns](), dict[str, Any]()
    for key, one in new.items():
        of_run = {name: getattr(one.stored.run, name) for name in ("started_at", "revision", "changed")}
        own = {"id": known[key], "baseline_id": key[0], "state": state, "digest": one.digest, "record": one.record}
        rows.append({**own, **of_run})
    _insert(connection, run, rows)
    of_runs = {known[key]: (one.stored.run, [(it, none) for it in one.stored.figures]) for key, one in new.items()}
    add_values(connection, "estimate", of_runs)
    for before in _BECOMES[state]:
        change_state(connection, [known[key] for key in of_entry if key not in new], before, state)
    return [known[key] for key in of_entry]


def accept_runs(connection: "Connection", found: Iterable[RunsPlace], name: str) -> list[RunsPlace]:
    """Make the newest held revision of each test the baseline: its earlier runs are history then."""
    run, accepted = table("run"), list[RunsPlace]()
    for place in found:
        rows = connection.execute(runs_where(run.c.baseline_id == place.id, run.c.state == HELD)).all()
        read_runs(rows, name)  # what is damaged is not accepted
        if rows:
            newest = (rows[-1].revision, rows[-1].changed)
            supersede(connection, [place])
            chosen = [row.id for row in rows if (row.revision, row.changed) == newest]
            change_state(connection, chosen, HELD, ACCEPTED)
            change_state(connection, [row.id for row in rows], HELD, KEPT)
            accepted.append(place)
    return accepted


def supersede(connection: "Connection", found: Sequence[RunsPlace]) -> None:
    """Make accepted runs history."""
    run = table("run")
    for chunk in chunks([place.id for place in found]):
        accepted = run.update().where(run.c.baseline_id.in_(chunk), run.c.state == ACCEPTED)
        connection.execute(accepted.values(state=SUPERSEDED))


def change_state(connection: "Connection", runs: Sequence[int], before: str, after: str) -> None:
    """Give runs that are in one state another one."""
    run = table("run")
    for chunk in chunks(runs):
        connection.execute(run.update().where(run.c.id.in_(chunk), run.c.state == before).values(state=after))


def add_values(
    connection: "Connection", name: str, of_runs: Mapping[int, tuple[Run, Sequence[tuple[Figure, Columns]]]]
) -> None:
    """Add a row for each figure of some runs, with columns of its own, to the table `name`; by the row of the run."""
    metrics, values = dict[str, Columns](), list[tuple[str, dict[str, Any]]]()
    for number, (run, figures) in of_runs.items():
        for place, (figure, own) in enumerate(figures):
            at, better = figure.estimate, metric_of(figure.metric, run.directions.get(figure.metric, "lower")).better
            metric = {
                "name": figure.metric, "statistic": figure.statistic, "better": better, "source": figure.source,
                "per": figure.per, "method": at.method, "estimated": figure.estimated, "confidence": at.confidence,
            }  # fmt: skip
            remarks = to_json(at, check=False).decode() if at.warnings else ""
            value = {"value": at.value, "low": at.low, "high": at.high, "n": at.n, "warnings": remarks}
            key = key_of(*metric.values())
            metrics[key] = metric
            values.append((key, {"run_id": number, "place": place, **value, **own}))
    ids = ids_of(connection, table("metric"), metrics)
    _insert(connection, table(name), [{"metric_id": ids[key], **row} for key, row in values])


def ids_of(connection: "Connection", keyed: "Table", rows: Mapping[str, Columns]) -> dict[str, int]:
    """Return the row of each key, and add those that are not there yet."""
    found = dict[str, int]()
    for chunk in chunks(list(rows)):
        chosen = select(keyed.c.key, keyed.c.id).where(keyed.c.key.in_(chunk))
        found |= {key: number for key, number in connection.execute(chosen)}  # noqa: C416 - rows are no pairs to mypy
    missing = [key for key in rows if key not in found]
    first = _last_id(connection, keyed) + 1 if missing else 0
    added = {key: first + place for place, key in enumerate(missing)}
    _insert(connection, keyed, [{**rows[key], "key": key, "id": number} for key, number in added.items()])
    return found | added


def _add_places(connection: "Connection", name: str, runs: Sequence[Run]) -> dict[str, int]:
    """Return the row of each test, label and machine under a baseline's name, by its key."""
    machines, tests = dict[str, Columns](), dict[str, Columns]()
    for run in runs:
        names = ("cpu_model", "architecture", "system", "python", "cores", "memory_gb")
        facts = {name: getattr(run.machine, name) for name in names}
        machines[run.machine.fingerprint] = {**facts, "record": to_json(run.machine).decode()}
        test = {"name_key": key_of(run.test), "name": run.test, "label": run.label}
        tests[key_of(run.test, run.label)] = test
    machine_ids, test_ids = ids_of(connection, table("machine"), machines), ids_of(connection, table("test"), tests)
    rows = {
        _place_key(name, run): {
            "name": name,
            "test_id": test_ids[key_of(run.test, run.label)],
            "machine_id": machine_ids[run.machine.fingerprint],
        }
        for run in runs
    }
    return ids_of(connection, table("baseline"), rows)


def _place_key(name: str, run: Run) -> str:
    return key_of(name, run.machine.fingerprint, run.test, run.label)


def _last_id(connection: "Connection", numbered: "Table") -> int:
    from sqlalchemy import func

    return connection.scalar(select(func.coalesce(func.max(numbered.c.id), 0))) or 0


def _insert(connection: "Connection", into: "Table", rows: Sequence[Columns]) -> None:
    if rows:
        connection.execute(into.insert(), rows)


_NOTHING = Estimate(value=0.0, low=None, high=None, confidence=0.0, n=0, method="")
_NO_COMPARISON = {"scale": "", "baseline": None, "p_value": None, "against": "", "revision": "", "anchored": False}

Kept = tuple[StoredRow, Sequence[tuple[Figure, Columns]]]  # a run, and of each verdict what it is about and its columns


def kept_of(report: Report) -> Iterator[Kept]:
    """Yield what is kept of a report, which dashboards read: its runs, and for each budget and comparison a verdict."""
    asked = {one.key: gate for gate in report.gates for one in gate.evidence.hypotheses}
    for judgement in report.judgements:
        test = Measurement(test=judgement.run.test, label=judgement.run.label)
        gates = [asked.get((test, *verdict.subject.key)) for verdict in judgement.verdicts]
        answers = [_judged(judgement, *one, report.baseline) for one in zip(judgement.verdicts, gates, strict=True)]
        entry = entry_of(stored_run_of(judgement))
        if isinstance(entry, StoredRow):  # else saving says why not
            yield entry, answers


def add_verdicts(connection: "Connection", baseline: str, kept: Sequence[Kept]) -> None:
    """Add what is not there yet."""
    verdict, known = table("verdict"), set[int]()
    numbers = add_runs(connection, baseline, [entry for entry, _ in kept], KEPT)
    for chunk in chunks(numbers):
        chosen = select(verdict.c.run_id).where(verdict.c.run_id.in_(chunk), verdict.c.place == 0)
        known |= {*connection.scalars(chosen)}
    new = {number: one for number, one in zip(numbers, kept, strict=True) if number not in known}
    add_values(connection, "verdict", {number: (entry.stored.run, its) for number, (entry, its) in new.items()})


def _judged(judgement: Judgement, verdict: Verdict, gate: Gate | None, baseline: str) -> tuple[Figure, Columns]:
    """Return what a verdict is about, and its columns; without a figure or a change it has no value.

    `gate` has run the pairs of a comparison that is with no stored runs.
    """
    to_json(verdict)  # refuses what is not finite: a history could not be read with it
    one, figure = verdict.subject, figure_of(judgement.figures, verdict.subject.key)
    about = figure or Figure(metric=one.metric, statistic=one.statistic, estimate=_NOTHING, source="", per="")
    row: dict[str, Any] = {"outcome": verdict.outcome, "fails": verdict.fails, "reason": verdict.reason}
    if isinstance(one, Budget):
        row |= {"allowed": one.limit, **_NO_COMPARISON}
        return about, row if figure else {**row, "value": None}
    if one.is_with_stored:
        gate = None
    row |= {"scale": one.scale, "allowed": one.margin, "baseline": one.baseline, "p_value": one.p_value}
    row["against"] = gate.against if gate else f"baseline {baseline}" if baseline else ""
    row |= {"revision": gate.revision if gate else "", "anchored": gate is not None and is_anchor(gate.against)}
    about = Figure(
        metric=one.metric,
        statistic=one.statistic,
        estimate=one.change or _NOTHING,
        source=about.source,
        per=one.per if one.change else "",
    )
    return about, row if one.change else {**row, "value": None}
