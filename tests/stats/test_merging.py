"""One report of the shards of a build: what is put together, what is refused, and what keeps it from being green."""

from collections.abc import Callable
from typing import Any

import pytest
from fakes import records as fake
from fakes import shards

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.reports.headline import headline_of
from pytest_hwperf.stats.merging import is_failed, merge
from pytest_hwperf.stats.merging import why_shards_are_open as why_open
from pytest_hwperf.stats.replay import recompute

Parts = dict[str, Report]
OTHER = fake.machine(cpu_model="Intel Xeon", cores=8)


@pytest.fixture(scope="module")
def parts() -> Parts:
    """Three shards, of which the second has no test; the last runs on another machine."""
    return {
        "b.json": shards.report_of(2),
        "a.json": shards.report_of(1, 0.0, 0.0),
        "c.json": shards.report_of(3, 0.0, at=OTHER),
    }


def changed(report: Report, **fields: Any) -> Report:
    """Return a report whose shard is another one in some fields."""
    return replace(report, shards=(replace(report.shards[0], **fields),))


def test_shards_are_put_together_in_their_order(parts: Parts) -> None:
    merged = merge(parts)
    assert ["tests/1", "tests/1", "tests/3"] == [one.run.test[:7] for one in merged.judgements]
    assert [1, 2, 3] == [one.number for one in merged.shards]
    assert [1, 3] == [gate.seed for gate in merged.gates]
    assert (False, [], ()) == (is_failed(merged), why_open(merged), merged.missing_shards)
    assert "good" == headline_of(merged).state
    assert "at most 1 % false alarms over all 3 shards" in headline_of(merged).sentence


def test_every_verdict_can_be_computed_again(parts: Parts) -> None:
    again = recompute(merge(parts))
    assert (3, ()) == (again.agreeing, again.disagreements)


def test_machines_stay_with_their_runs_and_are_named(parts: Parts) -> None:
    merged = merge(parts)
    assert ["AMD EPYC 7B13"] * 2 + ["Intel Xeon"] == [one.run.machine.cpu_model for one in merged.judgements]
    assert (
        "measured on 2 machines, and compared on each of them alone: AMD EPYC 7B13, 4 cores (shards 1, 2); "
        "Intel Xeon, 8 cores (shard 3)"
    ) in merged.warnings


def test_one_machine_is_not_worth_a_word(parts: Parts) -> None:
    assert () == merge(parts | {"c.json": shards.report_of(3, 0.0)}).warnings


@pytest.mark.parametrize(
    ("left_out", "said", "there"),
    [
        (["b.json"], "shard 2 of 3 is missing: its", "shards 1, 3"),
        (["a.json", "b.json"], "shards 1, 2 of 3 are missing: their", "shard 3"),
    ],
)
def test_a_missing_shard_is_named_and_never_green(parts: Parts, left_out: list[str], said: str, there: str) -> None:
    merged = merge({file: report for file, report in parts.items() if file not in left_out})
    assert [f"{said} tests are not in this report"] == why_open(merged)
    assert {*why_open(merged)} <= {*merged.warnings}
    assert "doubtful" == headline_of(merged).state
    assert headline_of(merged).sentence.endswith(f"only {there} of 3")


def test_a_shard_that_failed_fails_the_build_also_where_another_is_missing(parts: Parts) -> None:
    slower = shards.report_of(1, 0.3, 0.0)
    merged = merge({"a.json": slower, "c.json": parts["c.json"]})
    assert is_failed(merged)
    assert "bad" == headline_of(merged).state
    assert headline_of(merged).sentence.startswith(
        "1 of 3 tests regressed (at most 1 % false alarms over all 3 shards)"
    )


@pytest.mark.parametrize(("count", "named"), [(1, "1 test failed by themselves: t0"), (7, "t4 and 2 more")])
def test_tests_that_failed_by_themselves_fail_it_and_are_named(parts: Parts, count: int, named: str) -> None:
    broken = changed(parts["b.json"], failed=tuple(f"t{number}" for number in range(count)), exit_code=1)
    merged = merge(parts | {"b.json": broken})
    assert is_failed(merged)
    assert "bad" == headline_of(merged).state
    assert any(named in warning for warning in merged.warnings)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda one: changed(one, exit_code=3), "shard 2 of 3 did not end: pytest's exit code was 3"),
        (lambda one: replace(one, partial=True), "a shard was interrupted: not all of its tests are in this report"),
        (
            lambda one: replace(changed(one, exit_code=2), partial=True),
            "shard 2 of 3 did not end: pytest's exit code was 2",
        ),
    ],
)
def test_a_shard_that_did_not_end_leaves_the_build_open(
    parts: Parts, spoil: Callable[[Report], Report], why: str
) -> None:
    merged = merge(parts | {"b.json": spoil(parts["b.json"])})
    assert [why] == why_open(merged)
    assert "doubtful" == headline_of(merged).state


def test_where_nothing_was_measured_nothing_is_green(parts: Parts) -> None:
    merged = merge({f"{number}.json": shards.report_of(number) for number in (1, 2, 3)})
    assert ["no shard has measured anything"] == why_open(merged)
    assert not is_failed(merged)
    assert "Nothing was measured" == headline_of(merged).sentence
    lone = merge({"b.json": parts["b.json"]})
    assert ("Nothing was measured; only shard 2 of 3", "doubtful") == (
        headline_of(lone).sentence,
        headline_of(lone).state,
    )


def test_a_comparison_that_was_asked_for_and_decided_nothing_is_not_green(parts: Parts) -> None:
    """Nor is it where no comparison was made at all; without being asked for it is."""
    empty = {
        file: replace(one, judgements=tuple(replace(j, verdicts=()) for j in one.judgements))
        for file, one in parts.items()
    }
    unasked = {file: changed(one, settings={}) for file, one in empty.items()}
    assert ["no shard has decided any comparison"] == why_open(merge(empty))
    assert [] == why_open(merge(unasked))


def test_warnings_are_said_once_with_their_shards(parts: Parts) -> None:
    warned = {
        file: replace(one, warnings=("thermal throttling", *["by itself"] * (file == "b.json")))
        for file, one in parts.items()
    }
    assert ("shards 1, 2, 3: thermal throttling", "shard 2: by itself") == merge(warned).warnings[1:]


def twice(parts: Parts) -> Parts:
    return parts | {"d.json": replace(parts["a.json"], judgements=())}


def elsewhere(parts: Parts) -> Parts:
    """Return shards of which two have measured the same test."""
    other = parts["c.json"]
    return parts | {"c.json": replace(other, judgements=(*other.judgements, parts["a.json"].judgements[0]))}


def unsplit(parts: Parts) -> Parts:
    first = parts["a.json"]
    gate = replace(first.gates[0], evidence=replace(first.gates[0].evidence, alpha=0.01))
    return parts | {"a.json": replace(first, gates=(gate,))}


def moved(parts: Parts) -> Parts:
    first = parts["a.json"]
    return parts | {"a.json": replace(first, gates=(replace(first.gates[0], revision="beef"),))}


def spoilt(**fields: Any) -> Callable[[Parts], Parts]:
    return lambda parts: parts | {"c.json": changed(parts["c.json"], **fields)}


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda _: {"x.json": fake.report()}, "x.json is no shard: give a file of pytest --hwperf-shard=K/N"),
        (lambda parts: {"x.json": merge(parts)}, "x.json is merged already: give a file of pytest"),
        (twice, "shard 1 of 3 is there twice, in a.json and d.json: give one report of each, that of its only run"),
        (
            lambda parts: parts | {"c.json": shards.report_of(4, 0.0, of=4)},
            "the number of shards is '3' in a.json and '4' in c.json: give every shard the same N of K/N",
        ),
        (spoilt(alpha=0.05), "--hwperf-alpha is '1%' in a.json and '5%' in c.json: run every shard with the same"),
        (
            spoilt(settings={"--hwperf-against": "HEAD"}),
            "--hwperf-against is 'origin/main' in a.json and 'HEAD' in c.json: run every shard with the same arguments",
        ),
        (
            spoilt(settings={"--hwperf-against": "", "--hwperf-strict": "off"}),
            "--hwperf-against is 'origin/main' in a.json and 'not given' in c.json",
        ),
        (
            spoilt(settings={"--hwperf-against": shards.AGAINST}),
            "--hwperf-strict is 'off' in a.json and 'not given' in c.json",
        ),
        (
            lambda parts: parts | {"c.json": replace(parts["c.json"], revision="beef")},
            "the revision is '4f2c1e9' in a.json and 'beef' in c.json: run every shard on the same commit",
        ),
        (
            lambda parts: parts | {"c.json": replace(parts["c.json"], changed=True)},
            "'4f2c1e9+changes' in c.json: run every shard on the same commit, without changes",
        ),
        (
            spoilt(selected=5, selection="beef"),
            "the selection of tests is '6 tests (c0ffeec0ffee)' in a.json and '5 tests (beef)' in c.json",
        ),
        (moved, "'beef' in a.json and '4f2c1e9' in c.json: it has moved: give every shard the commit itself"),
        (
            unsplit,
            (
                "a.json: its pairs had a false-alarm rate of 1 %, where its part is 0.333333 %: run it again with "
                "--hwperf-shard=1/3 --hwperf-alpha=1%"
            ),
        ),
        (
            elsewhere,
            "'tests/1/test_models.py::test_0' was measured in a.json and in c.json: a test belongs to one shard",
        ),
    ],
)
def test_what_is_not_of_one_build_is_refused_with_what_to_type(
    parts: Parts, spoil: Callable[[Parts], Parts], said: str
) -> None:
    with pytest.raises(UsageProblem) as caught:
        merge(spoil(parts))
    assert said in str(caught.value)


def test_what_is_not_known_is_not_unlike(parts: Parts) -> None:
    """Under xdist other processes have collected the tests; outside of git there is no revision."""
    unknown = replace(changed(parts["c.json"], selection="", selected=0), revision="")
    assert 3 == len(merge(parts | {"c.json": unknown}).shards)
