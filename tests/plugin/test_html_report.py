"""`--hwperf-report=FILE.html`: written at the end, refused at the beginning."""

import pytest

from pytest_hwperf.host import extras
from pytest_hwperf.reports.html import page

MEASURED = "def test_it(hwperf): hwperf(sum, [1])"
QUICK = ("--hwperf-sample-time=0.05", "--hwperf-energy=off")


def test_the_report_is_one_file(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("plotly", reason="HTML reports need pytest-hwperf[report]")
    monkeypatch.setattr(page, "plotly", lambda: ("", page.hash_of("placeholder")))
    pytester.makepyfile(MEASURED)
    result = pytester.runpytest_inprocess(*QUICK, "--hwperf-report=out/report.html")
    assert pytest.ExitCode.OK == result.ret
    content = (pytester.path / "out" / "report.html").read_text(encoding="utf-8")
    assert "1 test measured only, no budget or baseline" in content
    result.stdout.fnmatch_lines(["hwperf: wrote *report.html"])


def test_a_missing_extra_is_a_usage_error_at_the_start(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    pytester.makepyfile(MEASURED)
    result = pytester.runpytest_inprocess(*QUICK, "--hwperf-report=report.html")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(
        ["*--hwperf-report: an HTML report needs jinja2 and plotly: pip install *[[]report[]]'"]
    )
