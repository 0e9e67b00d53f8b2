"""Charts of stored runs on the page of a report."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from fakes import records as fake
from fakes.histories import STEP, note, series, slower

from pytest_hwperf.core.history import Annotation, Series
from pytest_hwperf.core.records import replace
from pytest_hwperf.core.report import Report
from pytest_hwperf.reports.groups import groups_of
from pytest_hwperf.reports.html import content, histories

_PLAIN = fake.sklearn_judgement()
JUDGEMENT = replace(_PLAIN, run=replace(_PLAIN.run, started_at="2026-09-01T09:30:00+00:00"))
REPORT = replace(fake.report(), judgements=(JUDGEMENT,))
HOSTILE = "<script>alert(1)</script>"


def past(values: Sequence[float] = (0.006, 0.0061, 0.0062), **changes: Any) -> Series:
    run, figure = JUDGEMENT.run, JUDGEMENT.figures[0]
    here = {"test": run.test, "label": run.label, "machine": run.machine, "source": figure.source}
    return replace(series(values, figure.metric, figure.statistic), **{**here, **changes})


def shown(*found: Series, notes: Sequence[Annotation] = (), report: Report = REPORT) -> tuple[list[Any], Any]:
    asked: list[Any] = []

    def read(measured: Sequence[tuple[str, str]], newest: int) -> tuple[Sequence[Series], Sequence[Annotation]]:
        asked.append((list(measured), newest))
        return found, notes

    made = content.content_of(report, groups_of(report), read)
    assert len(asked) == 1
    return [json.loads(detail).get("history", []) for detail in made.details], made


def test_a_chart_ends_with_this_run() -> None:
    ((chart,),), _ = shown(past())
    circles = [one for one in chart["chart"][2] if one[0] == "circle"]

    assert "latency p50" == chart["metric"]
    assert ["dot", "dot", "dot", "now"] == [one[1]["class"] for one in circles]
    assert circles[-1][2][0][2][0].startswith(f"this run, {JUDGEMENT.run.started_at}")
    assert [JUDGEMENT.run.started_at, 0.00631] == [chart["values"][-1][0], chart["values"][-1][2]]


def test_a_run_that_is_saved_already_is_one_point() -> None:
    line = past((0.006, 0.0061, 0.0062, 0.0063))
    again = replace(line.values[-1], started_at=JUDGEMENT.run.started_at)
    ((chart,),), _ = shown(replace(line, values=(*line.values[:-1], again)))

    assert 4 == len(chart["values"])


def test_less_than_three_earlier_runs_and_statistics_without_a_row_are_not_drawn() -> None:
    assert [[]] == shown(past((0.006, 0.0061)), past(statistic="p12"))[0]


def test_another_machine_is_a_chart_of_its_own_without_this_run() -> None:
    (charts,), _ = shown(past(machine=fake.machine(cores=99)), past())

    assert ["this machine", "another machine"] == [one["title"].rpartition(", ")[2] for one in charts]
    assert ["The last one" in one["says"] for one in charts] == [True, False]


def test_changes_and_notes_are_told_beside_the_chart() -> None:
    ((chart,),), _ = shown(past(slower()), notes=[note(STEP, HOSTILE)])

    assert chart["notes"][0].startswith("Changed by +10")
    assert chart["notes"][-1].endswith(HOSTILE)
    assert {"near", "change", "note"} < {one[1].get("class") for one in chart["chart"][2]}


def test_markup_in_a_history_stays_text_in_the_page() -> None:
    _, made = shown(past(), notes=[note(0, HOSTILE)])

    assert not any(b"<script" in detail for detail in made.details)


@pytest.mark.parametrize("limit", ["_MOST_READ", "_MOST_BYTES"])
def test_what_is_too_much_for_a_page_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(histories, limit, 1)
    other = replace(JUDGEMENT, run=replace(JUDGEMENT.run, test="other"))
    found, made = shown(past(), past(test="other"), report=replace(REPORT, judgements=(JUDGEMENT, other)))

    assert any(not charts for charts in found)
    assert made.left_out[-1].startswith("The history of ")
