"""What hosts are told to run: the commit of the baseline as it is now, their kind, and how the project is installed."""

from pathlib import Path

import pytest
from fakes.repositories import commit, git, repository_with

from pytest_hwperf.fleet.orders import Project, arguments_of, installed_by, project_of
from pytest_hwperf.records.errors import UsageProblem, WorkerError
from pytest_hwperf.records.fleet import Task


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = repository_with(tmp_path / "project", a__py="1")
    git(made, "checkout", "-b", "feature")
    commit(made, a__py="2")
    (made / "sub").mkdir()
    return made


def project(folder: Path, *arguments: str) -> Project:
    place = folder.parent / "place"
    place.mkdir()
    return project_of(folder, arguments, place)


def test_hosts_get_the_commit_that_a_name_means_here(root: Path) -> None:
    found = project(root / "sub", "--hwperf-against=main...", "-k", "fast")

    base = git(root, "rev-parse", "main")
    assert (f"--hwperf-against={base}", "-k", "fast") == found.arguments
    assert (root, "sub") == (found.root, "sub")
    assert "sub" == found.folder
    assert found.parcel.startswith(b"\x1f\x8b")


def test_each_task_has_its_kind_and_shard(root: Path) -> None:
    found = project(root, "tests", "--hwperf-only")
    assert ("tests", "--hwperf-only", "--hwperf-machine-kind=arm") == arguments_of(found, Task(kind="arm"), "")
    shard = arguments_of(found, Task(kind="arm", number=2, of=3), "/2")
    assert ("--hwperf-machine-kind=arm/2", "--hwperf-shard=2/3") == shard[-2:]
    without = Project(root=root, folder=".", arguments=(), candidate="", snapshot="", parcel=b"")
    assert "--hwperf-only" in arguments_of(without, Task(kind="arm"), "")


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--hwperf-report=r.json", "--hwperf-report is not for a host of a fleet: hwperf fleet --output"),
        ("--hwperf-shard=1/2", "leave it out"),
        ("--hwperf-save", "leave it out"),
        ("--hwperf-against", "write --hwperf-against=REVISION in one word"),
        ("--hwperf-against=none", "'none' is no revision of this repository"),
        ("--hwperf-share=*.bin", "no file has such a name here"),
    ],
)
def test_arguments_that_no_host_can_be_given_are_refused(root: Path, argument: str, said: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        project(root, argument)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("files", "given", "none", "installed"),
    [
        ({"pyproject.toml": "[project]\nname = 'a'"}, None, False, ("-e", ".")),
        ({"pyproject.toml": "[tool.x]", "requirements.txt": ""}, None, False, ("-r", "requirements.txt")),
        ({"setup.py": ""}, None, False, ("-e", ".")),
        ({}, None, False, ()),
        ({"setup.py": ""}, [".[dev]"], False, (".[dev]",)),
        ({"setup.py": ""}, None, True, None),
    ],
)
def test_a_project_is_installed_by_what_it_has(
    tmp_path: Path,
    files: dict[str, str],
    given: list[str] | None,
    none: bool,
    installed: tuple[str, ...] | None,
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert installed == installed_by(tmp_path, given, none=none)


def test_a_disk_that_is_full_here_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pytest_hwperf.fleet.parcel.pack", full)
    with pytest.raises(WorkerError, match=r"the project cannot be packed in .*place: .*No space left on device"):
        project(root)


def test_a_damaged_project_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("a = [", encoding="utf-8")

    with pytest.raises(UsageProblem, match="is no TOML"):
        installed_by(tmp_path, None, none=False)
