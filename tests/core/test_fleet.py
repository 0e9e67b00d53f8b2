"""What a host has sent: whether it answers its task, and what makes another host be asked."""

import pytest
from fakes.fleets import answer

from pytest_hwperf.core.errors import SerialisationError
from pytest_hwperf.core.fleet import Answer, Task, why_useless

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
        (Answer(problem="no space left"), "no space left"),
        (Answer(), "pytest was killed by signal 0"),
        (Answer(exit_code=-9), "pytest was killed by signal 9"),
        (Answer(exit_code=0), "pytest has written no report"),
        (Answer(exit_code=1), "pytest has written no report"),
        (Answer(exit_code=4), ""),
        (Answer(exit_code=0, report="[]"), "what it sent as a report holds no pytest-hwperf report"),
        (answer(Task(kind="arm", number=1, of=3)), "it sent the report of something else"),
        (answer(Task(kind="x86", number=2, of=3)), "it sent the report of something else"),
    ],
)
def test_what_tells_nothing_of_the_task_is_named(given: Answer, why: str) -> None:
    assert why_useless(given, TASK).startswith(why)
    assert bool(why) == bool(why_useless(given, TASK))


def test_a_report_is_read_strictly() -> None:
    with pytest.raises(SerialisationError, match="is not whole JSON: the host runs another version"):
        Answer(exit_code=0, report="{").read()
