"""docs/report.schema.json describes the report in JSON: made of the records, with their comments."""

import inspect
import json
import re
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes import gates
from fakes import records as fake

from pytest_hwperf.records.report import ReportFile
from pytest_hwperf.records.run import SCHEMA
from pytest_hwperf.records.structs import Record
from pytest_hwperf.reports import json_file

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


def as_written(kind: type) -> dict[str, Any]:
    """Describe the only type of a field that is none of JSON's."""
    assert kind is array
    return NUMBERS


def schema() -> dict[str, Any]:
    """Return the schema of a report; every field is written, also those that have a default in this program."""
    (reference,), parts = msgspec.json.schema_components(
        (ReportFile,), schema_hook=as_written, ref_template="#/$defs/{name}"
    )
    for name, part in parts.items():
        part["required"] = [*part["properties"]]
        part["description"] = inspect.cleandoc(part["description"])  # Python dedents docstrings from 3.13 on
        for field, comment in comments(record(name, part)):
            part["properties"][field] = described(part["properties"][field], comment)
    parts["ReportFile"]["properties"]["schema"] = {"const": SCHEMA}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Report of pytest-hwperf",
        "description": "What pytest --hwperf-report=FILE.json writes, in base units: s, B, J, g, 1.",
        **reference,
        "$defs": parts,
    }


def record(name: str, part: Mapping[str, Any]) -> type[Record]:
    """Return the record that a part describes; another one may have its name."""
    (found,) = (
        one for one in subclasses(Record) if one.__name__ == name and {*fields(one)} <= part["properties"].keys()
    )
    return found


def fields(cls: type[Record]) -> tuple[str, ...]:
    return cls.__struct_fields__


def subclasses(cls: type[Record]) -> Iterator[type[Record]]:
    for one in cls.__subclasses__():
        yield one
        yield from subclasses(one)


def comments(cls: type) -> Iterator[tuple[str, str]]:
    """Yield the fields of a record, inherited ones too, that have a comment behind them."""
    for owner in reversed(cls.__mro__):
        if issubclass(owner, Record) and owner is not Record:
            yield from re.findall(r"^    (\w+): .*?  # (?!noqa)(.+)$", inspect.getsource(owner), re.MULTILINE)


def described(field: Mapping[str, Any], comment: str) -> dict[str, Any]:
    return {"description": comment, **field}


def test_the_page_is_made_of_the_records(request: pytest.FixtureRequest) -> None:
    actual = json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
    if request.config.getoption("--update-golden"):
        PAGE.write_text(actual, encoding="utf-8")
    assert actual == PAGE.read_text(encoding="utf-8"), "run this test with --update-golden"


def test_fields_have_their_comments_as_descriptions() -> None:
    parts = json.loads(PAGE.read_text(encoding="utf-8"))["$defs"]
    assert "base units" in parts["Budget"]["properties"]["limit"]["description"]
    assert parts["Comparison"]["properties"]["metric"]
    assert "statistic" in parts["Figure"]["required"]


def test_reports_are_as_the_page_says() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json.loads(PAGE.read_text(encoding="utf-8")))

    for report in (fake.report(), gates.report(1), fake.empty_report()):
        validator.validate(json.loads(json_file.render(report)))


@pytest.mark.parametrize("change", [{"schema": SCHEMA + 1}, {"what": "another"}, {"extra": 1}])
def test_what_is_no_report_is_none_to_the_page(change: Mapping[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json.loads(PAGE.read_text(encoding="utf-8")))
    assert not validator.is_valid({**json.loads(json_file.render(fake.empty_report())), **change})


def test_every_record_of_a_report_is_on_the_page() -> None:
    """Records that are written within others have a definition each."""
    assert {"Report", "Judgement", "Run", "Comparison", "Gate", "Pair", "Sweep"} <= schema()["$defs"].keys()
