"""Files are replaced whole or not at all, and one that cannot be hinders no other."""

import errno
import os
from pathlib import Path

import pytest

from pytest_hwperf.host import files
from pytest_hwperf.host.files import (
    check_writable,
    create_file,
    is_file,
    is_folder,
    leads_out,
    new_folder,
    read_text,
    refused_name,
    replace_file,
    replace_files,
    stat_given,
)
from pytest_hwperf.records.errors import StoreError


def test_new_content_in_new_and_old_folders(tmp_path: Path) -> None:
    contents = {tmp_path / f"{i % 3}" / f"{i}.json": str(i).encode() for i in range(20)}
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "0.json").write_text("old")
    assert replace_files(contents, create_file) == {}
    assert contents == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_what_cannot_be_replaced_is_named_and_hinders_no_other(tmp_path: Path) -> None:
    """By a folder of that name, by a file in place of the folder, by a name that no file can have."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    bad = [tmp_path / "folder", tmp_path / "file" / "x", tmp_path / ("x" * 300)]
    good = tmp_path / "good"
    failed = replace_files(dict.fromkeys([*bad, good], b"new"), create_file)
    assert {path: type(failed[path]) for path in bad} == dict(
        zip(bad, (IsADirectoryError, FileExistsError, OSError), strict=True)
    )
    assert good.read_bytes() == b"new"
    assert {"folder", "file", "good"} == {path.name for path in tmp_path.iterdir()}


def test_none_is_renamed_before_all_are_written(tmp_path: Path) -> None:
    """A killed writer leaves all old files, or some of the new ones whole; the slow part changes nothing."""
    contents = {tmp_path / str(i): b"new" for i in range(9)}
    seen = list[str]()

    def watched(path: Path) -> int:
        seen.extend(entry.name for entry in tmp_path.iterdir() if not entry.name.startswith("."))
        return create_file(path)

    replace_files(contents, watched)
    assert seen == []


def test_files_are_flushed_then_renamed_then_their_folders_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash a renamed file has its content, and what was reported as replaced is there under its name."""
    events = list[tuple[str, int]]()  # what was done to which inode, which a file keeps when it is renamed
    flush, rename = os.fsync, os.replace

    def flushed(descriptor: int) -> None:
        events.append(("flush", os.fstat(descriptor).st_ino))
        flush(descriptor)

    def renamed(old: Path, new: Path) -> None:
        events.append(("rename", Path(old).stat().st_ino))
        rename(old, new)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", renamed)
    files = [tmp_path / folder / name for folder in ("a", "b") for name in ("1", "2")]
    replace_files(dict.fromkeys(files, b"new"), create_file)
    monkeypatch.undo()

    inodes = {path.stat().st_ino for path in files}
    folders = {path.parent.stat().st_ino for path in files}
    assert {("flush", inode) for inode in inodes} == set(events[:4])
    assert {("rename", inode) for inode in inodes} == set(events[4:8])
    assert {("flush", inode) for inode in folders} == set(events[8:])
    assert len(events) == 10


def test_a_folder_that_cannot_be_flushed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are there, but may not be after a crash."""

    def broken(folder: Path) -> None:
        raise OSError(5, os.strerror(5), str(folder))

    monkeypatch.setattr(files, "_flush_folder", broken)
    failed = replace_files({tmp_path / "a": b"new"}, create_file)
    assert [(path.name, error.errno) for path, error in failed.items()] == [("a", 5)]
    assert (tmp_path / "a").read_bytes() == b"new"


def test_one_file_is_replaced_or_keeps_its_content(tmp_path: Path) -> None:
    replace_file(tmp_path / "new" / "file", b"content")
    assert (tmp_path / "new" / "file").read_bytes() == b"content"
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "new", b"content")
    assert ["file"] == [path.name for path in (tmp_path / "new").iterdir()]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    """Root may replace `/dev/null` by a file, for every program of the machine."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(os.devnull)
    for place in (pipe, link):
        for attempt in (check_writable, lambda path: replace_file(path, b"new")):
            with pytest.raises(OSError, match="not a regular file"):
                attempt(place)

    with pytest.raises(IsADirectoryError):
        check_writable(tmp_path)
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert {"pipe", "link"} == {path.name for path in tmp_path.iterdir()}


def test_a_file_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    """A driver that refuses, and a system without the file, say nothing."""
    (tmp_path / "file").write_text(" tsc\n")
    assert ("tsc", "", "") == (read_text(tmp_path / "file"), read_text(tmp_path), read_text(tmp_path / "absent"))


def test_what_may_not_be_seen_is_refused_and_not_taken_for_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("ab")
    link.symlink_to("nowhere")
    found = [stat_given(path, "open it") for path in (file, link, tmp_path / "none", file / "below")]
    assert [2, None, None, None] == [one and one.st_size for one in found]
    assert stat_given(link, "open it", follow=False) is not None

    def closed(path: Path, **_: bool) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(os, "stat", closed)
    with pytest.raises(StoreError, match=r"file cannot be read \(Permission denied\): open it"):
        stat_given(file, "open it", error=StoreError)


def test_what_no_file_can_be_called_is_no_file_and_what_might_be_there_is_not_refused(tmp_path: Path) -> None:
    """Questions of `pathlib` raise an error for such a name."""
    for path in (tmp_path / name for name in ("x" * 300, "x/" * 4000, "null\0")):
        assert refused_name(path)
        assert (False, False) == (is_file(path), is_folder(path))
    (tmp_path / "file").touch()
    assert "" == refused_name(tmp_path / "file") == refused_name(tmp_path / "new") == refused_name(tmp_path / "file/x")
    assert (True, False) == (is_file(tmp_path / "file"), is_folder(tmp_path / "file"))
    assert (False, True) == (is_file(tmp_path), is_folder(tmp_path))


def test_a_place_is_tried_without_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where files have a name from the start, as they have on most systems."""
    (tmp_path / "file").write_text("{}", encoding="utf-8")
    for _ in range(2):
        check_writable(tmp_path / "file")
        assert [("file", "{}")] == [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()]
        with pytest.raises(FileNotFoundError):
            check_writable(tmp_path / "absent" / "watts.json")
        with pytest.raises(OSError, match="File name too long"):
            check_writable(tmp_path / ("x" * 255))
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="Linux")
def test_a_place_is_tried_by_a_file_without_a_name(tmp_path: Path) -> None:
    """Who is killed meanwhile leaves none; a name would change when its folder was changed last."""
    os.utime(tmp_path, (0, 0))
    check_writable(tmp_path / "file")
    assert 0 == tmp_path.stat().st_mtime


def test_a_new_folder_holds_nothing_that_was_there_before(tmp_path: Path) -> None:
    """Links that others have prepared for its files lie elsewhere; nobody else can enter it."""
    made = [new_folder(tmp_path / "logs", "pair-1") for _ in range(2)]
    assert 2 == len(set(made))
    assert all(folder.name.startswith("pair-1-") and [] == list(folder.iterdir()) for folder in made)
    assert {0o700} == {folder.stat().st_mode & 0o777 for folder in made}


def test_a_link_in_a_tree_may_lead_out_of_it(tmp_path: Path) -> None:
    """A path that was given outside of the tree is the user's own choice."""
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (root / "link-within").symlink_to("folder")
    (root / "link-out").symlink_to("../outside")
    within = ("report.json", "folder/report.json", "link-within/report.json", "../outside/report.json", "/dev/stdout")
    leading = ["link-out/report.json", "link-out"]
    assert leading == [path for path in (*within, *leading) if leads_out(root / path, root)]
