"""Reports in a repository that someone else has prepared."""

from pathlib import Path

import pytest


@pytest.mark.parametrize("options", [["--hwperf-json=report.json"], ["--hwperf-artifacts=csv"]])
def test_a_report_is_not_written_through_a_link(
    pytester: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory, options: list[str]
) -> None:
    """The repository has one under the name that its instructions tell the user to give."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "victim").write_text("years of work", encoding="utf-8")
    pytester.makepyfile("def test_it(hwperf): hwperf(sum, [1])")
    (pytester.path / "report.json").symlink_to(elsewhere / "victim")
    (pytester.path / "csv").symlink_to(elsewhere)
    result = pytester.runpytest_inprocess("--hwperf-max-time=0.05", "--hwperf-energy=off", *options)

    result.stdout.fnmatch_lines([f"hwperf: *not written: a link in {pytester.path} leads out of it; give another path"])
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    assert [Path("victim")] == [path.relative_to(elsewhere) for path in elsewhere.iterdir()]
    assert "years of work" == (elsewhere / "victim").read_text(encoding="utf-8")
