"""One report of a build: its shards, its kinds of machine, what is refused, and what keeps it from being green."""

import csv
import json
from collections.abc import Callable
from typing import Any

import pytest
from fakes import records as fake
from fakes import shards

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.report import Report, parse_kind, parse_kinds
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Skip
from pytest_hwperf.reports import csv_files, json_file, markdown, terminal
from pytest_hwperf.reports.exports import properties
from pytest_hwperf.reports.headline import headline_of
from pytest_hwperf.reports.table import TableHeading, rows
from pytest_hwperf.stats.merging import assigned, is_failed, merge, merge_kinds, why_open
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


def test_machines_stay_with_their_runs_and_are_named_where_they_differ(parts: Parts) -> None:
    merged = merge(parts)
    assert ["AMD EPYC 7B13"] * 2 + ["Intel Xeon"] == [one.run.machine.cpu_model for one in merged.judgements]
    assert (
        "measured on 2 machines, and compared on each of them alone: AMD EPYC 7B13, 4 cores (shards 1, 2); "
        "Intel Xeon, 8 cores (shard 3)"
    ) in merged.warnings
    assert () == merge(parts | {"c.json": shards.report_of(3, 0.0)}).warnings


def test_a_missing_shard_is_named_and_never_green(parts: Parts) -> None:
    table: list[tuple[list[str], str, str]] = [
        (["b.json"], "shard 2 of 3 is missing: its", "shards 1, 3"),
        (["a.json", "b.json"], "shards 1, 2 of 3 are missing: their", "shard 3"),
    ]
    for left_out, said, there in table:
        merged = merge({file: report for file, report in parts.items() if file not in left_out})
        assert [f"{said} tests are not in this report"] == why_open(merged)
        assert {*why_open(merged)} <= {*merged.warnings}, (left_out, said, there)
        assert "doubtful" == headline_of(merged).state, (left_out, said, there)
        assert headline_of(merged).sentence.endswith(f"only {there} of 3")


def test_a_shard_that_failed_fails_the_build_also_where_another_is_missing(parts: Parts) -> None:
    slower = shards.report_of(1, 0.3, 0.0)
    merged = merge({"a.json": slower, "c.json": parts["c.json"]})
    assert is_failed(merged)
    assert "bad" == headline_of(merged).state
    assert headline_of(merged).sentence.startswith(
        "1 of 3 tests regressed (at most 1 % false alarms over all 3 shards)"
    )


def test_tests_that_failed_by_themselves_fail_it_and_are_named(parts: Parts) -> None:
    table = [
        (1, "1 test failed without a verdict (t0)"),
        (7, "7 tests failed without a verdict (t0, t1, t2 and 4 others)"),
    ]
    for count, named in table:
        broken = changed(parts["b.json"], failed=tuple(f"t{number}" for number in range(count)), exit_code=1)
        merged = merge(parts | {"b.json": broken})
        assert is_failed(merged), (count, named)
        assert "bad" == headline_of(merged).state, (count, named)
        assert named in headline_of(merged).sentence


def test_a_shard_that_did_not_end_leaves_the_build_open(parts: Parts) -> None:
    table: list[tuple[Callable[[Report], Report], str]] = [
        (lambda one: changed(one, exit_code=3), "shard 2 of 3 did not end: pytest's exit code was 3"),
        (lambda one: replace(one, partial=True), "a shard was interrupted: not all of its tests are in this report"),
        (
            lambda one: replace(changed(one, exit_code=2), partial=True),
            "shard 2 of 3 did not end: pytest's exit code was 2",
        ),
    ]
    for spoil, why in table:
        merged = merge(parts | {"b.json": spoil(parts["b.json"])})
        assert [why] == why_open(merged)
        assert "doubtful" == headline_of(merged).state, (spoil, why)


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


def test_what_is_not_of_one_build_is_refused_with_what_to_type(parts: Parts) -> None:
    table: list[tuple[Callable[[Parts], Parts], str]] = [
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
    ]
    for spoil, said in table:
        with pytest.raises(UsageProblem) as caught:
            merge(spoil(parts))
        assert said in str(caught.value)


def test_what_is_not_known_is_not_unlike(parts: Parts) -> None:
    """Under xdist other processes have collected the tests; outside of git there is no revision."""
    unknown = replace(changed(parts["c.json"], selection="", selected=0), revision="")
    assert 3 == len(merge(parts | {"c.json": unknown}).shards)


ARM = fake.machine(cpu_model="Neoverse-N1")
TEST = "tests/1/test_models.py::test_0"


@pytest.fixture(scope="module")
def kinds() -> Parts:
    """The same two tests on two kinds: equal on one, and on the other the first of them slower by 30 %."""
    return {"x.json": shards.of_kind("x86", 0.0, 0.0), "a.json": shards.of_kind("arm", 0.3, 0.0, at=ARM)}


def test_verdicts_of_each_kind_stand_side_by_side(kinds: Parts) -> None:
    merged = merge_kinds(kinds)
    found = [(one.run.test, one.run.kind, one.comparisons[0].outcome) for one in merged.judgements]

    other = TEST.replace("_0", "_1")
    assert [(TEST, "arm", "regressed"), (TEST, "x86", "equivalent")] == found[:2]
    assert [(other, "arm", "equivalent"), (other, "x86", "equivalent")] == found[2:]
    assert ("arm", "x86") == merged.kinds
    assert is_failed(merged)
    assert [] == why_open(merged)


def test_every_verdict_can_be_computed_again_by_the_pairs_of_its_own_kind(kinds: Parts) -> None:
    merged = merge_kinds(kinds)
    crossed = replace(
        merged, gates=tuple(replace(one, kind={"arm": "x86", "x86": "arm"}[one.kind]) for one in merged.gates)
    )
    assert (4, ()) == (recompute(merged).agreeing, recompute(merged).disagreements)
    assert recompute(crossed).disagreements


def test_the_headline_says_what_became_of_each_kind_and_the_rate_of_all(kinds: Parts) -> None:
    said = headline_of(merge_kinds(kinds))
    assert "bad" == said.state
    assert said.sentence == (
        "arm: 1 of 2 tests regressed (at most 1 % false alarms on this kind of machine); "
        "x86: No regression found in 2 tests: 2 equivalent (at most 1 % false alarms on this kind of machine); "
        "over all 2 kinds of machine at most 2 % false alarms"
    )


def test_kinds_that_share_the_rate_promise_it_together() -> None:
    merged = merge_kinds({f"{kind}.json": shards.of_kind(kind, 0.0, kinds=2) for kind in ("arm", "x86")})
    assert "(at most 0.5 % false alarms on this kind of machine)" in headline_of(merged).sentence
    assert headline_of(merged).sentence.endswith("over all 2 kinds of machine at most 1 % false alarms")
    assert {0.005} == {gate.evidence.alpha for gate in merged.gates}


def test_shards_of_a_kind_are_merged_first() -> None:
    files = {f"arm-{number}.json": shards.report_of(number, 0.0, kind="arm") for number in (1, 2, 3)}
    whole = merge_kinds(files | {"x86.json": shards.of_kind("x86", 0.0)})
    part = merge_kinds({file: report for file, report in files.items() if file != "arm-2.json"})
    assert [("arm", 1), ("arm", 2), ("arm", 3), ("x86", 1)] == [(one.kind, one.number) for one in whole.shards]
    assert "false alarms over all 3 shards of this kind" in headline_of(whole).sentence
    assert ["arm: shard 2 of 3 is missing: its tests are not in this report"] == why_open(part)
    assert "arm: No regression found in 2 tests" in headline_of(part).sentence
    assert "only shards 1, 3 of 3" in headline_of(part).sentence


def test_a_kind_that_is_missing_is_named_and_never_green() -> None:
    table: list[tuple[tuple[str, ...], int, str, tuple[str, ...]]] = [
        (("arm", "x86", "gpu"), 3, "the kind of machine gpu is missing: nothing is known of it", ("gpu",)),
        ((), 3, "one more kind of machine is missing: nothing is known of it", ("",)),
        (("x86", "arm"), 2, "", ()),
    ]
    for names, number, said, missing in table:
        equal = {f"{kind}.json": shards.of_kind(kind, 0.0) for kind in ("arm", "x86")}
        merged = merge_kinds(equal, names, number)
        assert (missing, [said] if said else []) == (merged.missing_kinds, why_open(merged))
        assert ("doubtful" if missing else "good") == headline_of(merged).state
        assert ("is missing" in headline_of(merged).sentence) == bool(missing)
        assert names in ((), ("arm", "x86", "gpu"), merged.kinds)  # in the order that was asked for


def test_a_part_of_the_rate_tells_how_many_kinds_there_are() -> None:
    lone = merge_kinds({"arm.json": shards.of_kind("arm", 0.0, kinds=2)})
    assert ["one more kind of machine is missing: nothing is known of it"] == why_open(lone)


def test_a_kind_that_did_not_end_leaves_the_build_open() -> None:
    table: list[tuple[Callable[[Report], Report], str]] = [
        (lambda one: changed(one, exit_code=3), "x86: the run did not end: pytest's exit code was 3"),
        (lambda one: replace(one, partial=True), "a run was interrupted: not all of its tests are in this report"),
        (lambda one: replace(one, judgements=(), gates=()), "x86: the run has not measured anything"),
        (
            lambda one: replace(one, judgements=tuple(replace(j, verdicts=()) for j in one.judgements), gates=()),
            "x86: the run has not decided any comparison",
        ),
    ]
    for spoil, why in table:
        merged = merge_kinds({"a.json": shards.of_kind("arm", 0.0), "x.json": spoil(shards.of_kind("x86", 0.0))})
        assert [why] == why_open(merged)
        assert why.partition(": ")[2] in " ".join(merged.warnings)


def test_machines_and_selections_of_the_kinds_are_named(kinds: Parts) -> None:
    other = changed(kinds["a.json"], selected=5, selection="beef")
    warned = replace(other, warnings=("thermal throttling",))
    assert merge_kinds(kinds | {"a.json": warned}).warnings == (
        (
            "compared on each kind of machine alone, never across: "
            "arm (Neoverse-N1, 4 cores), x86 (AMD EPYC 7B13, 4 cores)"
        ),
        "not all kinds of machine have selected the same tests: arm 5 tests, x86 6 tests",
        "arm: thermal throttling",
    )


def test_kinds_that_are_not_of_one_build_are_refused_with_what_to_type(kinds: Parts) -> None:
    table: list[tuple[Callable[[Parts], Parts], tuple[str, ...], str]] = [
        (
            lambda kinds: kinds | {"b.json": shards.of_kind("", 0.0)},
            (),
            "b.json names no kind of machine: run every job",
        ),
        (
            lambda kinds: kinds,
            ("arm64", "x86"),
            "a.json is of 'arm', which is not among --kinds=arm64,x86. Did you mean 'arm64'?",
        ),
        (lambda _: {"b.json": shards.of_kind("", 0.0)}, ("arm",), "b.json names no kind of machine"),
        (
            lambda kinds: kinds | {"a.json": replace(kinds["a.json"], revision="beef")},
            (),
            "the revision is '4f2c1e9' in x.json and 'beef' in a.json",
        ),
        (
            lambda kinds: kinds | {"a.json": changed(kinds["a.json"], settings={"--hwperf-against": "HEAD"})},
            (),
            "--hwperf-against is 'origin/main' in x.json and 'HEAD' in a.json",
        ),
        (
            lambda kinds: kinds | {"a.json": changed(kinds["a.json"], kinds=2)},
            (),
            (
                "a.json: its pairs had a false-alarm rate of 1 %, where its part is 0.5 %: run it again with "
                "--hwperf-machine-kind=arm/2 --hwperf-alpha=1%"
            ),
        ),
        (
            lambda kinds: kinds | {"a.json": shards.of_kind("arm", 0.0, kinds=2)},
            (),
            "the number of kinds that share the rate is '1' in x.json and '2' in a.json: give every kind the same N",
        ),
        (
            lambda _: {f"{kind}.json": shards.of_kind(kind, 0.0, kinds=2) for kind in "abc"},
            (),
            (
                "3 kinds of machine, each with its part of the rate for 2: run all of them again with "
                "--hwperf-machine-kind=NAME/3"
            ),
        ),
        (
            lambda kinds: kinds | {"b.json": kinds["a.json"]},
            (),
            "shard 1 of 1 is there twice, in a.json and b.json: give one report of each",
        ),
    ]
    for spoil, names, said in table:
        with pytest.raises(UsageProblem) as caught:
            merge_kinds(spoil(kinds), names, len(names))
        assert said in str(caught.value)


def test_without_kinds_shards_are_merged_as_ever() -> None:
    merged = merge_kinds({f"{number}.json": shards.report_of(number, 0.0) for number in (1, 2, 3)})
    assert ((), [], 3) == (merged.kinds, why_open(merged), len(merged.shards))


def test_a_report_cannot_speak_for_another_kind(kinds: Parts) -> None:
    """What a file says of its shard counts: its runs are of that kind, whatever stands in them."""
    forged = replace(assigned(kinds["a.json"], "x86"), shards=kinds["a.json"].shards)
    assert {"arm"} == {one.run.kind for one in merge_kinds({"a.json": forged}).judgements}


def test_skips_stay_with_their_kind(kinds: Parts) -> None:
    skip = Skip(test=TEST, scenario="onnx_cuda", cause=state("no such test", missing="CUDA"))
    merged = merge_kinds(kinds | {"a.json": replace(kinds["a.json"], skips=(skip,))})
    shown = [line.texts[0] for line in rows(merged)[0] if isinstance(line, TableHeading) and line.is_bold]
    assert f"{TEST} on arm" == shown[shown.index("onnx_cuda") - 2]  # behind the scenario that was measured
    assert (1, 0) == (len(merged.of_kind("arm").skips), len(merged.of_kind("x86").skips))


def test_every_surface_says_of_which_kind_a_verdict_is(kinds: Parts) -> None:
    merged = merge_kinds(kinds, ("x86", "arm"), 2)
    shown = {
        "summary": "\n".join(line for line, _ in terminal.render_summary(merged, width=120)),
        "table": "\n".join(line for line, _ in terminal.render(merged, width=120)),
        "markdown": markdown.render(merged).decode(),
        "annotations": "\n".join(markdown.annotations(merged)).replace("%3A", ":"),
    }
    for surface, text in shown.items():
        assert "test_0 on arm" in text, surface
        assert "test_0 on x86" in text or surface == "annotations", surface
    assert "`x86`: AMD EPYC" in shown["markdown"]
    assert "`arm`: Neoverse-N1" in shown["markdown"]
    compared = [*csv.DictReader(csv_files.render(merged)["statistical_comparisons.csv"].decode().splitlines())]
    assert ["x86", "arm"] * 2 == [one["machine_kind"] for one in compared]
    effects = {one["machine_kind"]: one["cohens_d_paired"] for one in compared if one["test"] == TEST}
    assert float(effects["arm"]) > float(effects["x86"])  # of the pairs of its own kind
    written = json.loads(json_file.render(merged))["report"]
    assert [one["run"]["kind"] for one in written["judgements"]] == ["x86", "arm"] * 2
    assert {("hwperf.machine_kind", "arm")} <= {*properties(merged.judgements[1])}


def test_a_kind_and_kinds_are_read() -> None:
    kinds: dict[str, tuple[str, int] | None] = {"arm64": ("arm64", 1), "a.b_c-1/12": ("a.b_c-1", 12), "": None}
    assert kinds == {text: parse_kind(text) for text in kinds}
    lists = {"arm, x86": (("arm", "x86"), 2), "3": ((), 3), "arm": (("arm",), 1)}
    assert lists == {text: parse_kinds(text) for text in lists}


def test_what_is_no_kind_is_refused(kinds: Parts) -> None:
    for text in ["3090", "a b", "a/0", "a/101", "a/", "-a", "ä", "a" * 41, "a\n", "a/1/2"]:
        with pytest.raises(UsageProblem, match="is no kind of machine"):
            parse_kind(text)
    for text in ["", "0", "101", "arm,,x86", "arm,arm", "1,2", "²"]:
        with pytest.raises(UsageProblem, match="names of different kinds of machine"):
            parse_kinds(text)
    wrong: list[dict[str, Any]] = [{"kind": "a b"}, {"kinds": 0}, {"kinds": 101}]
    for fields in wrong:
        with pytest.raises(ValueError, match="no kind of machine is called"):
            changed(kinds["x.json"], **fields)
