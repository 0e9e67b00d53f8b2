"""Reports and histories as pandas tables, for notebooks: the columns are those of the files that commands write."""

from argparse import Namespace
from collections.abc import Iterable, Sequence
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hwperf.cli import inputs
from pytest_hwperf.cli.arguments import open_store
from pytest_hwperf.cli.history import why_none
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import nearest_or_all
from pytest_hwperf.records.text import visible
from pytest_hwperf.reports.csv_files import TableName, tables_of
from pytest_hwperf.reports.exports import HISTORY_COLUMNS, history_rows

if TYPE_CHECKING:
    import pandas as pd


def read_report(path: str | Path, table: TableName = "summary") -> "pd.DataFrame":
    """Read a report of `pytest --hwperf-report=FILE.json` as a pandas table.

    Args:
        path: the JSON file.
        table: "summary" has a row for each run, "runs" one for each metric of a run, "comparisons" one for each
            comparison. The columns are those of the CSV files of `pytest --hwperf-report=FOLDER`.

    Returns:
        The table. What was not measured is NaN, and a column says why.

    Raises:
        UsageProblem: not such a file, or no such table.
    """
    tables = tables_of(inputs.read_report(str(path)))
    if table not in tables:
        raise UsageProblem(f"read_report(table={table!r}): no such table.{nearest_or_all(str(table), tables)}")
    return _frame(*tables[table])


def read_history(
    store: str = "json:.hwperf", test: str = "*", *, baseline: str = "main", newest: int = 1000
) -> "pd.DataFrame":
    """Read the stored values of tests as a pandas table: a row for each value, in base units (s, B, J, 1).

    Args:
        store: as `--hwperf-store`; a folder or file is relative to the current folder.
        test: id of a test, with `*` and `?` as wildcards.
        baseline: its name.
        newest: how many runs of each test.

    Returns:
        The table, with the columns of `hwperf history --as=parquet`. An end of an interval that is not known is NaN.

    Raises:
        UsageProblem: no such store, or no run that matches.
        StoreError: the store cannot be read.
    """
    opened, _ = open_store(store, "store")
    rows = [row for one in opened.history(baseline, test, newest=newest) for row in history_rows(one)]
    if not rows:
        asked = Namespace(store=store, baseline=baseline, test=test, metric="", machine="")
        raise UsageProblem(why_none(opened, asked))
    return _frame([*HISTORY_COLUMNS], rows)


def _frame(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> "pd.DataFrame":
    """Make a table whose missing cells are NaN, in columns of texts too."""
    import pandas as pd

    found = [[visible(one) if isinstance(one, str) else nan if one is None else one for one in row] for row in rows]
    return pd.DataFrame(found, columns=list(columns))
