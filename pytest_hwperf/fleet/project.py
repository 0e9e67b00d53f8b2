"""What travels to the hosts of a fleet: the project as it lies here with the arguments of pytest, as one archive.

The archive holds the project's bundle, the files that git does not have, and this plugin.
"""

import base64
import hashlib
import io
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

import pytest_hwperf
from pytest_hwperf.checkout import bundle
from pytest_hwperf.checkout.revision import resolve, top_of
from pytest_hwperf.host.files import read_given
from pytest_hwperf.records.errors import UsageProblem, WorkerError
from pytest_hwperf.records.report import Task
from pytest_hwperf.records.text import shortened

_AGAINST, _SHARE = "--hwperf-against", "--hwperf-share"
_REPORT = "--hwperf-report"
_OWN = ("--hwperf-machine-kind", "--hwperf-shard")  # what the fleet itself gives
_LARGEST_TABLE = 1 << 20  # bytes of a pyproject.toml
_STORED = ("--hwperf-save", "--hwperf-store")
BUNDLE, SHARED = "project.bundle", "shared"
_NAME = "pytest_hwperf"
_METADATA = ("METADATA", "WHEEL", "entry_points.txt")
_LARGEST = 1 << 30  # bytes: it lies in the memory of this process and of each host


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What every host with a gate gets."""

    root: Path
    folder: str  # within it, in which pytest is started
    arguments: tuple[str, ...]  # of pytest, with the commit of the baseline
    candidate: str
    snapshot: str
    parcel: bytes


def project_of(here: Path, arguments: Sequence[str], place: Path) -> Project:
    """Pack the project of the present folder; hosts get the commit that `--hwperf-against` means here."""
    root, given, commits = top_of(here), [*arguments], list[str]()
    for option in (_REPORT, *_OWN, *_STORED):
        if any(one == option or one.startswith(f"{option}=") for one in arguments):
            instead = "hwperf fleet --output" if option == _REPORT else "leave it out"
            raise UsageProblem(f"{option} is not for a host of a fleet: {instead}")
    for number, one in enumerate(given):
        if one == _AGAINST:
            raise UsageProblem(f"write {_AGAINST}=REVISION in one word, so that hosts get the commit that it is now")
        if one.startswith(f"{_AGAINST}="):
            commits = [resolve(root, one.partition("=")[2])]
            given[number] = f"{_AGAINST}={commits[0]}"
    globs = [one.partition("=")[2] for one in given if one.startswith(f"{_SHARE}=")]
    try:
        packed = bundle.pack(root, tuple(commits), place)
        content = pack(packed.file, root, shared_files(root, [one for one in globs if one not in ("auto", "none")]))
    except OSError as error:
        raise WorkerError(f"the project cannot be packed in {place}: {error}") from error
    return Project(
        root=root,
        folder=here.resolve().relative_to(root).as_posix(),
        arguments=tuple(given),
        candidate=packed.candidate,
        snapshot=packed.snapshot,
        parcel=content,
    )


def arguments_of(project: Project, task: Task, share: str) -> tuple[str, ...]:
    """Return the arguments of pytest for one task."""
    shard = (f"--hwperf-shard={task.number}/{task.of}",) if task.of > 1 else ()
    only = () if "--hwperf-only" in project.arguments else ("--hwperf-only",)
    return (*project.arguments, *only, f"--hwperf-machine-kind={task.kind}{share}", *shard)


def installed_by(root: Path, given: Sequence[str] | None, *, none: bool) -> tuple[str, ...] | None:
    """Return the arguments of pip that install the project on a host, None where nothing is installed."""
    if none:
        return None
    if given:
        return tuple(given)
    file, is_package = root / "pyproject.toml", (root / "setup.py").is_file()
    if not is_package and file.is_file():
        try:
            content = tomllib.loads(read_given(file, _LARGEST_TABLE, "fix that, or give --no-install").decode("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageProblem(f"{file} is no TOML: {error}") from error
        is_package = "project" in content or "build-system" in content
    if is_package:
        return "-e", "."
    return ("-r", "requirements.txt") if (root / "requirements.txt").is_file() else ()


def pack(history: Path, root: Path, shared: Sequence[str]) -> bytes:
    """Put everything into one archive."""
    size = history.stat().st_size + sum((root / file).stat().st_size for file in shared)
    if size > _LARGEST:
        raise UsageProblem(
            f"the project has {size / 1e9:.1f} GB of history and shared files; {_LARGEST / 1e9:.1f} GB travel"
        )
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1) as archive:
        archive.add(history, BUNDLE)
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
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    files = {f"{_NAME}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in paths}
    for name in _METADATA:
        if text := installed.read_text(name):
            files[f"{info}/{name}"] = text.encode()
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return f"{_NAME}-{pytest_hwperf.__version__}-py3-none-any.whl", whole.getvalue()
