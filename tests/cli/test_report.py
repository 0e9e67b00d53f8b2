"""`hwperf report`: reports of anyone in other forms, merged, verified, and for other programs."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from fakes import gates, shards
from fakes import records as fake
from fakes.commands import Told

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.inputs import read_report
from pytest_hwperf.cli.output import FAILED, INCONCLUSIVE, OK
from pytest_hwperf.host import extras
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import StoredRun, replace
from pytest_hwperf.reports import exports, json_file, markdown
from pytest_hwperf.reports.html import page
from pytest_hwperf.reports.json_file import render
from pytest_hwperf.stores.json_files import JsonStore


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    path.write_bytes(json_file.render(fake.report()))
    return path


def test_a_written_report_is_shown_again(written: Path, told: Told) -> None:
    """As a table, as annotations alone, or in the format of another program, with what that leaves out beside it."""
    assert "comparisons: 1 regressed, 1 improved, 1 equivalent, " in told(OK, "report", str(written)).out
    shown = told(OK, "report", str(written), "--annotations").out.splitlines()
    assert shown == list(markdown.annotations(fake.report()))
    assert exports.render_otava(fake.report()).content.decode() == told(OK, "report", str(written), "--as=otava").out
    out, err = told(OK, "report", str(written), "--as=github-action-benchmark-bigger")
    assert 3 == len(json.loads(out))
    assert "hwperf: left out: 9 figures of which lower is better: --as=github-action-benchmark\n" in err


def test_a_written_report_is_rendered_as_it_was(written: Path, told: Told) -> None:
    summary, again, output = (written.with_name(name) for name in ("summary.md", "again.json", "bencher.json"))
    told(OK, "report", str(written), f"--output={summary}", f"--output={again}")
    assert summary.read_bytes() == markdown.render(fake.report())
    assert again.read_bytes() == written.read_bytes()
    out, err = told(OK, "report", str(written), "--as=bencher", f"--output={output}")
    assert exports.render_bencher(fake.report()).content == output.read_bytes()
    assert not out
    assert err.startswith(f"hwperf: left out: {fake.TEST}[sklearn_fp32]: energy was not measured: no readable energy ")


def test_a_report_of_nothing_says_so(written: Path, told: Told) -> None:
    written.write_bytes(json_file.render(fake.empty_report()))
    assert "Nothing was measured\n" in told(OK, "report", str(written)).out


REFUSED: Sequence[tuple[Sequence[str], str]] = (
    ([], "give either FILE …, written by pytest --hwperf-report=FILE.json, or --from=FORMAT:FILE"),
    (["report.json", "--from=onnxruntime:x"], "give either FILE …"),
    (["report.json", "--output=summary.txt"], "--output=summary.txt: the name has to end in .json, .md, .html"),
    (["report.json", "--verify", "--output=x.md"], "--verify writes no file: leave out --output"),
    (["x.json", "--as=bencher", "--output=a", "--output=b"], "--as=bencher writes one file: give --output once"),
    (["x.json", "--as=bencher", "--output=/nowhere/x.json"], "--output=/nowhere/x.json cannot be written"),
    (["x.json", "--output=/nowhere/x.md"], "--output=/nowhere/x.md cannot be written"),
    (["none.json", "--verify"], "cannot be read (No such file or directory): give a file of pytest --hwperf-rep"),
    (["report.json", "--store=json:.hwperf"], "--store is for the page of a FILE: add --output=FILE.html"),
    (["report.json", "--verify", "--as=bencher"], "not allowed with argument --verify"),
)


def test_what_cannot_be_meant_is_a_usage_error(told: Told) -> None:
    assert [] == [one for one in REFUSED if one[1] not in told(USAGE, "report", *one[0]).err]


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


def test_many_that_are_left_out_are_counted(written: Path, told: Told) -> None:
    one = fake.plain_judgement()
    run = replace(one.run, samples=(fake.sample("latency", [0.1]),))
    many = (fake.onnx_judgement(), *[replace(one, run=replace(run, label=str(k))) for k in range(12)])
    written.write_bytes(json_file.render(replace(fake.report(), judgements=many)))
    assert "hwperf: left out: 2 more\n" in told(OK, "report", str(written), "--as=pytest-benchmark").err


def test_a_report_of_nothing_is_not_written(written: Path, told: Told) -> None:
    written.write_bytes(json_file.render(fake.empty_report()))
    output = written.with_name("x.json")
    answer = told(USAGE, "report", str(written), "--as=bencher", f"--output={output}").err
    assert "nothing in this report can be written as bencher: it has no measurements" in answer
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


def test_a_report_agrees_with_itself(tmp_path: Path, told: Told) -> None:
    """And one changed digit of a pair value is named."""
    path = tmp_path / "report.json"
    path.write_bytes(render(gates.report(3)))
    assert "10 verdicts computed again, 0 differences\n" == told(OK, "report", str(path), "--verify").out
    text = path.read_text(encoding="utf-8")
    position = text.index('"change":', text.index('"observations"')) + len('"change":') + 6
    digit = "1" if text[position] != "1" else "2"
    path.write_text(text[:position] + digit + text[position + 1 :], encoding="utf-8")
    assert "latency p50 of pair 1: " in told(FAILED, "report", str(path), "--verify").out


def test_what_rests_on_the_store_is_counted(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", str(written), "--verify"])
    assert (
        "not computed again: on stored runs or further processes, which are not in the file" in capsys.readouterr().out
    )


OTHERS: Sequence[tuple[bytes, str]] = (
    (b"", "is not whole JSON"),
    (b"[" * 100_000, "is not whole JSON"),
    (b"[]", "holds no pytest-hwperf report: give a file of pytest --hwperf-report=FILE.json"),
    (b'{"what": "pytest-hwperf baseline", "schema": 2}', "holds no pytest-hwperf report: give a file of"),
    (b'{"what": "pytest-hwperf report", "schema": 99}', "(schema 99, this one reads 2): upgrade pytest-hwperf"),
    (b'{"what": "pytest-hwperf report", "schema": 1}', "earlier pytest-hwperf (schema 1, this one reads 2)"),
    (b'{"what": "pytest-hwperf report", "schema": 2, "report": {}}', "holds no valid pytest-hwperf report ("),
    (b'{"what": "pytest-hwperf report", "schema": 2, "more": 1, "report": {}}', "unknown field `more`"),
)


def test_anything_else_is_refused(tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a file of any size is not read."""
    path = tmp_path / "report.json"
    for content, complaint in OTHERS:
        path.write_bytes(content)
        assert complaint in told(USAGE, "report", str(path), "--verify").err
    monkeypatch.setattr("pytest_hwperf.cli.inputs._LARGEST_REPORT", 3)
    assert "cannot be read (larger than" in told(USAGE, "report", str(path), "--verify").err


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    return [shards.report_of(1, 0.0), shards.report_of(2, 0.0, 0.0), shards.report_of(3, 0.3)]


def write(folder: Path, reports: list[Report]) -> list[str]:
    files = [folder / f"{report.shards[0].number}.json" for report in reports]
    for file, report in zip(files, reports, strict=True):
        file.write_bytes(json_file.render(report))
    return list(map(str, files))


def test_a_build_has_one_answer(reports: list[Report], tmp_path: Path, told: Told) -> None:
    files = write(tmp_path, reports)
    for given, code, said in (
        (files, FAILED, "1 of 4 tests regressed (at most 1 % false alarms over all 3 shards)"),
        (files[:2], INCONCLUSIVE, "only shards 1, 2 of 3"),
        (files[2:], FAILED, "only shard 3 of 3"),
    ):
        assert said in " ".join(told(code, "report", *given).out.split())
    write(tmp_path, [shards.report_of(3, 0.0)])
    assert "No regression found in 4 tests" in " ".join(told(OK, "report", *files).out.split())


def test_the_merged_report_is_written_in_every_form(reports: list[Report], tmp_path: Path) -> None:
    files, written = write(tmp_path, reports), {form: tmp_path / f"all.{form}" for form in ("json", "md", "html")}
    main(["report", *files, *(f"--output={path}" for path in written.values())])
    assert [1, 2, 3] == [shard.number for shard in read_report(str(written["json"])).shards]
    assert "❌ 1 of 4 tests regressed" in written["md"].read_text(encoding="utf-8")
    assert "--hwperf-alpha" not in written["md"].read_text(encoding="utf-8")  # that of the build is the usual one
    assert b"1 of 4 tests regressed" in written["html"].read_bytes()
    assert OK == main(["report", str(written["json"]), "--verify"]) == main(["report", *files, "--verify"])


def test_a_merged_report_keeps_its_answer(reports: list[Report], tmp_path: Path, told: Told) -> None:
    """Shown again it is as red as before, and says the same, what is missing once: of shards and of kinds."""
    merged, files = tmp_path / "all.json", write(tmp_path, reports)
    (folder := tmp_path / "kinds").mkdir()
    arm = write(folder, [shards.of_kind("arm", 0.0)])
    for given, missing in (
        (files[:2], "shard 3 of 3 is missing: its tests are not in this report"),
        (files[:1], "shards 2, 3 of 3 are missing: their tests are not in this report"),
        ([*arm, "--kinds=arm,x86"], "(at most 1 % false alarms on this kind of machine); x86 is missing"),
    ):
        before = told(INCONCLUSIVE, "report", *given, f"--output={merged}").out
        assert before == told(INCONCLUSIVE, "report", str(merged)).out
        assert 1 == " ".join(before.split()).count(missing)


def test_what_is_no_shard_is_a_usage_error(reports: list[Report], tmp_path: Path, told: Told) -> None:
    files = write(tmp_path, reports)
    assert f"{files[0]} is given twice: give one report of each shard" in told(USAGE, "report", files[0], files[0]).err
    assert USAGE == main(["report", files[0], str(tmp_path / "none.json")])
