"""`hwperf report` of several files: the shards of a build as one report, and one exit code."""

from pathlib import Path

import pytest
from fakes import shards

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.cli.inputs import read_report
from pytest_hwperf.cli.output import FAILED, INCONCLUSIVE, OK
from pytest_hwperf.records.report import Report
from pytest_hwperf.reports import json_file


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    return [shards.report_of(1, 0.0), shards.report_of(2, 0.0, 0.0), shards.report_of(3, 0.3)]


def write(folder: Path, reports: list[Report]) -> list[str]:
    files = [folder / f"{report.shards[0].number}.json" for report in reports]
    for file, report in zip(files, reports, strict=True):
        file.write_bytes(json_file.render(report))
    return list(map(str, files))


@pytest.mark.parametrize(
    ("there", "code", "said"),
    [
        ([0, 1, 2], FAILED, "1 of 4 tests regressed (at most 1 % false alarms over all 3 shards)"),
        ([0, 1], INCONCLUSIVE, "only shards 1, 2 of 3"),
        ([2], FAILED, "only shard 3 of 3"),
    ],
)
def test_a_build_has_one_answer(
    reports: list[Report],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    there: list[int],
    code: int,
    said: str,
) -> None:
    assert code == main(["report", *write(tmp_path, [reports[place] for place in there])])
    assert said in " ".join(capsys.readouterr().out.split())


def test_all_shards_that_passed_pass(reports: list[Report], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert OK == main(["report", *write(tmp_path, [*reports[:2], shards.report_of(3, 0.0)])])
    assert "No regression found in 4 tests" in " ".join(capsys.readouterr().out.split())


def test_the_merged_report_is_written_in_every_form(reports: list[Report], tmp_path: Path) -> None:
    files, written = write(tmp_path, reports), {form: tmp_path / f"all.{form}" for form in ("json", "md", "html")}
    main(["report", *files, *(f"--output={path}" for path in written.values())])
    assert [1, 2, 3] == [shard.number for shard in read_report(str(written["json"])).shards]
    assert "❌ 1 of 4 tests regressed" in written["md"].read_text(encoding="utf-8")
    assert "--hwperf-alpha" not in written["md"].read_text(encoding="utf-8")  # that of the build is the usual one
    assert b"1 of 4 tests regressed" in written["html"].read_bytes()
    assert OK == main(["report", str(written["json"]), "--verify"]) == main(["report", *files, "--verify"])


def test_a_merged_report_keeps_its_answer(
    reports: list[Report], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shown again it is as red as before, and says the same."""
    merged = tmp_path / "all.json"
    main(["report", *write(tmp_path, reports[:2]), f"--output={merged}"])
    before = capsys.readouterr().out
    assert INCONCLUSIVE == main(["report", str(merged)])
    assert before == capsys.readouterr().out
    assert "shard 3 of 3 is missing: its tests are not in this report" in " ".join(before.split())


def test_one_shard_alone_says_what_is_missing_once(
    reports: list[Report], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pattern such as shard-*.json may find no other."""
    again = tmp_path / "again.json"
    missing = "shards 2, 3 of 3 are missing: their tests are not in this report"
    assert INCONCLUSIVE == main(["report", *write(tmp_path, reports[:1]), f"--output={again}"])
    assert 1 == " ".join(capsys.readouterr().out.split()).count(missing)
    assert INCONCLUSIVE == main(["report", str(again)])
    assert 1 == " ".join(capsys.readouterr().out.split()).count(missing)


def test_one_kind_alone_keeps_the_kinds_that_are_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    merged = tmp_path / "all.json"
    arm = write(tmp_path, [shards.of_kind("arm", 0.0)])
    assert INCONCLUSIVE == main(["report", *arm, "--kinds=arm,x86", f"--output={merged}"])
    capsys.readouterr()
    assert INCONCLUSIVE == main(["report", str(merged)])
    assert "x86 is missing" in capsys.readouterr().out


def test_what_is_no_shard_is_a_usage_error(
    reports: list[Report], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = write(tmp_path, reports)
    assert USAGE == main(["report", files[0], files[0]])
    assert f"{files[0]} is given twice: give one report of each shard" in capsys.readouterr().err
    assert USAGE == main(["report", files[0], str(tmp_path / "none.json")])
