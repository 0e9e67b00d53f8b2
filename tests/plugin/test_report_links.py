"""Reports in a repository that someone else has prepared."""

from pathlib import Path

import pytest

from pytest_hwperf.core.report import ReportFile
from pytest_hwperf.core.serialisation import from_json
from pytest_hwperf.reports import markdown


@pytest.mark.parametrize(
    "options", [["--hwperf-json=report.json"], ["--hwperf-markdown=report.json"], ["--hwperf-artifacts=csv"]]
)
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


def test_markdown_is_written_beside_the_json_that_it_can_be_made_of(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(hwperf): hwperf(sum, [1])")
    files = ("--hwperf-json=report.json", "--hwperf-markdown=out/summary.md")
    result = pytester.runpytest_inprocess("--hwperf-max-time=0.05", "--hwperf-energy=off", *files)

    result.stdout.fnmatch_lines([f"hwperf: wrote {pytester.path / 'out' / 'summary.md'}"])
    again = markdown.render(from_json(ReportFile, (pytester.path / "report.json").read_bytes()).report)
    assert again == (pytester.path / "out" / "summary.md").read_bytes()
