"""What Python code opens is noted, and told apart by reading and writing."""

import os
import sys
from pathlib import Path

import pytest

from pytest_hwperf.host.opened_files import WATCHES_FILES, Opened, OpenedFiles, watch


def test_files_are_told_apart_by_reading_and_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `open` and `os.open` tell an audit hook; relative ones are those of the folder at that moment."""
    for name in ("a", "b", "c", "d", "link"):
        (tmp_path / name).touch() if name != "link" else (tmp_path / name).symlink_to(tmp_path / "a")
    opened = OpenedFiles()
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path)
        opened.note("open", ("a", "rb", 0))
    opened.note("open", (os.fsencode(tmp_path / "b"), "w", os.O_WRONLY))
    opened.note("open", (str(tmp_path / "c"), None, os.O_RDWR))
    opened.note("open", (str(tmp_path / "d"), None, os.O_RDONLY))
    opened.note("open", (str(tmp_path / "link"), "r", 0))
    seen = opened.end()

    assert [str(tmp_path / "a"), str(tmp_path / "d")] == [file for file in seen.read if Path(file).parent == tmp_path]
    assert (str(tmp_path / "b"), str(tmp_path / "c")) == seen.written


def test_what_is_of_no_interest_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "m.pyc").touch()
    opened = OpenedFiles()
    for path in (os.__file__, "/dev/null", "/proc/self/maps", str(tmp_path), str(tmp_path / "m.pyc"), "no\0path", 3):
        opened.note("open", (path, "w", 0))
    opened.note("import", ("os",))

    assert () == opened.end().written


def test_nothing_is_noted_after_the_end(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    opened = OpenedFiles()
    opened.end()
    opened.note("open", (str(tmp_path / "a"), "w", 0))

    assert Opened().written == opened.end().written


def test_a_process_is_watched_and_not_those_that_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WATCHES_FILES, "1")
    hooks = list[object]()
    monkeypatch.setattr(sys, "addaudithook", hooks.append)
    found = watch()

    assert [found.note] == hooks
    assert WATCHES_FILES not in os.environ
