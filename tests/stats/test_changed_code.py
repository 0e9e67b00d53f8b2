"""What differs between two versions of a file: its code, and its expected failures."""

import os
import subprocess
import sys

import pytest

from pytest_hwperf.stats.causes.changed_code import (
    MODULE,
    changed_code,
    compared_code,
    is_expected,
    key_of,
    xfails_of_file,
)

WHOLE = {MODULE}
SOURCE = """
LIMIT = 10


def add(x, y=1):
    return x + y


class Sums:
    start = 0

    def total(self, rows):
        return sum(rows, self.start)

    def each(self, rows):
        def one(row):
            return row + 1

        return [one(row) for row in rows]


pick = lambda *row, **more: row[0]
"""


def test_changed_code_is_named() -> None:
    """What can be seen of a function without a call of it is a change of the code around it."""
    table: list[tuple[str, str, set[str], set[str]]] = [
        ("LIMIT = 10", "LIMIT = 10  # rows", set(), set()),
        ("LIMIT = 10\n", "\n\nLIMIT = 10\n", set(), set()),
        ("return x + y", "return y + x", {"add:5"}, {"add:5"}),
        ("return x + y", "total = x + y\n    return total", {"add:5"}, {"add:5"}),
        (
            "LIMIT = 10\n\n\ndef add(x, y=1):\n    return x + y",
            "LIMIT = 10\n\ndef add(x, y=1):\n    return 0",
            {"add:5"},
            {"add:4"},
        ),
        ("return sum(rows, self.start)", "return sum(rows)", {"Sums.total:12"}, {"Sums.total:12"}),
        ("return row + 1", "return row + 1.0", {"Sums.each.<locals>.one:16"}, {"Sums.each.<locals>.one:16"}),
        ("row[0]", "row[1]", {"<lambda>:22"}, {"<lambda>:22"}),
        ("start = 0", "start = 1", {"Sums:9"}, {"Sums:9"}),
        ("start = 0", "start = 0.0", {"Sums:9"}, {"Sums:9"}),
        ("LIMIT = 10", "LIMIT = 20", WHOLE, WHOLE),
        ("y=1", "y=2", WHOLE, WHOLE),
        ("(x, y=1)", "(x, y=1, *more)", WHOLE, WHOLE),
        ("**more", "**rest", WHOLE, WHOLE),
        ("def add", "@staticmethod\ndef add", WHOLE, WHOLE),
        ("    return x + y", '    """Add."""\n    return x + y', WHOLE, WHOLE),
        ("pick = ", "def more():\n    pass\n\n\npick = ", WHOLE, WHOLE),
        ("LIMIT = 10", "LIMIT = (", WHOLE, WHOLE),
        ("LIMIT = 10", "LIMIT = '\\0", WHOLE, WHOLE),
    ]
    for before, after, baseline, candidate in table:
        assert before in SOURCE
        found = changed_code(SOURCE.encode(), SOURCE.replace(before, after).encode())
        assert [baseline, candidate] == [set(keys) for keys in found]


def test_code_that_does_the_same_on_other_lines_has_moved() -> None:
    """Code above the first difference stands where it stood, and what has changed has not only moved."""
    then = "def one():\n    return 1\ndef two():\n    return 2\ndef three():\n    return 3\n"
    table: list[tuple[str, str, set[str], set[str]]] = [
        ("def two", "# more\ndef two", {"<module>", "two:3", "three:5"}, {"<module>", "two:4", "three:6"}),
        ("    return 2", "\n    return 2", {"<module>", "two:3", "three:5"}, {"<module>", "two:3", "three:6"}),
        ("return 2", "x = 2\n    return x", {"<module>", "three:5"}, {"<module>", "three:6"}),
        ("return 3", "return 3  # more", set(), set()),
        ("return 3", "return (", set(), set()),
    ]
    for before, after, baseline, candidate in table:
        _, moved = compared_code(then.encode(), then.replace(before, after).encode())
        assert [baseline, candidate] == [set(keys) for keys in moved]


def test_code_that_is_run_has_the_same_key() -> None:
    """A piece of code of a running process is found by its name and its first line, that of its decorator."""
    space: dict[str, object] = {}
    exec(compile("\n@classmethod\ndef one(cls): pass\n", "it.py", "exec"), space)  # noqa: S102 - the text above
    assert key_of(space["one"].__func__.__code__) == "one:2"  # type: ignore[attr-defined]


def test_the_line_of_a_class_is_no_change_of_it() -> None:
    """From 3.13 on a class keeps its first line, which another comment above it moves."""
    source = b"class A:\n    __firstlineno__ = 1\n    x = 3\n"
    assert (frozenset(), frozenset()) == changed_code(source, b"# A\nclass A:\n    __firstlineno__ = 2\n    x = 3\n")


def test_a_digest_tells_versions_apart_in_any_process() -> None:
    """A set of constants has another order in a process with another hash seed; lines and comments do not count."""
    shown = "import sys\nfrom pytest_hwperf.stats.causes.changed_code import digest_of\n"
    shown += "for one in sys.argv[1:]:\n    exec(one)\n    print(digest_of(f.__code__))"
    first = "def f(x):\n    return x in {'a', 'b', 'c'}"
    same = "def f(x):\n    # a comment\n    return x in {'a', 'b', 'c'}"
    others = [first.replace("'c'", "'d'"), first.replace("in", "not in")]
    digests = [
        subprocess.run(
            [sys.executable, "-c", shown, first, same, *others],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.split()
        for seed in ("1", "2")
    ]
    assert digests[0] == digests[1]
    assert digests[0][0] == digests[0][1]
    assert 3 == len({*digests[0]})


THEN = """
import pytest
slow = pytest.mark.xfail(reason="known")
FAST: bool = True
HURRIED = not FAST
@pytest.mark.xfail(HURRIED, reason="hurried")
def test_hurried(): pass
@pytest.mark.xfail
def test_known(): pass
@slow
class TestOld:
    def test_old(self): pass
@pytest.mark.parametrize("x", [1, pytest.param(2, marks=slow)])
def test_x(x): pass
def test_plain(): pass
"""


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("", "", set()),
        ("def test_plain", "@pytest.mark.xfail(strict=False)\ndef test_plain", {"test_plain"}),
        ("def test_plain", "@slow\ndef test_plain", {"test_plain"}),
        ("def test_plain(): pass", "async def test_plain(): pytest.xfail('now')", {"test_plain"}),
        ("    def test_old", "    @slow\n    def test_old", {"TestOld::test_old"}),
        ("[1,", "[pytest.param(1, marks=slow),", {"test_x"}),
        ("[1,", "[1, 3,", set()),
        ("import pytest", "import pytest\npytestmark = [pytest.mark.xfail(reason='all')]", {""}),
        ("FAST: bool = True", "FAST: bool = False", {"test_hurried"}),  # which the condition comes from
        ("HURRIED = not FAST", "HURRIED = 1", {"test_hurried"}),
        ("import pytest", "import (", set()),
    ],
)
def test_an_xfail_that_is_new_is_named_by_what_it_is_around(old: str, new: str, names: set[str]) -> None:
    assert names == xfails_of_file(THEN.encode(), THEN.replace(old, new, 1).encode()).added


def test_those_that_the_baseline_has_too_are_told_from_new_ones() -> None:
    now = THEN.replace("def test_plain", "@pytest.mark.xfail\ndef test_plain")
    found = xfails_of_file(THEN.encode(), f"{now}@unittest.expectedFailure\ndef test_more(): pass".encode())
    assert {"test_plain", "test_more"} == found.added
    assert {"", "test_hurried", "test_known", "TestOld", "test_x"} == found.kept


def test_a_test_is_expected_to_fail_by_its_own_mark_and_those_around_it() -> None:
    table = [("TestA::test_b[x::y]", True), ("TestA::test_c", False), ("test_d[1]", True), ("test_dd", False)]
    assert [] == [
        (test, expected)
        for test, expected in table
        if not (
            expected == is_expected(test, frozenset({"TestA::test_b", "test_d"})) and is_expected(test, frozenset({""}))
        )
    ]


def test_a_fixture_or_a_hook_may_mark_any_test() -> None:
    assert [] == [
        name
        for name in ["pytest_collection_modifyitems", "TestA::slow"]
        if not (is_expected("test_e", frozenset({name})))
    ]


def test_an_expression_that_is_too_deep_hides_no_xfail() -> None:
    deep = f"X = {' + '.join('1' * 2000)}\n@pytest.mark.xfail\ndef test_plain(): pass"
    assert frozenset({""}) == xfails_of_file(b"", deep.encode()).added
    assert frozenset() == xfails_of_file(deep.encode(), deep.encode()).added
