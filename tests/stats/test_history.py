"""Series of values over time: how they are made, what they show, and which commits are suspected of a drift."""

from collections.abc import Sequence

import pytest
from fakes import records as fake
from fakes.histories import STEP, note, revision, series, slower

from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.evidence import Evidence, Gate
from pytest_hwperf.records.run import StoredRun, replace
from pytest_hwperf.records.verdict import Comparison, Judgement, Verdict
from pytest_hwperf.stats.stored.history import (
    PastValue,
    Series,
    Statistic,
    Suspects,
    TrendFile,
    drifted,
    explained,
    is_anchor,
    lined_up,
    series_of,
    suspects_of,
    trend_of,
    with_run,
)


def value(started_at: str, median: float) -> PastValue:
    return PastValue(
        started_at=started_at, revision="abc", estimate=fake.estimate(median, None, None, 1), accepted=True
    )


def test_the_pinned_anchor_is_told_from_branches() -> None:
    pinned = {"anchor": True, "anchor v1.4": True, "anchors/new": False, "main": False, "": False}
    assert pinned == {against: is_anchor(against) for against in pinned}


def test_values_are_in_the_order_of_time() -> None:
    one = Statistic("latency", "p50", "perf_counter", "lower")
    other = Statistic("latency", "p50", "perf_counter", "lower", "4f2c1e9")
    late, early = value("2026-03-02T00:00:00+00:00", 2.0), value("2026-03-01T00:00:00+00:00", 1.0)
    first, second = lined_up("t", "l", fake.machine(), [(one, late), (other, late), (one, early)])
    assert (first.values, second.values) == ((early, late), (late,))
    assert (first.anchor, second.anchor) == ("", "4f2c1e9")
    assert (first.test, first.label, first.machine, first.key) == ("t", "l", fake.machine(), ("latency", "p50"))


def test_every_figure_of_accepted_runs_is_a_value() -> None:
    """Of a metric of the user's own, the direction is that of its run."""
    run = replace(fake.run(), directions={"own": "higher"}, changed=True)
    stored = StoredRun(run=run, figures=(fake.figure(), fake.figure("own", "mean", source="record")))
    latency, own = series_of([stored, stored])
    assert (latency.better, own.better, own.source) == ("lower", "higher", "record")
    assert len(own.values) == 2
    past = own.values[0]
    assert (past.started_at, past.revision, past.changed, past.accepted) == (fake.STARTED, "4f2c1e9", True, True)
    assert past.estimate == stored.figures[1].estimate


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


def test_the_scale_is_that_of_the_values() -> None:
    table: list[tuple[str, str, list[float], str, float]] = [
        ("latency", "4f2c1e9", [0.001 * (i * 7 % 5 - 2) + 0.05 * (i >= STEP) for i in range(40)], "relative", 0.05),
        ("accuracy", "", [0.9 + 0.001 * (i * 7 % 5 - 2) - 0.05 * (i >= STEP) for i in range(40)], "absolute", -0.05),
        ("own", "", [0.001 * (i * 7 % 5 - 2) - 3.0 * (i >= STEP) for i in range(40)], "absolute", -3.0),
    ]
    for metric, anchor, values, scale, shift in table:
        found = trend_of(series(values, metric, "mean", anchor=anchor), [])
        assert found.scale == scale
        assert found.changes[0].shift.value == pytest.approx(shift, abs=0.003)


def test_it_survives_a_round_trip() -> None:
    found = TrendFile(baseline="main", alpha=0.01, trends=(trend_of(series(slower()), [note(3, "x")]),))
    assert found == from_json(TrendFile, to_json(found))


RELEASE = "a" * 40
GATE = Gate(
    against="anchor v1.4", revision=RELEASE, seed=0, evidence=Evidence(alpha=0.01, hypotheses=(), pairs=()),
    shared={}, seconds={},
)  # fmt: skip
REGRESSION = Comparison(
    metric="latency", statistic="p50", outcome="regressed", change=fake.estimate(0.03, 0.025, 0.035, 17),
    scale="relative", margin=0.02,
)  # fmt: skip


def judged(*compared: Comparison) -> Judgement:
    plain = fake.sklearn_judgement()
    run = replace(plain.run, test=fake.TEST, label="", started_at="2026-09-01T00:00:00+00:00", revision="f" * 40)
    verdicts = tuple(Verdict(subject=one, outcome=one.outcome, reason="", fails=True) for one in compared)
    return replace(plain, run=replace(run, machine=fake.machine()), verdicts=verdicts)


def nights(step: float = 0.03, *, anchor: str = RELEASE) -> Series:
    """Changes from the release, which rise by a step after `STEP` nights."""
    noise = [0.001 * (place * 7 % 5 - 2) for place in range(2 * STEP)]
    return series([one + step * (place >= STEP) for place, one in enumerate(noise)], anchor=anchor)


def suspects(history: Sequence[Series], gate: Gate = GATE) -> Suspects:
    return suspects_of(judged(REGRESSION), REGRESSION, gate, history)


def test_the_commits_around_the_change_of_level_are_suspected() -> None:
    found = suspects([nights(anchor="b" * 40), nights()])
    assert (revision(STEP - 1)[:10], revision(STEP)[:10], 2 * STEP + 1) == (found.good, found.bad, found.runs)
    assert found.shift.startswith("+3.0 % (+")


def test_without_a_change_of_level_all_commits_since_the_release_are() -> None:
    table: list[tuple[Sequence[Series], int]] = [
        ((), 1),
        ((nights(0.0),), 2 * STEP + 1),  # no change
        ((nights(-0.03),), 2 * STEP + 1),  # one for the better
        ((nights(anchor="b" * 40),), 1),  # from another release
        ((nights(anchor=""),), 1),  # raw figures
    ]
    for history, runs in table:
        found = suspects(history)
        assert ("v1.4", "HEAD", "", runs) == (found.good, found.bad, found.shift, found.runs)


def test_a_series_without_revisions_or_of_one_names_none() -> None:
    one = nights()
    unnamed = replace(one, values=tuple(replace(value, revision="") for value in one.values))
    same = replace(one, values=tuple(replace(value, revision="e" * 40) for value in one.values))
    assert ["HEAD", "HEAD"] == [suspects([line]).bad for line in (unnamed, same)]


def test_a_release_without_a_name_is_called_by_its_commit() -> None:
    assert suspects([], replace(GATE, against="anchor")).good == RELEASE[:10]


def test_only_regressions_against_an_anchor_are_drift() -> None:
    good = replace(REGRESSION, outcome="equivalent")
    assert [REGRESSION] == [compared for _, compared, _ in drifted([judged(good, REGRESSION)], [GATE])]
    assert [] == [*drifted([judged(good)], [GATE])]
    assert [] == [*drifted([judged(REGRESSION)], [replace(GATE, against="main")])]


def test_what_to_type_is_said() -> None:
    known, unknown = suspects([nights()]), replace(suspects([]), test="t.py::test[a b]")
    assert explained(known, 3).endswith(
        f"between {known.good} and {known.bad}, 3 commits (95 %, of 41 runs); search them with "
        f"hwperf bisect {known.good} {known.bad} -- {fake.TEST}"
    )
    assert explained(unknown, None) == (
        "drift of t.py::test[a b], latency p50: its history of 1 run shows no change of level, which leaves all "
        "between v1.4 and HEAD; search them with hwperf bisect v1.4 HEAD -- 't.py::test[a b]'"
    )


def test_an_old_report_ends_its_history() -> None:
    """What was stored later is no past of it."""
    line, judgement = nights(), judged(REGRESSION)
    old = replace(judgement, run=replace(judgement.run, started_at=line.values[2].started_at))
    found = with_run(line, old, [GATE])
    assert [one.started_at for one in line.values[:3]] == [one.started_at for one in found.values]


def test_a_run_that_is_stored_is_not_counted_twice() -> None:
    line, judgement = nights(), judged(REGRESSION)
    at = line.values[-1].started_at
    again = replace(judgement, run=replace(judgement.run, started_at=at))
    assert len(with_run(line, again, [GATE]).values) == 2 * STEP
    assert with_run(line, again, [GATE]).values[-1].accepted
    assert with_run(line, judgement, []) is line
    other = replace(line, machine=fake.machine(cores=99))
    assert with_run(other, judgement, [GATE]) is other
