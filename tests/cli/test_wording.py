"""What the messages of the commands say, and about which option."""

import pytest
from fakes import records as fake
from fakes.commands import Told

from pytest_hwperf.cli import USAGE
from pytest_hwperf.cli.output import width
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import parse_budget_lines, parse_margin_lines
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.run import Estimate, replace
from pytest_hwperf.records.verdict import Comparison, Policy
from pytest_hwperf.reports.rows import row_of
from pytest_hwperf.stats.verdicts import judge_comparison


@pytest.mark.parametrize(("columns", "expected"), [("80", 80), ("120", 120), ("", 100)])
def test_tables_are_as_wide_as_the_terminal_or_as_columns_says(
    monkeypatch: pytest.MonkeyPatch, columns: str, expected: int
) -> None:
    """An output that is no terminal has 100 columns."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("os.get_terminal_size", lambda _: (_ for _ in ()).throw(OSError))
    assert expected == width()


@pytest.mark.parametrize(
    ("value", "low", "high", "line", "cell"),
    [
        (1.2, 0.998, 1.3, "×2.2 (×2.0 .. ×2.3)", "×2.2 (×2.0 .. ×2.3)"),
        (0.95, 0.5, 1.3, "+95.0 % (+50.0 .. +130.0)", "+95 % (+50 .. +130)"),
    ],
)
def test_an_interval_is_in_one_unit(value: float, low: float, high: float, line: str, cell: str) -> None:
    """Of the line and of the table."""
    verdict = fake.comparison_verdict("latency", "p50", "regressed", (value, low, high), p_value=0.004)
    assert isinstance(verdict.subject, Comparison)
    change = Estimate(value=value, low=low, high=high, confidence=0.992, n=8, method="Walsh averages")
    comparison = replace(verdict.subject, change=change)
    assert line in judge_comparison(METRICS["latency"], comparison, Policy()).reason
    assert cell == row_of(fake.plain_judgement(), replace(verdict, subject=comparison)).change


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["--margin=foo=3%"], "hwperf: --margin: foo=3%: unknown keyword 'foo'"),
        (["--margin=latency_p50=x"], "hwperf: --margin: latency_p50=x: a margin is a percentage"),
    ],
)
def test_the_option_that_was_given_is_answered(
    arguments: list[str], answer: str, tmp_path_factory: pytest.TempPathFactory, told: Told
) -> None:
    rows = tmp_path_factory.mktemp("rows") / "rows.csv"
    rows.write_text("a,b\n1,2\n", encoding="utf-8")
    assert answer in told(USAGE, "compare", "a:f", "b:f", f"--data={rows}", *arguments).err


def test_work_that_is_no_percentage_is_answered(told: Told) -> None:
    answer = told(USAGE, "selfcheck", "--work=5").err
    assert "hwperf: --work='5': work is a percentage of the call, such as 5%" in answer


def test_lines_are_quoted_as_they_were_typed() -> None:
    """And not as a marker that nobody wrote."""
    with pytest.raises(UsageProblem, match=r"^foo=3%: unknown keyword 'foo'\."):
        parse_margin_lines(["foo=3%"])
    with pytest.raises(UsageProblem, match=r"^latency=5.0: unknown keyword 'latency'\."):
        parse_budget_lines(["latency=5"])


def test_pytest_answers_about_the_option_that_was_given(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(hwperf):\n    hwperf(len, [1])\n")
    result = pytester.runpytest_inprocess("--hwperf-margin=foo=3%")
    result.stderr.fnmatch_lines(["ERROR: --hwperf-margin: foo=3%: unknown keyword 'foo'.*"])


def test_the_header_has_the_rate_as_it_is_typed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makepyfile("def test_it(hwperf):\n    pass\n")
    result = pytester.runpytest_inprocess("--hwperf-save", "--hwperf-alpha=1%")
    result.stdout.fnmatch_lines(["hwperf: saving to baseline main in *", "hwperf: machine *, alpha 1 %, energy *"])


def test_the_header_keeps_the_width(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a word, such as a path, is never broken."""
    monkeypatch.setenv("COLUMNS", "50")
    pytester.makepyfile("def test_it(hwperf):\n    pass\n")
    lines = pytester.runpytest_inprocess("--hwperf-save").outlines
    first = next(place for place, line in enumerate(lines) if line.startswith("hwperf: machine"))
    assert [] == [line for line in lines[first : first + 2] if len(line) > 50]
    assert "energy auto" in " ".join(" ".join(lines[first : first + 4]).split())
