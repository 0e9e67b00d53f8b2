"""Series of a store's history as files for other programs: Parquet, and the CSV of Apache Otava.

References:
    https://github.com/apache/otava, docs/CSV.md
"""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.text import spreadsheet_cell, visible
from pytest_hwperf.stats.history import PastValue, Series

# Columns of the Parquet file with their Arrow types; values in base units.
COLUMNS = {
    "test": "string", "label": "string", "machine": "string", "cpu_model": "string", "metric": "string",
    "statistic": "string", "unit": "string", "better": "string", "source": "string", "anchor": "string",
    "started_at": "string", "revision": "string", "changed": "bool", "accepted": "bool",
    "value": "float64", "low": "float64", "high": "float64", "confidence": "float64", "n": "int64", "method": "string",
}  # fmt: skip


def parquet(tests: Iterable[Sequence[Series]]) -> tuple[bytes, int]:
    """Write a row for each value, a row group for each test; return the file and how many rows it has."""
    import pyarrow as pa
    from pyarrow import parquet as files

    schema = pa.schema([(name, getattr(pa, kind if kind != "bool" else "bool_")()) for name, kind in COLUMNS.items()])
    content, rows = io.BytesIO(), 0
    with files.ParquetWriter(content, schema) as writer:
        for series in tests:
            found = [row for one in series for row in _rows(one)]
            rows += len(found)
            if found:
                columns = dict(zip(COLUMNS, map(list, zip(*found, strict=True)), strict=True))
                writer.write_table(pa.table(columns, schema=schema))
    return content.getvalue(), rows


def otava(series: Sequence[Series]) -> tuple[bytes, tuple[str, ...]]:
    """Write a row for each run of one measurement on one machine, and a column for each statistic.

    Otava takes no empty cell: statistics that a run lacks are left out, and named.
    """
    runs = sorted({_run(value) for one in series for value in one.values})
    by_run = {_column(one): {_run(value): value.estimate.value for value in one.values} for one in series}
    whole = {name: values for name, values in by_run.items() if values.keys() == {*runs}}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["time", "commit", *map(spreadsheet_cell, whole)])
    for run in runs:
        writer.writerow([*map(spreadsheet_cell, run), *(f"{values[run]:.12g}" for values in whole.values())])
    parts = {name: len(values) for name, values in by_run.items() if name not in whole}
    lacking = tuple(f"{name}: only {count} of {len(runs)} runs have it" for name, count in parts.items())
    return text.getvalue().encode(), lacking


def _rows(one: Series) -> list[tuple[Any, ...]]:
    machine = one.machine
    of_series = (
        one.test, one.label, machine.fingerprint, machine.cpu_model, one.metric, one.statistic,
        "1" if one.anchor else metric_of(one.metric, one.better).unit, one.better, one.source, one.anchor,
    )  # fmt: skip
    # Lone surrogates are no text for Arrow.
    shown = tuple(text if text.isprintable() else visible(text) for text in of_series)
    return [
        (
            *shown, visible(value.started_at), visible(value.revision), value.changed, value.accepted,
            value.estimate.value, value.estimate.low, value.estimate.high, value.estimate.confidence,
            value.estimate.n, visible(value.estimate.method),
        )
        for value in one.values
    ]  # fmt: skip


def _run(value: PastValue) -> tuple[str, str]:
    return value.started_at, f"{value.revision}+changes" if value.changed else value.revision


def _column(one: Series) -> str:
    named = f"{one.metric} {one.statistic}, {one.source}"
    return f"{named}, change from {one.anchor}" if one.anchor else named
