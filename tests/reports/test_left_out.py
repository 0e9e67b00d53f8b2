"""Every surface says of a test that no pair has measured why, with n = 0 and never as a change of 0 %."""

import json

from fakes import records as fake

from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.reports.exports import properties
from pytest_hwperf.reports.html.page import content_of
from pytest_hwperf.reports.markdown import render
from pytest_hwperf.reports.rows import grouped
from pytest_hwperf.reports.summary import summary_of
from pytest_hwperf.reports.table import Line, rows

WHY = "nothing that it runs has changed"
JUDGEMENT = Judgement(run=fake.run(test="t.py::t"), figures=(fake.figure(),), verdicts=(fake.left_out_verdict(),))
REPORT: Report = replace(fake.empty_report(), judgements=(JUDGEMENT,))


def test_the_summary_says_why_below_the_line() -> None:
    ((_, (line,)),) = summary_of(REPORT).files
    assert (f"equivalent: {WHY}",) == line.below
    assert ("", "") == (line.cells[1], line.cells[3])


def test_the_table_has_a_row_without_a_value() -> None:
    """The median that the session itself has measured is a row of its own."""
    table, footnotes = rows(REPORT, detail="verbose")
    lines = [one for one in table if isinstance(one, Line)]
    (place,) = (place for place, line in enumerate(lines) if "equivalent" in line.cells)
    row, own = lines[place : place + 2]
    assert "0 pairs" in row.cells
    assert not any("%" in cell for cell in (*row.cells, *own.cells))
    assert WHY in footnotes[row.notes[0] - 1]
    assert "this run" in own.cells[0]


def test_the_markdown_row_has_no_change() -> None:
    text = render(REPORT).decode()
    assert f"| 2 % | 0 pairs |  | equivalent: {WHY} |" in text
    assert "No regression is possible in 1 test: nothing that they run has changed" in text


def test_junit_has_the_reason_and_no_change() -> None:
    found = dict(properties(JUDGEMENT))
    name = "hwperf.comparison.latency_p50"
    assert ("equivalent", "0", WHY) == (found[name], found[f"{name}.pairs"], found[f"{name}.reason"])
    assert f"{name}.change" not in found


def test_the_page_says_how_it_was_decided() -> None:
    rows, details, _ = content_of(REPORT, grouped(REPORT), None)
    (row,) = (one for one in rows["rows"] if one["g"] == "settled")
    (verdict,) = details[0]["verdicts"]
    assert (WHY, "0 pairs") == (row["w"], row["n"])
    assert f"No pair of processes was run (n=0): {WHY}." in json.dumps(verdict)
