"""The baseline's environment: made once, kept, and told apart from this one."""

import math
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.gate import environments
from pytest_hwperf.gate.environments import BaseEnvironment, Policy, environment_built, environment_with
from pytest_hwperf.host.files import CACHE_VARIABLE
from pytest_hwperf.records.errors import UsageProblem


class FakeInstall:
    """Installs `name==version` by writing what pip would write about it."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.calls = 0

    def __call__(self, python: Path, what: Sequence[str], timeout_s: float) -> None:
        """Write it."""
        self.calls += 1
        assert timeout_s > 0
        for name, version in (text.split("==") for text in what):
            if version == "none":
                raise UsageProblem("no such version")
            if version != "same":
                note = python.parents[1] / "site" / f"{name}-{version}.dist-info"
                note.mkdir(parents=True)
                (note / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of environments; making one takes no time, and this environment has one package."""

    def made(folder: Path, root: Path) -> Path:
        assert tmp_path == root
        (folder / "bin").mkdir()
        return folder / "bin" / "python"

    monkeypatch.setattr(environments, "make_layer", made)
    monkeypatch.setattr("pytest_hwperf.checkout.layer.site_of", lambda folder: folder / "site")
    monkeypatch.setattr(environments, "packages_here", lambda _: {"ort": "1.23.0"})
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "environments"


def test_an_environment_is_made_once_and_says_what_differs(tmp_path: Path, place: Path) -> None:
    """Of many packages the first ones."""
    installed, many = FakeInstall(), [f"p{number}==1" for number in range(9)]
    first, second = (environment_with(["ort==1.22.0", "b==1"], tmp_path, math.inf, installed) for _ in range(2))
    assert 1 == installed.calls
    assert first.python == second.python
    assert [first.python.parents[1]] == list(place.iterdir())
    differing = "the baseline's environment has b 1 (here none), ort 1.22.0 (here 1.23.0)"
    assert first.notes[0].startswith(f"{differing}; it was made in ")
    assert (f"{differing}; it was kept from an earlier run",) == second.notes
    assert "p5 1 (here none) and 3 more; it was" in environment_with(many, tmp_path, math.inf, installed).notes[0]


def test_what_fails_is_not_kept_and_what_this_environment_has_is_no_comparison(tmp_path: Path, place: Path) -> None:
    with pytest.raises(UsageProblem, match="no such version"):
        environment_with(["ort==none"], tmp_path, math.inf, FakeInstall())
    assert [] == list(place.iterdir())
    with pytest.raises(UsageProblem, match=r"--hwperf-base-with=ort==same: this environment has just that"):
        environment_with(["ort==same"], tmp_path, math.inf, FakeInstall())


def test_another_run_may_be_quicker(tmp_path: Path, place: Path) -> None:
    """Its environment is used."""

    def install(python: Path, what: Sequence[str], timeout_s: float) -> None:
        if len(list(place.iterdir())) == 1:
            environment_with(["ort==1.22.0"], tmp_path, math.inf, install)
        FakeInstall()(python, what, timeout_s)

    found = environment_with(["ort==1.22.0"], tmp_path, math.inf, install)
    assert [found.python.parents[1]] == list(place.iterdir())


@pytest.mark.usefixtures("place")
def test_what_is_left_of_an_environment_is_made_anew(tmp_path: Path) -> None:
    found = environment_with(["ort==1.22.0"], tmp_path, math.inf, FakeInstall())
    (found.python.parents[1] / "whole").unlink()
    again = environment_with(["ort==1.22.0"], tmp_path, math.inf, FakeInstall())
    assert found.python == again.python
    assert "it was made in" in again.notes[0]


def test_the_environments_that_were_used_last_are_kept(tmp_path: Path, place: Path) -> None:
    """One that somebody is just making stays; one that was given up a day ago does not, nor the rest of one."""
    for number in range(10):
        (place / f"e{number}").mkdir(parents=True)
        (place / f"e{number}" / "whole").touch()
        os.utime(place / f"e{number}" / "whole", (number, number))
    for name in ("making-now", "making-then", "rest"):
        (place / name).mkdir()
    os.utime(place / "making-then", (0, 0))
    environment_with(["ort==1.22.0"], tmp_path, math.inf, FakeInstall())
    kept = {path.name for path in place.iterdir() if len(path.name) < 20}
    assert {"making-now", *(f"e{number}" for number in range(3, 10))} == kept


class FakeBuild:
    """Builds, and refuses so many ways before."""

    def __init__(self, refused: int = 0) -> None:
        """Nothing yet."""
        self.refused = refused
        self.ways = list[Sequence[str]]()

    def __call__(self, python: Path, what: Sequence[str], timeout_s: float) -> None:
        """Take the place of pip."""
        assert python.name == "python"
        assert timeout_s > 0
        self.ways.append(what)
        if len(self.ways) <= self.refused:
            raise UsageProblem("no compiler")


def built(
    root: Path, install: FakeBuild, policy: Policy = "build", *, revision: str = "abc", project: str = "setup.py"
) -> BaseEnvironment | None:
    """Build the baseline in a folder of the candidate's tree."""
    baseline = root / "base"
    baseline.mkdir(exist_ok=True)
    (baseline / project).touch()
    trees = Trees(candidate=root, baseline=baseline, revision=revision, shared={}, changed=frozenset(), warnings=())
    return environment_built(trees, policy, math.inf, [], install)


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """What builds the project is at hand, and nothing was installed from the tree."""
    monkeypatch.setattr(environments, "ways_to_install", lambda *_: iter([["quick"], ["slow"]]))
    monkeypatch.setattr("pytest_hwperf.checkout.building.distributions", lambda **_: [])


@pytest.mark.usefixtures("ways")
def test_a_baseline_is_built_once_for_its_revision(tmp_path: Path, place: Path) -> None:
    install = FakeBuild()
    first, second = (built(tmp_path, install) for _ in range(2))
    built(tmp_path, install, revision="def")
    folders = [built(tmp_path, install, revision="") for _ in range(2)]  # of a folder nothing is known
    assert [["quick"]] * 4 == install.ways
    assert first is not None
    assert second is not None
    assert first.notes[0].startswith("the baseline has an environment of its own, built in ")
    assert (
        "the baseline has an environment of its own, built by an earlier run, since it was asked for",
    ) == second.notes
    assert 4 == len(list(place.iterdir())) == 2 + len(folders)


@pytest.mark.usefixtures("ways")
def test_what_the_quick_way_cannot_build_the_other_may(tmp_path: Path) -> None:
    install = FakeBuild(refused=1)
    assert built(tmp_path, install) is not None
    assert [["quick"], ["slow"]] == install.ways
    with pytest.raises(UsageProblem, match=r"(?s)no compiler.*since it was asked for; give the Python.*=shared"):
        built(tmp_path, FakeBuild(refused=2), revision="def")


@pytest.mark.usefixtures("ways")
def test_it_is_built_by_itself_only_where_that_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And where there is something to build; else the refusal says what is needed."""
    whys = ["", "it is a copy", "it is a copy"]
    monkeypatch.setattr(environments, "why_not_shared", lambda *_: whys.pop(0))
    install = FakeBuild()
    assert built(tmp_path, install, "shared") is None
    assert built(tmp_path, install, "auto") is None
    made = built(tmp_path, install, "auto")
    assert made is not None
    assert made.notes[0].endswith("since it is a copy")
    (tmp_path / "base" / "setup.py").unlink()
    assert built(tmp_path, install, "auto", project="README") is None
    with pytest.raises(UsageProblem, match="neither pyproject"):
        built(tmp_path, install, "build", project="README")


@pytest.mark.usefixtures("ways")
def test_an_environment_that_is_asked_for_follows_the_lock_file_of_the_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is needed does not: no more differs than has to."""
    monkeypatch.setattr(environments, "why_not_shared", lambda *_: "it is a copy")
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "pylock.toml").write_text("[[packages]]\nname = 'ort'\nversion = '1.22.0'\n")
    install = FakeBuild()
    made, needed = built(tmp_path, install), built(tmp_path, install, "auto")
    assert made is not None
    assert needed is not None
    assert ("quick", "-c") == tuple(install.ways[0][:2])
    assert ["quick"] == list(install.ways[1])
    assert made.python != needed.python
    assert made.notes[0].endswith("since it was asked for, with the versions of its pylock.toml")
    assert needed.notes[0].endswith("since it is a copy")
