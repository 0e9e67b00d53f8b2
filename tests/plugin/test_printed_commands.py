"""Commands that are printed mean what they say when they are typed as they stand, whatever a test is called."""

import subprocess
from pathlib import Path

import pytest
from fakes import records as fake
from fakes.shells import make_programs, words_of
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_hwperf.checkout.trees import sharing
from pytest_hwperf.plugin.reporting.saving import _to_accept
from pytest_hwperf.plugin.session.settings import Settings
from pytest_hwperf.records.text import shell_line, shell_word, visible
from pytest_hwperf.stats.choice.candidates import pairs_of
from pytest_hwperf.stores.json_files import JsonStore

# Of each pair the first is named, and the second only looks like it.
ODD = {
    "star": ("t.py::test[*]", "t.py::test[a]"),
    "question": ("t.py::test[?]", "t.py::test[b]"),
    "brackets": ("t.py::test[[a-c]]", "t.py::test[b]"),
    "quotes": ("""t.py::test['"`]""", "t.py::test[]"),
    "dollar": ("t.py::test[$HOME $(id) !x]", "t.py::test[/root]"),
    "backslash": (r"t.py::test[a\n\\b\]", "t.py::test[a\n\\b]"),
    "dash": ("-x/t.py::test", "x/t.py::test"),
    "lines": ("a\nb\x1b.py::test", "a?b?.py::test"),
    "unseen": ("a\u202eb\xa0c.py::test", "a b c.py::test"),
    "unicode": ("tést.py::test[日本 🙂]", "test.py::test"),
    "colons": ("t.py::A::test[a::b;c&d|e>f]", "t.py::A::test"),
    "no text": (f"a{chr(0xDC80)}.py::test", "a\x80.py::test"),
}


@settings(max_examples=30)
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1))
def test_bash_splits_a_printed_line_into_its_words(words: list[str]) -> None:
    """The line itself holds nothing that a terminal obeys."""
    line = shell_line(words)
    assert visible(line) == line
    assert words == words_of(line)


@pytest.mark.parametrize(("named", "other"), ODD.values(), ids=ODD)
def test_accept_accepts_what_it_names_and_nothing_else(tmp_path: Path, named: str, other: str) -> None:
    """The printed command is typed into bash beside the waiting run of a test whose name is like it."""
    store = JsonStore(tmp_path / "it's [a] $HOME" / ".hwperf")
    store.hold("main", [fake.session(test=named), fake.session(test=other)])
    asked = Settings(store="json", location=str(tmp_path / "it's [a] $HOME" / ".hwperf"), baseline="main")
    (line,) = _to_accept(asked, [named])
    programs = tmp_path / "programs"
    make_programs(programs)
    command = f"PATH={shell_word(str(programs))}:$PATH; {line.partition('normal: ')[2]}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (0, f"accepted as baseline main: {visible(named)}\n") == (done.returncode, done.stdout), done.stderr
    assert [named] == [runs[-1].run.test for runs in store.histories("main", held=False)]
    assert [other] == [runs[-1].run.test for runs in store.histories("main", held=True)]


@pytest.mark.parametrize("name", ["a[1].bin", "a*.bin", "it's.bin", "-x.bin", "a?b", "a $HOME.bin"])
def test_a_shared_file_is_named_itself(tmp_path: Path, name: str) -> None:
    """The option takes globs, and a file's name may look like one."""
    for file in (name, "a1.bin", "axb", "aaa.bin"):
        (tmp_path / file).write_text("")
    (word,) = words_of(sharing([name]))
    assert [tmp_path / name] == [*tmp_path.glob(word.removeprefix("--hwperf-share="))]


def test_scenarios_in_pairs_are_named_themselves() -> None:
    assert ["hwperf", "tradeoffs", "--pairs", "--", "-x/a\nb.py::test"] == words_of(pairs_of(["-x/a\nb.py::test[8]"]))
