"""What the terminal says of an explanation beyond its first mover."""

from random import Random

import pytest
from fakes import gates
from fakes import records as fake
from fakes.profiles import repeats

from pytest_hwperf.records.evidence import Explanation, Gate, Measurement
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.reports.explained import lines_of
from pytest_hwperf.reports.terminal import render, render_summary
from pytest_hwperf.stats.explanations import explain_functions
from pytest_hwperf.stats.sequence import decide

SLOWER = gates.hypothesis(0)
BEFORE = {"predict>tokenize": 1, "predict>embed": 4, "predict>score": 5}


def explanation(**after: float) -> Explanation:
    comparison = decide(gates.build([0.3], Random(1)))[SLOWER]
    change = replace(comparison.change, value=0.3, low=None, high=None) if comparison.change else None
    comparison = replace(comparison, baseline=10e-3, change=change)
    now = {**BEFORE, **{f"predict>{name}": ms for name, ms in after.items()}}
    return explain_functions(SLOWER, comparison, repeats(BEFORE, {"tokenize": 1}), repeats(now, {"tokenize": 3}))


def report_of(one: Explanation) -> Report:
    gate = Gate(
        against="HEAD",
        revision="",
        seed=1,
        evidence=gates.build([0.3], Random(1)),
        shared={},
        seconds={},
        explanations=(one,),
    )
    return replace(fake.empty_report(), gates=(gate,))


def test_all_movers_are_listed_with_their_share_and_its_spread() -> None:
    expected = """\
what moved in tests/test_models.py::test_0: latency p50 10.0 ms → 13.0 ms
  +2.20 ms  73 %  (72 % .. 75 %)  tokenize model.py:7, called 1.00 → 3.00 ×
  +800 µs   27 %  (24 % .. 29 %)  embed model.py:7
  calls took 100 % longer under the profiler, those of many short functions most
    of all
  by fake, 1 ms interval, 3 profiles of each side in fresh processes
"""
    assert expected.splitlines() == lines_of(report_of(explanation(tokenize=3.2, embed=4.8)), 80)


def test_a_small_cost_of_the_profiler_is_said_with_its_name() -> None:
    small = replace(explanation(tokenize=3, embed=5), overhead=0.25, remarks=())
    assert lines_of(report_of(small), 120)[-1].endswith("fresh processes; calls took 25 % longer under it")


def test_movers_stand_above_the_counts_and_not_where_little_is_asked_for() -> None:
    report = report_of(explanation(tokenize=3.2, embed=4.8))
    drawn = {
        quiet: [text for text, _ in render_summary(report, width=80, color=False, quiet=quiet)]
        for quiet in (False, True)
    }
    assert lines_of(report, 80) == drawn[False][: len(lines_of(report, 80))]
    assert [] == [line for line in drawn[True] if "what moved" in line]
    assert "what moved" in str(render(report, width=80, color=False))


def test_calls_that_are_as_many_as_before_are_not_told() -> None:
    one = explanation(tokenize=3.2, embed=4.8)
    alike = tuple(replace(mover, baseline_calls=1.0, candidate_calls=1.001) for mover in one.movers)
    assert "called" not in " ".join(lines_of(report_of(replace(one, movers=alike)), 80))


def test_a_single_mover_stands_with_its_verdict_alone() -> None:
    only = replace(explanation(tokenize=4), remarks=())
    assert [] == lines_of(report_of(only), 80)
    assert [] == lines_of(report_of(replace(only, movers=())), 80)


def test_a_single_mover_of_what_improved_is_listed_since_no_failure_names_it() -> None:
    only = replace(explanation(tokenize=4), remarks=())
    improved = fake.comparison_verdict(only.metric, only.statistic, "improved", (-0.3, -0.4, -0.2))
    run = fake.run(test=only.measurement.test, label=only.measurement.label)
    judgement = replace(fake.plain_judgement(), run=run, verdicts=(improved,))
    assert "tokenize" in lines_of(replace(report_of(only), judgements=(judgement,)), 80)[1]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_hostile_names_keep_the_width_and_move_no_cursor(width: int) -> None:
    one = explanation(tokenize=3, embed=5)
    odd = tuple(replace(mover, name="\x1b[2J" + "x" * 300, where="\u202e" * 20) for mover in one.movers)
    test = Measurement(test="t.py::" + "\x07" * 200, label="")
    lines = lines_of(report_of(replace(one, movers=odd, measurement=test)), width)
    assert all(line.isprintable() and len(line) <= width for line in lines)


def test_movers_of_memory_are_bytes() -> None:
    one = explanation(tokenize=3, embed=5)
    movers = tuple(
        replace(mover, kind="allocation", baseline=1e6, candidate=2e6, low=1e6, high=1e6) for mover in one.movers
    )
    memory = replace(one, kind="allocation", movers=movers, baseline=100e6, candidate=102e6, overhead=None, remarks=())
    assert "100 MB → 102 MB" in lines_of(report_of(memory), 120)[0]
    assert "+1.00 MB" in lines_of(report_of(memory), 120)[1]
