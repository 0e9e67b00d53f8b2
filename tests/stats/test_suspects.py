"""Which commits are suspected where a test has drifted from the pinned release."""

from collections.abc import Sequence

import pytest
from fakes import records as fake
from fakes.histories import STEP, revision, series

from pytest_hwperf.records.evidence import Evidence, Gate
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison, Judgement, Verdict
from pytest_hwperf.stats.history import Series, Suspects, drifted, explained, suspects_of, with_run

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


@pytest.mark.parametrize(
    ("history", "runs"),
    [
        ((), 1),
        ((nights(0.0),), 2 * STEP + 1),  # no change
        ((nights(-0.03),), 2 * STEP + 1),  # one for the better
        ((nights(anchor="b" * 40),), 1),  # from another release
        ((nights(anchor=""),), 1),  # raw figures
    ],
)
def test_without_a_change_of_level_all_commits_since_the_release_are(history: Sequence[Series], runs: int) -> None:
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


def test_a_run_that_is_stored_is_not_counted_twice() -> None:
    line, judgement = nights(), judged(REGRESSION)
    at = line.values[-1].started_at
    again = replace(judgement, run=replace(judgement.run, started_at=at))
    assert len(with_run(line, again, [GATE]).values) == 2 * STEP
    assert with_run(line, again, [GATE]).values[-1].accepted
    assert with_run(line, judgement, []) is line
    other = replace(line, machine=fake.machine(cores=99))
    assert with_run(other, judgement, [GATE]) is other
