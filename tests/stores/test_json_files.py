"""Baselines survive killed writers, full disks and careless merges; what is damaged is named."""

import errno
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import filelock
import pytest
from fakes import records as fake
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_hwperf.host.files import create_file, replace_file
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.run import StoredRun, replace
from pytest_hwperf.stats.stored.history import Annotation
from pytest_hwperf.stores import baseline_folder, signed_lines
from pytest_hwperf.stores.json_files import JsonStore
from pytest_hwperf.stores.store import Store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "baselines"


def load(store: Store, test: str = fake.TEST, label: str = "") -> tuple[StoredRun, ...]:
    return store.load("main", fake.machine(), test, label)


def medians(store: Store) -> list[float]:
    return [session.figures[0].estimate.value for session in load(store)]


def save(store: Store, session: StoredRun) -> Path:
    """Save one session and return its file; raise what kept it from being stored."""
    return stored(store.save("main", [session]))


def hold(store: Store, session: StoredRun) -> Path:
    """Hold one session in the same way."""
    return stored(store.hold("main", [session]))


def stored(answers: Sequence[str | StoreError]) -> Path:
    (answer,) = answers
    if isinstance(answer, StoreError):
        raise answer
    return Path(answer)


def one_file(root: Path) -> Path:
    """Save one session and return its file."""
    return save(JsonStore(root), fake.session())


def test_place_tells_baseline_machine_and_test(root: Path) -> None:
    path = save(JsonStore(root), fake.session())
    name = "tests-test_iris-py-test_classifier-6ba0abecf4b8.jsonl"
    assert path == root / "main" / fake.machine().fingerprint / name


def test_tests_have_files_of_their_own_whatever_their_ids_hold() -> None:
    """Slugs may agree, and an id may hold what no file system takes: separators, 300 letters, lone surrogates."""
    alike = [("a/b", ""), ("a-b", ""), ("a", "b"), ("a b", ""), ("a", "b/c"), ("a", "b-c")]
    assert 6 == len({baseline_folder.file_name(test, label) for test, label in alike})
    names = [baseline_folder.file_name(test, "") for test in ("x" * 300, "../../etc", "é\ud800[\n]", "")]
    assert all(len(name) <= 99 and name.isascii() and "/" not in name and ".." not in name for name in names)


def test_file_is_a_heading_and_a_line_for_each_run(root: Path) -> None:
    """A diff shows which run was added, and the digest."""
    path = one_file(root)
    before = path.read_text().splitlines()
    save(JsonStore(root), fake.session(median_s=2.0))
    after = path.read_text().splitlines()
    heading, run = map(json.loads, before)
    assert (len(before), len(after)) == (2, 3)
    assert before[1] == after[1]
    assert path.read_text().endswith("}\n")
    assert {"what": "pytest-hwperf baseline", "schema": 2, "digest": heading["digest"]} == heading
    assert (run["run"]["test"], run["run"]["label"]) == (fake.TEST, "")
    assert run["run"]["samples"][0]["values"] == {"bits": "1101"}


@settings(max_examples=50)
@given(st.lists(st.text('{}[]",:\\\n\r\x85\u2028\ud800é', max_size=9), min_size=4, max_size=4))
def test_no_text_ends_a_line(words: list[str]) -> None:
    test, label, key, value = words
    sessions = [fake.session(test=test, label=label, median_s=median) for median in (1.0, 2.0)]
    odd = [replace(one, run=replace(one.run, context={key: value, "runs": "["})) for one in sessions]
    path = Path(baseline_folder.place(odd[0].run))
    assert odd == [*baseline_folder.parse(path, baseline_folder.render(odd))]


def test_another_writers_file_is_noticed(root: Path) -> None:
    """Even one of the same name, inode, length and time: what is kept in memory answers for the same bytes only."""
    path = one_file(root)
    store = JsonStore(root)
    first, before = load(store), path.stat()
    other = fake.session(revision="4f2c1e8")
    path.write_bytes(save(JsonStore(root.parent / "other"), other).read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    now = path.stat()
    assert (before.st_ino, before.st_size, before.st_mtime_ns) == (now.st_ino, now.st_size, now.st_mtime_ns)
    assert (first, load(store)) == ((fake.session(),), (other,))
    save(store, fake.session())
    assert load(store) == (other, fake.session())


def test_one_file_that_cannot_be_used_hinders_no_other(root: Path) -> None:
    """One is damaged, the folder of one machine is a file, one meets a full disk; each is named in its place."""
    store = JsonStore(root)
    damaged = save(store, fake.session(test="damaged"))
    damaged.write_text("{")
    (root / "main" / fake.machine(cores=8).fingerprint).write_text("")

    def full_for_one(path: Path) -> int:
        return (full if "-full-" in path.name or path.name.startswith(".full-") else create_file)(path)

    sessions = [fake.session(test=test) for test in ("first", "damaged", "full", "last")]
    answers = JsonStore(root, create=full_for_one).save("main", [*sessions, fake.session(at=fake.machine(cores=8))])
    assert [isinstance(answer, str) for answer in answers] == [True, False, False, True, False]
    reported = [str(answer) for answer in answers if isinstance(answer, StoreError)]
    for one, problem in zip(reported, ("is not whole JSON", "No space left on device", "File exists"), strict=True):
        assert one.startswith(str(root))
        assert problem in one
    assert [len(load(store, test)) for test in ("first", "full", "last")] == [1, 0, 1]
    assert damaged.read_text() == "{"


def resign(path: Path, edit: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change the lines of a file, the heading among them, and make the digest fit again."""
    plain = [json.loads(line) for line in path.read_text().splitlines()]
    edit(plain)
    heading, *lines = plain
    texts = [json.dumps(line).encode() for line in lines]
    heading["digest"] = json.loads(signed_lines.sign(texts))["digest"]
    path.write_bytes(b"\n".join([json.dumps(heading).encode(), *texts]))


def instead(put: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return a damage that removes the file and puts something else in its place."""

    def damage(path: Path) -> None:
        path.unlink()
        put(path)

    return damage


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (
        lambda path: os.truncate(path, 60),
        r"is not whole JSON.*: restore it with `git -C .* checkout HEAD -- ",
    ),
    "a line lost": (lambda path: path.write_text(path.read_text().partition("\n")[0]), "edited by hand or half"),
    "truncated later": (lambda path: os.truncate(path, path.stat().st_size - 9), "edited by hand or half merged"),
    "empty": (lambda path: path.write_text(""), "is not whole JSON"),
    "merge conflict": (
        lambda path: path.write_text(f"<<<<<<< HEAD\n{path.read_text()}=======\n{{}}\n>>>>>>> topic\n"),
        r"half merged .*: two branches have saved runs, HEAD and topic\. Keep those of HEAD with `git -C ",
    ),
    "not text": (lambda path: path.write_bytes(b"\xff\x00\x80"), "is not whole JSON"),
    "endlessly nested": (lambda path: path.write_text("[" * 100_000), "is not whole JSON"),
    "foreign": (lambda path: path.write_text('{"benchmarks": []}'), "holds no pytest-hwperf baseline"),
    "foreign list": (lambda path: path.write_text("[]"), "holds no pytest-hwperf baseline: restore"),
    "newer": (
        lambda path: resign(path, lambda plain: plain[0].update(schema=3, more=1)),
        r"was written by a newer pytest-hwperf \(schema 3, this one reads 2\): upgrade pytest-hwperf",
    ),
    "earlier": (
        lambda path: resign(path, lambda plain: plain[0].update(schema=1)),
        r"was written by an earlier .* pytest --hwperf-save$",
    ),
    "no schema": (lambda path: resign(path, lambda plain: plain[0].pop("schema")), "holds no pytest-hwperf baseline"),
    "more fields": (
        lambda path: resign(path, lambda plain: plain[0].update(more=1)),
        r"holds no valid pytest-hwperf baseline \(Heading: Object contains unknown field `more`\): restore it",
    ),
    "edited": (lambda path: path.write_text(path.read_text().replace("0.00631", "0.009")), "edited by hand"),
    "not a number": (lambda path: path.write_text(path.read_text().replace("0.00631", "NaN")), "edited by hand"),
    "two merged by half": (
        lambda path: path.write_text(path.read_text() + path.read_text()[:150]),
        "is not whole JSON|edited by hand or half merged",
    ),
    "no runs": (lambda path: resign(path, lambda plain: plain.__delitem__(slice(1, None))), "holds no run"),
    "runs of numbers": (
        lambda path: resign(path, lambda plain: plain.append(5)),  # type: ignore[arg-type] # the damage
        r"holds no valid run \(StoredRun: Expected `object`, got `int`\)",
    ),
    "another record": (
        lambda path: resign(path, lambda plain: plain[1]["run"].pop("context")),
        r"holds no valid run \(StoredRun: Object missing required field `context` - at `\$.run`\)",
    ),
    "another test's": (
        lambda path: resign(path, lambda plain: plain[1]["run"].update(test="x")),
        r"holds what belongs at .*/x-.*: move it",
    ),
    "link to nowhere": (instead(lambda path: path.symlink_to("gone")), "cannot be read"),
    "link to itself": (instead(lambda path: path.symlink_to(path.name)), "cannot be read"),
    "link that leaves": (instead(lambda path: path.symlink_to("/etc/hosts")), r"leaves .* through a link"),
    "folder": (instead(lambda path: path.mkdir()), "not a regular file"),
    "huge": (lambda path: os.truncate(path, 51_000_000), "larger than 50 MB"),
}
if sys.platform != "win32":
    import resource

    DAMAGES["pipe"] = instead(os.mkfifo), "not a regular file"


def test_damage_is_named_and_never_skipped_or_overwritten(tmp_path: Path) -> None:
    """By each road to the file: the check before measuring, loading, saving, accepting."""
    for number, (damage, problem) in enumerate(DAMAGES.values()):
        refused_by_each_road(tmp_path / str(number), damage, problem)


def refused_by_each_road(root: Path, damage: Callable[[Path], object], problem: str) -> None:
    store = JsonStore(root)
    path = one_file(root)
    hold(store, fake.session(median_s=2.0))
    damage(path)
    before = os.lstat(path)
    held = sorted((root / ".held").rglob("*.jsonl"))
    for call in (
        lambda: store.check("main", writing=False),
        lambda: store.check("main", writing=True),
        lambda: load(store),
        lambda: store.machines("main", fake.TEST, ""),
        lambda: store.newest("main"),
        lambda: save(store, fake.session()),
        lambda: store.accept("main", "*"),
    ):
        with pytest.raises(StoreError, match=problem) as raised:
            call()
        assert str(raised.value).startswith(str(path))
        assert "\n" not in str(raised.value)
    assert (before.st_ino, before.st_mtime_ns) == (os.lstat(path).st_ino, os.lstat(path).st_mtime_ns)
    assert held == sorted((root / ".held").rglob("*.jsonl"))


def test_a_damaged_file_of_held_runs_is_found_before_measuring_is_left_and_hinders_no_saving(root: Path) -> None:
    store = JsonStore(root)
    held = hold(store, fake.session())
    held.write_text("{")
    store.check("main", writing=False)
    with pytest.raises(StoreError, match=r"\.held/.* is not whole JSON"):
        store.check("main", writing=True)
    save(JsonStore(root), fake.session())
    assert (fake.session(),) == load(JsonStore(root))
    assert "{" == held.read_text()


def test_file_of_another_machine_is_refused_in_this_ones_folder(root: Path) -> None:
    """Copying a folder is not how a baseline moves to another machine."""
    path = one_file(root)
    other = root / "main" / fake.machine(cores=8).fingerprint / path.name
    other.parent.mkdir()
    other.write_bytes(path.read_bytes())
    with pytest.raises(StoreError, match="holds what belongs at"):
        JsonStore(root).check("main", writing=False)


def test_line_ends_are_no_damage(tmp_path: Path) -> None:
    """Version control may change them; what is added then has its own."""
    for end in (b"\r\n", b"\n\n"):
        root = tmp_path / end.hex()
        path = one_file(root)
        path.write_bytes(path.read_bytes().replace(b"\n", end))
        JsonStore(root).check("main", writing=False)
        assert medians(JsonStore(root)) == [0.00631]
        save(JsonStore(root), fake.session(median_s=2.0))
        assert medians(JsonStore(root)) == [0.00631, 2.0]


def test_a_file_in_place_of_a_folder_is_refused(root: Path) -> None:
    root.write_text("")
    for store in (JsonStore(root), JsonStore(root / "deeper")):
        for writing in (True, False):
            with pytest.raises(StoreError, match=r"baselines is not a folder: choose another place for baselines"):
                store.check("main", writing=writing)
    with pytest.raises(StoreError, match="cannot be written to"):
        save(JsonStore(root), fake.session())
    root.unlink()
    root.mkdir()
    (root / "main").write_text("")
    with pytest.raises(StoreError, match=r"main cannot be listed \(Not a directory\): make it a readable folder"):
        JsonStore(root).check("main", writing=False)


def test_writing_through_a_link_that_leaves_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    root.mkdir()
    (root / "main").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=r"leaves .* through a link"):
        save(JsonStore(root), fake.session())


def test_a_link_within_the_root_and_one_that_is_the_root_are_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    root.symlink_to(tmp_path / "shared")
    one_file(root)
    (root / "next").symlink_to("main")
    assert len(JsonStore(root).load("next", fake.machine(), fake.TEST, "")) == 1


def full(path: Path) -> int:
    """Create a file on a full disk: it appears, but takes no byte."""
    path.touch()
    return os.open("/dev/full", os.O_WRONLY)


def test_check_for_writing_leaves_nothing(root: Path) -> None:
    JsonStore(root).check("main", writing=True)
    assert list(root.parent.iterdir()) == []


def test_a_full_disk_leaves_the_earlier_sessions_and_those_that_are_held(root: Path) -> None:
    path = one_file(root)
    held = hold(JsonStore(root), fake.session(median_s=2.0))
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"cannot be written \(No space left on device\): what was there is intact"):
        save(JsonStore(root, create=full), fake.session(median_s=3.0))
    with pytest.raises(StoreError, match="No space left on device"):
        JsonStore(root, create=full).accept("main", "*")
    assert held.exists()
    assert before == path.read_bytes()
    assert [path] == list(path.parent.iterdir())


def test_baseline_format_obey_the_umask(root: Path) -> None:
    """Colleagues read them too: the 0600 of temporary files would lock them out."""
    previous = os.umask(0o022)
    try:
        mode = one_file(root).stat().st_mode & 0o777
    finally:
        os.umask(previous)
    assert mode == 0o644


def test_leftovers_are_ignored_and_swept_up(root: Path) -> None:
    """Of baselines, of what git is told, and of the trial whether the folder can be written to."""
    path = one_file(root)
    ends = ".0a1b2c3d.tmp"
    names = ("..gitignore", "..gitattributes", ".probe")
    leftovers = [path.with_name(f".{path.name}{ends}"), *(root / f"{name}{ends}" for name in names)]
    for leftover in leftovers:
        leftover.write_text('{"half')
    store = JsonStore(root)
    store.check("main", writing=False)
    assert medians(store) == [0.00631]
    assert all(leftover.exists() for leftover in leftovers)  # a reader writes nothing, not even this
    store.check("main", writing=True)
    assert [] == [leftover for leftover in leftovers if leftover.exists()]


def test_nothing_is_written_without_the_lock(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds it sweeps up, and would take another's file for that of a killed writer."""
    held = []

    def written(path: Path, content: bytes) -> None:
        with pytest.raises(filelock.Timeout), filelock.FileLock(root / ".lock", timeout=0):
            pass
        held.append(path.name)
        replace_file(path, content)

    monkeypatch.setattr(baseline_folder, "replace_file", written)
    one_file(root)
    assert [".gitignore", ".gitattributes"] == held


def test_folder_tells_git_what_is_no_baseline_unless_its_user_has(root: Path) -> None:
    one_file(root)
    assert (root / ".gitignore").read_text().splitlines()[1:] == ["/.held/", "/.lock", "*.tmp"]
    assert ["*.jsonl merge=union"] == (root / ".gitattributes").read_text().splitlines()[1:]
    for name in (".gitignore", ".gitattributes"):
        (root / name).write_text("mine")
    save(JsonStore(root), fake.session(median_s=2.0))
    assert ["mine", "mine"] == [(root / name).read_text() for name in (".gitignore", ".gitattributes")]


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of the size of files there")
def test_a_full_disk_leaves_no_empty_gitignore(root: Path) -> None:
    """It would never be written again, and held runs would be committed."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # no file can hold a byte
    try:
        with pytest.raises(StoreError, match="cannot be written"):
            one_file(root)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [] == [path.name for path in root.iterdir() if path.name != ".lock"]
    one_file(root)
    assert "/.held/" in (root / ".gitignore").read_text()


def test_what_is_said_of_a_store_that_cannot_be_written_fits_the_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, remedy in ((errno.ENOSPC, "free some space"), (errno.EROFS, "make it writable")):

        def refused(_: Path, error: int = error) -> None:
            raise OSError(error, os.strerror(error))

        monkeypatch.setattr(baseline_folder, "check_writable", refused)
        JsonStore(root).check("main", writing=False)
        with pytest.raises(StoreError, match=rf"{os.strerror(error)}\): {remedy}, or choose another place"):
            JsonStore(root).check("main", writing=True)


def test_a_lock_that_is_never_given_back_is_named(root: Path) -> None:
    root.mkdir()
    with (
        filelock.FileLock(root / ".lock"),
        pytest.raises(StoreError, match=r"\.lock is held by another process for over 0 s: wait for it or end it"),
    ):
        save(JsonStore(root, patience_s=0), fake.session())


def test_an_interrupted_save_leaves_the_old_file(root: Path) -> None:
    """Ctrl-C while the file is being created."""
    path = one_file(root)
    before = path.read_bytes()

    def interrupted(path: Path) -> int:
        os.close(create_file(path))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save(JsonStore(root, create=interrupted), fake.session(median_s=2.0))
    assert before == path.read_bytes()
    assert [path] == list(path.parent.iterdir())
    assert load(JsonStore(root)) == (fake.session(),)
    assert save(JsonStore(root), fake.session(median_s=2.0)) == path  # the lock was given back


def test_what_is_saved_can_be_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file never grows beyond what is read: older runs lose their values first, then they go."""
    many = fake.sample("accuracy", [0.0, 1.0] * 2_000, per="example", source="labels")
    large = [replace(fake.session(median_s=n), run=fake.run(samples=(many,))) for n in range(1, 13)]
    monkeypatch.setattr(baseline_folder, "LARGEST", 20_000)
    for session in large:
        save(JsonStore(root), session)
    found = load(JsonStore(root))
    assert found[-1] == large[-1]
    assert [12, 11, 10] == [one.figures[0].estimate.value for one in reversed(found)][:3]
    assert found[0].run.samples == ()
    assert len(found) < len(large)


def test_a_run_that_no_file_takes_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline_folder, "LARGEST", 600)
    with pytest.raises(StoreError, match=r"takes 0\.0 MB, a baseline at most 0\.0006 MB: give fewer examples"):
        save(JsonStore(root), fake.session())
    assert load(JsonStore(root)) == ()


NOTE = Annotation(revision="a" * 40, text="new runner", noted_at=fake.STARTED)


NO_NOTE = r"holds a line that is no note \(.*\): remove that line"
DAMAGED_NOTES: list[tuple[Callable[[Path], object], str]] = [
    (lambda path: path.write_text("{"), NO_NOTE),
    (lambda path: path.write_text('{"revision": 1}'), NO_NOTE),
    (instead(Path.mkdir), r"cannot be read \(.*\): fix that, or delete it"),
    (instead(lambda path: path.symlink_to("/etc/hosts")), r"leaves .* through a link"),
]


def test_damaged_notes_are_named_and_not_overwritten(tmp_path: Path) -> None:
    for number, (damage, problem) in enumerate(DAMAGED_NOTES):
        store = JsonStore(tmp_path / str(number))
        store.annotate(NOTE)
        (path,) = (tmp_path / str(number)).glob(".*.jsonl")
        damage(path)
        for call in (store.annotations, partial(store.annotate, replace(NOTE, text="other"))):
            with pytest.raises(StoreError, match=problem) as raised:
                call()
            assert str(raised.value).startswith(str(path))


def test_notes_are_a_line_each_and_no_baseline(root: Path) -> None:
    """They are to be committed, and merged by version control."""
    store = JsonStore(root)
    store.annotate(NOTE)
    store.annotate(replace(NOTE, text="other"))
    assert 2 == len((root / ".annotations.jsonl").read_text(encoding="utf-8").splitlines())
    assert store.baselines() == ()
    assert ".annotations.jsonl" not in (root / ".gitignore").read_text(encoding="utf-8")


def test_a_run_of_an_earlier_version_is_not_there_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line lacks a field that has a default by now."""
    with monkeypatch.context() as earlier:
        earlier.setattr(
            baseline_folder, "to_json", lambda record, **options: to_json(record, **options).replace(b',"kind":""', b"")
        )
        (file,) = JsonStore(tmp_path).save("main", [fake.session()])
    assert b'"kind"' not in Path(str(file)).read_bytes()
    JsonStore(tmp_path).save("main", [fake.session()])
    assert JsonStore(tmp_path).load("main", fake.machine(), fake.TEST, "") == (fake.session(),)
