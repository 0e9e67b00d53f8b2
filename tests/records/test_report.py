"""Reports: how the compared code is named, shards, and what a host of a fleet has sent."""

from collections import Counter

import pytest
from fakes import gates
from fakes import records as fake
from fakes.fleets import answer

from pytest_hwperf.records.errors import SerialisationError, UsageProblem
from pytest_hwperf.records.report import (
    HostAnswer,
    Shard,
    Task,
    last_lines,
    parse_shard,
    selection_of,
    shard_of,
    why_useless,
)
from pytest_hwperf.records.run import replace

COMMIT = "4f2c1e9d" * 5


def test_the_present_code_has_a_date_and_a_name() -> None:
    now = replace(fake.empty_report(), revision="", revision_date="2026-11-20", changed=False)
    assert "the present code" == now.present_code
    assert "HEAD 4f2c1e9d4f (2026-11-20)" == replace(now, revision=COMMIT).present_code
    assert "working tree on 4f2c1e9d4f (2026-11-20)" == replace(now, revision=COMMIT, changed=True).present_code


def test_the_baseline_is_named_once_for_all_shards() -> None:
    """Stored runs only where they were compared with."""
    (gate,) = gates.report(1).gates
    for against, commit, date, named in (
        ("origin/main", COMMIT, "2026-11-02", "origin/main 4f2c1e9d4f (2026-11-02)"),
        (COMMIT, COMMIT, "2026-11-02", f"{COMMIT} (2026-11-02)"),
        ("../old", "", "", "../old"),
    ):
        shard = replace(gate, against=against, revision=commit, revision_date=date)
        assert (named,) == replace(fake.empty_report(), gates=(shard, shard)).compared_with
    assert ("stored runs of baseline main",) == fake.report().compared_with
    assert () == replace(fake.report(), judgements=()).compared_with


TESTS = [f"tests/test_models.py::test_call[{number}]" for number in range(400)]


def test_a_shard_is_named_by_its_number_and_by_how_many_there_are() -> None:
    texts = ("1/1", "2/4", " 4 / 4 ", "256/256", "")
    assert [(1, 1), (2, 4), (4, 4), (256, 256), None] == [parse_shard(text) for text in texts]
    for text in ("0/4", "5/4", "2", "2/", "/4", "2/4/8", "-1/4", "1.5/4", "two/4", "257/257", "²/4", "1/0"):
        with pytest.raises(UsageProblem, match="such as 2/4"):
            parse_shard(text)
    shard = Shard(number=1, of=3, alpha=0.01, selected=1, selection="", settings={}, exit_code=0)
    for number, of in ((0, 3), (4, 3), (1, 257)):
        with pytest.raises(ValueError, match="no shard has the number"):
            replace(shard, number=number, of=of)


def test_a_test_belongs_to_the_same_shard_everywhere() -> None:
    """The first eight bytes of the SHA-256 of its name, big-endian, modulo the number of shards."""
    assert [3, 1, 2, 1] == [shard_of(f"test_a.py::test_{letter}", 3) for letter in "abcd"]
    assert 1 == shard_of("test_\udc80", 1)


def test_shards_hold_about_as_many_tests_each() -> None:
    """Four times some hundred of four hundred; beyond 133 one in ten thousand lies."""
    counts = Counter(shard_of(name, 4) for name in TESTS)
    assert {1, 2, 3, 4} == counts.keys()
    assert max(counts.values()) <= 133


def test_a_selection_is_the_same_in_any_order() -> None:
    assert selection_of(TESTS) == selection_of(reversed(TESTS))
    assert selection_of(TESTS) != selection_of(TESTS[1:])


TASK = Task(kind="arm", number=2, of=3)


def test_an_answer_to_its_task_is_one() -> None:
    given = answer(TASK)
    report = given.read()
    assert "" == why_useless(given, TASK)
    assert report is not None
    assert ("arm", 2, 3) == (report.shards[0].kind, report.shards[0].number, report.shards[0].of)
    assert ("arm 2/3", "arm") == (str(TASK), str(Task(kind="arm")))


ANSWERS = [
    (HostAnswer(problem="no space left"), "no space left"),
    (HostAnswer(), "pytest was not started, and it does not say why"),
    (HostAnswer(exit_code=-9), "pytest was killed by signal 9, as by a system that runs out of memory"),
    (HostAnswer(exit_code=-15), "pytest was killed by signal 15"),
    (HostAnswer(exit_code=0), "pytest ended with code 0 and without a report: no word"),
    (
        HostAnswer(exit_code=1, log="\nNo module\x1b named x\n"),
        "pytest ended with code 1 and without a report: No",
    ),
    (HostAnswer(exit_code=3, log="a\nOSError: No space left"), "pytest ended with code 3 and without a report: a; OSE"),
    (HostAnswer(exit_code=2), ""),
    (HostAnswer(exit_code=4), ""),
    (HostAnswer(exit_code=5), ""),
    (HostAnswer(exit_code=0, report="[]"), "what it sent as a report holds no pytest-hwperf report"),
    (answer(Task(kind="arm", number=1, of=3)), "it sent the report of something else"),
    (answer(Task(kind="x86", number=2, of=3)), "it sent the report of something else"),
]


def test_what_tells_nothing_of_the_task_is_named() -> None:
    found = [(why, why_useless(given, TASK)) for given, why in ANSWERS]
    assert [] == [(why, told) for why, told in found if not told.startswith(why) or bool(why) != bool(told)]


def test_the_end_of_a_log_is_one_line_without_control_characters() -> None:
    log = "".join(f"line {number}\n\n" for number in range(20)) + " \x1b[31mred\n"
    assert "line 17; line 18; line 19; " == last_lines(log)[:27]
    assert "\x1b" not in last_lines(log)


def test_a_report_is_read_strictly() -> None:
    with pytest.raises(SerialisationError, match="is not whole JSON: the host runs another version"):
        HostAnswer(exit_code=0, report="{").read()
