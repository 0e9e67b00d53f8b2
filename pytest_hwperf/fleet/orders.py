"""What the hosts of a fleet are to run: the project as it lies here, and the arguments of pytest."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf.checkout import bundle
from pytest_hwperf.checkout.revision import resolve, top_of
from pytest_hwperf.fleet import parcel
from pytest_hwperf.host.files import read_given
from pytest_hwperf.records.errors import UsageProblem, WorkerError
from pytest_hwperf.records.fleet import Task

_AGAINST, _SHARE = "--hwperf-against", "--hwperf-share"
_REPORT = "--hwperf-report"
_OWN = ("--hwperf-machine-kind", "--hwperf-shard")  # what the fleet itself gives
_LARGEST = 1 << 20  # bytes of a pyproject.toml
_STORED = ("--hwperf-save", "--hwperf-store")


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What every host gets."""

    root: Path
    folder: str  # within it, in which pytest is started
    arguments: tuple[str, ...]  # of pytest, with the commit of the baseline
    candidate: str
    snapshot: str
    parcel: bytes


def project_of(here: Path, arguments: Sequence[str], place: Path) -> Project:
    """Pack the project of the present folder."""
    root = top_of(here)
    given, against = _with_commit(root, arguments)
    shared = [value for value in _values(given, _SHARE) if value not in ("auto", "none")]
    try:
        packed = bundle.pack(root, (against,) if against else (), place)
        content = parcel.pack(packed.file, root, parcel.shared_files(root, shared))
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
    project = root / "pyproject.toml"
    if (root / "setup.py").is_file() or (project.is_file() and _is_package(project)):
        return "-e", "."
    return ("-r", "requirements.txt") if (root / "requirements.txt").is_file() else ()


def _is_package(file: Path) -> bool:
    try:
        content = tomllib.loads(read_given(file, _LARGEST, "fix that, or give --no-install").decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageProblem(f"{file} is no TOML: {error}") from error
    return "project" in content or "build-system" in content


def _with_commit(root: Path, arguments: Sequence[str]) -> tuple[list[str], str]:
    """Return the arguments with the commit that `--hwperf-against` means here, and that commit, "" without one."""
    for option in (_REPORT, *_OWN, *_STORED):
        if any(one == option or one.startswith(f"{option}=") for one in arguments):
            instead = "hwperf fleet --output" if option == _REPORT else "leave it out"
            raise UsageProblem(f"{option} is not for a host of a fleet: {instead}")
    given, commit = [*arguments], ""
    for place, one in enumerate(given):
        if one == _AGAINST:
            raise UsageProblem(f"write {_AGAINST}=REVISION in one word, so that hosts get the commit that it is now")
        if one.startswith(f"{_AGAINST}="):
            commit = resolve(root, one.partition("=")[2])
            given[place] = f"{_AGAINST}={commit}"
    return given, commit


def _values(arguments: Sequence[str], option: str) -> list[str]:
    return [one.partition("=")[2] for one in arguments if one.startswith(f"{option}=")]
