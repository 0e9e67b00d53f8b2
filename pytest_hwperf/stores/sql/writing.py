"""Statements that change the database; each function is called by the only writer, within its transaction."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.evidence import Gate, Measurement
from pytest_hwperf.records.metrics import Better, metric_of
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Estimate, Figure, Machine, Run, figure_of
from pytest_hwperf.records.verdict import Budget, Comparison, Judgement, Verdict
from pytest_hwperf.stats.baselines import stored_run_of
from pytest_hwperf.stats.history import is_anchor
from pytest_hwperf.stores.sql.reading import (
    RunsPlace,
    StoredRow,
    baseline_key,
    chunks,
    entry_of,
    held_rows,
    key_of,
    machines_of,
    stored_of,
    test_key,
)
from pytest_hwperf.stores.sql.tables import table

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table


Row = Mapping[str, Any]

ACCEPTED, HELD = "accepted", "held"
SUPERSEDED, KEPT = "superseded", "kept"  # was of the baseline; never was, and waits for nothing

# What a run that is there already may have been, to become what it is added as: nothing takes it from the baseline, and
# what was replaced in the baseline does not come back.
_BECOMES = {ACCEPTED: (KEPT, HELD), HELD: (KEPT,), KEPT: ()}


def add_runs(connection: "Connection", name: str, entries: Sequence[StoredRow], state: str) -> list[int]:
    """Add runs to a baseline, but for those that it has already; return the number of each row."""
    places = _baselines(connection, name, [entry.stored.run for entry in entries])
    of_entry = [(places[_place_key(name, entry.stored.run)], entry.digest) for entry in entries]
    known = _known_runs(connection, of_entry)
    new, number = dict[tuple[int, bytes], StoredRow](), _last_id(connection, table("run"))
    for key, entry in zip(of_entry, entries, strict=True):
        if key not in known:
            number += 1
            known[key], new[key] = number, entry
    _insert(connection, table("run"), [_run_row(known[key], key[0], entry, state) for key, entry in new.items()])
    stored, none = {known[key]: entry.stored for key, entry in new.items()}, dict[str, Any]()
    figures = {number: (one.run, [(figure, none) for figure in one.figures]) for number, one in stored.items()}
    add_values(connection, "estimate", figures)
    for before in _BECOMES[state]:
        _change_state(connection, [known[key] for key in of_entry if key not in new], before, state)
    return [known[key] for key in of_entry]


def try_out(connection: "Connection") -> None:
    """Find out whether runs can be added, removed and accepted: rights are asked for though nothing is there."""
    for name in ("run", "estimate", "verdict", "baseline"):
        connection.execute(table(name).delete().where(table(name).c[0] == -1))
    run = table("run")
    connection.execute(run.update().where(run.c.id == -1).values(state=KEPT))


def accept_runs(connection: "Connection", place: RunsPlace) -> bool:
    """Make the newest held revision of a test the baseline: its earlier runs are history then."""
    rows = held_rows(connection, place.id)
    if not rows:
        return False
    for row in rows:
        stored_of(f"run {row.id}", row.digest, row.record)  # what is damaged is not accepted
    newest = (rows[-1].revision, rows[-1].changed)
    run = table("run")
    connection.execute(
        run.update().where(run.c.baseline_id == place.id, run.c.state == ACCEPTED).values(state=SUPERSEDED)
    )
    chosen = [row.id for row in rows if (row.revision, row.changed) == newest]
    _change_state(connection, chosen, HELD, ACCEPTED)
    _change_state(connection, [row.id for row in rows if row.id not in chosen], HELD, KEPT)
    return True


def remove_places(connection: "Connection", places: Iterable[RunsPlace]) -> None:
    """Remove all runs of some tests, with what is known of them."""
    baseline = table("baseline")
    for chunk in chunks([place.id for place in places]):
        connection.execute(baseline.delete().where(baseline.c.id.in_(chunk)))


def supersede_replaced(connection: "Connection", places: Sequence[RunsPlace], machine: Machine) -> list[RunsPlace]:
    """Make runs history that this machine saved with other versions and has saved again; return of which tests."""
    known = machines_of(connection, {place.machine_id for place in places})
    here = {place.test_id for place in places if known[place.machine_id].fingerprint == machine.fingerprint}
    old = [
        place
        for place in places
        if place.test_id in here
        and known[place.machine_id].hardware == machine.hardware
        and known[place.machine_id].fingerprint != machine.fingerprint
    ]
    run = table("run")
    for chunk in chunks([place.id for place in old]):
        connection.execute(
            run.update().where(run.c.baseline_id.in_(chunk), run.c.state == ACCEPTED).values(state=SUPERSEDED)
        )
    return old


def add_values(
    connection: "Connection", name: str, of_runs: "Mapping[int, tuple[Run, Sequence[tuple[Figure, Row]]]]"
) -> None:
    """Add a row for each figure of some runs, with columns of its own, to the table `name`; by the row of the run."""
    figures = [(run, figure) for run, values in of_runs.values() for figure, _ in values]
    metrics = ids_of(connection, table("metric"), {_metric_key(*one): _metric_row(*one) for one in figures})
    rows = [
        {
            "run_id": number,
            "place": place,
            "metric_id": metrics[_metric_key(run, figure)],
            **_estimate_columns(figure.estimate),
            **own,
        }
        for number, (run, values) in of_runs.items()
        for place, (figure, own) in enumerate(values)
    ]
    _insert(connection, table(name), rows)


def ids_of(connection: "Connection", keyed: "Table", rows: Mapping[str, Row]) -> dict[str, int]:
    """Return the row of each key, and add those that are not there yet."""
    from sqlalchemy import select

    found = dict[str, int]()
    for chunk in chunks(list(rows)):
        chosen = select(keyed.c.key, keyed.c.id).where(keyed.c.key.in_(chunk))
        found |= {key: number for key, number in connection.execute(chosen)}  # noqa: C416 - rows are no pairs to mypy
    missing = [key for key in rows if key not in found]
    first = _last_id(connection, keyed) + 1 if missing else 0
    added = {key: first + place for place, key in enumerate(missing)}
    _insert(connection, keyed, [{**rows[key], "key": key, "id": number} for key, number in added.items()])
    return found | added


def _baselines(connection: "Connection", name: str, runs: Sequence[Run]) -> dict[str, int]:
    """Return the row of each test, label and machine under a baseline's name, by its key."""
    machines = ids_of(
        connection, table("machine"), {run.machine.fingerprint: _machine_row(run.machine) for run in runs}
    )
    tests = ids_of(connection, table("test"), {test_key(run.test, run.label): _test_row(run) for run in runs})
    rows = {
        _place_key(name, run): {
            "name": name,
            "test_id": tests[test_key(run.test, run.label)],
            "machine_id": machines[run.machine.fingerprint],
        }
        for run in runs
    }
    return ids_of(connection, table("baseline"), rows)


def _known_runs(connection: "Connection", of_entry: Sequence[tuple[int, bytes]]) -> dict[tuple[int, bytes], int]:
    from sqlalchemy import select

    run, wanted = table("run"), {*of_entry}
    found = dict[tuple[int, bytes], int]()
    for chunk in chunks(list({digest for _, digest in of_entry})):
        chosen = select(run.c.baseline_id, run.c.digest, run.c.id).where(run.c.digest.in_(chunk))
        rows = [((place, bytes(digest)), number) for place, digest, number in connection.execute(chosen)]
        found |= {key: number for key, number in rows if key in wanted}
    return found


def _estimate_columns(one: Estimate) -> Row:
    """Return an estimate as columns; its remarks are JSON."""
    remarks = to_json(one, check=False).decode() if one.warnings else ""
    return {"value": one.value, "low": one.low, "high": one.high, "n": one.n, "warnings": remarks}


def _machine_row(machine: Machine) -> Row:
    names = ("cpu_model", "architecture", "system", "python", "cores", "memory_gb")
    return {name: getattr(machine, name) for name in names} | {"record": to_json(machine).decode()}


def _test_row(run: Run) -> Row:
    return {"name_key": key_of(run.test), "name": run.test, "label": run.label}


def _run_row(number: int, place: int, entry: StoredRow, state: str) -> Row:
    run = entry.stored.run
    return {
        "id": number,
        "baseline_id": place,
        "state": state,
        "started_at": run.started_at,
        "revision": run.revision,
        "changed": run.changed,
        "digest": entry.digest,
        "record": entry.record,
    }


def _metric_row(run: Run, figure: Figure) -> Row:
    return {
        "name": figure.metric,
        "statistic": figure.statistic,
        "better": _better(run, figure),
        "source": figure.source,
        "per": figure.per,
        "method": figure.estimate.method,
        "estimated": figure.estimated,
        "confidence": figure.estimate.confidence,
    }


def _metric_key(run: Run, figure: Figure) -> str:
    return key_of(*_metric_row(run, figure).values())


def _better(run: Run, figure: Figure) -> Better:
    return metric_of(figure.metric, run.directions.get(figure.metric, "lower")).better


def _place_key(name: str, run: Run) -> str:
    return baseline_key(name, run.machine.fingerprint, run.test, run.label)


def _change_state(connection: "Connection", runs: Sequence[int], before: str, after: str) -> None:
    run = table("run")
    for chunk in chunks(runs):
        connection.execute(run.update().where(run.c.id.in_(chunk), run.c.state == before).values(state=after))


def _last_id(connection: "Connection", numbered: "Table") -> int:
    from sqlalchemy import func, select

    return connection.scalar(select(func.coalesce(func.max(numbered.c.id), 0))) or 0


def _insert(connection: "Connection", into: "Table", rows: Sequence[Row]) -> None:
    if rows:
        connection.execute(into.insert(), rows)


_NOTHING = Estimate(value=0.0, low=None, high=None, confidence=0.0, n=0, method="")
_NO_COMPARISON = {"scale": "", "baseline": None, "p_value": None, "against": "", "revision": "", "anchored": False}


class Kept(NamedTuple):
    """A run with what was judged of it: of each verdict what it is about, and the columns of the answer."""

    entry: StoredRow
    verdicts: Sequence[tuple[Figure, Row]]


def kept_of(report: Report) -> list[Kept]:
    """Return what is kept of a report."""
    asked = {one.key: gate for gate in report.gates for one in gate.evidence.hypotheses}
    kept = []
    for one in report.judgements:
        test = Measurement(test=one.run.test, label=one.run.label)
        gates = [asked.get((test, *verdict.subject.key)) for verdict in one.verdicts]
        answers = [_judged(one, *found, report.baseline) for found in zip(one.verdicts, gates, strict=True)]
        kept.append(Kept(entry=entry_of(stored_run_of(one)), verdicts=answers))
    return kept


def add_report(connection: "Connection", baseline: str, kept: Sequence[Kept]) -> None:
    """Add what is not there yet."""
    numbers = add_runs(connection, baseline, [one.entry for one in kept], KEPT)
    known = _with_verdicts(connection, numbers)
    new = {number: one for number, one in zip(numbers, kept, strict=True) if number not in known}
    add_values(connection, "verdict", {number: (one.entry.stored.run, one.verdicts) for number, one in new.items()})


def _with_verdicts(connection: "Connection", runs: Sequence[int]) -> set[int]:
    from sqlalchemy import select

    verdict, found = table("verdict"), set[int]()
    for chunk in chunks(runs):
        chosen = select(verdict.c.run_id).where(verdict.c.run_id.in_(chunk), verdict.c.place == 0)
        found |= {*connection.scalars(chosen)}
    return found


def _judged(judgement: Judgement, verdict: Verdict, gate: Gate | None, baseline: str) -> tuple[Figure, Row]:
    """Return what a verdict is about, and its columns; without a figure or a change it has no value."""
    to_json(verdict)  # refuses what is not finite: a history could not be read with it
    one, figure = verdict.subject, figure_of(judgement.figures, verdict.subject.key)
    source = figure.source if figure else ""
    row: dict[str, Any] = {"outcome": verdict.outcome, "fails": verdict.fails, "reason": verdict.reason}
    if isinstance(one, Budget):
        row |= {"allowed": one.limit, **_NO_COMPARISON}
    else:
        row |= _comparison_columns(one, None if _is_of_stored(one) else gate, baseline)
        figure = _figure(one, one.change, source, one.per) if one.change else None
    if figure is None:
        return _figure(one, _NOTHING, source, ""), {**row, "value": None}
    return figure, row


def _figure(of: Budget | Comparison, estimate: Estimate, source: str, per: str) -> Figure:
    return Figure(metric=of.metric, statistic=of.statistic, estimate=estimate, source=source, per=per)


def _comparison_columns(one: Comparison, gate: Gate | None, baseline: str) -> Row:
    """Return what only a comparison has; `gate` has run its pairs, None: it is with stored runs."""
    return {
        "scale": one.scale,
        "allowed": one.margin,
        "baseline": one.baseline,
        "p_value": one.p_value,
        "against": gate.against if gate else f"baseline {baseline}" if baseline else "",
        "revision": gate.revision if gate else "",
        "anchored": gate is not None and is_anchor(gate.against),
    }


def _is_of_stored(comparison: Comparison) -> bool:
    return comparison.method is not None and comparison.method.kind.startswith(("stored", "historical"))
