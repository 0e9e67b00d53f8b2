"""One report of a build on several kinds of machine: verdicts of each, none across, and what keeps it from green."""

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
from pytest_hwperf.reports.table import rows
from pytest_hwperf.stats.merging import assigned, is_failed, merge_kinds, why_open
from pytest_hwperf.stats.replay import recompute

Parts = dict[str, Report]
ARM = fake.machine(cpu_model="Neoverse-N1")
TEST = "tests/1/test_models.py::test_0"


@pytest.fixture(scope="module")
def parts() -> Parts:
    """The same two tests on two kinds: equal on one, and on the other the first of them slower by 30 %."""
    return {"x.json": shards.of_kind("x86", 0.0, 0.0), "a.json": shards.of_kind("arm", 0.3, 0.0, at=ARM)}


def changed(report: Report, **fields: Any) -> Report:
    return replace(report, shards=(replace(report.shards[0], **fields),))


def test_verdicts_of_each_kind_stand_side_by_side(parts: Parts) -> None:
    merged = merge_kinds(parts)
    found = [(one.run.test, one.run.kind, one.comparisons[0].outcome) for one in merged.judgements]

    other = TEST.replace("_0", "_1")
    assert [(TEST, "arm", "regressed"), (TEST, "x86", "equivalent")] == found[:2]
    assert [(other, "arm", "equivalent"), (other, "x86", "equivalent")] == found[2:]
    assert ("arm", "x86") == merged.kinds
    assert is_failed(merged)
    assert [] == why_open(merged)


def test_every_verdict_can_be_computed_again_by_the_pairs_of_its_own_kind(parts: Parts) -> None:
    merged = merge_kinds(parts)
    crossed = replace(
        merged, gates=tuple(replace(one, kind={"arm": "x86", "x86": "arm"}[one.kind]) for one in merged.gates)
    )
    assert (4, ()) == (recompute(merged).agreeing, recompute(merged).disagreements)
    assert recompute(crossed).disagreements


def test_the_headline_says_what_became_of_each_kind_and_the_rate_of_all(parts: Parts) -> None:
    said = headline_of(merge_kinds(parts))
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


@pytest.mark.parametrize(
    ("names", "number", "said", "missing"),
    [
        (("arm", "x86", "gpu"), 3, "the kind of machine gpu is missing: nothing is known of it", ("gpu",)),
        ((), 3, "one more kind of machine is missing: nothing is known of it", ("",)),
        (("x86", "arm"), 2, "", ()),
    ],
)
def test_a_kind_that_is_missing_is_named_and_never_green(
    names: tuple[str, ...], number: int, said: str, missing: tuple[str, ...]
) -> None:
    equal = {f"{kind}.json": shards.of_kind(kind, 0.0) for kind in ("arm", "x86")}
    merged = merge_kinds(equal, names, number)
    assert (missing, [said] if said else []) == (merged.missing_kinds, why_open(merged))
    assert ("doubtful" if missing else "good") == headline_of(merged).state
    assert ("is missing" in headline_of(merged).sentence) == bool(missing)
    assert names in ((), ("arm", "x86", "gpu"), merged.kinds)  # in the order that was asked for


def test_a_part_of_the_rate_tells_how_many_kinds_there_are() -> None:
    lone = merge_kinds({"arm.json": shards.of_kind("arm", 0.0, kinds=2)})
    assert ["one more kind of machine is missing: nothing is known of it"] == why_open(lone)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda one: changed(one, exit_code=3), "x86: the run did not end: pytest's exit code was 3"),
        (lambda one: replace(one, partial=True), "a run was interrupted: not all of its tests are in this report"),
        (lambda one: replace(one, judgements=(), gates=()), "x86: the run has not measured anything"),
        (
            lambda one: replace(one, judgements=tuple(replace(j, verdicts=()) for j in one.judgements), gates=()),
            "x86: the run has not decided any comparison",
        ),
    ],
)
def test_a_kind_that_did_not_end_leaves_the_build_open(spoil: Callable[[Report], Report], why: str) -> None:
    merged = merge_kinds({"a.json": shards.of_kind("arm", 0.0), "x.json": spoil(shards.of_kind("x86", 0.0))})
    assert [why] == why_open(merged)
    assert why.partition(": ")[2] in " ".join(merged.warnings)


def test_machines_and_selections_of_the_kinds_are_named(parts: Parts) -> None:
    other = changed(parts["a.json"], selected=5, selection="beef")
    warned = replace(other, warnings=("thermal throttling",))
    assert merge_kinds(parts | {"a.json": warned}).warnings == (
        (
            "compared on each kind of machine alone, never across: "
            "arm (Neoverse-N1, 4 cores), x86 (AMD EPYC 7B13, 4 cores)"
        ),
        "not all kinds of machine have selected the same tests: arm 5 tests, x86 6 tests",
        "arm: thermal throttling",
    )


@pytest.mark.parametrize(
    ("spoil", "names", "said"),
    [
        (
            lambda parts: parts | {"b.json": shards.of_kind("", 0.0)},
            (),
            "b.json names no kind of machine: run every job",
        ),
        (
            lambda parts: parts,
            ("arm64", "x86"),
            "a.json is of 'arm', which is not among --kinds=arm64,x86. Did you mean 'arm64'?",
        ),
        (lambda _: {"b.json": shards.of_kind("", 0.0)}, ("arm",), "b.json names no kind of machine"),
        (
            lambda parts: parts | {"a.json": replace(parts["a.json"], revision="beef")},
            (),
            "the revision is '4f2c1e9' in x.json and 'beef' in a.json",
        ),
        (
            lambda parts: parts | {"a.json": changed(parts["a.json"], settings={"--hwperf-against": "HEAD"})},
            (),
            "--hwperf-against is 'origin/main' in x.json and 'HEAD' in a.json",
        ),
        (
            lambda parts: parts | {"a.json": changed(parts["a.json"], kinds=2)},
            (),
            (
                "a.json: its pairs had a false-alarm rate of 1 %, where its part is 0.5 %: run it again with "
                "--hwperf-machine-kind=arm/2 --hwperf-alpha=1%"
            ),
        ),
        (
            lambda parts: parts | {"a.json": shards.of_kind("arm", 0.0, kinds=2)},
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
            lambda parts: parts | {"b.json": parts["a.json"]},
            (),
            "shard 1 of 1 is there twice, in a.json and b.json: give one report of each",
        ),
    ],
)
def test_what_is_not_of_one_build_is_refused_with_what_to_type(
    parts: Parts, spoil: Callable[[Parts], Parts], names: tuple[str, ...], said: str
) -> None:
    with pytest.raises(UsageProblem) as caught:
        merge_kinds(spoil(parts), names, len(names))
    assert said in str(caught.value)


def test_without_kinds_shards_are_merged_as_ever() -> None:
    merged = merge_kinds({f"{number}.json": shards.report_of(number, 0.0) for number in (1, 2, 3)})
    assert ((), [], 3) == (merged.kinds, why_open(merged), len(merged.shards))


def test_a_report_cannot_speak_for_another_kind(parts: Parts) -> None:
    """What a file says of its shard counts: its runs are of that kind, whatever stands in them."""
    forged = replace(assigned(parts["a.json"], "x86"), shards=parts["a.json"].shards)
    assert {"arm"} == {one.run.kind for one in merge_kinds({"a.json": forged}).judgements}


def test_skips_stay_with_their_kind(parts: Parts) -> None:
    skip = Skip(test=TEST, scenario="onnx_cuda", cause=state("no such test", missing="CUDA"))
    merged = merge_kinds(parts | {"a.json": replace(parts["a.json"], skips=(skip,))})
    titles = [group.title for group in rows(merged).groups if any(s.name == "onnx_cuda" for s in group.sections)]
    assert [f"{TEST} on arm"] == titles
    assert (1, 0) == (len(merged.of_kind("arm").skips), len(merged.of_kind("x86").skips))


def test_every_surface_says_of_which_kind_a_verdict_is(parts: Parts) -> None:
    merged = merge_kinds(parts, ("x86", "arm"), 2)
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


@pytest.mark.parametrize(("text", "found"), [("arm64", ("arm64", 1)), ("a.b_c-1/12", ("a.b_c-1", 12)), ("", None)])
def test_a_kind_is_read(text: str, found: tuple[str, int] | None) -> None:
    assert found == parse_kind(text)


@pytest.mark.parametrize("text", ["3090", "a b", "a/0", "a/101", "a/", "-a", "ä", "a" * 41, "a\n", "a/1/2"])
def test_what_is_no_kind_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match="is no kind of machine"):
        parse_kind(text)


@pytest.mark.parametrize(("text", "found"), [("arm, x86", (("arm", "x86"), 2)), ("3", ((), 3)), ("arm", (("arm",), 1))])
def test_kinds_are_read(text: str, found: tuple[tuple[str, ...], int]) -> None:
    assert found == parse_kinds(text)


@pytest.mark.parametrize("text", ["", "0", "101", "arm,,x86", "arm,arm", "1,2", "²"])
def test_what_are_no_kinds_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match="names of different kinds of machine"):
        parse_kinds(text)


@pytest.mark.parametrize("fields", [{"kind": "a b"}, {"kinds": 0}, {"kinds": 101}])
def test_a_report_with_no_such_kind_is_refused(parts: Parts, fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no kind of machine is called"):
        changed(parts["x.json"], **fields)
