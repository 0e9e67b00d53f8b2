"""What travels to a host: the project with the arguments of pytest, files that git lacks, and this plugin."""

import io
import re
import tarfile
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fakes.hosts import settle_in
from fakes.repositories import commit, git, repository_with

from pytest_hwperf import __version__
from pytest_hwperf.fleet import project
from pytest_hwperf.fleet.project import Project, arguments_of, installed_by, project_of
from pytest_hwperf.records.errors import UsageProblem, WorkerError
from pytest_hwperf.records.report import Task


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = repository_with(tmp_path_factory.mktemp("fleet") / "project", a__py="1")
    git(made, "checkout", "-b", "feature")
    commit(made, a__py="2")
    (made / "sub").mkdir()
    (made / "sub" / "new.py").write_text("uncommitted", encoding="utf-8")
    return made


def packed(folder: Path, *arguments: str) -> Project:
    with TemporaryDirectory() as place:
        return project_of(folder, arguments, Path(place))


def test_hosts_get_the_commit_that_a_name_means_here(root: Path) -> None:
    found = packed(root / "sub", "--hwperf-against=main...", "-k", "fast")
    base = git(root, "rev-parse", "main")
    assert (f"--hwperf-against={base}", "-k", "fast") == found.arguments
    assert (root, "sub") == (found.root, found.folder)
    assert git(root, "rev-parse", "HEAD") == found.candidate != found.snapshot
    assert found.parcel.startswith(b"\x1f\x8b")


def test_each_task_has_its_kind_and_shard(root: Path) -> None:
    found = packed(root, "tests", "--hwperf-only")
    assert ("tests", "--hwperf-only", "--hwperf-machine-kind=arm") == arguments_of(found, Task(kind="arm"), "")
    shard = arguments_of(found, Task(kind="arm", number=2, of=2), "/2")
    assert ("--hwperf-machine-kind=arm/2", "--hwperf-shard=2/2") == shard[-2:]
    without = Project(root=root, folder=".", arguments=(), candidate="", snapshot="", parcel=b"")
    assert "--hwperf-only" in arguments_of(without, Task(kind="arm"), "")


def test_arguments_that_no_host_can_be_given_are_refused(root: Path) -> None:
    for argument, said in {
        "--hwperf-report=r.json": "--hwperf-report is not for a host of a fleet: hwperf fleet --output",
        "--hwperf-shard=1/2": "leave it out",
        "--hwperf-save": "leave it out",
        "--hwperf-against": "write --hwperf-against=REVISION in one word",
        "--hwperf-against=none": "'none' is no revision of this repository",
    }.items():
        with pytest.raises(UsageProblem, match=re.escape(said)):
            packed(root, argument)


INSTALLED: list[tuple[dict[str, str], list[str] | None, bool, tuple[str, ...] | None]] = [
    ({"pyproject.toml": "[project]\nname = 'a'"}, None, False, ("-e", ".")),
    ({"pyproject.toml": "[tool.x]", "requirements.txt": ""}, None, False, ("-r", "requirements.txt")),
    ({"setup.py": ""}, None, False, ("-e", ".")),
    ({}, None, False, ()),
    ({"setup.py": ""}, [".[dev]"], False, (".[dev]",)),
    ({"setup.py": ""}, None, True, None),
]


def test_a_project_is_installed_by_what_it_has(tmp_path: Path) -> None:
    for number, (files, given, none, installed) in enumerate(INSTALLED):
        settle_in(tmp_path / str(number), files).mkdir(exist_ok=True)
        assert installed == installed_by(tmp_path / str(number), given, none=none)
    (tmp_path / "pyproject.toml").write_text("a = [", encoding="utf-8")
    with pytest.raises(UsageProblem, match="is no TOML"):
        installed_by(tmp_path, None, none=False)


def test_a_disk_that_is_full_here_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pytest_hwperf.fleet.project.pack", full)
    with pytest.raises(WorkerError, match=r"the project cannot be packed in .*: .*No space left on device"):
        packed(root)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "models").mkdir(parents=True)
    (made / "models" / "a.onnx").write_bytes(b"model")
    (made / "project.bundle").write_bytes(b"bundle")
    return made


def test_files_come_back_where_they_were(folder: Path, tmp_path: Path) -> None:
    shared = project.shared_files(folder, ["models/*.onnx", "models/a.onnx"])
    wheel = project.unpack(project.pack(folder / "project.bundle", folder, shared), tmp_path / "there")
    assert ["models/a.onnx"] == shared
    assert b"model" == (tmp_path / "there" / "shared" / "models" / "a.onnx").read_bytes()
    assert b"bundle" == (tmp_path / "there" / "project.bundle").read_bytes()
    assert f"pytest_hwperf-{__version__}-py3-none-any.whl" == wheel.name


def test_the_wheel_is_of_this_version_with_its_plugin_and_command() -> None:
    wheel = zipfile.ZipFile(io.BytesIO(project.own_wheel()[1]))
    info = f"pytest_hwperf-{__version__}.dist-info"
    record = wheel.read(f"{info}/RECORD").decode().splitlines()
    assert f"Version: {__version__}" in wheel.read(f"{info}/METADATA").decode()
    assert "[pytest11]\nhwperf = pytest_hwperf.plugin" in wheel.read(f"{info}/entry_points.txt").decode()
    assert Path(project.__file__).read_bytes() == wheel.read("pytest_hwperf/fleet/project.py")
    assert "pytest_hwperf/reports/html/report.html.jinja" in wheel.namelist()
    assert len(wheel.namelist()) == len(record)
    assert not [name for name in wheel.namelist() if "__pycache__" in name]


def test_an_entry_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("../escape", "/escape"):
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as archive:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
        with pytest.raises(WorkerError, match="cannot be unpacked"):  # or put below the folder, and there is no plugin
            project.unpack(content.getvalue(), tmp_path / "in")
        assert not (tmp_path / "escape").exists()


def test_a_damaged_parcel_and_an_older_python_are_errors_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WorkerError, match="cannot be unpacked"):
        project.unpack(b"no archive", tmp_path)
    monkeypatch.delattr(tarfile, "data_filter")
    with pytest.raises(WorkerError, match=r"needs Python 3\.11\.4"):
        project.unpack(b"", tmp_path)


def test_what_is_not_in_the_project_or_too_large_does_not_travel(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for glob, said in (("../*", "within the project"), ("/etc/*", "within the project"), ("*.bin", "no file has")):
        with pytest.raises(UsageProblem, match=said):
            project.shared_files(folder, [glob])
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (folder / "models" / "b.onnx").symlink_to(tmp_path / "secret")
    assert ["models/a.onnx"] == project.shared_files(folder, ["models/*.onnx"])
    monkeypatch.setattr(project, "_LARGEST", 3)
    with pytest.raises(UsageProblem, match="of history and shared files"):
        project.pack(folder / "project.bundle", folder, [])
