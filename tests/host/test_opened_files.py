"""What Python code opens is noted, and told apart by reading and writing."""

import math
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
    assert [str(tmp_path / name) for name in "acd"] == [file for file in seen.read if Path(file).parent == tmp_path]
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


def test_how_paths_are_used_is_noted(tmp_path: Path) -> None:
    """Not what is in memory alone, byte code, or read by who finds modules."""
    opened = OpenedFiles()
    path = str(tmp_path / "a")
    for name in ("there", "moved"):
        (tmp_path / name).touch()
    for event, arguments in (
        ("open", (path, None, os.O_RDWR)),
        ("open", (path, "ab", 0)),
        ("open", (f"{path}+", "a+", 0)),
        ("open", (f"{path}x", None, os.O_RDWR | os.O_CREAT | os.O_EXCL)),
        ("open", ("/dev/shm/x", "r", 0)),  # noqa: S108 - its name
        ("os.rename", ("b", f"{path}p", -1, -1)),
        ("os.listdir", (f"{path}l",)),
        ("os.mkdir", (tmp_path / "m", 511, -1)),
        ("os.remove", (tmp_path / "there", -1)),
        ("os.rename", (str(tmp_path / "moved"), f"{path}p", -1, -1)),
        ("os.setxattr", (f"{path}w", "user.a", b"", 0)),
        ("os.remove", (str(tmp_path / "not there"), -1)),
        ("sqlite3.connect", (f"file:{path}q?mode=ro",)),
        ("sqlite3.connect", (":memory:\0",)),
    ):
        opened.note(event, arguments)
    found = {one.removeprefix(f"{tmp_path}{os.sep}"): uses for one, uses in opened.end().uses.items()}

    expected = {"a": "wra", "a+": "ra", "ax": "w", "/dev/shm/x": "r", "ap": "p", "al": "l", "m": "m"}  # noqa: S108 - above
    expected |= {"there": "p", "aq": "r", "moved": "p", "aw": "w"}
    assert expected == {name: uses for name, uses in found.items() if name in expected or name.startswith("not")}


def test_a_new_file_that_a_package_reads_while_it_is_imported_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Wherever it lies; byte code is made anew by whoever imports, and what a test reads is looked at elsewhere."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    names = [f"{tmp_path}/{name}" for name in ("lib/cache.json", "lib/code.pyc", "of_test.json")]
    Path(tmp_path, "lib").mkdir()
    for name in names:
        Path(name).write_text("1")
    made, kept = Path(names[0]).stat().st_ctime, list[tuple[str, ...]]()
    for since in (made, made + 1.0, math.inf):
        opened = OpenedFiles(since)
        reads = f"for name in {names[:2]}:\n    note('open', (name, 'r', 0))"
        exec(compile(reads, f"{tmp_path}/lib/package.py", "exec"), {"note": opened.note})  # noqa: S102 - as an import does
        opened.note("open", (names[2], "r", 0))
        kept.append(opened.end().kept)
    assert [(names[0],), (), ()] == kept


def test_what_is_open_is_noted(tmp_path: Path) -> None:
    """Of a file whose opening was not seen, which may both be read and written."""
    (tmp_path / "a").write_text("1")
    opened = OpenedFiles()
    with (tmp_path / "a").open(), (tmp_path / "log").open("a"), (tmp_path / "table").open("w+"):
        opened.look()
    assert {"a": "r", "log": "a", "table": "rw"} == {
        Path(path).name: uses for path, uses in opened.end().uses.items() if Path(path).parent == tmp_path
    }


def test_what_either_process_has_used_is_joined() -> None:
    one, other = Opened(read=("a",), uses={"a": "r"}), Opened(read=("a", "b"), written=("c",), uses={"a": "s"})
    assert Opened(read=("a", "b"), written=("c",), uses={"a": "rs"}) == one.joined(other)


def test_a_process_is_watched_and_not_those_that_it_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What installed packages ask by themselves is not noted, and functions stay what they are."""
    monkeypatch.setenv(WATCHES_FILES, "0.0")
    hooks, stat = list[object](), os.stat
    monkeypatch.setattr(sys, "addaudithook", hooks.append)
    for name in ("stat", "lstat", "access", "readlink", "fspath", "open"):
        monkeypatch.setattr(os, name, getattr(os, name))
    found = watch()
    compile_at = f"{os.path.dirname(os.__file__)}/installed.py"  # noqa: PTH120 - of a module
    exec(compile(f"import os; os.stat({str(tmp_path)!r})", compile_at, "exec"), {})  # noqa: S102 - as an import does
    (tmp_path / "a").exists()
    assert os.path.join(tmp_path, "b") == os.fspath(f"{tmp_path}/b")  # noqa: PTH118 - which makes texts of paths too

    folder = os.open(tmp_path, os.O_RDONLY)
    for name in ("c", "d"):
        os.close(os.open(name, os.O_CREAT, dir_fd=folder))
    os.stat("d", dir_fd=folder)
    os.close(folder)
    assert [found.note] == hooks
    assert WATCHES_FILES not in os.environ
    assert os.stat in os.supports_follow_symlinks
    assert (stat, hash(stat)) == (os.stat, hash(os.stat))
    uses = found.end().uses
    assert ["f", "n", "f", "f", "fs"] == [
        uses.get(str(path)) for path in (tmp_path, *(tmp_path / one for one in "abcd"))
    ]
