"""`hwperf history` and `hwperf history note`: what is shown of a store, exported and refused."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from fakes import records as fake
from fakes.commands import Told
from fakes.histories import STEP, note, series, slower
from fakes.repositories import commit, git

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.history import document_of, sparkline
from pytest_hwperf.cli.output import OK
from pytest_hwperf.host import extras
from pytest_hwperf.records.run import StoredRun, replace
from pytest_hwperf.reports import exports
from pytest_hwperf.reports.document import as_text
from pytest_hwperf.reports.html import page
from pytest_hwperf.stats.stored.history import trend_of
from pytest_hwperf.stores.json_files import JsonStore

HISTORY = ["history", "--store=json:.hwperf"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twenty runs of one test, of which the newer ten are slower, and one of another test."""
    monkeypatch.chdir(tmp_path)
    places = range(0, 2 * STEP, 2)
    runs = [dated(slower()[place], place) for place in places]
    JsonStore(tmp_path / ".hwperf").save("main", [*runs, fake.session(test="other")])
    return tmp_path


def dated(median_s: float, place: int) -> StoredRun:
    stored = fake.session(median_s=median_s, revision=f"{place:040x}")
    return replace(stored, run=replace(stored.run, started_at=f"2026-03-02T{place // 60:02}:{place % 60:02}:00+00:00"))


@pytest.mark.usefixtures("here")
def test_a_change_is_shown_between_its_revisions(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """Lines are as wide as the terminal, and a command stays whole. A metric or a machine can be chosen."""
    monkeypatch.setenv("COLUMNS", "200")
    chosen = ("--metric=latency_p50", f"--machine={fake.machine().fingerprint[:5]}")
    first, what, drawn, changed, command, method = told(OK, *HISTORY, fake.TEST, *chosen).out.splitlines()
    assert first == fake.TEST
    assert re.fullmatch(r"  latency p50, perf_counter, machine [0-9a-f]{16} \(.+\): 20 runs", what)
    assert re.match(r"    [▁▂]{10}[▇█]{10} 11\.0 ms \(10\.8 \.\. 11\.2\), 2026-03-02T00:38:00\+00:00, 0{10}", drawn)
    assert re.match(
        r"    changed \+10\.\d % \(\+.+ \.\. \+.+\) between 0{10} and 0{10}.*; p=0\.0005, n=20 runs", changed
    )
    assert re.fullmatch(rf"      hwperf bisect 0{{10}} 0{{10}} -- {re.escape(fake.TEST)}", command)
    assert "1 % false ones a series" in method
    monkeypatch.setenv("COLUMNS", "60")
    assert [command] == [line for line in told(OK, *HISTORY, fake.TEST).out.splitlines() if len(line) > 60]


@pytest.mark.usefixtures("here")
def test_files_hold_what_is_shown(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a page without what it is made with is refused."""
    pytest.importorskip("plotly", reason="HTML reports need pytest-hwperf[report]")
    monkeypatch.setattr(page, "plotly", lambda: ("", page.hash_of("placeholder")))
    shown = told(OK, *HISTORY, "*", "--output=h.json", "--output=h.html", "--newest=15").out
    assert "too few runs to look for changes" in shown
    written = json.loads(Path("h.json").read_text(encoding="utf-8"))
    counts = [len(trend["series"]["values"]) for trend in written["trends"]]
    assert ("pytest-hwperf history", "main", [1, 15]) == (written["what"], written["baseline"], sorted(counts))
    assert fake.TEST in Path("h.html").read_text(encoding="utf-8")
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "plotly" else object())
    answer = told(USAGE, *HISTORY, fake.TEST, "--output=other.html").err
    assert "needs plotly: pip install 'pytest-hwperf[report]'" in answer
    assert not Path("other.html").exists()


def test_one_statistic_of_each_metric_is_shown_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    monkeypatch.chdir(tmp_path)
    stored = fake.session()
    named = (("latency", "mean"), ("latency", "p95"), ("energy", "mean"))
    more = tuple(replace(stored.figures[0], metric=metric, statistic=statistic) for metric, statistic in named)
    JsonStore(tmp_path / ".hwperf").save("main", [replace(stored, figures=(*stored.figures, *more))])
    shown = told(OK, *HISTORY, "*").out
    assert ("latency p50," in shown, "energy," in shown) == (True, True)
    assert ("latency mean," in shown, "latency p95," in shown) == (False, False)


@pytest.mark.usefixtures("here")
def test_what_cannot_be_shown_is_said(told: Told) -> None:
    for arguments, said in (
        (["nothing"], "no run matches 'nothing' in baseline main of json:.hwperf. It has 2 tests: list them with"),
        (["othr"], "Did you mean 'other'?"),
        (["x", "--baseline=new"], "baseline new of json:.hwperf has no runs yet: pytest --hwperf-save stores them"),
        ([fake.TEST, "--newest=0"], "--newest=0: at least 1 run"),
        ([fake.TEST, "--output=no/folder/h.json"], "--output=no/folder/h.json cannot be written"),
        ([fake.TEST, "--output=h.csv"], "--output=h.csv: the name has to end in .json, .html"),
        ([fake.TEST, "--machine=x"], f"no run matches '{fake.TEST}' on machine x… in baseline main of json:.hwperf."),
        ([fake.TEST, "--metric=latency_p5"], "Did you mean 'latency_p50'? There are: latency_p50"),
        (["*", "--as=parquet"], "--as=parquet is no text: give --output=FILE"),
        (["*", "--as=otava", "--output=a", "--output=b"], "--as=otava writes one file: give --output once"),
        (["none", "--as=otava"], "no run matches 'none' in baseline main of json:.hwperf. It has 2 tests"),
        (["*", "--as=otava", "--machine=x"], "no run matches '*' on machine x… in baseline main of "),
        (["*", "--as=otava", "--metric=latency_p9"], "Did you mean 'latency_p50'?"),
        (["*", "--as=otava", "--store=shelf:x"], "unknown store 'shelf'"),
        (["*", "--as=otava"], "writes one test on one machine, and 2 match: "),
    ):
        assert said in told(USAGE, *HISTORY, *arguments).err


def test_a_note_is_shown_at_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init")
    commit(tmp_path, work__py="")
    head = git(tmp_path, "rev-parse", "HEAD").strip()
    JsonStore(tmp_path / ".hwperf").save("main", [fake.session(revision=head)])
    noted = f"noted at {head[:10]}: new runner\\x1b[31m\n"
    assert noted == told(OK, "history", "note", "HEAD", "new runner\x1b[31m").out
    assert f"noted at {head[:10]}: 'new runner" in told(OK, *HISTORY, "*").out
    assert "the note is empty" in told(USAGE, "history", "note", "HEAD", " ").err


def test_too_many_series_need_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    monkeypatch.chdir(tmp_path)
    JsonStore(tmp_path / ".hwperf").save("main", [fake.session(test=f"t{number}") for number in range(201)])
    assert "matches 201 series, and 200 are shown at most" in told(USAGE, *HISTORY, "*").err
    assert told(OK, *HISTORY, "*", "--output=h.json").out.count("latency p50") == 200


def test_a_series_from_an_anchor_is_shown_as_changes() -> None:
    moved = [0.001 * (place * 7 % 5 - 2) + 0.05 * (place >= STEP) for place in range(2 * STEP)]
    lines = as_text(document_of([trend_of(series(moved, anchor="4f2c1e9abcdef"), [note(3, "a")])]), 200)
    assert "latency p50, change from 4f2c1e9abc, perf_counter" in lines[1]
    assert "+5.1 %" in lines[2]
    assert "changed +5.0 %" in lines[3]
    assert lines[5] == f"    noted at {note(3, '').revision[:10]}: 'a'"


def test_a_sparkline_goes_from_the_lowest_to_the_highest() -> None:
    assert sparkline([1.0, 2.0, 8.0]) == "▁▂█"
    assert sparkline([3.0, 3.0]) == "▁▁"
    assert sparkline([9.0] * 10 + [float(number) for number in range(60)]).startswith("▁")


@pytest.fixture
def two_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of one test, in which only the second has a p95, and one of another test."""
    monkeypatch.chdir(tmp_path)
    more = fake.figure("latency", "p95", fake.estimate(0.02, None, None, 9))
    second = at(fake.session(median_s=0.012, revision="=bbb"), "2026-03-09T09:30:00+00:00")
    JsonStore(tmp_path / ".hwperf").save(
        "main",
        [
            fake.session(median_s=0.01),
            replace(second, figures=(*second.figures, more)),
            fake.session(test="other\ud800"),
        ],
    )
    return tmp_path


def at(stored: StoredRun, started_at: str) -> StoredRun:
    return replace(stored, run=replace(stored.run, started_at=started_at))


@pytest.mark.usefixtures("two_tests")
def test_otava_gets_a_row_for_each_run(told: Told) -> None:
    """It takes no empty cell: what a run lacks is left out and said. A metric alone is exported in silence."""
    shown = told(OK, *HISTORY, "--as=otava", fake.TEST)
    assert [
        'time,commit,"latency p50, perf_counter"',
        "2026-03-02T09:30:00+00:00,4f2c1e9,0.01",
        "2026-03-09T09:30:00+00:00,'=bbb,0.012",
    ] == shown.out.splitlines()
    assert "hwperf: left out: latency p95, perf_counter: only 1 of 2 runs have it\n" == shown.err
    shown = told(OK, *HISTORY, "*", "--as=otava", "--metric=latency_p95")
    assert ['time,commit,"latency p95, perf_counter"', "2026-03-09T09:30:00+00:00,'=bbb,0.02"] == shown.out.splitlines()


def test_otava_gets_one_measurement_on_one_machine(two_tests: Path, told: Told) -> None:
    elsewhere = fake.machine(cores=8)
    JsonStore(two_tests / ".hwperf").save("main", [fake.session(at=elsewhere)])
    told(USAGE, *HISTORY, "--as=otava", fake.TEST)
    told(OK, *HISTORY, "--as=otava", fake.TEST, f"--machine={elsewhere.fingerprint[:6]}", "--output=x.csv")
    assert 2 == len((two_tests / "x.csv").read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("form", ["--as=otava", "--as=parquet"])
def test_no_name_in_a_store_begins_a_line(two_tests: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    """A runner obeys a line that begins with two colons."""
    JsonStore(two_tests / ".hwperf").save("main", [fake.session(test="\n::error::", at=fake.machine(cores=8))])
    (two_tests / ".hwperf/main/x\n::error::y").mkdir()
    main([*HISTORY, "*", form, "--output=x"])
    (two_tests / ".hwperf/main/x\n::error::y/z.jsonl").write_text("{}")
    main([*HISTORY, "*", form, "--output=x"])
    shown = capsys.readouterr()
    assert not [line for line in (shown.out + shown.err).splitlines() if line.lstrip().startswith("::")]
    assert r"x\n::error::y" in shown.err


def test_parquet_has_every_value(two_tests: Path, told: Told) -> None:
    files = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    assert "4 values written to x.parquet\n" == told(OK, *HISTORY, "*", "--as=parquet", "--output=x.parquet").out
    written = files.ParquetFile(two_tests / "x.parquet")
    rows = written.read().to_pylist()
    assert written.num_row_groups == 2
    assert written.schema_arrow.names == [*exports.HISTORY_COLUMNS]
    assert [row["value"] for row in rows] == [0.00631, 0.01, 0.012, 0.02]
    assert {key: rows[3][key] for key in ("statistic", "unit", "revision", "low", "n", "changed", "accepted")} == {
        "statistic": "p95", "unit": "s", "revision": "=bbb", "low": None, "n": 9, "changed": False, "accepted": True,
    }  # fmt: skip
    assert rows[0]["test"] == "other\\ud800"


@pytest.mark.usefixtures("two_tests")
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """And nothing is exported of nothing."""
    parquet = ("--as=parquet", "--output=x.parquet")
    if find_spec("pyarrow"):
        assert "no run matches 'none'" in told(USAGE, *HISTORY, "none", *parquet).err
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    answer = told(USAGE, *HISTORY, "*", *parquet).err
    assert "--as=parquet needs pyarrow: pip install 'pytest-hwperf[parquet]'" in answer
    assert not Path("x.parquet").exists()
