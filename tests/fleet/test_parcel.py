"""What travels: the bundle, shared files and this very plugin; nothing that is unpacked leads out of its folder."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from pytest_hwperf import __version__
from pytest_hwperf.fleet import parcel
from pytest_hwperf.records.errors import UsageProblem, WorkerError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "models").mkdir(parents=True)
    (project / "models" / "a.onnx").write_bytes(b"model")
    (project / "project.bundle").write_bytes(b"bundle")
    return project


def test_files_come_back_where_they_were(root: Path, tmp_path: Path) -> None:
    shared = parcel.shared_files(root, ["models/*.onnx", "models/a.onnx"])
    wheel = parcel.unpack(parcel.pack(root / "project.bundle", root, shared), tmp_path / "there")
    assert ["models/a.onnx"] == shared
    assert b"model" == (tmp_path / "there" / "shared" / "models" / "a.onnx").read_bytes()
    assert b"bundle" == (tmp_path / "there" / "project.bundle").read_bytes()
    assert f"pytest_hwperf-{__version__}-py3-none-any.whl" == wheel.name


def test_the_wheel_is_of_this_version_with_its_plugin_and_command() -> None:
    wheel = zipfile.ZipFile(io.BytesIO(parcel.own_wheel()[1]))
    info = f"pytest_hwperf-{__version__}.dist-info"
    record = wheel.read(f"{info}/RECORD").decode().splitlines()
    assert f"Version: {__version__}" in wheel.read(f"{info}/METADATA").decode()
    assert "[pytest11]\nhwperf = pytest_hwperf.plugin" in wheel.read(f"{info}/entry_points.txt").decode()
    assert Path(parcel.__file__).read_bytes() == wheel.read("pytest_hwperf/fleet/parcel.py")
    assert "pytest_hwperf/reports/html/report.html.jinja" in wheel.namelist()
    assert len(wheel.namelist()) == len(record)
    assert not [name for name in wheel.namelist() if "__pycache__" in name]


@pytest.mark.parametrize("name", ["../escape", "/escape"])
def test_an_entry_that_leads_out_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    (tmp_path / "in").mkdir()

    with pytest.raises(WorkerError, match="cannot be unpacked"):  # or put below the folder, and there is no plugin
        parcel.unpack(content.getvalue(), tmp_path / "in")
    assert not (tmp_path / "escape").exists()


def test_an_older_python_unpacks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tarfile, "data_filter")

    with pytest.raises(WorkerError, match=r"needs Python 3\.11\.4"):
        parcel.unpack(b"", tmp_path)


def test_a_damaged_parcel_is_an_error_of_the_host(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="cannot be unpacked"):
        parcel.unpack(b"no archive", tmp_path)


@pytest.mark.parametrize(
    ("glob", "said"), [("../*", "within the project"), ("/etc/*", "within the project"), ("*.bin", "no file has")]
)
def test_patterns_that_share_nothing_here_are_refused(root: Path, glob: str, said: str) -> None:
    with pytest.raises(UsageProblem, match=said):
        parcel.shared_files(root, [glob])


def test_a_link_out_of_the_project_does_not_travel(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (root / "models" / "b.onnx").symlink_to(tmp_path / "secret")
    assert ["models/a.onnx"] == parcel.shared_files(root, ["models/*.onnx"])


def test_what_is_too_large_does_not_travel(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcel, "_LARGEST", 3)

    with pytest.raises(UsageProblem, match="of history and shared files"):
        parcel.pack(root / "project.bundle", root, [])
