"""Tests whose outcome depends on where code stands, or on code that runs unseen, are compared; pairs take no time."""

import pytest
from fakes.reruns import COMPARED, REHEARSED, repository

WORK = """
import logging

from fakes.simulated_time import spend


def changed():
    yield spend({units})


async def changed_later():
    return spend({units})


async def changed_items():
    yield spend({units})


def steady():
    return spend(300)


def logged():
    logging.getLogger("work").warning("slow")


def failing():
    raise ValueError
"""
TESTS = """
import inspect
import logging
import sys
import traceback

import pytest
import work
from fakes.simulated_time import spend


def test_generator(hwperf):
    assert work.changed().gi_code.co_consts
    hwperf(spend, 300)


def test_coroutine(hwperf):
    made = work.changed_later()
    assert made.cr_code.co_consts
    made.close()
    hwperf(spend, 300)


def test_async_items(hwperf):
    assert work.changed_items().ag_code.co_consts
    hwperf(spend, 300)


def test_first_line(hwperf):
    hwperf(spend, 300 + work.steady.__code__.co_firstlineno % 2)


def test_lines(hwperf):
    hwperf(spend, 300 + len([*work.steady.__code__.co_lines()]))


def test_getattr(hwperf):
    hwperf(spend, 300 + getattr(work.steady.__code__, "co_firstlineno") % 2)


def test_source_lines(hwperf):
    hwperf(spend, 300 + inspect.getsourcelines(work.steady)[1] % 2)


def test_traceback(hwperf):
    with pytest.raises(ValueError) as caught:
        work.failing()
    hwperf(spend, 300 + caught.value.__traceback__.tb_next.tb_lineno % 2)


def test_printed_traceback(hwperf):
    try:
        work.failing()
    except ValueError:
        hwperf(spend, 300 + len(traceback.format_exc()) % 2)


def test_log(hwperf, caplog):
    work.logged()
    hwperf(spend, 300 + len(caplog.text) % 2)


def test_interpreter(hwperf):
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    made = interpreters.create()
    interpreters.run_string(made, "import sys")
    interpreters.destroy(made)
    hwperf(spend, 300)


def test_signature(hwperf):
    assert not inspect.signature(work.steady).parameters
    hwperf(work.steady)


def test_own_frame(hwperf):
    assert sys._getframe().f_locals
    hwperf(work.steady)


def test_raised(hwperf):
    with pytest.raises(ValueError):
        work.failing()
    hwperf(work.steady)


def test_plain(hwperf):
    hwperf(work.steady)
"""
AWAY = """
import inspect

import work
from fakes.simulated_time import spend


def test_line(hwperf):
    hwperf(spend, 300 + inspect.currentframe().f_lineno % 2)
"""
FILES = {
    "work.py": WORK.format(units=300),
    ".gitignore": "__pycache__/\n",
    "pytest.ini": "[pytest]\npythonpath = .\n",
}
READING = {"first_line", "lines", "getattr", "source_lines", "traceback", "printed_traceback", "log"}
LOOKING = {"generator", "coroutine", "async_items", "interpreter"}
UNTOUCHED = "nothing that it runs has changed"


@pytest.mark.live
@pytest.mark.monitoring
@pytest.mark.usefixtures("quick_pairs", "fakes_in_reach")
def test_code_that_is_looked_at_or_runs_elsewhere_keeps_tests_in(pytester: pytest.Pytester) -> None:
    """A comment moves all code below it. Whoever can read that is compared, and whoever cannot is left out."""
    tests = {f"tests/test_{name}.py": part for name, part in _one_a_file(TESTS).items()}
    project = repository(pytester, {**FILES, **tests, "tests/test_line.py": AWAY})
    project.write({"work.py": f"# more\n{WORK.format(units=301)}"})

    project.run(REHEARSED, "--hwperf-affected")

    found = {one.run.test.partition("::test_")[2]: one.comparisons[0].reason for one in project.report().judgements}
    untouched = ("signature", "own_frame", "raised", "plain")
    expected = dict.fromkeys(READING | LOOKING | {"line"}, COMPARED) | dict.fromkeys(untouched, UNTOUCHED)
    assert expected == found


def _one_a_file(tests: str) -> dict[str, str]:
    """Return a file for each test: what a module names counts for all tests in it."""
    before, *bodies = tests.split("\n\n\ndef test_")
    return {body.partition("(")[0]: f"{before}\n\n\ndef test_{body}\n" for body in bodies}
