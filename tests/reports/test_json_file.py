"""Another program reads the whole report back, as docs/report.schema.json describes it."""

import inspect
import json
import math
import re
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from fakes import gates
from fakes import records as fake

from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.errors import SerialisationError
from pytest_hwperf.records.evidence import (
    Assignment,
    Evidence,
    FixedSample,
    Gate,
    Hypothesis,
    Measurement,
    Observation,
    Pair,
)
from pytest_hwperf.records.messages import _SENTENCES, said, state
from pytest_hwperf.records.report import ReportFile
from pytest_hwperf.records.run import SCHEMA, replace
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.reports.json_file import render
from pytest_hwperf.stats.pairs.sequence import decide


def test_report_is_written_as_agreed(golden: Callable[[str, bytes], None]) -> None:
    golden("json/report.json", render(replace(fake.report(), judgements=(fake.plain_judgement(),))))


def test_report_comes_back_and_is_written_alike() -> None:
    content = render(fake.report())
    whole, back = json.loads(content), from_json(ReportFile, content).report
    assert (2, "pytest-hwperf report") == (whole["schema"], whole["what"])
    assert fake.report() == back
    assert content == render(fake.report()) == render(back, judgements_read=True)


def test_what_is_not_a_judgement_is_always_checked() -> None:
    wrong = replace(fake.report(), partial=cast("bool", 5))
    with pytest.raises(SerialisationError, match=r"^Report: Expected `bool`, got `int` - at `\$\.partial`$"):
        render(wrong, judgements_read=True)


def test_no_nan_is_ever_written() -> None:
    judgement = replace(
        fake.plain_judgement(), figures=(fake.figure(at=fake.estimate(math.nan, None, None, 1)),)
    )  # fmt: skip
    where = r"\$\.report\.judgements\[0\]\.figures\[0\]\.estimate\.value"
    problem = rf"^ReportFile: Expected a finite number, got `nan` - at `{where}`$"
    with pytest.raises(SerialisationError, match=problem):
        render(replace(fake.report(), judgements=(judgement,)))


PAGE = Path(__file__).parents[2] / "docs" / "report.schema.json"
NUMBERS: dict[str, Any] = {
    "title": "Values",
    "description": "An array of numbers: few as a list; many as base64 of little-endian doubles, with their number; "
    "zeros and ones as a text of digits",
    "anyOf": [
        {"type": "array", "items": {"type": "number"}},
        {
            "type": "object",
            "properties": {"f8le": {"type": "string", "contentEncoding": "base64"}, "n": {"type": "integer"}},
            "required": ["f8le", "n"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"bits": {"type": "string", "pattern": "^[01]*$"}},
            "required": ["bits"],
            "additionalProperties": False,
        },
    ],
}


def schema() -> dict[str, Any]:
    """Return the schema of a report; every field is written, also those that have a default in this program.

    Fields have the comment behind them as their description.
    """
    hook: Mapping[type, dict[str, Any]] = {array: NUMBERS}
    (reference,), parts = msgspec.json.schema_components(
        (ReportFile,), schema_hook=hook.__getitem__, ref_template="#/$defs/{name}"
    )
    records = [Record]
    for one in records:  # with those that are found meanwhile
        records += one.__subclasses__()
    for name, part in parts.items():
        properties = part["properties"]
        part["required"] = [*properties]
        part["description"] = inspect.cleandoc(part["description"])  # Python dedents docstrings from 3.13 on
        (record,) = (one for one in records if one.__name__ == name and {*one.__struct_fields__} <= properties.keys())
        for owner in reversed([one for one in record.__mro__ if issubclass(one, Record) and one is not Record]):
            commented = re.findall(r"^    (\w+): .*?  # (?!noqa)(.+)$", inspect.getsource(owner), re.MULTILINE)
            properties |= {field: {"description": comment, **properties[field]} for field, comment in commented}
    parts["Statement"]["properties"]["kind"] = {"enum": sorted(_SENTENCES)}
    parts["ReportFile"]["properties"]["schema"] = {"const": SCHEMA}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Report of pytest-hwperf",
        "description": "What pytest --hwperf-report=FILE.json writes, in base units: s, B, J, g, 1.",
        **reference,
        "$defs": parts,
    }


def test_the_page_is_made_of_the_records(golden: Callable[[Path, bytes], None]) -> None:
    golden(PAGE, (json.dumps(schema(), indent=2, ensure_ascii=False) + "\n").encode())


def test_reports_are_as_the_page_says_and_nothing_else_is() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json.loads(PAGE.read_text(encoding="utf-8")))
    for report in (fake.report(), gates.report(1), fake.empty_report()):
        validator.validate(json.loads(render(report)))
    changes: list[dict[str, object]] = [{"schema": SCHEMA + 1}, {"what": "another"}, {"extra": 1}]
    for change in changes:
        assert not validator.is_valid({**json.loads(render(fake.empty_report())), **change})


HERE = Measurement(test="tests/test_text.py::test_tokenise", label="long text")
LATENCY = Hypothesis(measurement=HERE, margin=Margin(metric="latency", statistic="p50", size=0.02), better="lower")
MEMORY = Hypothesis(
    measurement=HERE, margin=Margin(metric="memory", statistic="p50", size=0.01, floor=1e6), better="lower"
)
ENERGY = Hypothesis(measurement=HERE, margin=Margin(metric="energy", statistic="mean", size=0.05), better="lower")

SCREENED = Pair(
    number=1,
    stage="screen",
    first="candidate",
    hash_seeds={"baseline": 3405691582, "candidate": 3735928559},
    assignments=(Assignment(measurement=HERE, turns="BCCBCBBC", processor=1),),
    observations=(
        Observation(
            measurement=HERE,
            metric="latency",
            statistic="p50",
            baseline=array("d", [0.001, 0.001, 0.002, 0.001]),
            candidate=array("d", [0.001, 0.00125, 0.002, 0.00125]),
            change=0.11157177565710488,  # log 1.25 / 2, the median of 0, 0, log 1.25 and log 1.25
            preempted=0.125,
        ),
    ),
)
LOST = Pair(
    number=2,
    stage="screen",
    first="baseline",
    hash_seeds={"baseline": 1, "candidate": 2},
    assignments=(),
    observations=(),
    lost=said("candidate: ended with code -9 in the middle of the pair (log: /tmp/hwperf-logs/pair-3)"),
)
GATE = Gate(
    against="origin/main",
    revision="4f2c1e9d6b8a7c5e3f1d2b4a6c8e0f1a3b5c7d9e",
    seed=4611686018427387904,
    evidence=Evidence(
        alpha=0.01,
        hypotheses=(LATENCY, ENERGY),
        pairs=(SCREENED, LOST),
        fixed_samples=(
            FixedSample(
                hypothesis=MEMORY,
                per="fresh process",
                baseline=array("d", [64e6, 64e6, 64e6]),
                candidate=array("d", [66e6, 66e6, 66e6]),
            ),
        ),
        dropped=(ENERGY,),
        stopped=state("out of time", limit=600),
    ),
    shared={"weights.bin": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    seconds={"checkout": 0.25, "rehearsal": 1.5, "processes": 3.0, "screen": 12.5},
    warnings=("not there in the baseline, only a git-LFS pointer: large.bin",),
)
REPORT = replace(fake.empty_report(), judgements=(fake.plain_judgement(),), gates=(GATE,))


def test_how_it_was_decided_is_written_as_agreed(golden: Callable[[str, bytes], None]) -> None:
    golden("json/gate.json", render(REPORT))


def test_how_it_was_decided_comes_back_and_decides_the_same() -> None:
    """Coins, seeds and pair values to the last bit; what is asked again of them has the same answers."""
    (gate,) = from_json(ReportFile, render(REPORT)).report.gates
    found = decide(gate.evidence)
    assert GATE == gate
    assert decide(GATE.evidence) == found
    assert {LATENCY: "inconclusive", MEMORY: "inconclusive"} == {
        hypothesis: one.outcome for hypothesis, one in found.items()
    }
    assert "the time of 600 s was too short" == found[LATENCY].reason
