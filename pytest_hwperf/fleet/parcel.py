"""What travels to a host in one archive: the project's bundle, the files that git does not have, and this plugin."""

import base64
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

import pytest_hwperf
from pytest_hwperf.records.errors import UsageProblem, WorkerError
from pytest_hwperf.records.text import shortened

BUNDLE, SHARED = "project.bundle", "shared"
_NAME = "pytest_hwperf"
_METADATA = ("METADATA", "WHEEL", "entry_points.txt")
_LARGEST = 1 << 30  # bytes: it lies in the memory of this process and of each host


def pack(bundle: Path, root: Path, shared: Sequence[str]) -> bytes:
    """Put everything into one archive."""
    size = bundle.stat().st_size + sum((root / file).stat().st_size for file in shared)
    if size > _LARGEST:
        raise UsageProblem(
            f"the project has {size / 1e9:.1f} GB of history and shared files; {_LARGEST / 1e9:.1f} GB travel"
        )
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1) as archive:
        archive.add(bundle, BUNDLE)
        for file in shared:
            archive.add((root / file).resolve(), f"{SHARED}/{file}", recursive=False)
        name, wheel = own_wheel()
        entry = tarfile.TarInfo(name)
        entry.size = len(wheel)
        archive.addfile(entry, io.BytesIO(wheel))
    return content.getvalue()


def unpack(parcel: bytes, folder: Path) -> Path:
    """Unpack an archive; return the file of the plugin. No entry leads out of the folder (PEP 706)."""
    if not hasattr(tarfile, "data_filter"):
        raise WorkerError("the host needs Python 3.11.4 or later, which unpacks nothing outside of the folder")
    try:
        with tarfile.open(fileobj=io.BytesIO(parcel), mode="r:gz") as archive:
            archive.extractall(folder, filter="data")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise WorkerError(f"the parcel cannot be unpacked: {error}") from error
    wheel = next(folder.glob(f"{_NAME}-*.whl"), None)
    if wheel is None:
        raise WorkerError("the parcel cannot be unpacked: there is no plugin in it")
    return wheel


def shared_files(root: Path, globs: Sequence[str]) -> list[str]:
    """Return the files that `--hwperf-share=GLOB` names, which travel beside the bundle."""
    found: dict[str, None] = {}
    for glob in globs:
        if PurePosixPath(glob).is_absolute() or ".." in PurePosixPath(glob).parts:
            raise UsageProblem(f"--hwperf-share={shortened(glob)}: a pattern within the project, such as models/*.onnx")
        files = sorted(
            path for path in root.glob(glob) if path.is_file() and path.resolve().is_relative_to(root.resolve())
        )
        if not files:
            raise UsageProblem(f"--hwperf-share={shortened(glob)}: no file has such a name here")
        found |= dict.fromkeys(path.relative_to(root).as_posix() for path in files)
    return [*found]


def own_wheel() -> tuple[str, bytes]:
    """Return the name and the content of a wheel of this very version, also of an editable install (PEP 427)."""
    folder, installed = Path(pytest_hwperf.__file__).parent, distribution("pytest-hwperf")
    info = f"{_NAME}-{pytest_hwperf.__version__}.dist-info"
    files = dict(_files(folder))
    for name in _METADATA:
        if text := installed.read_text(name):
            files[f"{info}/{name}"] = text.encode()
    record = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return f"{_NAME}-{pytest_hwperf.__version__}-py3-none-any.whl", whole.getvalue()


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"{_NAME}/{path.relative_to(folder).as_posix()}", path.read_bytes()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
