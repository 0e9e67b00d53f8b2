"""`hwperf history --as`: a store's history for other programs."""

from pathlib import Path

import pytest
from fakes import records as fake

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.output import OK
from pytest_hwperf.host import extras
from pytest_hwperf.records.run import StoredRun, replace
from pytest_hwperf.reports import exports
from pytest_hwperf.stores.json_files import JsonStore

EXPORT = ["history", "--store=json:.hwperf"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


@pytest.mark.usefixtures("here")
def test_otava_gets_a_row_for_each_run(capsys: pytest.CaptureFixture[str]) -> None:
    """It takes no empty cell: what a run lacks is left out and said."""
    assert OK == main([*EXPORT, "--as=otava", fake.TEST])
    shown = capsys.readouterr()
    assert [
        'time,commit,"latency p50, perf_counter"',
        "2026-03-02T09:30:00+00:00,4f2c1e9,0.01",
        "2026-03-09T09:30:00+00:00,'=bbb,0.012",
    ] == shown.out.splitlines()
    assert "hwperf: left out: latency p95, perf_counter: only 1 of 2 runs have it\n" == shown.err


def test_otava_gets_one_measurement_on_one_machine(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert USAGE == main([*EXPORT, "*", "--as=otava"])
    assert "writes one test on one machine, and 2 match: " in capsys.readouterr().err
    elsewhere = fake.machine(cores=8)
    JsonStore(here / ".hwperf").save("main", [fake.session(at=elsewhere)])
    assert USAGE == main([*EXPORT, "--as=otava", fake.TEST])
    chosen = f"--machine={elsewhere.fingerprint[:6]}"
    assert OK == main([*EXPORT, "--as=otava", fake.TEST, chosen, "--output=x.csv"])
    assert 2 == len((here / "x.csv").read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("form", ["--as=otava", "--as=parquet"])
def test_no_name_in_a_store_begins_a_line(here: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    """A runner obeys a line that begins with two colons."""
    JsonStore(here / ".hwperf").save("main", [fake.session(test="\n::error::", at=fake.machine(cores=8))])
    (here / ".hwperf/main/x\n::error::y").mkdir()
    main([*EXPORT, "*", form, "--output=x"])
    (here / ".hwperf/main/x\n::error::y/z.jsonl").write_text("{}")
    main([*EXPORT, "*", form, "--output=x"])
    shown = capsys.readouterr()
    assert not [line for line in (shown.out + shown.err).splitlines() if line.lstrip().startswith("::")]
    assert r"x\n::error::y" in shown.err


def test_parquet_has_every_value(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    assert OK == main([*EXPORT, "*", "--as=parquet", "--output=x.parquet"])
    assert "4 values written to x.parquet\n" == capsys.readouterr().out

    written = files.ParquetFile(here / "x.parquet")
    rows = written.read().to_pylist()
    assert written.num_row_groups == 2
    assert written.schema_arrow.names == [*exports.HISTORY_COLUMNS]
    assert [row["value"] for row in rows] == [0.00631, 0.01, 0.012, 0.02]
    assert {key: rows[3][key] for key in ("statistic", "unit", "revision", "low", "n", "changed", "accepted")} == {
        "statistic": "p95", "unit": "s", "revision": "=bbb", "low": None, "n": 9, "changed": False, "accepted": True,
    }  # fmt: skip
    assert rows[0]["test"] == "other\\ud800"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["*", "--as=parquet"], "--as=parquet is no text: give --output=FILE"),
        (["*", "--as=otava", "--output=a", "--output=b"], "--as=otava writes one file: give --output once"),
        (["none", "--as=otava"], "no run matches 'none' in baseline main of json:.hwperf. It has 2 tests"),
        (["*", "--as=otava", "--machine=x"], "no run matches '*' on machine x… in baseline main of "),
        (["*", "--as=otava", "--metric=latency_p9"], "Did you mean 'latency_p95'?"),
        (["*", "--as=otava", "--store=shelf:x"], "unknown store 'shelf'"),
    ],
)
def test_what_cannot_be_meant_is_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert USAGE == main([*EXPORT, *arguments])
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("here")
def test_a_metric_is_exported_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """The other test has none of it, and is left out in silence."""
    assert OK == main([*EXPORT, "*", "--as=otava", "--metric=latency_p95"])
    assert ['time,commit,"latency p95, perf_counter"', "2026-03-09T09:30:00+00:00,'=bbb,0.02"] == (
        capsys.readouterr().out.splitlines()
    )


def test_nothing_is_exported_of_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    assert USAGE == main([*EXPORT, "none", "--as=parquet", "--output=x.parquet"])
    assert "no run matches 'none'" in capsys.readouterr().err
    assert not (here / "x.parquet").exists()


@pytest.mark.usefixtures("here")
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    assert USAGE == main([*EXPORT, "*", "--as=parquet", "--output=x.parquet"])
    assert "--as=parquet needs pyarrow: pip install 'pytest-hwperf[parquet]'" in capsys.readouterr().err
