"""`hwperf report`: a written report in other forms, and the logs of MLPerf LoadGen as a report of this package."""

import json
from pathlib import Path

import pytest
from fakes import records as fake

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.report import INVALID, OK
from pytest_hwperf.reports import annotations, json_file, markdown
from pytest_hwperf.reports.html import assets, page

SUMMARY = """\
Scenario : SingleStream
Result is : VALID
 * Early stopping 90.0th percentile estimate: 506852
QPS w/o loadgen overhead        : 1755.99
50.00 percentile latency (ns)   : 502626
90.00 percentile latency (ns)   : 506211
97.00 percentile latency (ns)   : 600000
"""
DETAIL = ':::MLLOG {"key": "result_query_count", "value": 5251, "time_ms": 1.5}\n'


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "mlperf_log_summary.txt").write_text(SUMMARY, encoding="utf-8")
    (tmp_path / "mlperf_log_detail.txt").write_text(DETAIL, encoding="utf-8")
    return tmp_path


def test_percentiles_bounds_and_rates_are_shown_and_written(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = logs / "out.json"

    assert OK == main(["report", f"--from=loadgen:{logs}", f"--json={written}"])
    shown = capsys.readouterr().out
    assert "latency p50" in shown
    assert "5,251 calls" in shown
    assert "LoadGen: VALID" in shown
    (judgement,) = json.loads(written.read_text(encoding="utf-8"))["report"]["judgements"]
    figures = {(one["metric"], one["statistic"]): one["estimate"] for one in judgement["figures"]}
    assert figures.keys() == {("latency", "p50"), ("latency", "p90"), ("throughput", "mean")}
    assert figures["latency", "p90"]["value"] == pytest.approx(506211e-9)
    assert figures["latency", "p90"]["high"] == pytest.approx(506852e-9)
    assert judgement["run"]["conditions"] == {"load": "single_stream"}


def test_a_run_that_loadgen_calls_invalid_is_no_success(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (logs / "mlperf_log_summary.txt").write_text(SUMMARY.replace("VALID", "INVALID"), encoding="utf-8")

    assert INVALID == main(["report", f"--from=loadgen:{logs}"])
    assert "warning: LoadGen calls this run INVALID" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ("loadgen:none", "mlperf_log_summary.txt is not there, or no file of LoadGen"),
        ("loadgen:", "write loadgen:DIR"),
        ("locust:x", "write loadgen:DIR"),
    ],
)
def test_anything_else_is_a_usage_error(origin: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert USAGE == main(["report", f"--from={origin}"])
    assert said in capsys.readouterr().err


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    path.write_bytes(json_file.render(fake.report()))
    return path


def test_a_written_report_is_shown_again(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert OK == main(["report", str(written)])
    assert "comparisons: 1 regressed, 1 improved, 1 equivalent, " in capsys.readouterr().out


def test_a_written_report_is_rendered_as_it_was(written: Path) -> None:
    summary, again = written.with_name("summary.md"), written.with_name("again.json")

    assert OK == main(["report", str(written), f"--markdown={summary}", f"--json={again}"])
    assert summary.read_bytes() == markdown.render(fake.report())
    assert again.read_bytes() == written.read_bytes()


def test_annotations_are_all_that_is_printed(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert OK == main(["report", str(written), "--annotations"])
    assert capsys.readouterr().out.splitlines() == list(annotations.lines_of(fake.report()))


def test_loadgen_has_annotations_too(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert OK == main(["report", f"--from=loadgen:{logs}", "--annotations"])
    assert capsys.readouterr().out == ("::notice title=Performance::1 test measured only, no budget or baseline\n")


@pytest.mark.parametrize("arguments", [[], ["report.json", "--from=loadgen:x"]])
def test_one_of_a_report_and_another_program_is_given(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert USAGE == main(["report", *arguments])
    assert "give either REPORT.json, a file of pytest --hwperf-json, or --from=FORMAT:FILE" in capsys.readouterr().err


def test_what_cannot_be_written_is_said_first(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert USAGE == main(["report", str(written), f"--markdown={written}/x.md"])
    assert "--markdown=" in capsys.readouterr().err


def test_an_indented_report_is_the_same_one(written: Path) -> None:
    indented, again = written.with_name("indented.json"), written.with_name("again.json")

    assert OK == main(["report", str(written), f"--json={indented}", "--indent"])
    assert '\n  "schema": 2,\n' in indented.read_text(encoding="utf-8")
    assert OK == main(["report", str(indented), f"--json={again}"])
    assert again.read_bytes() == written.read_bytes()


def test_indenting_nothing_is_a_usage_error(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert USAGE == main(["report", str(written), "--indent"])
    assert "--indent says how --json writes: add --json=FILE" in capsys.readouterr().err


def test_a_report_is_written_as_html(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is missing is named before the report is read."""
    pytest.importorskip("plotly", reason="HTML reports need pytest-hwperf[report]")
    written, shown = tmp_path / "report.json", tmp_path / "report.html"
    written.write_bytes(json_file.render(fake.report()))
    monkeypatch.setattr(assets, "plotly", lambda: assets.pack("placeholder"))
    monkeypatch.setattr(page, "plotly", assets.plotly)

    assert OK == main(["report", str(written), f"--html={shown}"])
    assert shown.read_bytes() == page.render(fake.report())
    monkeypatch.setattr(assets, "find_spec", lambda _: None)
    assert USAGE == main(["report", "none.json", f"--html={shown}"])


def test_a_store_without_a_page_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert USAGE == main(["report", "report.json", "--store=json:.hwperf"])
    assert "--store says whose history --html shows" in capsys.readouterr().err
