"""An environment over this one: its own packages come first, and nothing of the candidate's tree is in it."""

import json
import sys
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path

import pytest

from pytest_hwperf.checkout import layer
from pytest_hwperf.checkout.layer import is_from, make_layer, name_of_interpreter, packages_here, packages_of, site_of
from pytest_hwperf.records.errors import WorkerError


def install(site: Path, name: str, version: str, source: Path | None = None, files: Sequence[str] = ()) -> None:
    """Write what pip writes of a package."""
    note = site / f"{name}-{version}.dist-info"
    note.mkdir(parents=True)
    (note / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (note / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    if source is not None:
        (note / "direct_url.json").write_text(json.dumps({"url": source.as_uri(), "dir_info": {"editable": True}}))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder with packages here: of the tree `project`, and of others beside it."""
    folder = tmp_path / "site-packages"
    for name in ("project/src", "other/src"):
        (tmp_path / name).mkdir(parents=True)
    install(folder, "project", "1.0", tmp_path / "project", ["_project.pth"])
    install(folder, "other", "2.0", tmp_path / "other", ["other.pth"])
    (folder / "_project.pth").write_text("import _project_loader\n")
    (folder / "other.pth").write_text(f"# a comment\nimport other_loader\n\n{tmp_path}/other/src\n{tmp_path}/none\n")
    (folder / "zz.pth").write_text(f"{tmp_path}/project/src\n")
    monkeypatch.setattr(layer, "_sites", lambda: [folder])
    return folder


def test_what_the_tree_has_installed_is_left_out(site: Path, tmp_path: Path) -> None:
    """Whether pip has noted it or not; editable installs of others go on working."""
    python = make_layer(tmp_path / "env", tmp_path / "project")

    (below,) = site_of(tmp_path / "env").glob("*.pth")
    assert [str(site), "import other_loader", f"{tmp_path}/other/src"] == below.read_text().splitlines()
    assert python.exists()


def test_an_environment_has_packages_of_its_own(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several versions that are visible the first one counts, as for an import."""
    install(site_of(tmp_path / "env"), "other", "1.5")
    monkeypatch.setattr(sys, "path", [str(site_of(tmp_path / "env")), str(site)])
    assert {"other": "1.5"} == packages_of(tmp_path / "env") == packages_here(tmp_path / "project")


def test_a_damaged_note_is_none(site: Path, tmp_path: Path) -> None:
    (site / "project-1.0.dist-info" / "direct_url.json").write_text("{")
    assert not any(is_from(one, tmp_path / "project") for one in distributions(path=[str(site)]))


def test_a_folder_that_cannot_hold_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorkerError, match=r"no virtual environment can be made in .*/file/env"):
        make_layer(tmp_path / "file" / "env", tmp_path)


def test_packages_lie_in_the_sites_of_this_interpreter() -> None:
    assert set(map(str, layer._sites())) & set(sys.path)
    assert sys.version in name_of_interpreter()
