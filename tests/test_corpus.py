"""The corpus of real changes: its rows, and what its recorded builds come to."""

import argparse
import re
from pathlib import Path

import pytest

from benchmarks.corpus.__main__ import turns, ways
from benchmarks.corpus.checkouts import Checkout
from benchmarks.corpus.rows import SMALLEST, Row, read
from benchmarks.corpus.tables import by_rule, in_short, is_right, recorded
from benchmarks.projects import commit

ROOT = Path(__file__).parents[1]
ROWS = {row.name: row for row in read()}


def test_rows_are_commits_whose_changes_were_timed() -> None:
    for row in ROWS.values():
        compile(row.code, row.name, "exec")
        assert "def call():" in row.code
        if row.base_with:
            assert {one.partition("==")[0] for one in row.base_with} <= {one.partition("==")[0] for one in row.needs}
        else:
            assert [] == [one for one in (row.base, row.head) if not re.fullmatch(r"[0-9a-f]{40}", one)]
            assert row.repository.startswith("https://github.com/")
            assert (row.name, row.is_changed) == (row.name, row.change >= SMALLEST)
            assert (row.name, row.is_changed) == (row.name, bool(row.functions))
            assert row.expected == ("equal" if not row.is_changed else "slower" if row.ratio > 1 else "faster")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[row]]\nname = 'a'\ncode = ''\nspeed = 1\n", "rows.toml: Object contains unknown field `speed`"),
        ("[[row]]\ncode = ''\n", "rows.toml: Object missing required field `name`"),
        ("[[row]]\nname = 'a'\ncode = ''\n" * 2, "two rows are called a"),
        ("rows = 1\n", "rows.toml: 'row'"),
    ],
)
def test_a_row_of_another_form_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "rows.toml").write_text(text)
    with pytest.raises(ValueError, match=re.escape(why)):
        read(tmp_path)


def test_a_named_function_is_right_by_the_end_of_its_name() -> None:
    row = Row(name="", code="", functions=("Version.parse", "_key"))
    named = ("Version.parse", "a.Version.parse", "Version.parse.<locals>.inner", "_key", "Version._key")
    others = ("parse", "LegacyVersion.parse", "_keys", "", "split (a.py:3), changed, within _key (b.py:9)")
    several = "split (a/text.py:3), _key (b.py:9), changed, within call"
    assert [*named, several] == [name for name in (*named, several, *others) if is_right(row, name)]


def test_builds_are_counted_where_they_gave_a_verdict() -> None:
    """An alarm where nothing got slower is false; what gave no verdict is neither found nor missed."""
    rows = {
        "slow": Row(name="slow", code="", expected="slower", ratio=1.4, functions=("f",)),
        "same": Row(name="same", code="", expected="equal"),
    }
    builds = [
        {"row": "slow", "way": "slower", "alarms": {"default": ["call"]}, "named": "f", "seconds": 20.0},
        {"row": "slow", "way": "slower", "alarms": {"default": ["call"]}, "named": "g", "seconds": 30.0},
        {"row": "slow", "way": "slower", "alarms": {"default": []}, "named": "", "seconds": 40.0},
        {"row": "slow", "way": "slower", "alarms": {"default": []}, "error": "no verdict", "seconds": 1.0},
        {"row": "slow", "way": "faster", "alarms": {"default": []}, "seconds": 30.0},
        {"row": "same", "way": "equal", "alarms": {"default": ["call"]}, "seconds": 30.0},
        {"row": "same", "way": "equal", "alarms": {"default": []}, "seconds": 30.0},
        {"row": "gone", "way": "equal", "alarms": {"default": ["call"]}, "seconds": 30.0},
    ]
    found = [*by_rule(rows, [{"tool": "ours", **one} for one in builds])]
    shares = ("1 of 3 (0.8 .. 90.6 %)", "2 of 3 (9.4 .. 99.2 %)", "1 of 2", "1")
    assert [("**pytest-hwperf**", *shares, "30")] == found


def test_each_tool_judges_a_change_as_a_slowdown() -> None:
    """This package judges the other direction too, and upgrades alone."""
    rows = [Row(name="", code="", expected=expected) for expected in ("slower", "faster", "equal", "")]
    upgrade = Row(name="", code="", base_with=("a==1",), needs=("a==2",))
    assert [("slower", "faster"), ("slower", "faster"), ("equal",), ("",)] == [ways(row, "ours") for row in rows]
    assert [("slower",), ("slower",), ("equal",), ("",)] == [ways(row, "asv") for row in rows]
    assert [("",), ()] == [ways(upgrade, "ours"), ways(upgrade, "pyperf")]


def test_the_later_commit_is_the_baseline_of_the_other_direction(tmp_path: Path) -> None:
    """Both have the files of the tools, and nothing of the commit that is not theirs."""
    mirror = tmp_path / "owner+name" / "repo"
    first = commit(mirror, {"work.py": "SPEED = 1\n", "gone.py": ""})
    (mirror / "gone.py").unlink()
    second = commit(mirror, {"work.py": "SPEED = 2\n"})
    code = "import work\n\n\ndef call():\n    return work.SPEED\n"
    row = Row(name="a row", code=code, expected="faster", repository="owner/name", base=first, head=second)
    for backwards, speeds in ((False, [1, 2]), (True, [2, 1])):
        made = Checkout(row, tmp_path / "work", tmp_path, backwards=backwards)
        trees = [made.git("show", f"{side}:work.py") for side in ("HEAD~1", "HEAD")]
        assert [f"SPEED = {speed}" for speed in speeds] == trees
        listed = [made.git("ls-tree", "-r", "--name-only", side).split() for side in ("HEAD~1", "HEAD")]
        assert [speed == 1 for speed in speeds] == ["gone.py" in files for files in listed]
        assert all("measured_here/test_work.py" in files for files in listed)
        assert "hwperf(CALLS['call'])" in made.git("show", "HEAD:measured_here/test_work.py")


def test_the_readme_has_what_was_recorded() -> None:
    """The rows of its table; how often the right function was named; and this package on the rows of the others."""
    idle = recorded()["idle"]
    others = {one["row"] for one in idle if one["tool"] != "ours"}
    alike = [one for one in idle if one["tool"] == "ours" and one["way"] != "faster"]
    (every,), (same,) = ([*by_rule(ROWS, builds)] for builds in (alike, [one for one in alike if one["row"] in others]))
    right, of = every[3].split(" of ")
    unchanged, bound = re.findall(r"of (\d+) .*\.\. ([\d.]+) %", every[1])[0]
    alarms, found = (cell.partition(" (")[0] for cell in same[1:3])
    later = [name for name, row in ROWS.items() if row.draw > 1]
    (late,) = by_rule(ROWS, [one for one in idle if one["row"] in later])
    lines = [
        *in_short(ROWS, recorded()),
        f"named the right function in {right} of {of} slowdowns on the idle machine",
        f"judged {unchanged} pairs of commits without a change",
        f"0 of {unchanged} still allows a rate of {bound} %",
        f"judged {len(others)} pairs, drawn at random",
        f"on these hwperf raised {alarms} false alarms and found {found}",
        f"{len(later)} of the pairs were drawn after its rules were fixed",
        f"it found {late[2].partition(' (')[0]} slowdowns, named {late[3].partition(' ')[0]} right, ",
        f"and raised {late[1].partition(' (')[0]} false alarms",
    ]
    read_me = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [] == [line for line in lines if line not in read_me]


def test_a_sample_is_always_the_same_and_the_faster_direction_comes_last() -> None:
    asked = argparse.Namespace(only=[], draw=None, sample=40, tool=["ours", "asv"], equal=1)
    made = [*turns(asked)]
    assert made == [*turns(asked)]
    assert 40 == len({turn["row"] for turn in made})
    assert [turn for turn in made if turn["way"] == "faster"] == made[80:]
    assert {"ours"} == {turn["tool"] for turn in made[80:]}
