"""Reports in a repository that someone else has prepared."""

import sys

import pytest

from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.report import ReportFile
from pytest_hwperf.reports import markdown

if sys.platform != "win32":
    import resource


class FullDisk:
    """Fills the disk when a test has run."""

    def pytest_runtest_teardown(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def test_a_report_is_not_written_through_a_link(
    pytester: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The repository has one under the name that its instructions tell the user to give."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "victim").write_text("years of work", encoding="utf-8")
    folder = tmp_path_factory.mktemp("folder")
    pytester.makepyfile("def test_it(hwperf): hwperf(sum, [1])")
    places = {"report.json": elsewhere / "victim", "report.md": elsewhere / "new", "csv": folder}
    for name, target in places.items():
        (pytester.path / name).symlink_to(target)
    options = [f"--hwperf-report={name}" for name in places]
    result = pytester.runpytest_inprocess("--hwperf-sample-time=0.05", "--hwperf-energy=off", *options)
    refused = f" not written: a link in {pytester.path} leads out of it; give another path"
    named = [line.removeprefix("hwperf: ").partition(refused)[0] for line in result.outlines if refused in line]
    assert {*places} == {name.removeprefix(f"{pytester.path}/").partition("/")[0] for name in named}
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    assert [elsewhere / "victim"] == [*elsewhere.iterdir(), *folder.iterdir()]
    assert "years of work" == (elsewhere / "victim").read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of the size of files there")
def test_a_report_that_does_not_fit_leaves_the_old_one(pytester: pytest.Pytester) -> None:
    """A disk that is full leaves no half of it, and nothing beside it."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = pytester.path / "report.json"
    old.write_text("the old one", encoding="utf-8")
    pytester.makepyfile("def test_it(hwperf): hwperf(sum, [1])")
    options = ("--hwperf-sample-time=0.05", "--hwperf-energy=off", "-q", "-p", "no:cacheprovider")
    try:
        result = pytester.runpytest_inprocess("--hwperf-report=report.json", *options, plugins=[FullDisk()])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
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
