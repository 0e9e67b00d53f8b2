"""A report as a row of the CSV that Apache Otava reads: time, commit, and a column for each figure.

References:
    https://github.com/apache/otava, docs/CSV.md
"""

import csv
import io

from pytest_hwperf.core.foreign_text import spreadsheet_cell
from pytest_hwperf.core.report import Report
from pytest_hwperf.reports.measures import Exported, measures_of, unmeasured


def render(report: Report) -> Exported:
    """Write a header and one row: Otava looks for changes in the rows of many reports, one below the other."""
    measures = measures_of(report)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["time", "commit", *(spreadsheet_cell(f"{one.benchmark} {one.full_name}") for one in measures)])
    revision = f"{report.revision}+changes" if report.changed else report.revision
    named = spreadsheet_cell(report.started_at), spreadsheet_cell(revision)
    writer.writerow([*named, *(f"{one.value:.12g}" for one in measures)])
    found = len({one.benchmark for one in measures})
    return Exported(content=text.getvalue().encode(), benchmarks=found, left_out=unmeasured(report))
