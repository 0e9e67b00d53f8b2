"""The line that shows how far the pairs are: in the width of the terminal, and seen from within a test."""

from typing import Any

import pytest

from pytest_hwperf.gate.result import Progress
from pytest_hwperf.records.errors import WorkerError

SHOWING = """
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.plugin.session.terminal import gate_line, show_pairs

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


TICKING = """
import threading
from pytest_hwperf.host import progress as host
from pytest_hwperf.plugin.session import terminal as progress

host.LONG_S, progress._EVERY_S = 0, 0.01
told, repeat = threading.Event(), host.ProgressLine.repeat

def noted(line, other):
    repeat(line, other)
    told.set()

host.ProgressLine.repeat = noted

def pytest_configure(config):
    config.told = told
"""


def test_it_is_seen_from_within_a_test_whose_output_is_captured_and_goes_on_in_a_long_silence(
    pytester: pytest.Pytester,
) -> None:
    """By descriptors, which only a process of its own has."""
    pytester.makeconftest(TICKING)
    silence = "        for _ in range(2): request.config.told.clear(); request.config.told.wait(60)\n"
    pytester.makepyfile(SHOWING.replace("    print(", f"{silence}    print("))
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1)
    shown = [line for line in result.outlines if line.startswith("hwperf: screen pair")]
    assert ["1 of 6", "2 of 6"] == [line.removeprefix("hwperf: screen pair ").partition(",")[0] for line in shown]
    assert "the test's own output" not in result.stdout.str()
    result.stdout.fnmatch_lines(["hwperf: ? s so far: screen pair 2 of 6*"])


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


def test_a_line_of_a_terminal_is_cut_to_its_width_and_removed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A longer one would wrap, and the next could not be written over all of it."""
    width = 40
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


def test_the_line_is_removed_when_a_comparison_ends_by_an_error(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written next, as the error, would stand behind it."""

    def fail(_old: object, _new: object, _x: object, _y: object, settings: Any) -> None:
        settings.progress(Progress(stage="screen", pair=1, of=6, test="test_it"))
        raise WorkerError("the process was killed")

    monkeypatch.setattr("pytest_hwperf.gate.models.compare.compare_models", fail)
    pytester.makeconftest(TERMINAL)
    pytester.makepyfile("def test_it(hwperf):\n    hwperf.compare({'old': 'm:f', 'new': 'm:g'}, [[1]])")
    lines = pytester.runpytest_inprocess().outlines
    (shown,) = [place for place, line in enumerate(lines) if "screen pair 1" in line]
    assert not lines[shown + 1].strip()


WAITING = """
import pytest
from pytest_hwperf.plugin.measuring.fresh import waiting

@pytest.mark.parametrize(("role", "total", "seconds"), {rows})
def test_it(request, role, total, seconds):
    with waiting(request.node, role, total) as answered:
        for answers, one in enumerate(seconds, 1):
            answered(answers, one)
"""


def told(pytester: pytest.Pytester, *rows: tuple[str, int, list[float]]) -> list[str]:
    """Return the lines of a run whose tests wait for fresh processes: role, how many, and how long each took."""
    pytester.makepyfile(test_wait=WAITING.format(rows=rows))
    return [line.partition(", test_wait.py")[0].rstrip() for line in pytester.runpytest_inprocess().outlines]


def test_on_a_terminal_one_line_says_what_is_left_of_more_than_two_seconds(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(TERMINAL)
    lines = told(pytester, ("cold", 5, [3.0, 3.0, 0.9, 0.9, 0.9]))
    assert [
        "hwperf: cold start 1 of 5 took 3.00 s, up to 12.0 s left",
        "hwperf: cold start 2 of 5 took 3.00 s, up to 9.00 s left",
    ] == [line for line in lines if "cold start" in line]
    assert "" == lines[lines.index("hwperf: cold start 2 of 5 took 3.00 s, up to 9.00 s left") + 1]


def test_without_a_terminal_only_what_takes_long_is_told(pytester: pytest.Pytester) -> None:
    """Such as processes that compile their model, which write nothing themselves; others are there in a few seconds."""
    lines = told(pytester, ("cold", 5, [14.0]), ("memory", 2, [12.0]), ("run", 2, [11.0]), ("cold", 5, [1.3]))
    assert [
        "hwperf: cold start 1 of 5 took 14.0 s, up to 56.0 s left",
        "hwperf: peak RSS in fresh process 1 of 2 took 12.0 s, up to 12.0 s left",
        "hwperf: measurement in fresh process 1 of 2 took 11.0 s, up to 11.0 s left",
    ] == [line for line in lines if "took" in line]
