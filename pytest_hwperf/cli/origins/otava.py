"""CSV of Apache Otava: a time, attributes such as a commit, and a column for each metric; a row for each run."""

import csv
import io
from collections.abc import Mapping, Sequence
from math import isfinite

from pytest_hwperf.cli.origins.foreign import (
    Named,
    foreign_run,
    judgement_of,
    of_unknown_direction,
    plain_figure,
    report_of,
    what_is,
)
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.records import Judgement
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.structs import LARGEST

_PROGRAM = "otava"
_TIME, _COMMIT = "time", "commit"


def read(text: bytes) -> Report:
    """Read the last row of a file: the rows above it are earlier runs.

    Raises:
        UsageProblem: no CSV with a column `time` and a row, or a row without a number.
    """
    header, row, earlier = _last_row(text)
    cells = dict(zip(header, row, strict=True))
    tests: dict[str, list[tuple[Named, float]]] = {}
    for name, value in _numbers(cells).items():
        test, _, last = name.rpartition(" ")
        named = what_is(last, _PROGRAM)
        test, named = (test, named) if test and named.known else (_PROGRAM, what_is(name, _PROGRAM))
        tests.setdefault(test, []).append((named, value))
    judgements = [_judgement(test, found, cells) for test, found in tests.items()]
    if not judgements:
        raise UsageProblem("the last row of this CSV holds no number beside time and commit")
    older = (f"the last row is shown, and not the {earlier} above it",) if earlier else ()
    return report_of(judgements, *older, *of_unknown_direction(judgements, _PROGRAM))


def _judgement(test: str, found: Sequence[tuple[Named, float]], cells: Mapping[str, str]) -> Judgement:
    run = foreign_run(test, revision=cells.get(_COMMIT, ""), started_at=cells[_TIME])
    return judgement_of(run, [(named, plain_figure(named, value, f"{_PROGRAM}: last row")) for named, value in found])


def _last_row(text: bytes) -> tuple[list[str], list[str], int]:
    """Return the header, the last row, and how many rows are above it."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text.decode("utf-8-sig"))) if row]
    except (ValueError, csv.Error) as error:
        raise UsageProblem(f"this is no CSV of Otava: {error}") from error
    if len(rows) < 2 or _TIME not in rows[0]:  # noqa: PLR2004 - a header and a row
        raise UsageProblem("this is no CSV of Otava: it needs a header with a column `time`, and a row below it")
    header, row = rows[0], rows[-1]
    if len(header) != len(row) or len({*header}) != len(header):
        given = f"{len(header)} columns in its header and {len(row)} in its last row"
        raise UsageProblem(f"this CSV has {given}: give as many, each with a name of its own")
    return header, row, len(rows) - 2


def _numbers(cells: Mapping[str, str]) -> Mapping[str, float]:
    """Return the cells that hold a number; attributes hold none."""
    found = {}
    for name, cell in cells.items():
        try:
            value = float(cell)
        except ValueError:
            continue
        if name not in (_TIME, _COMMIT) and isfinite(value) and abs(value) <= LARGEST:
            found[name] = value
    return found
