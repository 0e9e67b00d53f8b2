"""Series as people read them: changes with their revisions, on the scale of the metric."""

import pytest
from fakes.histories import STEP, note, revision, series, slower

from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.stats.history import TrendFile, trend_of


def test_a_change_has_its_revisions_and_its_size() -> None:
    found = trend_of(series(slower()), [])
    (change,) = found.changes
    assert (revision(STEP), revision(STEP - 1)) == (change.revision, change.before)
    assert change.shift.value == pytest.approx(0.1, abs=0.002)
    assert found.scale == "relative"


def test_notes_are_those_of_its_revisions() -> None:
    mine, other = note(3, "new runner"), note(900, "elsewhere")
    assert (mine,) == trend_of(series(slower()), [mine, other]).notes


def test_of_few_values_it_says_so() -> None:
    few = trend_of(series([0.01] * 5), [])
    assert (few.is_too_short, few.changes) == (True, ())
    assert not trend_of(series(slower()), []).is_too_short


@pytest.mark.parametrize(
    ("metric", "anchor", "values", "scale", "shift"),
    [
        ("latency", "4f2c1e9", [0.001 * (i * 7 % 5 - 2) + 0.05 * (i >= STEP) for i in range(40)], "relative", 0.05),
        ("accuracy", "", [0.9 + 0.001 * (i * 7 % 5 - 2) - 0.05 * (i >= STEP) for i in range(40)], "absolute", -0.05),
        ("own", "", [0.001 * (i * 7 % 5 - 2) - 3.0 * (i >= STEP) for i in range(40)], "absolute", -3.0),
    ],
    ids=["from an anchor", "a share", "below zero"],
)
def test_the_scale_is_that_of_the_values(
    metric: str, anchor: str, values: list[float], scale: str, shift: float
) -> None:
    found = trend_of(series(values, metric, "mean", anchor=anchor), [])
    assert found.scale == scale
    assert found.changes[0].shift.value == pytest.approx(shift, abs=0.003)


def test_it_survives_a_round_trip() -> None:
    found = TrendFile(baseline="main", alpha=0.01, trends=(trend_of(series(slower()), [note(3, "x")]),))
    assert found == from_json(TrendFile, to_json(found))
