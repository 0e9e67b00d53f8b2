"""What tox asks of the example project: a report that lacks anything is refused."""

import json
from copy import deepcopy
from typing import Any

import example_checks
import pytest

from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.messages import state


def cause(kind: str, **facts: str) -> Any:
    """As a report holds it."""
    return json.loads(to_json(state(kind, **facts)))


def run(file: str, scenario: str) -> dict[str, Any]:
    figures = [
        {"metric": metric, "statistic": statistic, "source": "a source", "estimate": {"value": 0.5, "n": n}}
        for (metric, statistic), n in example_checks.FILES[file].items()
    ]
    precision = "int8 static" if "int8" in scenario else "float32"
    test = f"{file}::test_one_image[{scenario}]"
    return {"run": {"test": test, "scenario": scenario, "conditions": {"precision": precision}}, "figures": figures}


@pytest.fixture
def report() -> dict[str, Any]:
    """All that the example measures, as far as the check looks."""
    forest, int8 = example_checks.NO_INT8
    wanted = [(file, one) for file in example_checks.FILES for one in example_checks.SCENARIOS]
    skip = {
        "test": f"{forest}::test_one_image[{int8}]",
        "scenario": int8,
        "cause": cause("no int8 form", why="only trees"),
    }
    return {"judgements": [run(*one) for one in wanted if one != example_checks.NO_INT8], "skips": [skip]}


def test_scenarios_that_were_skipped_are_missed(report: dict[str, Any]) -> None:
    """As where ONNX Runtime cannot be had: everything is green, and nothing was measured."""
    gone = [one for one in report["judgements"] if "onnx" in one["run"]["scenario"]]
    kept = [one for one in report["judgements"] if one not in gone]
    skips = [{**one["run"], "cause": cause("said", text="not installed")} for one in gone]
    said = example_checks.untrue({"judgements": kept, "skips": [*report["skips"], *skips]})
    assert len(gone) == sum("has 0 runs of onnx" in line for line in said) == 5
    assert any(line.startswith("skipped are ") for line in said)
    assert any("not installed" in line for line in said)


def test_a_service_that_was_measured_has_its_load_and_its_budgets(report: dict[str, Any]) -> None:
    """It is not there where FastAPI is not installed."""
    verdicts = [{"subject": {"keyword": name}} for name in ("latency_p95_ms", "goodput_min_qps")]
    served = {"run": {"test": example_checks.SERVED, "conditions": {"load": "server qps=50"}}, "verdicts": verdicts}
    alone = {"run": {"test": example_checks.SERVED, "conditions": {"load": "single_stream"}}, "verdicts": verdicts[:1]}
    others = report["judgements"]
    assert example_checks.untrue({**report, "judgements": [*others, served]}) == []
    assert len(example_checks.untrue({**report, "judgements": [*others, alone]})) == 2


def test_what_is_wrong_in_one_place_is_said_once(report: dict[str, Any]) -> None:
    """A forest in INT8 that was not skipped; a figure without source, value or n; INT8 that ran in floats."""
    assert example_checks.untrue(report) == []
    assert len(example_checks.untrue({**report, "skips": []})) == 1
    estimates = ({"value": 0.0, "n": 999}, {"value": 0.5, "n": 0})
    for key, value in (("source", ""), *(("estimate", one) for one in estimates)):
        broken = deepcopy(report)
        broken["judgements"][0]["figures"][0][key] = value
        assert len(example_checks.untrue(broken)) == 1
    broken = deepcopy(report)
    int8 = next(one for one in broken["judgements"] if one["run"]["scenario"] == "onnx_int8")
    int8["run"]["conditions"]["precision"] = "float32"
    assert len(example_checks.untrue(broken)) == 1
