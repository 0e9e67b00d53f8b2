"""What a host has sent: whether it answers its task, and what makes another host be asked."""

import pytest
from fakes.fleets import answer

from pytest_hwperf.records.errors import SerialisationError
from pytest_hwperf.records.report import HostAnswer, Task, last_lines, why_useless

TASK = Task(kind="arm", number=2, of=3)


def test_an_answer_to_its_task_is_one() -> None:
    given = answer(TASK)
    report = given.read()
    assert "" == why_useless(given, TASK)
    assert report is not None
    assert ("arm", 2, 3) == (report.shards[0].kind, report.shards[0].number, report.shards[0].of)
    assert ("arm 2/3", "arm") == (str(TASK), str(Task(kind="arm")))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (HostAnswer(problem="no space left"), "no space left"),
        (HostAnswer(), "pytest was not started, and it does not say why"),
        (HostAnswer(exit_code=-9), "pytest was killed by signal 9, as by a system that runs out of memory"),
        (HostAnswer(exit_code=-15), "pytest was killed by signal 15"),
        (HostAnswer(exit_code=0), "pytest ended with code 0 and without a report: no word"),
        (
            HostAnswer(exit_code=1, log="\nNo module\x1b named pytest\n"),
            "pytest ended with code 1 and without a report: No",
        ),
        (
            HostAnswer(exit_code=3, log="a\nOSError: No space left"),
            "pytest ended with code 3 and without a report: a; OSE",
        ),
        (HostAnswer(exit_code=2), ""),
        (HostAnswer(exit_code=4), ""),
        (HostAnswer(exit_code=5), ""),
        (HostAnswer(exit_code=0, report="[]"), "what it sent as a report holds no pytest-hwperf report"),
        (answer(Task(kind="arm", number=1, of=3)), "it sent the report of something else"),
        (answer(Task(kind="x86", number=2, of=3)), "it sent the report of something else"),
    ],
)
def test_what_tells_nothing_of_the_task_is_named(given: HostAnswer, why: str) -> None:
    assert why_useless(given, TASK).startswith(why)
    assert bool(why) == bool(why_useless(given, TASK))


def test_the_end_of_a_log_is_one_line_without_control_characters() -> None:
    log = "".join(f"line {number}\n\n" for number in range(20)) + " \x1b[31mred\n"
    assert "line 17; line 18; line 19; " == last_lines(log)[:27]
    assert "\x1b" not in last_lines(log)


def test_a_report_is_read_strictly() -> None:
    with pytest.raises(SerialisationError, match="is not whole JSON: the host runs another version"):
        HostAnswer(exit_code=0, report="{").read()
