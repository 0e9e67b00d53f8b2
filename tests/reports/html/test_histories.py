"""Charts of stored runs, on the page of a report and on a page of their own."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from fakes import records as fake
from fakes.histories import STEP, note, revision, series, slower

from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.reports.html import page
from pytest_hwperf.reports.rows import grouped
from pytest_hwperf.stats.stored.history import Annotation, Series, Trend, trend_of

_PLAIN = fake.sklearn_judgement()
JUDGEMENT = replace(_PLAIN, run=replace(_PLAIN.run, started_at="2026-09-01T09:30:00+00:00"))
REPORT = replace(fake.report(), judgements=(JUDGEMENT,))
HOSTILE = "</script><script>alert(1)</script>&\x1b\u202e"
SHOWN = r"</script><script>alert(1)</script>&\x1b\u202e"


def past(values: Sequence[float] = (0.006, 0.0061, 0.0062), **changes: Any) -> Series:
    run, figure = JUDGEMENT.run, JUDGEMENT.figures[0]
    here = {"test": run.test, "label": run.label, "machine": run.machine, "source": figure.source}
    return replace(series(values, figure.metric, figure.statistic), **{**here, **changes})


def shown(*found: Series, notes: Sequence[Annotation] = (), report: Report = REPORT) -> tuple[list[Any], Any]:
    asked: list[Any] = []

    def read(measured: Sequence[tuple[str, str]], newest: int) -> tuple[Sequence[Series], Sequence[Annotation]]:
        asked.append((list(measured), newest))
        return found, notes

    made = page.content_of(report, grouped(report), read)
    assert len(asked) == 1
    return [detail.get("history", []) for detail in made[1]], made


def test_a_chart_ends_with_this_run() -> None:
    ((chart,),), _ = shown(past())
    assert ("latency p50", "ms", True) == (chart["metric"], chart["unit"], chart["now"])
    assert [JUDGEMENT.run.started_at, 6.31] == [chart["rows"][-1][0], chart["rows"][-1][2]]


def test_a_run_that_is_saved_already_is_one_point() -> None:
    line = past((0.006, 0.0061, 0.0062, 0.0063))
    again = replace(line.values[-1], started_at=JUDGEMENT.run.started_at)
    ((chart,),), _ = shown(replace(line, values=(*line.values[:-1], again)))
    assert 4 == len(chart["rows"])


def test_less_than_three_earlier_runs_and_statistics_without_a_row_are_not_drawn() -> None:
    assert [[]] == shown(past((0.006, 0.0061)), past(statistic="p12"))[0]


def test_another_machine_is_a_chart_of_its_own_without_this_run() -> None:
    (charts,), _ = shown(past(machine=fake.machine(cores=99)), past())
    assert ["this machine", "another machine"] == [one["title"].rpartition(", ")[2] for one in charts]
    assert ["The last one" in one["says"] for one in charts] == [one["now"] for one in charts] == [True, False]


def test_changes_and_notes_are_told_beside_the_chart() -> None:
    ((chart,),), _ = shown(past(slower()), notes=[note(STEP, HOSTILE)])
    assert chart["notes"][0].startswith("Changed by +10")
    assert chart["notes"][-1].endswith(SHOWN)
    ((place, earliest, latest),) = chart["changes"]
    assert earliest <= place <= latest
    assert STEP == place
    assert [[STEP, SHOWN]] == chart["marks"]


def test_markup_in_a_history_stays_text_in_the_page() -> None:
    _, made = shown(past(), notes=[note(0, HOSTILE)])
    assert not any("<script" in page.embedded(detail) for detail in made[1])


@pytest.mark.parametrize("limit", ["_MOST_READ", "_MOST_BYTES"])
def test_what_is_too_much_for_a_page_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(page, limit, 1)
    other = replace(JUDGEMENT, run=replace(JUDGEMENT.run, test="other"))
    found, made = shown(past(), past(test="other"), report=replace(REPORT, judgements=(JUDGEMENT, other)))
    assert any(not charts for charts in found)
    assert made[2][-1].startswith("The history of ")


def page_of(*trends: Trend, baseline: str = "main") -> tuple[str, list[list[Any]]]:
    """Return the page of a history, and the charts of each test that are embedded in it."""
    pytest.importorskip("jinja2", reason="HTML reports need pytest-hwperf[report]")
    pytest.importorskip("plotly", reason="HTML reports need pytest-hwperf[report]")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(page, "plotly", lambda: ("cGxhY2Vob2xkZXI=", page.hash_of("placeholder")))
        text = page.render_history(trends, baseline).decode()
    found = re.findall(r'<script type="application/json" id="data-history">([^<>&]*)</script>', text)
    (charts,) = map(json.loads, found)
    return text, charts


def test_a_page_of_its_own_has_each_value_with_its_interval() -> None:
    other = trend_of(series(slower(), test="other"), [])
    text, charts = page_of(trend_of(series(slower()), [note(3, "new runner")]), other)
    ((chart,), (second,)) = charts
    assert ["latency p50", "latency p50"] == [chart["title"], second["title"]]
    assert "40 runs, 1 change of level; the newest: 11.01 ms." in chart["says"]
    started, code, value, low, high, n, accepted = chart["rows"][0]
    assert (started, code, n, accepted) == ("2026-03-01T09:30:00+00:00", "0" * 10, 400, True)
    assert (value, low, high) == (9.98, 9.8802, 10.0798)
    assert (2 * STEP, [[3, "new runner"]], []) == (len(chart["rows"]), chart["marks"], second["marks"])
    assert [fake.TEST, "other"] == re.findall(r'<h2 id="h-\d"><bdi class="test">(.*?)</bdi>', text)
    assert text.endswith(f"<script>{page.script('history')}</script>\n</body>\n</html>")


def test_a_run_that_was_not_accepted_is_told_apart_and_an_open_end_is_none() -> None:
    one = series(slower())
    open_end = replace(one.values[0], accepted=False, estimate=replace(one.values[0].estimate, high=None))
    _, (((chart,)),) = page_of(trend_of(replace(one, values=(open_end, *one.values[1:])), []))
    assert [(None, False), (True, True)] == [(row[4] and True, row[6]) for row in chart["rows"][:2]]


def test_one_value_and_equal_values_can_be_drawn() -> None:
    alone, zeros = trend_of(series([0.01]), []), trend_of(series([0.0] * 3, "own"), [])
    _, ((first, second),) = page_of(alone, zeros)
    assert ([1, 3], "too few to look for changes" in first["says"]) == ([len(first["rows"]), len(second["rows"])], True)


def test_changes_from_an_anchor_are_percentages() -> None:
    moved = [0.001 * (place % 5) for place in range(2 * STEP)]
    _, ((chart,),) = page_of(trend_of(series(moved, anchor=revision(1)), []))
    assert ("latency p50, change from 0000000000", "%", 0.4) == (chart["title"], chart["unit"], chart["rows"][-1][2])


def test_foreign_text_on_a_page_of_its_own_is_shown_and_not_obeyed() -> None:
    one = replace(series(slower(), test=HOSTILE), source=HOSTILE, label=HOSTILE)
    text, ((chart,),) = page_of(trend_of(one, [note(1, HOSTILE)]), baseline=HOSTILE)
    assert "<script>alert" not in text
    assert not {"\x1b", "\u202e"} & set(text)
    assert SHOWN in chart["says"]
    assert [[1, SHOWN]] == chart["marks"]
    policy = re.findall(r'<meta http-equiv="Content-Security-Policy" content="(.*?)">', text)
    hashes = {page.hash_of(page.script("history")), page.hash_of("placeholder")}
    assert hashes == {*re.findall(r"&#39;(sha256-.*?)&#39;", policy[0])}
    assert policy[0].startswith("default-src &#39;none&#39;; script-src ")
    assert "http" not in text.replace(page.script("history"), "").replace("http-equiv", "")
