"""The line that shows how far the pairs are: in the width of the terminal, and seen from within a test."""

import pytest

SHOWING = """
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.plugin.progress import gate_line, show_pairs

def test_it(request):
    with gate_line(request.config) as line:
        for pair in (1, 1, 2):
            show_pairs(line, Progress(stage="screen", pair=pair, of=6, test="test_a_name.py::test_it" + "x" * 200))
    print("the test's own output")
"""
CHECKOUT = 'stage="checkout", pair=1, of=1, test=""'
TERMINAL = """
def pytest_sessionstart(session):
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    terminal.isatty = type(terminal.isatty)(True)
"""


@pytest.mark.parametrize("capture", ["fd", "sys", "no"])
def test_it_is_seen_from_within_a_test_whose_output_is_captured(pytester: pytest.Pytester, capture: str) -> None:
    pytester.makepyfile(SHOWING)
    result = pytester.runpytest_subprocess(f"--capture={capture}")

    result.assert_outcomes(passed=1)
    shown = [line for line in result.outlines if line.startswith("hwperf: screen pair")]
    assert ["1 of 6", "2 of 6"] == [line.removeprefix("hwperf: screen pair ").partition(",")[0] for line in shown]
    assert (capture == "no") == ("the test's own output" in result.stdout.str())


def test_very_quiet_runs_show_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SHOWING)
    pytester.runpytest_inprocess("-qq").stdout.no_fnmatch_line("*screen*")


def test_a_checkout_is_shown_on_terminals_alone(pytester: pytest.Pytester) -> None:
    """In a log it would be one more line of each build."""
    pytester.makepyfile(
        SHOWING.replace('stage="screen", pair=pair, of=6, test="test_a_name.py::test_it" + "x" * 200', CHECKOUT)
    )
    pytester.runpytest_inprocess().stdout.no_fnmatch_line("*checkout of*")
    pytester.makeconftest(TERMINAL)
    pytester.runpytest_inprocess().stdout.fnmatch_lines(["*hwperf: checkout of the baseline*"])


@pytest.mark.parametrize("width", [40, 80])
def test_a_line_of_a_terminal_is_cut_to_its_width_and_removed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """A longer one would wrap, and the next could not be written over all of it."""
    monkeypatch.setenv("COLUMNS", str(width))
    pytester.makeconftest(TERMINAL)
    pytester.makepyfile(SHOWING)
    lines = pytester.runpytest_inprocess().outlines  # a carriage return ends one too
    rewritten = [line for line in lines if "screen" in line]
    assert 3 == len(rewritten)
    assert all("…" in text and len(text.rstrip()) < width for text in rewritten)
    after = lines[lines.index(rewritten[-1]) + 1 :]
    assert " " * (width - 1) == after[0]  # removed at the end
    assert after[1].startswith(".")  # and what follows begins in the first column


def test_the_line_is_removed_when_a_comparison_ends_by_an_error(pytester: pytest.Pytester) -> None:
    """What is written next, as the error, would stand behind it."""
    failing = """
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.gate import models
from pytest_hwperf.gate.result import Progress

def fail(old, new, X, y, settings):
    settings.progress(Progress(stage="screen", pair=1, of=6, test="test_it"))
    raise WorkerError("the process was killed")

models.compare_models = fail
"""
    pytester.makeconftest(failing + TERMINAL)
    pytester.makepyfile("def test_it(hwperf):\n    hwperf.compare({'old': 'm:f', 'new': 'm:g'}, [[1]])")
    lines = pytester.runpytest_subprocess().outlines

    (shown,) = [place for place, line in enumerate(lines) if "screen pair 1" in line]
    assert not lines[shown + 1].strip()


WAITING = """
from pytest_hwperf.plugin.fresh import waiting

def test_it(request):
    with waiting(request.node, "cold", 5) as answered:
        for answers, seconds in enumerate([3.0, 3.0, 0.9, 0.9, 0.9], 1):
            answered(answers, seconds)
"""


def test_on_a_terminal_one_line_says_what_is_left_of_more_than_two_seconds(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(TERMINAL)
    pytester.makepyfile(test_wait=WAITING)
    lines = pytester.runpytest_inprocess().outlines
    shown = [line.rstrip() for line in lines if "cold start" in line]
    assert [
        "hwperf: cold start 1 of 5 took 3.00 s, up to 12.0 s left, test_wait.py::test_it",
        "hwperf: cold start 2 of 5 took 3.00 s, up to 9.00 s left, test_wait.py::test_it",
    ] == shown
    assert not lines[lines.index(next(line for line in reversed(lines) if "cold start" in line)) + 1].strip()


@pytest.mark.parametrize(
    ("role", "total", "seconds", "text"),
    [
        ("cold", 5, 14.0, "hwperf: cold start 1 of 5 took 14.0 s, up to 56.0 s left, test_wait.py::test_it"),
        ("memory", 2, 12.0, "hwperf: peak RSS in fresh process 1 of 2 took 12.0 s, up to 12.0 s left, *"),
        ("run", 2, 11.0, "hwperf: measurement in fresh process 1 of 2 took 11.0 s, up to 11.0 s left, *"),
        ("cold", 5, 1.3, ""),  # the others are there in a few seconds
    ],
)
def test_without_a_terminal_only_what_takes_long_is_told(
    pytester: pytest.Pytester, role: str, total: int, seconds: float, text: str
) -> None:
    """Such as processes that compile their model, which write nothing themselves."""
    waiting = WAITING.replace('"cold", 5', f'"{role}", {total}').replace("[3.0, 3.0, 0.9, 0.9, 0.9]", f"[{seconds}]")
    pytester.makepyfile(test_wait=waiting)
    shown = pytester.runpytest_inprocess().stdout
    shown.fnmatch_lines([text]) if text else shown.no_fnmatch_line("*cold start*")


def test_the_gate_is_kept_alive_without_a_terminal(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import pytest_hwperf.host.progress as here\nhere.LONG_S = 0\n")
    pytester.makepyfile(SHOWING.replace("    print(", "        __import__('time').sleep(1.2)\n    print("))
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["hwperf: 1 s so far: screen pair 2 of 6*"])
