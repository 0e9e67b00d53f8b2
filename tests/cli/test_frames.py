"""Reports and histories as pandas tables: the columns are those of files, and what is missing is NaN."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest
from fakes import records as fake

from pytest_hwperf import UsageProblem, read_history, read_report
from pytest_hwperf.records.run import replace
from pytest_hwperf.reports import csv_files, exports, json_file
from pytest_hwperf.stores.json_files import JsonStore

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "notebooks.md"
FILES = (
    ("runs", "stat_benchmark_runs.csv"),
    ("summary", "stat_benchmark_summary.csv"),
    ("comparisons", "statistical_comparisons.csv"),
)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A report and a store in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "report.json"
    path.write_bytes(json_file.render(fake.report()))
    JsonStore(tmp_path / ".hwperf").save("main", [fake.session(median_s=0.01), fake.session(test="other\ud800")])
    return path


@pytest.mark.parametrize(("table", "file"), FILES)
def test_a_table_of_a_report_is_its_csv_file(written: Path, table: csv_files.TableName, file: str) -> None:
    """Written again it is the same to the byte: what is empty there is no 0."""
    frame = read_report(written, table)
    rows = [[None if pd.isna(cell) else cell for cell in row] for row in frame.itertuples(index=False)]
    assert csv_files.render(fake.report())[file] == csv_files.file_of([*frame.columns], rows)
    assert frame.isna().any(axis=None)
    assert len(rows) > 1


def test_the_summary_is_what_is_read_unless_another_table_is_named(written: Path) -> None:
    pd.testing.assert_frame_equal(read_report(written, "summary"), read_report(str(written)))


def test_a_report_without_rows_has_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_bytes(json_file.render(fake.empty_report()))
    frame = read_report(path)
    assert (0, "test") == (len(frame), frame.columns[0])


@pytest.mark.usefixtures("written")
def test_a_history_has_the_rows_of_the_parquet_file() -> None:
    """An end of an interval that is not known is NaN; a text that no encoding has is written as an escape."""
    frame = read_history()
    assert [*exports.HISTORY_COLUMNS] == [*frame.columns]
    assert {fake.TEST: 0.01, "other\\ud800": 0.00631} == dict(zip(frame["test"], frame["value"], strict=True))
    assert [fake.TEST] == [*read_history("json:.hwperf", fake.TEST)["test"]]


def test_an_end_that_is_not_known_is_nan(tmp_path: Path) -> None:
    open_end = fake.figure("latency", "p95", fake.estimate(0.02, None, None, 9))
    JsonStore(tmp_path).save("main", [replace(fake.session(), figures=(open_end,))])
    (row,) = read_history(f"json:{tmp_path}").to_dict("records")
    assert (0.02, 9) == (row["value"], row["n"])
    assert pd.isna(row["low"])
    assert pd.isna(row["high"])


REFUSED: Sequence[tuple[Callable[[], object], str]] = (
    (lambda: read_report("report.json", "sumary"), "no such table. Did you mean 'summary'? Allowed: "),  # type: ignore[arg-type] # as a notebook may call it
    (lambda: read_report("nowhere.json"), "nowhere.json"),
    (lambda: read_history("json:nowhere"), "baseline main of json:nowhere has no runs yet"),
    (lambda: read_history(test="othr"), "no run matches 'othr' in baseline main of json:.hwperf. Did you mean"),
    (lambda: read_history("nothing:here"), "unknown store 'nothing'"),
    (lambda: read_history("sql:nothing"), "store=sql:… names no database"),
)


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize(("call", "said"), REFUSED)
def test_what_cannot_be_read_is_refused(call: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageProblem, match=re.escape(said)):
        call()


@pytest.mark.usefixtures("written")
def test_the_notebook_of_the_documentation_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """With a report and a store where its page says that they are."""
    notebook = PAGE.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    exec(notebook, {})  # noqa: S102 - a page of this repository
    shown = capsys.readouterr().out
    assert 3 == sum(word in shown for word in ("latency_p50_ms_ci_low", "change", "count"))
