"""Reports in a repository that someone else has prepared."""

from pathlib import Path

import pytest

from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.report import ReportFile
from pytest_hwperf.reports import markdown


@pytest.mark.parametrize(
    "options", [["--hwperf-report=report.json"], ["--hwperf-report=report.md"], ["--hwperf-report=csv"]]
)
def test_a_report_is_not_written_through_a_link(
    pytester: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory, options: list[str]
) -> None:
    """The repository has one under the name that its instructions tell the user to give."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "victim").write_text("years of work", encoding="utf-8")
    pytester.makepyfile("def test_it(hwperf): hwperf(sum, [1])")
    (pytester.path / "report.json").symlink_to(elsewhere / "victim")
    (pytester.path / "report.md").symlink_to(elsewhere / "victim")
    (pytester.path / "csv").symlink_to(elsewhere)
    result = pytester.runpytest_inprocess("--hwperf-sample-time=0.05", "--hwperf-energy=off", *options)

    result.stdout.fnmatch_lines([f"hwperf: *not written: a link in {pytester.path} leads out of it; give another path"])
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    assert [Path("victim")] == [path.relative_to(elsewhere) for path in elsewhere.iterdir()]
    assert "years of work" == (elsewhere / "victim").read_text(encoding="utf-8")


def test_a_report_that_does_not_fit_leaves_the_old_one(pytester: pytest.Pytester) -> None:
    """Each is written aside and moved into place: a disk that is full leaves no half of it, and nothing beside it."""
    pytester.makepyfile("def test_it(hwperf): hwperf(sum, [1])")
    pytester.makeconftest("""
import resource
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown():
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
""")
    old = pytester.path / "report.json"
    old.write_text("the old one", encoding="utf-8")
    options = ("--hwperf-sample-time=0.05", "--hwperf-energy=off", "-q", "-p", "no:cacheprovider")
    result = pytester.runpytest_subprocess("--hwperf-report=report.json", *options)

    result.stdout.fnmatch_lines(["*report.json not written: File too large*"])
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    assert "the old one" == old.read_text(encoding="utf-8")
    assert [] == [*pytester.path.rglob("*.tmp")]


def test_markdown_is_written_beside_the_json_that_it_can_be_made_of(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(hwperf): hwperf(sum, [1])")
    files = ("--hwperf-report=report.json", "--hwperf-report=out/summary.md")
    result = pytester.runpytest_inprocess("--hwperf-sample-time=0.05", "--hwperf-energy=off", *files)

    result.stdout.fnmatch_lines([f"hwperf: wrote {pytester.path / 'out' / 'summary.md'}"])
    again = markdown.render(from_json(ReportFile, (pytester.path / "report.json").read_bytes()).report)
    assert again == (pytester.path / "out" / "summary.md").read_bytes()
