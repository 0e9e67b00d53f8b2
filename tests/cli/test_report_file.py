"""Reports that the command line is given may come from anyone."""

import json
from pathlib import Path

import pytest
from fakes import gates
from fakes import records as fake

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.output import FAILED, OK
from pytest_hwperf.reports.json_file import render


def test_a_report_agrees_with_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(render(gates.report(3)))
    assert main(["report", str(path), "--verify"]) == OK
    assert capsys.readouterr().out == "10 verdicts computed again, 0 differences\n"


def test_a_changed_digit_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One byte of a pair value."""
    path = tmp_path / "report.json"
    text = render(gates.report(3)).decode()
    position = text.index('"change":', text.index('"observations"')) + len('"change":') + 6
    digit = "1" if text[position] != "1" else "2"
    path.write_text(text[:position] + digit + text[position + 1 :], encoding="utf-8")
    assert main(["report", str(path), "--verify"]) == FAILED
    assert "latency p50 of pair 1: " in capsys.readouterr().out


def test_what_rests_on_the_store_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(render(fake.report()))
    main(["report", str(path), "--verify"])
    assert "with stored runs not computed again: the file has none of them" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is not whole JSON"),
        (b"[" * 100_000, "is not whole JSON"),
        (b"[]", "holds no pytest-hwperf report: give a file of pytest --hwperf-report=FILE.json"),
        (b'{"what": "pytest-hwperf baseline", "schema": 2}', "holds no pytest-hwperf report: give a file of"),
        (
            b'{"what": "pytest-hwperf report", "schema": 99}',
            "(schema 99, this one reads 2): upgrade pytest-hwperf",
        ),
        (
            b'{"what": "pytest-hwperf report", "schema": 1}',
            "earlier pytest-hwperf (schema 1, this one reads 2)",
        ),
        (
            b'{"what": "pytest-hwperf report", "schema": 2, "report": {}}',
            "holds no valid pytest-hwperf report (",
        ),
        (b'{"what": "pytest-hwperf report", "schema": 2, "more": 1, "report": {}}', "unknown field `more`"),
    ],
)
def test_anything_else_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, complaint: str
) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content)
    assert main(["report", str(path), "--verify"]) == USAGE
    assert complaint in capsys.readouterr().err


def test_a_missing_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "none.json"), "--verify"]) == USAGE
    assert (
        "cannot be read (No such file or directory): give a file of pytest --hwperf-report=FILE.json"
        in capsys.readouterr().err
    )


def test_a_file_of_any_size_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_hwperf.cli.inputs._LARGEST_REPORT", 3)
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"what": "x"}), encoding="ascii")
    assert main(["report", str(path), "--verify"]) == USAGE
    assert "cannot be read (larger than" in capsys.readouterr().err
