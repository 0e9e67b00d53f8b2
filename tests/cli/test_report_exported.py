"""`hwperf report --as`: a written report for other programs, read by them where they are installed."""

import json
import sys
from pathlib import Path

import pytest
from fakes import records as fake

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.output import OK
from pytest_hwperf.records.run import replace
from pytest_hwperf.reports import exports, json_file


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    path.write_bytes(json_file.render(fake.report()))
    return path


def test_the_format_is_written_to_the_output(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert OK == main(["report", str(written), "--as=otava"])
    assert exports.render_otava(fake.report()).content.decode() == capsys.readouterr().out


def test_the_format_is_written_to_a_file(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = written.with_name("bencher.json")
    assert OK == main(["report", str(written), "--as=bencher", f"--output={output}"])
    assert exports.render_bencher(fake.report()).content == output.read_bytes()
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith(f"hwperf: left out: {fake.TEST}[sklearn_fp32]: energy was not measured: no readable energy ")


def test_what_is_left_out_is_said_beside_the_output(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert OK == main(["report", str(written), "--as=github-action-benchmark-bigger"])
    out, err = capsys.readouterr()
    assert 3 == len(json.loads(out))
    assert "hwperf: left out: 9 figures of which lower is better: --as=github-action-benchmark\n" in err


def test_many_that_are_left_out_are_counted(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = fake.plain_judgement()
    run = replace(one.run, samples=(fake.sample("latency", [0.1]),))
    many = (fake.onnx_judgement(), *[replace(one, run=replace(run, label=str(k))) for k in range(12)])
    written.write_bytes(json_file.render(replace(fake.report(), judgements=many)))
    assert OK == main(["report", str(written), "--as=pytest-benchmark"])
    assert "hwperf: left out: 2 more\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--as=bencher", "--output=a", "--output=b"], "--as=bencher writes one file: give --output once"),
        (["--as=bencher", "--output=/nowhere/x.json"], "--output=/nowhere/x.json cannot be written"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(
    arguments: list[str], said: str, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert USAGE == main(["report", str(written), *arguments])
    assert said in capsys.readouterr().err


def test_a_report_of_nothing_is_not_written(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written.write_bytes(json_file.render(fake.empty_report()))
    output = written.with_name("x.json")
    assert USAGE == main(["report", str(written), "--as=bencher", f"--output={output}"])
    assert "nothing in this report can be written as bencher: it has no measurements" in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.runtime
def test_pytest_benchmark_compares_it(
    written: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = pytest.importorskip("pytest_benchmark.cli")
    output = written.with_name("0001_benchmark.json")
    assert OK == main(["report", str(written), "--as=pytest-benchmark", f"--output={output}"])
    monkeypatch.chdir(written.parent)
    monkeypatch.setattr(sys, "argv", ["pytest-benchmark", "compare", str(output), "--columns=min,median,ops,rounds"])

    theirs.main()
    shown = capsys.readouterr().out
    assert "test_classifier[onnx_fp32]" in shown
    assert "2100" in shown
