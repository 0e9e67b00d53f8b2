"""How much of a report the terminal shows: the last line, what is not well, a line a test, every row."""

import pytest

QUICK = ("--hwperf-sample-time=0.05", "--hwperf-energy=off", "-p", "no:cacheprovider")
TESTS = """
import pytest
@pytest.mark.hwbudget(latency_p95_ms=0)
def test_fails(): sum(range(100))
@pytest.mark.hwbudget(latency_p95_ms=10000)
def test_passes(): sum(range(100))
"""


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize(
    ("options", "shown", "unshown"),
    [
        ((), ["  test_passes", "      failed: latency p95"], ["perf_counter (latency"]),
        (("-q",), ["      failed: latency p95"], ["  test_passes"]),
        (("-qq",), ["budgets: 1 "], ["  test_passes", "= hwperf =", "      failed:"]),
        (("-v",), ["  sources: perf_counter (latency"], ["      failed:"]),
    ],
)
def test_each_verbosity_has_its_screen(
    pytester: pytest.Pytester, options: tuple[str, ...], shown: list[str], unshown: list[str]
) -> None:
    pytester.makepyfile(TESTS)
    lines = pytester.runpytest_inprocess(*QUICK, *options).outlines
    assert [one for one in shown if any(line.startswith(one) for line in lines)] == shown
    assert [one for one in unshown if any(one in line for line in lines)] == []
    assert any(line.startswith("budgets: 1 ") for line in lines)  # on a busy machine with few calls, and remarks


def test_the_header_keeps_the_width(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a word, such as a path, is never broken; the rate is as it is typed."""
    monkeypatch.setenv("COLUMNS", "50")
    pytester.makepyfile("def test_it(hwperf):\n    pass\n")
    lines = pytester.runpytest_inprocess("--hwperf-save", "--hwperf-alpha=1%").outlines
    first = next(place for place, line in enumerate(lines) if line.startswith("hwperf: machine"))
    assert [] == [line for line in lines[first : first + 2] if len(line) > 50]
    assert "alpha 1 %, energy auto" in " ".join(" ".join(lines[first : first + 4]).split())


def test_usage_errors_keep_the_width_and_answer_what_was_given(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.hwbudget(latency_p95=5)\ndef test_it(): pass")
    marked = pytester.runpytest_inprocess(*QUICK)
    option = pytester.runpytest_inprocess("--hwperf-margin=foo=3%")
    assert pytest.ExitCode.USAGE_ERROR == marked.ret
    assert [] == [line for line in marked.errlines if len(line) > 80]
    assert "Did you mean 'latency_p95_ms'?" in " ".join(" ".join(marked.errlines).split())
    assert [] != [line for line in option.errlines if "--hwperf-margin: foo=3%: unknown keyword" in line]
