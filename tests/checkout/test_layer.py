"""An environment over this one: its packages come first, and nothing of the candidate's tree is in it."""

import compileall
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path

import pytest
from fakes.processes import left_in

from pytest_hwperf.checkout import layer
from pytest_hwperf.checkout.both import commands
from pytest_hwperf.checkout.layer import (
    Interpreter,
    is_from,
    make_layer,
    name_of_interpreter,
    own_folders,
    packages_here,
    packages_of,
    site_of,
    with_plugins,
)
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.host.launch import PytestCommand
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


OPTIONS = {"xdist": "-n0", "timeout": "--timeout=0", "pytest_cov": "--no-cov"}


@pytest.mark.parametrize(
    ("interpreter", "theirs"),
    [
        (None, set(OPTIONS.values())),
        (Interpreter(path="/venv/bin/python", plugins=frozenset({"hwperf"})), set()),
        (Interpreter(path="/venv/bin/python", plugins=frozenset({"hwperf", "timeout"})), {"--timeout=0"}),
        (Interpreter(path="/venv/bin/python"), set(OPTIONS.values())),
    ],
    ids=["this one", "bare", "with one of them", "silent"],
)
def test_each_interpreter_gets_options_of_the_plugins_that_it_has(
    tmp_path: Path, interpreter: Interpreter | None, theirs: set[str]
) -> None:
    """An option of a plugin that is not installed is an error of pytest."""
    candidate, baseline = tmp_path / "candidate", tmp_path / "baseline"
    candidate.mkdir()
    baseline.mkdir()
    given = PytestCommand(
        inherited=[],
        neutral=["--maxfail=0"],
        of_plugins=OPTIONS,
        root=candidate,
        inipath=None,
        directory=candidate,
        environment={},
    )
    trees = Trees(candidate=candidate, baseline=baseline)
    sides = commands(given, trees, [], interpreter)
    options = {side: {*OPTIONS.values()} & {*command.arguments} for side, command in sides.items()}
    assert {"candidate": set(OPTIONS.values()), "baseline": theirs} == options
    assert all("--maxfail=0" in command.arguments for command in sides.values())
    assert [sys.executable, "/venv/bin/python" if interpreter else sys.executable] == [
        sides["candidate"].interpreter,
        sides["baseline"].interpreter,
    ]


@pytest.mark.live
def test_an_interpreter_is_asked_for_its_plugins(tmp_path: Path) -> None:
    """One that cannot be started says so when the pairs start it."""
    nothing = tmp_path / "python"
    nothing.write_text("no program")
    found = with_plugins(Interpreter(path=sys.executable), 60).plugins
    assert found is not None
    assert "hwperf" in found
    places = [str(nothing), str(tmp_path / "none")]
    assert [None, None] == [with_plugins(Interpreter(path=place), 60).plugins for place in places]


@pytest.mark.live
@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_an_interpreter_that_hangs_is_ended_with_what_it_has_started(tmp_path: Path) -> None:
    """A wrapper, in the time that the build has left."""
    wrapper = tmp_path / "python"
    wrapper.write_text(f"#!/bin/sh\ncd {tmp_path}\nsleep 600\n")
    wrapper.chmod(0o755)
    assert with_plugins(Interpreter(path=str(wrapper)), 0.5).plugins is None
    assert [] == left_in(tmp_path)


def test_each_side_has_folders_of_its_own(tmp_path: Path) -> None:
    sides = [own_folders(tmp_path / side, {"HOME": str(tmp_path)}) for side in ("base", "cand")]
    assert not set(sides[0].values()) & set(sides[1].values())
    assert all(Path(folder).is_dir() for side in sides for folder in side.values())


@pytest.mark.parametrize("written", ["", "1"])
def test_both_sides_read_byte_code_or_neither(tmp_path: Path, written: str) -> None:
    """The user's tree may hold some, and the baseline's none where Python is told to write none."""
    given = {**os.environ, "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": written}
    trees, held = [tmp_path / side / "tree" for side in ("base", "cand")], list[bool]()
    asking = [sys.executable, "-c", "import one, os; print(os.path.exists(one.__cached__))"]
    for tree in trees:
        tree.mkdir(parents=True)
        (tree / "one.py").write_text("")
    compileall.compile_dir(trees[1], quiet=1)
    for tree in trees:
        environment = {**given, **own_folders(tree.parent, given)}
        done = subprocess.run(asking, cwd=tree, env=environment, check=True, capture_output=True, text=True)
        held.append(done.stdout.strip() == "True")
    assert [True, True] == held
    assert (tmp_path / "base" / "tree" / "__pycache__").exists() == (not written)


def test_what_was_downloaded_is_not_downloaded_again(tmp_path: Path) -> None:
    """Anything else in the cache belongs to one side: a project may write there."""
    for name in ("huggingface", "project"):
        (tmp_path / "user" / name).mkdir(parents=True)
    given = {"XDG_CACHE_HOME": str(tmp_path / "user"), "HOME": "/nowhere"}
    own = [Path(own_folders(tmp_path / "base", given)["XDG_CACHE_HOME"]) for _ in range(2)]
    assert own[0] == own[1]
    assert ["huggingface"] == [path.name for path in own[0].iterdir()]
    assert (tmp_path / "user" / "huggingface") == (own[0] / "huggingface").resolve()
