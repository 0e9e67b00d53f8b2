"""Each side has a temporary folder and a cache folder of its own."""

from pathlib import Path

from pytest_hwperf.checkout.layer import own_folders


def test_each_side_has_folders_of_its_own(tmp_path: Path) -> None:
    sides = [own_folders(tmp_path / side, {"HOME": str(tmp_path)}) for side in ("base", "cand")]
    assert not set(sides[0].values()) & set(sides[1].values())
    assert all(Path(folder).is_dir() for side in sides for folder in side.values())


def test_what_was_downloaded_is_not_downloaded_again(tmp_path: Path) -> None:
    """Anything else in the cache belongs to one side: a project may write there."""
    for name in ("huggingface", "project"):
        (tmp_path / "user" / name).mkdir(parents=True)
    given = {"XDG_CACHE_HOME": str(tmp_path / "user"), "HOME": "/nowhere"}
    own = [Path(own_folders(tmp_path / "base", given)["XDG_CACHE_HOME"]) for _ in range(2)]
    assert own[0] == own[1]
    assert ["huggingface"] == [path.name for path in own[0].iterdir()]
    assert (tmp_path / "user" / "huggingface") == (own[0] / "huggingface").resolve()
