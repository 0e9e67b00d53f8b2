"""`hwperf report`: a written report in other forms."""

from pathlib import Path

import pytest
from fakes import records as fake

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.output import OK
from pytest_hwperf.host import extras
from pytest_hwperf.records.run import StoredRun, replace
from pytest_hwperf.reports import json_file, markdown
from pytest_hwperf.reports.html import page
from pytest_hwperf.stores.json_files import JsonStore


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
    assert OK == main(["report", str(written), f"--output={summary}", f"--output={again}"])
    assert summary.read_bytes() == markdown.render(fake.report())
    assert again.read_bytes() == written.read_bytes()


def test_annotations_are_all_that_is_printed(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert OK == main(["report", str(written), "--annotations"])
    assert capsys.readouterr().out.splitlines() == list(markdown.annotations(fake.report()))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give either FILE …, written by pytest --hwperf-report=FILE.json, or --from=FORMAT:FILE"),
        (["report.json", "--from=onnxruntime:x"], "give either FILE …"),
        (["report.json", "--output=summary.txt"], "--output=summary.txt: the name has to end in .json, .md, .html"),
        (["report.json", "--verify", "--output=x.md"], "--verify writes no file: leave out --output"),
        (["report.json", "--store=json:.hwperf"], "--store is for the page of a FILE: add --output=FILE.html"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert USAGE == main(["report", *arguments])
    assert said in capsys.readouterr().err


def test_one_of_three_forms_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["report", "report.json", "--verify", "--as=bencher"])
    assert USAGE == ended.value.code
    assert "not allowed with argument --verify" in capsys.readouterr().err


def test_what_cannot_be_written_is_said_first(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert USAGE == main(["report", str(written), f"--output={written}/x.md"])
    assert "--output=" in capsys.readouterr().err


def test_a_report_is_written_as_html(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is missing is named before the report is read."""
    pytest.importorskip("plotly", reason="HTML reports need pytest-hwperf[report]")
    written, shown = tmp_path / "report.json", tmp_path / "report.html"
    written.write_bytes(json_file.render(fake.report()))
    monkeypatch.setattr(page, "plotly", lambda: ("", page.hash_of("placeholder")))
    assert OK == main(["report", str(written), f"--output={shown}"])
    assert shown.read_bytes() == page.render(fake.report())
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    assert USAGE == main(["report", "none.json", f"--output={shown}"])


def test_a_page_shows_the_history_of_a_store(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of the report's baseline."""
    pytest.importorskip("plotly", reason="HTML reports need pytest-hwperf[report]")
    monkeypatch.chdir(written.parent)
    monkeypatch.setattr(page, "plotly", lambda: ("", page.hash_of("placeholder")))
    run = fake.sklearn_judgement().run
    past = [replace(run, started_at=f"2026-02-0{day}T09:30:00+00:00") for day in (1, 2, 3)]
    figures = fake.sklearn_judgement().figures
    store = JsonStore(written.parent / ".hwperf")
    store.save("main", [StoredRun(run=replace(one, samples=()), figures=figures) for one in past])

    assert OK == main(["report", str(written), "--output=page.html", "--store=json:.hwperf"])
    shown = Path("page.html").read_bytes()
    assert shown != page.render(fake.report())
    assert shown == page.render(
        fake.report(),
        history=lambda measured, newest: (store.history_of("main", measured, newest=newest), store.annotations()),
    )
