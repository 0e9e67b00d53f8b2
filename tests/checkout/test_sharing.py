"""Files that git does not have: which of them the baseline is given, and which are named instead."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from fakes.repositories import commit, git

from pytest_hwperf.checkout.sharing import Found, Used, changed_source, is_code, is_constants, shareable, with_shared
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.host.opened_files import Opened

FAST = "pkg/libfast.so"


@pytest.fixture
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trees:
    """A repository that ignores what is generated, and a baseline of its only revision."""
    monkeypatch.setattr("pytest_hwperf.checkout.trees.PREFIXES", (str(tmp_path / "project/.venv"),))
    project, baseline = tmp_path / "project", tmp_path / "base" / "project"
    project.mkdir()
    git(project, "init")
    put(project, "pkg/code.py", "pkg/table.yaml")
    commit(project, __gitignore="*.bin\n*.so\n_*.py\n*.cl\n.venv\n")
    git(project, "worktree", "add", "--detach", str(baseline))
    return Trees(candidate=project, baseline=baseline)


def put(root: Path, *names: str, text: str = "A = 1\n") -> list[str]:
    """Write files; return their paths."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return [str(root / name) for name in names]


def found(
    trees: Trees,
    *read: str,
    loaded: Sequence[str] = (),
    named: Sequence[str] = (),
    written: Sequence[str] = (),
    fails: bool = False,
) -> Found:
    """Return what is found of files that the candidate has, where it has read these."""
    root = trees.candidate
    read_files = put(root, *read)
    opened = Opened(read=tuple(read_files), written=tuple(str(root / name) for name in written))
    used = Used(loaded=[str(root / name) for name in loaded], opened=opened, named=named, fails=fails)
    return shareable(trees, used)


def test_ignored_data_is_given(trees: Trees) -> None:
    assert Found(given=["a b.bin", "data/model.bin"]) == found(trees, "data/model.bin", "a b.bin")


def test_what_is_of_a_revision_of_the_baseline_or_of_an_environment_is_not(trees: Trees) -> None:
    """Nor what the candidate has made itself."""
    put(trees.baseline, "made.bin")
    put(trees.candidate, "added.bin")
    git(trees.candidate, "add", "--force", "added.bin")
    read = ("pkg/table.yaml", "made.bin", "added.bin", ".venv/lib/model.bin", "own.bin")
    assert Found() == found(trees, *read, written=["own.bin"])


def test_what_is_not_ignored_belongs_to_the_next_commit_unless_the_baseline_fails(trees: Trees) -> None:
    assert Found() == found(trees, "rows.csv")
    assert Found(given=["rows.csv"]) == found(trees, "rows.csv", fails=True)


def test_what_a_message_names_is_given_with_what_lies_in_a_folder(trees: Trees) -> None:
    """Native code opens files unseen."""
    put(trees.candidate, "models/a.bin", "models/sub/b.bin", "c.bin")
    assert ["c.bin", "models/a.bin", "models/sub/b.bin"] == list(found(trees, named=["models", "c.bin", "none"]).given)


def test_what_lies_behind_a_link_is_ignored_with_the_link(trees: Trees, tmp_path: Path) -> None:
    """Git does not look behind one, and the baseline has none."""
    put(tmp_path / "disk", "rows.csv", "sub/rows.csv")
    (trees.candidate / "data.bin").symlink_to(tmp_path / "disk")
    put(trees.candidate, "other.bin")
    assert ["data.bin/rows.csv", "data.bin/sub/rows.csv", "other.bin"] == list(
        found(trees, "other.bin", named=["data.bin/rows.csv", "data.bin/sub/rows.csv"]).given
    )


def test_a_module_is_given_if_it_only_names_texts_and_numbers(trees: Trees) -> None:
    """A new module that git does not ignore is new code."""
    put(trees.candidate, "pkg/_version.py", "pkg/new.py")
    put(trees.candidate, "pkg/_parser.py", text="def parse():\n    pass\n")
    of = found(trees, loaded=["pkg/_version.py", "pkg/new.py", "pkg/_parser.py", "pkg/code.py", FAST], fails=True)
    assert ["pkg/_version.py"] == list(of.given)
    assert {"pkg/_parser.py": "it is code, and may be made from what differs"} == of.kept


def test_code_is_named_and_not_given(trees: Trees) -> None:
    """Compiled code is refused elsewhere, or built."""
    assert Found(kept={"kernel.cl": "it is code"}) == found(trees, "kernel.cl", FAST)


def test_what_may_be_made_from_a_changed_file_is_named_and_not_given(trees: Trees) -> None:
    put(trees.candidate, "pkg/table.yaml", text="changed")
    why = "pkg/table.yaml differs between both trees, and it may be made from that"
    assert Found(given=["pkg/other.bin"], kept={"pkg/table.bin": why}) == found(trees, "pkg/table.bin", "pkg/other.bin")


def test_files_of_a_submodule_are_not_given(trees: Trees) -> None:
    """Its revision may be another one in the baseline."""
    put(trees.candidate, "vendored/.git")
    assert Found() == found(trees, "vendored/model.bin", fails=True)


def test_outside_of_a_repository_nothing_is_given(trees: Trees) -> None:
    (trees.candidate / ".git").rename(trees.candidate.parent / "away")
    assert Found() == found(trees, "model.bin", fails=True)


def test_what_is_given_is_listed_with_its_digest(trees: Trees) -> None:
    put(trees.candidate, "data/model.bin", text="here")
    given = with_shared(trees, ["data/model.bin"])
    assert "here" == (trees.baseline / "data/model.bin").read_text()
    assert {"data/model.bin": sha256(b"here").hexdigest()} == given.shared


def test_the_copy_of_a_folder_is_given_that_folders_own_file(trees: Trees, tmp_path: Path) -> None:
    """It was not copied, since git ignores it there too."""
    put(trees.candidate, "model.bin", "here.bin", text="here")
    put(tmp_path / "folder", "model.bin", text="there")
    copied = Trees(candidate=trees.candidate, baseline=trees.baseline, origin=tmp_path / "folder")
    with_shared(copied, ["model.bin", "here.bin"])
    assert ["there", "here"] == [(trees.baseline / name).read_text() for name in ("model.bin", "here.bin")]


SETUPTOOLS_SCM = """# file generated by setuptools-scm
# don't change, don't track in version control

__all__ = ["__version__", "version_tuple"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple, Union

    VERSION_TUPLE = Tuple[Union[int, str], ...]
else:
    VERSION_TUPLE = object

version: str
__version__: str
version_tuple: VERSION_TUPLE
__version__ = version = '0.1.dev1+g244f73b'
version_tuple = (0, 1, 'dev1', -1)
commit_id: str = 'g244f73b'
"""


def write(path: Path, content: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


CONSTANTS = [SETUPTOOLS_SCM, "", '"""Text."""\nfrom __future__ import annotations\nCOST = 2\n']
ANYTHING_ELSE = [
    "def version():\n    return 1\n",
    "VERSION = read()\n",
    "import work\n",
    "work.SPEED = 1\n",
    "a, b = 1, 2\n",
    "FLAG: bool = not False\n",
    f"TABLE = [{'1, ' * 17}]\n",  # as those of generated parsers
    "if TYPE_CHECKING:\n    pass\nelse:\n    import work\n",
    "if work:\n    A = 1\n",
    "A = [\n",
    f"A = '{'x' * (1 << 14)}'\n",
]


def test_a_module_that_names_texts_and_numbers_is_constants(tmp_path: Path) -> None:
    """What does anything else is not, nor what cannot be read."""
    file = tmp_path / "_version.py"
    assert not is_constants(file)
    assert CONSTANTS == [text for text in CONSTANTS + ANYTHING_ELSE if is_constants(write(file, text.encode()))]


def test_programs_are_told_from_data(tmp_path: Path) -> None:
    """What cannot be read counts as one."""
    data = {"model.onnx": b"\x08\x07", "rows.csv": b"1,2\n"}
    programs = {"kernel.cl": b"", "libfast.so.1": b"", "libfast.dylib": b"", "model.bin": b"\x7fELF\x02"}
    programs |= {"tool": b"#!/bin/sh\n", "PARSER.JS": b""}
    for name, content in (data | programs).items():
        write(tmp_path / name, content)
    assert [*programs, "absent.bin"] == [n for n in (*data, *programs, "absent.bin") if is_code(tmp_path / n)]


# What the file holds, the candidate's files and the baseline's, and which of them it may be made from.
SOURCES: list[tuple[bytes, dict[str, bytes], dict[str, bytes], str]] = [
    (b"\0\1", {"data/model.bin.dvc": b"md5: 1"}, {"data/model.bin.dvc": b"md5: 2"}, "data/model.bin.dvc"),
    (b"\0\1", {"data/model.bin.dvc": b"md5: 1"}, {"data/model.bin.dvc": b"md5: 1"}, ""),
    (b"\0\1", {"data/model.yaml": b""}, {}, "data/model.yaml"),
    (b"\0\1", {"data.dvc": b"md5: 1.dir"}, {"data.dvc": b"md5: 2.dir"}, "data.dvc"),
    (b"\0\1", {"dvc.lock": b"path: data/model.bin\nmd5: 1"}, {"dvc.lock": b""}, "dvc.lock"),
    (b"\0\1", {"dvc.lock": b"path: data"}, {"dvc.lock": b""}, "dvc.lock"),
    (b"\0\1", {"dvc.lock": b"path: data/model\n"}, {"dvc.lock": b""}, ""),
    (b"\0\1", {}, {"data/model.yaml": b""}, "data/model.yaml"),
    (b"\0\1", {"data/other.yaml": b"1"}, {"data/other.yaml": b"2"}, ""),
    (b"# from grammar/my.lark", {"grammar/my.lark": b"1"}, {"grammar/my.lark": b"2"}, "grammar/my.lark"),
    (b"made from rows.sql", {"data/rows.sql": b"1"}, {"data/rows.sql": b"2"}, "data/rows.sql"),
    (b"\0 rows.sql", {"data/rows.sql": b"1"}, {"data/rows.sql": b"2"}, ""),
    (b"see ../out.txt", {"../out.txt": b"1"}, {"../out.txt": b"2"}, ""),
]


def test_a_source_that_differs_is_beside_it_or_named_in_it(tmp_path: Path) -> None:
    for number, (content, now, then, expected) in enumerate(SOURCES):
        candidate, baseline = tmp_path / f"{number}/a/candidate", tmp_path / f"{number}/b/baseline"
        write(candidate / "data/model.bin", content)
        baseline.mkdir(parents=True)
        for root, files in ((candidate, now), (baseline, then)):
            for name, text in files.items():
                write(root / name, text)
        both = Trees(candidate=candidate, baseline=baseline)
        assert (number, expected) == (number, changed_source("data/model.bin", both, {*now}))
        assert "" == changed_source("absent.bin", both, {*now})


def test_a_file_that_git_does_not_have_either_is_no_source(tmp_path: Path) -> None:
    """Both were made of something else."""
    write(tmp_path / "now/model.bin")
    write(tmp_path / "now/model.json")
    (tmp_path / "then").mkdir()
    assert "" == changed_source("model.bin", Trees(candidate=tmp_path / "now", baseline=tmp_path / "then"), set())
