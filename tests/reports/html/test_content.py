"""What the page embeds: how verdicts were decided, what opens on demand, and what a large report leaves out."""

from array import array
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from fakes import gates
from fakes import records as fake

from pytest_hwperf.records.profiles import PeakRate, Work
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.reports.html import page
from pytest_hwperf.reports.html.details import packed, quantiles, rounded, tree_of
from pytest_hwperf.reports.rows import grouped
from pytest_hwperf.stats.causes.roofline import roofline_of
from pytest_hwperf.stats.pairs.hypotheses import SIDES

if TYPE_CHECKING:
    from pytest_hwperf.records.evidence import Gate

SEED = 7


def slower(*, apart: bool = False) -> Report:
    """One test of three got 9 % slower, beyond doubt."""
    report = gates.report(SEED)
    evidence = gates.build([0.09, 0.0, 0.0], Random(SEED), spread=0.004)
    seen = [tuple(replace(one, apart=apart) for one in pair.observations) for pair in evidence.pairs]
    pairs = [replace(pair, observations=found) for pair, found in zip(evidence.pairs, seen, strict=True)]
    evidence = replace(evidence, pairs=tuple(pairs))
    gate: Gate = replace(report.gates[0], evidence=evidence)
    return replace(report, judgements=tuple(_judged(evidence)), gates=(gate,))


def _judged(evidence: Any) -> Iterator[Any]:
    from pytest_hwperf.records.verdict import Judgement, Policy
    from pytest_hwperf.stats.pairs.sequence import decide
    from pytest_hwperf.stats.verdicts import judge

    for hypothesis, comparison in decide(evidence).items():
        run = fake.run(test=hypothesis.measurement.test)
        yield Judgement(run=run, figures=(), verdicts=judge(run, (), [comparison], [], Policy()))


def embedded(report: Report) -> tuple[Any, list[Any], list[str]]:
    return page.content_of(report, grouped(report), None)


def test_a_regression_says_how_it_was_decided() -> None:
    """Counts of the confirming pairs, the chance, and what the answer promises: all from the records."""
    rows, details, _ = embedded(slower())
    row = rows["rows"][0]
    (verdict,) = details[row["j"]]["verdicts"]
    words = " ".join(verdict["words"])
    assert "regressed" == row["g"]
    assert "Asked: did latency p50 get worse by more than the margin of 2 %?" in words
    pairs = sum(one[1] == "confirm" for one in verdict["pairs"])
    assert (
        f"In {pairs} of {pairs} the candidate's value was higher, in {pairs} of {pairs} by more than the margin"
        in words
    )
    assert "The chance of such values if nothing had got worse by more than the margin of 2 %: 0." in words
    assert "How often such an answer is wrong: at most 1 % false alarms per build" in words
    assert words.endswith("Verdict: regressed. It fails the test.")


@pytest.mark.parametrize(
    ("apart", "said"),
    [
        (False, "pairs of fresh processes, the baseline's code and the candidate's, took turns in blocks of calls, in"),
        (True, "pairs of two fresh processes of each side were measured one after the other, with one of them alive"),
    ],
)
def test_how_the_sides_were_alive_is_said(apart: bool, said: str) -> None:
    rows, details, _ = embedded(slower(apart=apart))
    assert said in " ".join(details[rows["rows"][0]["j"]]["verdicts"][0]["words"])


def test_blocks_of_all_pairs_are_in_one_unit() -> None:
    """They share a chart; one pair of slower turns has another size."""
    report = slower()
    (gate,) = report.gates
    first, *others = gate.evidence.pairs
    slow = [
        replace(one, **{side: array("d", [1000 * value for value in getattr(one, side)]) for side in SIDES})
        for one in first.observations
    ]
    pairs = (replace(first, observations=tuple(slow)), *others)
    report = replace(report, gates=(replace(gate, evidence=replace(gate.evidence, pairs=pairs)),))
    rows, details, _ = embedded(report)
    one, other, *rest = details[rows["rows"][0]["j"]]["verdicts"][0]["blocks"]
    assert {one["u"]} == {block["u"] for block in (other, *rest)}
    assert 900 < one["b"][0] * one["f"] / (other["b"][0] * other["f"]) < 1100


def test_pairs_and_blocks_are_those_of_the_evidence() -> None:
    report = slower()
    rows, details, _ = embedded(report)
    verdict = details[rows["rows"][0]["j"]]["verdicts"][0]
    pairs = report.gates[0].evidence.pairs
    first = pairs[0].observations[0]
    assert [[pair.number, pair.stage] for pair in pairs] == [one[:2] for one in verdict["pairs"]]
    block = verdict["blocks"][0]
    assert list(first.baseline) == pytest.approx([value * block["f"] * 1e-3 for value in block["b"]], rel=1e-3)
    assert "ms" == block["u"]
    assert "" == block["t"]  # the turns that were drawn are of fewer blocks


def test_what_is_inconclusive_or_unanswered_is_never_said_to_be_well() -> None:
    rows, details, _ = embedded(fake.report())
    words = [" ".join(one["words"]) for detail in details for one in detail["verdicts"]]
    groups = {"regressed": 1, "failed": 1, "inconclusive": 2, "improved": 1, "unanswered": 3, "settled": 4, "plain": 1}
    assert groups == Counter(row["g"] for row in rows["rows"])
    assert any("The smallest change for the worse that could have been caught: 14 %." in text for text in words)
    assert any("It was not measured: no readable energy counter" in text for text in words)
    assert any("Nothing could be compared: measured by estimate:cpu-time" in text for text in words)
    assert ["regressed", "failed"] == [row["g"] for row in rows["rows"][:2]]


def test_of_a_large_report_what_is_well_is_left_out_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_MOST_DETAILS", 2)
    monkeypatch.setattr(page, "_MOST_BLOCKS", 1)
    rows, details, left_out = embedded(slower())
    assert 1 == sum(len(one["verdicts"]) for one in details)
    assert 3 == len(rows["rows"])
    assert "0 verdicts of 1" in left_out[1]
    assert "How it was decided is shown of 1 verdict of 3" in left_out[0]
    assert not any("blocks" in verdict for one in details for verdict in one["verdicts"])


def test_scenarios_of_a_test_are_compared_by_what_all_have() -> None:
    report = replace(fake.report(), judgements=(fake.sklearn_judgement(), fake.onnx_judgement()))
    (found,) = page.tradeoffs_of(report)
    assert ["accuracy", "latency"] == [*found["axes"]]
    assert {"onnx_fp32": True, "sklearn_fp32": False} == dict(zip(found["names"], found["front"], strict=True))
    assert [] == [*page.tradeoffs_of(replace(report, judgements=report.judgements[:1]))]


def test_work_stands_beside_what_numpy_reaches_with_its_threads() -> None:
    peak = PeakRate(threads=2, flops_per_s=1e11, bytes_per_s=1e10)
    known = roofline_of(Work(flops=1e9, moved_bytes=1e6, nodes=1), 0.015, peak, 2)
    unknown = roofline_of(Work(flops=1e9, moved_bytes=1e6, nodes=1), 0.015, None, 2)
    judgement = fake.plain_judgement()
    judgements = [replace(judgement, run=replace(judgement.run, roofline=one)) for one in (known, unknown, None)]
    (found,) = page.rooflines_of(replace(fake.report(), judgements=tuple(judgements)))
    assert (1e11, 1e10, 2) == (found["flops"], found["bytes"], found["threads"])
    assert [["tests/test_text.py::test_tokenise long text", 1000, rounded(1e9 / 0.015), "compute"]] == found["points"]


def test_differences_are_named_once_with_their_tests() -> None:
    report = fake.report()
    elsewhere = replace(report, machine=fake.machine(cores=2))
    (found,) = page.differences_of(elsewhere)
    assert {"name": "cores", "baseline": "2", "now": "4", "tests": 3} == found


def test_stacks_of_both_sides_are_one_tree() -> None:
    """A frame has what it takes itself and what it calls; callers come first, and what is too narrow is left out."""
    tree = tree_of({"a": (1.0, 3.0), "a;b": (2.0,)}, {"a;b": (5.0,), "a;c\x1b": (1.0,), "a;d": (1e-6,)})
    assert [[-1, "a", 4.0, 6.0], [0, "b", 2.0, 5.0], [0, r"c\x1b", 0.0, 1.0]] == tree
    assert [] == tree_of({}, {})


def test_numbers_are_rounded_to_what_a_chart_shows() -> None:
    assert {"u": "ms", "f": 0.0002, "b": [5000, 10000], "c": []} == packed([[0.001, 0.002], []], "s")
    assert {"u": "ms", "f": 0.0002, "b": [4000], "c": [2500]} == packed([[0.0008], [0.0005]], "s", 0.002)
    assert [0, 33, 66, 99] == quantiles([*map(float, range(99, -1, -1))], 4)
    assert (None, None, 3, 0.123457) == tuple(map(rounded, (None, float("inf"), 3.0, 0.1234567)))
