"""The page of a history: what it draws, and that nothing in it is obeyed."""

from xml.etree import ElementTree as ET

from fakes.histories import STEP, note, revision, series, slower

from pytest_hwperf.core.records import replace
from pytest_hwperf.core.trends import Trend, trend_of
from pytest_hwperf.reports.history_page import render

HOSTILE = '<script>alert("1")</script>&\x1b\u202e'


def page(*trends: Trend) -> str:
    return render(trends, "main").decode()


def charts(text: str) -> list[ET.Element]:
    return [ET.fromstring(f"<svg{part.partition('</svg>')[0]}</svg>") for part in text.split("<svg")[1:]]  # noqa: S314 - our own


def test_each_value_is_a_point_with_its_interval() -> None:
    (chart,) = charts(page(trend_of(series(slower()), [note(3, "new runner")])))
    kinds = [element.get("class") for element in chart.iter()]

    assert (kinds.count("dot"), kinds.count("band")) == (2 * STEP, 2 * STEP)
    assert (kinds.count("change"), kinds.count("near"), kinds.count("note")) == (1, 1, 1)
    assert chart.get("aria-label") == "latency p50 over time: 40 runs, the newest 11.01 ms, 1 change of level"


def test_a_run_that_was_not_accepted_is_told_apart_and_an_open_interval_has_no_bar() -> None:
    one = series(slower())
    open_end = replace(one.values[0], accepted=False, estimate=replace(one.values[0].estimate, high=None))
    (chart,) = charts(page(trend_of(replace(one, values=(open_end, *one.values[1:])), [])))
    kinds = [element.get("class") for element in chart.iter()]

    assert (kinds.count("held"), kinds.count("dot"), kinds.count("band")) == (1, 2 * STEP - 1, 2 * STEP - 1)


def test_one_value_and_equal_values_can_be_drawn() -> None:
    alone, zeros = trend_of(series([0.01]), []), trend_of(series([0.0] * 3, "own"), [])

    assert len(charts(page(alone, zeros))) == 2


def test_changes_from_an_anchor_are_percentages() -> None:
    moved = [0.001 * (place % 5) for place in range(2 * STEP)]

    assert "+0.4 %" in page(trend_of(series(moved, anchor=revision(1)), []))


def test_foreign_text_is_shown_and_not_obeyed() -> None:
    one = replace(series(slower(), test=HOSTILE), source=HOSTILE, label=HOSTILE)
    text = page(trend_of(one, [note(1, HOSTILE)]))

    assert "<script" not in text
    assert "default-src 'none'" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
