"""The environment of the baseline, over this one, and what its revision needs in it beside its project.

What is installed in it comes first, and what this one has stays visible. Its needs are the versions of the lock file
and the dependency groups of that revision.
"""

import os
import site
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.host.files import LINKS_PROGRAMS, read_file, read_text
from pytest_hwperf.host.launch import interpreter_of, run_to_end
from pytest_hwperf.host.source_files import INSTALLED, source_of
from pytest_hwperf.records.errors import WorkerError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_BELOW = "hwperf-below.pth"  # leads from the new environment to this one
_QUESTION = "from importlib.metadata import entry_points; print(*(one.name for one in entry_points(group='pytest11')))"
_LONGEST_S = 60.0
# What programs have loaded from a network, in the user's cache folder: hundreds of megabytes, the same for both sides.
_DOWNLOADS = ("huggingface", "torch", "keras", "kagglehub", "whisper", "clip", "sentence_transformers")
_CACHE = "XDG_CACHE_HOME"
_NO_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"
_NOT_LOCKED = frozenset({"pytest-hwperf"})  # both sides have the one that runs here: its halves talk to each other
_LARGEST = 50_000_000  # bytes of a lock file
_CONSTRAINTS = "hwperf-locked.txt"


def make_layer(folder: Path, root: Path) -> Path:
    """Make an environment over this one in `folder`; return its interpreter.

    What this environment has from the tree of `root`, such as an editable install of the project, is not in it.
    """
    try:
        venv.EnvBuilder(with_pip=False, symlinks=LINKS_PROGRAMS).create(folder)
        lines = list(_lines_below(_sites(), root))
        (site_of(folder) / _BELOW).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except (OSError, ValueError) as error:
        raise WorkerError(f"no virtual environment can be made in {folder}: {error}") from error
    return interpreter_of(folder)


def site_of(folder: Path) -> Path:
    """Return where the packages of a virtual environment lie."""
    return Path(sysconfig.get_path("purelib", "venv", vars={"base": str(folder), "platbase": str(folder)}))


def packages_of(folder: Path) -> dict[str, str]:
    """Return name → version of what is installed in that environment itself."""
    return {one.name: one.version for one in distributions(path=[str(site_of(folder))])}


def packages_here(root: Path) -> dict[str, str]:
    """Return name → version of what this environment has, but for the project of the tree of `root`."""
    found = dict[str, str]()
    for package in distributions():
        if not is_from(package, root):
            found.setdefault(package.name, package.version)  # what comes later is hidden by it
    return found


def is_from(package: Distribution, root: Path) -> bool:
    """Whether a package was installed from the tree."""
    return source_of(package.read_text(INSTALLED), root) is not None


def _sites() -> list[Path]:
    """Return the folders of this interpreter in which packages lie."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    found = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages(), *user)
    return [Path(folder) for folder in dict.fromkeys(found) if Path(folder).is_dir()]


def _lines_below(sites: Sequence[Path], root: Path) -> Iterator[str]:
    """Yield lines of a .pth file that give what these folders give, without what belongs to the tree."""
    for folder in sites:
        yield str(folder)
        packages = (package for package in distributions(path=[str(folder)]) if is_from(package, root))
        own = {str(path) for package in packages for path in package.files or ()}
        others = (file for file in sorted(folder.glob("*.pth")) if file.name not in own)
        for line in (line.rstrip() for file in others for line in read_text(file).splitlines()):
            if line.startswith(("import ", "import\t")):
                yield line
            elif line and not line.startswith("#"):
                path = Path(os.path.realpath(folder / line))
                if path.is_dir() and not path.is_relative_to(root.resolve()):
                    yield str(path)


def name_of_interpreter() -> str:
    """Return what tells interpreters apart: an environment is made for one of them."""
    return f"{os.path.realpath(sys.executable)} {sys.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """An interpreter in an environment of its own."""

    path: str  # absolute, since it is started elsewhere; a venv's python is a link, and has to stay one
    plugins: frozenset[str] | None = None  # of pytest, by their names; None: it was not asked, or did not say


def with_plugins(interpreter: Interpreter, timeout_s: float) -> Interpreter:
    """Ask an interpreter for its plugins; why it cannot be asked is said when it is started for the pairs."""
    try:
        answer = run_to_end(
            ["-P", "-c", _QUESTION], interpreter=interpreter.path, timeout_s=max(0.0, min(timeout_s, _LONGEST_S))
        )
    except WorkerError:
        return interpreter
    return interpreter if answer.returncode else replace(interpreter, plugins=frozenset(answer.stdout.split()))


def own_folders(place: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Make a side's own temporary folder and cache folder in `place`; return the variables that name them.

    Both last as long as the pairs, so that what a first process has prepared serves those after it. Where Python is
    told to write no byte code, that of both sides is kept beside them: the candidate's tree may hold some and that of
    the baseline none, and a function that was compiled here was 2 % faster than the same one read from a file.
    """
    temporary, cache = place / "tmp", place / "cache"
    for folder in (temporary, cache):
        folder.mkdir(parents=True, exist_ok=True)
    theirs = Path(environment.get(_CACHE) or Path(environment.get("HOME") or "/", ".cache"))
    for name in _DOWNLOADS:
        if (theirs / name).is_dir():
            with suppress(FileExistsError):
                (cache / name).symlink_to((theirs / name).resolve())
    kept = {_NO_BYTE_CODE: "", "PYTHONPYCACHEPREFIX": str(place.parent / "__pycache__")}
    return {"TMPDIR": str(temporary), _CACHE: str(cache), **(kept if environment.get(_NO_BYTE_CODE) else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What pip is told beside the projects: exact versions for this interpreter and system, and requirements."""

    files: tuple[str, ...] = ()  # with the versions, relative to the baseline's root
    versions: Mapping[str, str] = field(default_factory=dict)  # normalised name → version
    requirements: Sequence[str] = ()  # of groups, and of a list of exact versions what is installed here

    @property
    def is_any(self) -> bool:
        """Whether anything is told."""
        return bool(self.versions or self.requirements)

    @property
    def shown(self) -> str:
        """Where the versions come from, for the end of a sentence."""
        return f", with the versions of its {', '.join(self.files)}" if self.versions else ""

    def arguments(self, folder: Path) -> list[str]:
        """Return arguments of pip; the exact versions stand in a file in `folder`.

        They only bind what is installed anyway: what the user's environment has in that version stays visible.
        """
        if not self.versions:
            return [*self.requirements]
        file = folder / _CONSTRAINTS
        lines = (f"{name}=={version}\n" for name, version in sorted(self.versions.items()))
        file.write_text("".join(lines), encoding="utf-8")
        return [*self.requirements, "-c", str(file)]


def needs_of(trees: Trees, folders: Sequence[PurePath]) -> Needs:
    """Return what the baseline's own files say about its dependencies."""
    locked = locked_versions(trees.baseline, folders)
    return replace(locked, requirements=[*requirements_of_groups(trees, folders), *locked.requirements])


def requirements_of_groups(trees: Trees, folders: Collection[PurePath]) -> list[str]:
    """Return what the baseline's groups need, of those groups that the present project has installed here.

    What comes from no index is left out: the projects of the tree themselves, and what uv takes from elsewhere.
    """
    found, own = dict[str, None](), set[str](_NOT_LOCKED)
    for folder in folders:
        now, then = (toml_of(root / folder / "pyproject.toml") for root in (trees.candidate, trees.baseline))
        own |= {
            *map(_normal, table_in(then, "tool", "uv", "sources")),
            _normal(str(table_in(then, "project").get("name"))),
        }
        for name in _groups(now):
            needed = [*_expanded(_groups(now), name)]
            if needed and all(is_here(one) for one in needed):
                found |= dict.fromkeys(_expanded(_groups(then), name))
    return [text for text in found if not ((one := _parsed(text)) and _normal(one.name) in own)]


def _groups(content: Mapping[str, Any]) -> Mapping[str, Sequence[Any]]:
    groups = table_in(content, "dependency-groups")
    return {_normal(name): needed for name, needed in groups.items() if isinstance(needed, list)}


def _expanded(groups: Mapping[str, Sequence[Any]], name: str, above: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the requirements of a group and of those that it includes, each once in a circle of them."""
    for one in groups.get(name, ()):
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict) and (other := _normal(str(one.get("include-group", "")))) not in (*above, name):
            yield from _expanded(groups, other, (*above, name))


def table_in(content: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return a table within tables, which is empty where there is none."""
    for name in names:
        found = content.get(name)
        content = found if isinstance(found, dict) else {}
    return content


def _parsed(requirement: str) -> "Requirement | None":
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(requirement)
    except InvalidRequirement:
        return None


def is_here(requirement: str) -> bool:
    """Whether this environment has what a requirement asks for; what is for other systems is not asked for."""
    one = _parsed(requirement)
    if one and one.marker and not one.marker.evaluate({"extra": ""}):
        return True
    try:
        return one is not None and one.specifier.contains(distribution(one.name).version, prereleases=True)
    except PackageNotFoundError:
        return False


def locked_versions(root: Path, folders: Sequence[PurePath]) -> Needs:
    """Return what the lock file of a tree names: the one beside a project, else the one above it.

    Packages that come from no index, such as the members of a workspace, are left out, and so is one of which more
    than one version fits: a damaged file names nothing.
    """
    for folder in dict.fromkeys(place for one in folders for place in (one, *one.parents)):
        for name, table in (("uv.lock", "package"), ("pylock.toml", "packages")):  # the latter of PEP 751
            if (root / folder / name).is_file():
                found = toml_of(root / folder / name).get(table)
                packages = (one for one in (found if isinstance(found, list) else ()) if isinstance(one, dict))
                named = (one for one in packages if {"name", "version"} <= one.keys())
                named = (one for one in named if _is_locked(one, by_uv=name == "uv.lock"))
                pins = ((str(one["name"]), str(one["version"])) for one in named)
                return Needs(files=(str(folder / name),), versions=_unique(pins))
        files = sorted((root / folder).glob("requirements*.txt"))
        if versions := _unique(pin for file in files for pin in _of_requirements(file)):
            names = tuple(str(folder / file.name) for file in files)
            here = {_normal(package.name) for package in distributions()}
            needed = [f"{name}=={version}" for name, version in versions.items() if name in here]
            return Needs(files=names, versions=versions, requirements=needed)
    return Needs()


def _unique(pins: Iterable[tuple[str, str]]) -> dict[str, str]:
    found = dict[str, set[str]]()
    for name, version in pins:  # 2.1.0+cpu is no version of an index, and satisfies 2.1.0
        found.setdefault(_normal(name), set()).add(version.partition("+")[0])
    return {name: versions.pop() for name, versions in found.items() if len(versions) == 1 and name not in _NOT_LOCKED}


def _is_locked(package: Mapping[str, Any], *, by_uv: bool) -> bool:
    """Whether a package of a lock file is of an index and for this system; in a uv.lock each version says for which."""
    if by_uv:
        markers = package.get("resolution-markers", ())
        return "registry" in package.get("source", ()) and (not markers or any(map(_holds, markers)))
    return not {"vcs", "directory", "archive"} & package.keys() and _holds(package.get("marker", ""))


def _of_requirements(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines that name one version; those of pip's options name none."""
    try:
        text = read_file(file, _LARGEST).decode("utf-8")
    except (OSError, ValueError):
        return
    for line in text.replace("\\\n", " ").splitlines():
        one = _parsed(line.partition(" #")[0].partition(" --")[0].strip())
        if one and one.url is None and (one.marker is None or one.marker.evaluate()):
            exact = [part.version for part in one.specifier if part.operator == "==" and "*" not in part.version]
            yield from ((one.name, version) for version in exact[:1])


def _holds(marker: object) -> bool:
    """Whether a marker fits this interpreter and system; one that cannot be read does not."""
    from packaging.markers import InvalidMarker, Marker

    try:
        return not marker or Marker(str(marker)).evaluate({"extra": ""})
    except InvalidMarker:
        return False


def toml_of(file: Path) -> Mapping[str, Any]:
    """Return the content of a file; nothing of a damaged one."""
    try:
        return tomllib.loads(read_file(file, _LARGEST).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}


def _normal(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)
