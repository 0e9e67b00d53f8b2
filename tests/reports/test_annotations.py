"""Annotations: one line each, of which no foreign text can make two."""

import re

from fakes import records as fake

from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.reports.annotations import lines_of


def test_headline_then_what_fails_then_what_is_inconclusive() -> None:
    lines = list(lines_of(fake.report()))
    smallest = "12 pairs, smallest detectable change 14 %25"
    test = "tests/test_iris.py%3A%3Atest_classifier[sklearn_fp32],file=tests/test_iris.py"

    head = "1 of 2 tests regressed; 1 of 6 budgets missed; 2 inconclusive; 1 improved"
    assert lines == [
        f"::error title=Performance::{head}; 1 budget unmeasured; 2 comparisons not made",
        f"::error title={test}::latency p50 +4.8 %25 (+3.1 .. +6.5), 6.02 → 6.31 ms, margin 2 %25, 12 pairs",
        f"::error title={test}::latency p95 failed, 7.90 ms (7.60 .. 8.45), limit <= 5 ms, 412 calls",
        f"::error title={test}::energy unmeasured (fails), unmeasured, limit <= 2 mJ: {fake.NO_COUNTER}",
        f"::warning title={test}::latency p95 +2.1 %25 (-4.0 .. +13), 7.74 → 7.90 ms, margin 10 %25, {smallest}",
        f"::warning title={test}::throughput inconclusive, 161 /s (158 .. 164), limit >= 160 /s, 24 windows",
    ]


def test_foreign_text_is_one_line_and_ends_no_property() -> None:
    hostile = "a,b=c\r\n::error title=x::y\x1b[2J\u2028%0A::add-mask::z,file=/etc/passwd"
    moved = state("operator moved", operator=hostile, candidate=0.002, baseline=0.001, share=0.9)
    verdict = fake.comparison_verdict("latency", "p50", "regressed", (0.05, 0.04, 0.06), baseline=0.001)
    told = replace(verdict, subject=replace(verdict.subject, moved=moved))
    run = fake.run(test=hostile, label=hostile)
    lines = list(lines_of(replace(fake.report(), judgements=(Judgement(run=run, figures=(), verdicts=(told,)),))))
    assert 2 == len(lines)
    assert all(line.isprintable() for line in lines)
    assert re.match(r"^::error title=[^:,]+,file=[^:,]+::latency p50 ", lines[1])


def test_github_shows_ten_of_a_step() -> None:
    many = replace(fake.report(), judgements=30 * fake.report().judgements)
    assert 1 + 9 + 9 == len(list(lines_of(many)))


def test_a_path_that_is_none_is_left_out() -> None:
    judgement = replace(fake.sklearn_judgement(), run=fake.run(test="x" * 400))
    assert {False} == {"file=" in line for line in lines_of(replace(fake.report(), judgements=(judgement,)))}
