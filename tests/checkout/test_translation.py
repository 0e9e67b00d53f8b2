"""What names files of the candidate's tree names those of the baseline's, but for environments within the tree."""

import os
from pathlib import Path

import pytest

from pytest_hwperf.checkout.both import Translation


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The candidate's tree, with an environment and a tool's folder in it; the baseline's is `base` beside it."""
    for folder in ("project/.venv/bin", "project/models", "project/.local/bin", "project/.config", "base/.config"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "project/.venv/pyvenv.cfg").touch()
    monkeypatch.setattr("pytest_hwperf.checkout.both.PREFIXES", (str(tmp_path / "project/env"), "/usr"))
    return tmp_path / "project"


def made(root: Path, *given: Path, other: Path | None = None) -> Translation:
    """Translate for the baseline unless another tree is given."""
    return Translation(root, other or root.with_name("base"), given)


def test_paths_of_the_tree_are_translated_wherever_they_stand(root: Path) -> None:
    places = {"root": str(root), "base": str(root.with_name("base"))}
    for text, expected in (
        ("{root}/models:/etc:{root}", "{base}/models:/etc:{base}"),
        ("--model={root}/model.txt", "--model={base}/model.txt"),
        ("-I{root}/include -L{root}", "-I{base}/include -L{base}"),
        ('{{"model": "{root}/a b.txt", "all": ["{root}"]}}', '{{"model": "{base}/a b.txt", "all": ["{base}"]}}'),
        ("file://{root}/model.onnx", "file://{base}/model.onnx"),
        ("{root}2/model.txt", "{root}2/model.txt"),
        ("{root}.old", "{root}.old"),
        ("{root}/.venv/bin:{root}/bin", "{root}/.venv/bin:{base}/bin"),  # PATH
        ("{root}/env/bin", "{root}/env/bin"),  # a prefix
        ("{root}/.local/bin", "{root}/.local/bin"),  # the tree is somebody's home
        ("{root}/.config/settings", "{base}/.config/settings"),  # the baseline has such a folder
    ):
        assert {"MODEL": expected.format(**places)} == made(root).variables({"MODEL": text.format(**places)})


def test_a_longer_path_that_ends_alike_is_another_one(root: Path, tmp_path: Path) -> None:
    """As a backup of the whole machine has it."""
    backup = Path(f"{tmp_path}{root}")
    backup.mkdir(parents=True)
    assert f"{backup}/model.txt" == made(root).text(f"{backup}/model.txt")


def test_the_tree_is_known_by_the_links_that_lead_to_it(root: Path, tmp_path: Path) -> None:
    """`$PWD` has the links of the shell; a link to a file in the tree names that file."""
    link = tmp_path / "link"
    link.symlink_to(root)
    (tmp_path / "current.txt").symlink_to(root / "models")
    assert [str(root), str(link)] == made(root, link / "models", tmp_path, Path("models")).roots
    translated = made(root, link / "models").variables(
        {"A": f"{link}/model.txt", "B": f"/etc:{tmp_path}/current.txt", "C": f"{tmp_path}/elsewhere"}
    )
    base = root.with_name("base")
    assert {"A": f"{base}/model.txt", "B": f"/etc:{base}/models", "C": f"{tmp_path}/elsewhere"} == translated


def test_a_baseline_within_the_tree_is_reached_once(root: Path) -> None:
    """The folder of temporary files may lie in the tree."""
    within = root / "tmp" / "project"
    assert f"{within}/a:{within}" == made(root, other=within).text(f"{root}/a:{root}")


def test_the_candidate_reads_what_was_given_and_the_home_of_the_user_stays(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    given = {"MODEL": str(tmp_path / "link"), "HOME": str(root)}
    assert given == made(root, other=root).variables(given)
    assert {"HOME": str(root)} == made(root).variables({"HOME": str(root)})


def test_a_folder_is_translated_whatever_it_is(root: Path) -> None:
    assert root.with_name("base") / ".local" == made(root).path(root / ".local")
    assert Path(os.path.realpath("/etc")) == made(root).path(Path("/etc"))
