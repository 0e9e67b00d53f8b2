"""What pairs have seen beside what they were asked: said where one side is beyond the margin in all of them."""

from collections.abc import Sequence
from random import Random
from typing import Literal

from fakes.gates import MEMORY, build, hypothesis

from pytest_hwperf.records.evidence import Evidence, Measurement, Seen
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.causes.explanations import explained
from pytest_hwperf.stats.pairs.hypotheses import seen_beside
from pytest_hwperf.stats.pairs.sequence import decide

WHOLE = Measurement(test="", label="")
Metric = Literal["memory", "cold_start", "cpu_time", "first_call"]


def with_seen(evidence: Evidence, metric: Metric, sides: Sequence[tuple[float, float]], of: Measurement) -> Evidence:
    """Let the first pairs show these values of both sides too."""
    pairs = [
        replace(pair, seen=(*pair.seen, Seen(measurement=of, metric=metric, baseline=values[0], candidate=values[1])))
        for pair, values in zip(evidence.pairs, sides, strict=False)
    ]
    return replace(evidence, pairs=(*pairs, *evidence.pairs[len(pairs) :]))


def said(evidence: Evidence) -> str:
    return seen_beside(evidence, explained(decide(evidence)))


EQUAL = build([0.0] * 5, Random(1))


def test_what_differs_in_all_pairs_is_said_with_the_marker_that_judges_it() -> None:
    table: list[tuple[Sequence[tuple[float, float]], str]] = [
        ([(210e6, 262e6)] * 6, 'seen, not judged: peak memory 210 → 262 MB (hwregression(memory="1%"))'),
        ([(262e6, 210e6)] * 6, 'seen, not judged: peak memory 262 → 210 MB (hwregression(memory="1%"))'),
        ([(210e6, 262e6)] * 5 + [(210e6, 210e6)], ""),
        ([(20e6, 20.9e6)] * 6, ""),
        ([(210e6, 262e6)] * 2, ""),
        ([(0.0, 262e6)] * 6, ""),
    ]
    assert [] == [
        (sides, expected) for sides, expected in table if expected != said(with_seen(EQUAL, "memory", sides, WHOLE))
    ]


def test_a_first_call_that_differs_is_said_where_later_ones_do_not() -> None:
    """By half and 2 ms in each pair, since a first call varies more than later ones."""
    of = hypothesis(0).measurement
    found = said(with_seen(EQUAL, "first_call", [(0.009, 0.026)] * 6, of))
    assert (
        "seen, not judged: first call of tests/test_models.py::test_0 9.00 → 26.0 ms (later calls are compared" in found
    )
    assert "" == said(with_seen(EQUAL, "first_call", [(0.009, 0.013)] * 6, of))
    assert "" == said(with_seen(EQUAL, "first_call", [(0.001, 0.0029)] * 6, of))


def test_what_is_judged_or_follows_from_a_regression_is_not_said_again() -> None:
    asked = build([0.0, 0.3], Random(3))
    memory = replace(asked, hypotheses=(*asked.hypotheses, hypothesis(0, MEMORY)))
    slower = hypothesis(1).measurement
    assert "" == said(with_seen(memory, "memory", [(1e8, 2e8)] * 6, WHOLE))
    assert "" == said(with_seen(asked, "cpu_time", [(1.0, 1.3)] * 6, slower))


def test_a_regression_of_another_statistic_does_not_hide_cpu_time() -> None:
    """Only a slower median explains more CPU time."""
    found = {(hypothesis(1).measurement, "latency", "p95"): decide(build([0.0, 0.3], Random(3)))[hypothesis(1)]}
    seen = with_seen(EQUAL, "cpu_time", [(1.0, 1.3)] * 6, hypothesis(1).measurement)
    assert ["regressed"] == [one.outcome for one in found.values()]
    assert seen_beside(seen, found).startswith("seen, not judged: CPU time of tests/test_models.py::test_1 1.00")


def test_the_first_of_many_tests_are_named() -> None:
    evidence = with_seen(EQUAL, "cold_start", [(1.2, 1.9)] * 6, WHOLE)
    for number in range(5):
        evidence = with_seen(evidence, "cpu_time", [(0.001, 0.002)] * 6, hypothesis(number).measurement)

    start = 'start 1.20 → 1.90 s (hwregression(cold_start="10%"))'
    first = 'CPU time of tests/test_models.py::test_0 1.00 → 2.00 ms (hwregression(cpu_time="5%"))'
    found = said(evidence)
    assert found.startswith(f"seen, not judged: {start}, {first}, CPU time of tests/test_models.py::test_1 1.00")
    assert found.endswith("test_2 1.00 → 2.00 ms, CPU time of 2 more")
