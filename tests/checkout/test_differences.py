"""What differs between two trees, of files in two folders."""

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_hwperf.checkout import trees as trees_module
from pytest_hwperf.checkout.both import with_leftovers
from pytest_hwperf.checkout.trees import Tree, Trees, changes_between
from pytest_hwperf.stats.causes.changed_code import MODULE, Changes

BOTH = {"same.py": "x = 1\n", "data/same.bin": "00", "link/kept.txt": "kept"}


@pytest.fixture
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A baseline and a candidate that are the same."""
    monkeypatch.setattr(trees_module, "files_of", lambda folder: (one for one in folder.rglob("*") if one.is_file()))
    baseline, candidate = tmp_path / "baseline", tmp_path / "candidate"
    for tree in (baseline, candidate):
        for name, text in BOTH.items():
            write(tree, name, text)
    return baseline, candidate


def write(tree: Path, name: str, text: str) -> None:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_equal_trees_have_no_changes(trees: tuple[Path, Path]) -> None:
    """Caches and stored runs are no part of a revision."""
    baseline, candidate = trees
    write(candidate, ".hwperf/main.json", "{}")
    write(candidate, ".git/index", "")
    write(baseline, "pkg/__pycache__/a.pyc", "")
    assert Changes(changed={}) == changes_between(candidate, baseline)


def test_each_file_that_differs_is_found(trees: tuple[Path, Path]) -> None:
    baseline, candidate = trees
    write(baseline, "work.py", "def slow():\n    return 1\n")
    write(candidate, "work.py", "# more\ndef slow():\n    return 2\n")
    write(candidate, "data/same.bin", "01")
    write(candidate, "new.py", "")
    write(candidate, "space/deep/new.py", "")
    write(baseline, "old.csv", "")
    (baseline / "there").symlink_to("data")
    (candidate / "there").symlink_to("link")

    found = changes_between(candidate, baseline)
    assert {"work.py": {"baseline": ("slow:1",), "candidate": ("slow:2",)}} == found.changed
    assert {"data/same.bin", "there"} == found.other
    assert {"new.py": "candidate", "space/deep/new.py": "candidate", "old.csv": "baseline"} == found.only
    assert {"space", "space/deep"} == found.folders


def test_what_is_left_later_adds_to_what_differs(trees: tuple[Path, Path]) -> None:
    """The tests that were laid over are the same by then, and stay a change."""
    baseline, candidate = trees
    write(candidate, "test_it.py", "x = 1\n")
    before = replace(changes_between(candidate, baseline), laid_over=frozenset({"test_it.py"}))
    write(baseline, "test_it.py", "x = 1\n")
    write(baseline, "out.txt", "1")
    write(candidate, "out.txt", "2")
    write(baseline, "hwperf-candidate-tox.ini", "")

    found = with_leftovers(Trees(candidate=candidate, baseline=baseline, changes=before)).changes
    assert found is not None
    assert {"out.txt"} == found.other
    assert {"test_it.py": "candidate"} == found.only
    assert {"test_it.py"} == found.laid_over


def test_code_that_is_too_large_has_changed_as_a_whole(
    trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees_module, "_LARGEST_SOURCE", 3)
    baseline, candidate = trees
    write(candidate, "same.py", "x = 2\n")
    found = changes_between(candidate, baseline)
    assert {"same.py": {"baseline": (MODULE,), "candidate": (MODULE,)}} == found.changed


def test_a_file_where_the_other_side_has_a_folder_differs(trees: tuple[Path, Path]) -> None:
    baseline, candidate = trees
    write(baseline, "model", "")
    write(candidate, "model/part", "")
    found = changes_between(candidate, baseline)
    assert {"model"} == found.other
    assert {"model/part": "candidate"} == found.only


def test_environments_in_a_tree_are_no_code_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_hwperf.checkout.trees.PREFIXES", (str(tmp_path / ".venv"), "/usr"))
    files = [str(tmp_path / name) for name in ("work.py", ".venv/lib/a.py", "x/site-packages/b.py")]
    assert ["work.py"] == [*Tree(tmp_path).own([*files, "/usr/lib/c.so"])]
