"""Stacks as files: what speedscope and Perfetto read, under names that do no harm."""

import json
from random import Random

import pytest
from fakes import gates
from fakes import records as fake
from fakes.profiles import repeats

from pytest_hwperf.records.evidence import Explanation, Gate, Measurement
from pytest_hwperf.records.messages import said
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.reports.explained import render, safe_name
from pytest_hwperf.stats.explanations import explain_functions, explain_nothing
from pytest_hwperf.stats.sequence import decide

SLOWER = gates.hypothesis(0)
BEFORE = {"predict": 1, "predict>tokenize": 3}


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    comparison = decide(gates.build([0.3], Random(1)))[SLOWER]
    return replace(
        explain_functions(SLOWER, comparison, repeats(BEFORE), repeats({**BEFORE, "predict>embed": 1.2})),
        baseline_stacks={"predict": (1e-3, 3e-3), "predict;tokenize (a b.py)": (1e-3, 1e-3)},
    )


def report_of(*explanations: Explanation) -> Report:
    evidence = gates.build([0.3], Random(1))
    gate = Gate(
        against="HEAD", revision="", seed=1, evidence=evidence, shared={}, seconds={}, explanations=explanations
    )
    return replace(fake.empty_report(), gates=(gate,))


def test_collapsed_stacks_have_the_nanoseconds_of_a_mean_call(explanation: Explanation) -> None:
    files = render(report_of(explanation))
    name = f"explain/{safe_name(explanation)}"
    assert b"predict 2000000\npredict;tokenize (a b.py) 1000000\n" == files[f"{name}.baseline.collapsed"]
    assert 3 == files[f"{name}.candidate.collapsed"].count(b"\n")


def test_a_trace_shows_both_sides_with_what_is_called_within_its_caller(explanation: Explanation) -> None:
    trace = json.loads(render(report_of(explanation))[f"explain/{safe_name(explanation)}.trace.json"])
    first, second, third, *others = trace["traceEvents"]
    assert ("M", "baseline, a mean call") == (first["ph"], first["args"]["name"])
    assert {"name": "predict", "ph": "X", "ts": 0.0, "dur": 3000.0, "pid": 1, "tid": 1} == second
    assert ("tokenize (a b.py)", 0.0, 1000.0) == (third["name"], third["ts"], third["dur"])
    assert ["candidate, a mean call"] == [one["args"]["name"] for one in others if one["ph"] == "M"]
    embed, tokenize = (next(one for one in others if one["name"].startswith(name)) for name in ("embed", "tokenize"))
    assert pytest.approx(embed["ts"] + embed["dur"], abs=0.01) == tokenize["ts"]


@pytest.mark.parametrize(
    "test", ["../../../etc/passwd", "t.py::test[../../x]", "t.py::" + 300 * "a", "t.py::\x1b[2J\u202e", "CON", ""]
)
def test_any_id_gives_a_harmless_name(explanation: Explanation, test: str) -> None:
    name = safe_name(replace(explanation, measurement=Measurement(test=test, label="a/b\\c")))
    assert name.replace("-", "").replace("_", "").isalnum()
    assert name.isascii()
    assert len(name) < 100


def test_ids_of_which_the_same_is_left_have_names_of_their_own(explanation: Explanation) -> None:
    names = {
        safe_name(replace(explanation, measurement=Measurement(test=f"t.py::test[{one}]", label=""))) for one in "é!?"
    }
    assert 3 == len(names)


def test_what_has_no_stacks_has_no_file(explanation: Explanation) -> None:
    comparison = decide(gates.build([0.3], Random(1)))[SLOWER]
    assert {} == render(report_of(explain_nothing(SLOWER, comparison, "function", said("none"))))
    assert {} == render(report_of(replace(explanation, baseline_stacks={"a": ()}, candidate_stacks={})))
