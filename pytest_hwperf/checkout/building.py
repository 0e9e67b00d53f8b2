"""The project of the baseline's revision, built in an environment of its own: when that is needed, and of what."""

import importlib.util
import os
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePath
from time import monotonic
from types import ModuleType

from pytest_hwperf.checkout.ignored import check_ignored
from pytest_hwperf.checkout.layer import is_here
from pytest_hwperf.checkout.trees import Trees, own_paths
from pytest_hwperf.host.files import new_folder, read_text
from pytest_hwperf.host.launch import run_logged, run_to_end
from pytest_hwperf.host.source_files import INSTALLED, SOURCES, installed_copies, is_compiled, source_of
from pytest_hwperf.records.errors import UsageProblem, WorkerError
from pytest_hwperf.records.text import shell_word

_MADE_BY = ("pyproject.toml", "setup.py")  # of which a folder that can be installed has one
_LEGACY = ("setuptools>=40.8.0",)  # where a project names nothing that builds it (PEP 518)
_COMPILED = (".pyc", ".pyo")
_TAIL = 12  # lines of a log
_HINDERING = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIRE_VIRTUALENV")
_QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
_PIP = ("-P", "-m", "pip")
_PYTHON = frozenset({"python", "python3", "python.exe"})  # stands for the interpreter of the side


def why_not_shared(trees: Trees, loaded: Sequence[str], modules: Mapping[str, ModuleType] = sys.modules) -> str:
    """Return why the baseline cannot run its code in this environment, "" where it can."""
    try:
        check_ignored(trees, {"candidate": loaded})
    except UsageProblem as problem:
        return str(problem).partition(", which git")[0].partition(", so that")[0]
    tree = trees.tree("candidate")
    is_loaded = any(tree.has_code(PurePath(file)) for file in loaded)
    if not is_loaded and (copies := installed_copies(loaded, trees.candidate)):
        return f"the package under test is installed as a copy, {min(copies)}"
    paths = set(own_paths(sys.path, trees.candidate))
    for name, module in sorted(modules.items()):
        file = getattr(module, "__file__", None) if "." not in name else None
        real = Path(os.path.realpath(file)) if isinstance(file, str) else None
        if real is not None and tree.has_code(real) and real.parents[real.stem == "__init__"] not in paths:
            return f"the editable install of {name} cannot be led to another tree"
    return ""


def projects_in(trees: Trees) -> dict[PurePath, tuple[str, ...]]:
    """Return the folders of the baseline that can be installed, relative to its root, with their extras.

    They are those from which this environment has something installed, else the root itself.
    """
    found = dict[PurePath, tuple[str, ...]]()
    for package in distributions():
        if (source := source_of(package.read_text(INSTALLED), trees.candidate)) is not None:
            found[source.relative_to(trees.candidate.resolve())] = tuple(_extras_here(package))
    return {
        folder: extras
        for folder, extras in (found or {PurePath(): ()}).items()
        if any((trees.baseline / folder / name).is_file() for name in _MADE_BY)
    }


def ways_to_install(baseline: Path, projects: Mapping[PurePath, Sequence[str]]) -> Iterator[list[str]]:
    """Yield arguments of pip that build and install them, the quickest first.

    With what builds them at hand, nothing has to be loaded for it; a backend may ask for more than it names.
    """
    what = [str(baseline / folder) + (f"[{','.join(extras)}]" if extras else "") for folder, extras in projects.items()]
    if all(is_here(one) for folder in projects for one in _build_requirements(baseline / folder)):
        yield ["--no-build-isolation", *what]
    yield what


def fill(baseline: Path, projects: Mapping[PurePath, Sequence[str]], site: Path) -> list[str]:
    """Copy what building has made, such as compiled modules, beside the sources of the baseline; return the files.

    Whether its code is then found in the tree or in the environment, it is the same.
    """
    filled = []
    for package in distributions(path=[str(site)]):
        for file in package.files or () if package.read_text(INSTALLED) else ():
            name = PurePath(file)
            if name.parts[0] == ".." or name.parts[0].endswith(".dist-info") or name.suffix in _COMPILED:
                continue
            places = [baseline / folder / source for folder in projects for source in ("", *SOURCES)]
            if len(name.parts) == 1 or any((place / name).exists() for place in places):
                continue
            for target in (place / name for place in places if (place / name).parent.is_dir()):
                try:
                    shutil.copy2(site / name, target)
                except OSError as error:
                    raise WorkerError(f"the baseline cannot be given {name} that was built of it: {error}") from error
                filled.append(str(target.relative_to(baseline)))
                break
    return sorted(filled)


def _extras_here(package: Distribution) -> Iterator[str]:
    """Yield the extras of a package of which this environment has everything."""
    from packaging.requirements import Requirement

    needed = [Requirement(text) for text in package.requires or ()]
    for extra in package.metadata.get_all("Provides-Extra") or ():
        own = [
            one
            for one in needed
            if one.marker and one.marker.evaluate({"extra": extra}) and not one.marker.evaluate({"extra": ""})
        ]
        if own and all(is_here(str(one).partition(";")[0]) for one in own):
            yield extra


def _build_requirements(folder: Path) -> Sequence[str]:
    try:
        system = tomllib.loads(read_text(folder / "pyproject.toml")).get("build-system", {})
        return [str(one) for one in system.get("requires", _LEGACY)]
    except (ValueError, AttributeError, RecursionError):
        return _LEGACY


def install(python: Path, what: Sequence[str], timeout_s: float) -> None:
    """Install packages into the environment of `python`, which is over this one and sees its pip."""
    ways = [[*_PIP, "install", "--no-warn-conflicts", *what]]
    if importlib.util.find_spec("pip") is None:
        ways.insert(0, ["-P", "-m", "ensurepip", "--default-pip"])
    own = {name: value for name, value in os.environ.items() if name not in _HINDERING} | _QUIET
    for way in ways:
        shown = " ".join(["python", *way[1:]])
        try:
            done = run_to_end(
                way, interpreter=str(python), timeout_s=timeout_s, directory=python.parent, environment=own
            )
        except WorkerError as error:
            raise UsageProblem(
                f"`{shown}` for the environment of the baseline: {error}; give more time with "
                "--hwperf-time-limit=SECONDS"
            ) from error
        if done.returncode:
            lines = [f"  {line}" for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            raise UsageProblem("\n".join([f"`{shown}` for the environment of the baseline failed:", *lines[-_TAIL:]]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What building a tree took."""

    seconds: float = 0.0
    stale: tuple[str, ...] = ()  # compiled files that this process had loaded before they were made anew


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPlace:
    """Where a tree is built."""

    side: str  # "baseline" or "present tree", as it is shown
    directory: Path  # the root of the tests in it
    environment: Mapping[str, str]
    interpreter: str  # for which it is built
    logs: Path  # the log of a build that fails is kept here


def run_builds(builds: Sequence[str], place: BuildPlace, until: float, loaded: Sequence[str] = ()) -> Built:
    """Run the commands in a tree, one after the other."""
    began, before = monotonic(), {file: _state(file) for file in filter(is_compiled, loaded)}
    for build in builds:
        _run(build, place, max(until - monotonic(), 1.0))
    stale = tuple(file for file, state in before.items() if _state(file) != state)
    return Built(seconds=monotonic() - began, stale=stale)


def _state(file: str) -> tuple[int, int] | None:
    """Return what tells whether a file was written or replaced."""
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _run(build: str, place: BuildPlace, timeout_s: float) -> None:
    first, *others = shlex.split(build)
    words = [place.interpreter if first in _PYTHON else first, *others]
    log = new_folder(place.logs, "build") / f"{place.side.replace(' ', '-')}.log"
    path = [str(PurePath(place.interpreter).parent), place.environment.get("PATH", os.defpath)]
    own = {**place.environment, "PATH": os.pathsep.join(path)}  # programs beside the interpreter are found first
    try:
        code, tail = run_logged(words, log, timeout_s=timeout_s, directory=place.directory, environment=own)
    except WorkerError as error:
        raise UsageProblem(f"--hwperf-build={shell_word(build)}, in the {place.side}: {error}") from error
    if code is None:
        why = f"did not end within {timeout_s:.0f} s; give more time with --hwperf-time-limit=SECONDS"
    elif code:
        why = f"ended with code {code}"
    else:
        log.unlink()
        log.parent.rmdir()
        return
    raise UsageProblem(f"--hwperf-build={shell_word(build)}, in the {place.side}, {why}. {tail}\nAll of it: {log}")
