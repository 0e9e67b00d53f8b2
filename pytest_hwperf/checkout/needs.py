"""What the baseline's revision needs beside its project: the versions of its lock file, and its dependency groups."""

import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path, PurePath
from typing import Any

from pytest_hwperf.checkout.building import is_here
from pytest_hwperf.host.files import read_file, read_text

_PROJECT = "pyproject.toml"
_NOT_INSTALLED = frozenset({"pytest-hwperf"})  # the baseline's environment sees the one that runs here


def requirements_of_groups(
    candidate: Path, baseline: Path, folders: Collection[PurePath], is_here: Callable[[str], bool]
) -> list[str]:
    """Return what the baseline's groups need, of those groups that the present project has installed here.

    What comes from no index is left out: the projects of the tree themselves, and what uv takes from elsewhere.
    """
    found, own = dict[str, None](), set[str](_NOT_INSTALLED)
    for folder in folders:
        now, then = _read(candidate / folder), _read(baseline / folder)
        own |= {*map(_normal, _table(then, "tool", "uv", "sources")), _normal(str(_table(then, "project").get("name")))}
        for name in _groups(now):
            needed = [*_expanded(_groups(now), name)]
            if needed and all(is_here(one) for one in needed):
                found |= dict.fromkeys(_expanded(_groups(then), name))
    return [one for one in found if _name_of(one) not in own]


def _groups(content: Mapping[str, Any]) -> Mapping[str, Sequence[Any]]:
    groups = _table(content, "dependency-groups")
    return {_normal(name): needed for name, needed in groups.items() if isinstance(needed, list)}


def _expanded(groups: Mapping[str, Sequence[Any]], name: str, above: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the requirements of a group and of those that it includes, each once in a circle of them."""
    for one in groups.get(name, ()):
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict) and (other := _normal(str(one.get("include-group", "")))) not in (*above, name):
            yield from _expanded(groups, other, (*above, name))


def _table(content: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return a table within tables, which is empty where there is none."""
    for name in names:
        found = content.get(name)
        content = found if isinstance(found, dict) else {}
    return content


def _read(folder: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(read_text(folder / _PROJECT))
    except (ValueError, RecursionError):
        return {}


def _name_of(requirement: str) -> str:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return _normal(Requirement(requirement).name)
    except InvalidRequirement:
        return ""


_UV, _PEP_751, _REQUIREMENTS = "uv.lock", "pylock.toml", "requirements*.txt"
_LARGEST = 50_000_000  # bytes of a lock file
_NOT_LOCKED = frozenset({"pytest-hwperf"})  # both sides have the same one: its halves talk to each other


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """Exact versions for this interpreter and system."""

    files: tuple[str, ...] = ()  # of the baseline, relative to its root
    versions: Mapping[str, str] = field(default_factory=dict)  # normalised name → version
    lists_needs: bool = False  # whether it is itself the list of what is needed


def lock_of(root: Path, folders: Sequence[PurePath]) -> Lock:
    """Return what the lock file of a tree names: the one beside a project, else the one above it.

    Packages that come from no index, such as the members of a workspace, are left out, and so is one of which more
    than one version fits: a damaged file names nothing.
    """
    for folder in dict.fromkeys(place for one in folders for place in (one, *one.parents)):
        for name, table, is_locked in ((_UV, "package", _is_locked_by_uv), (_PEP_751, "packages", _is_locked)):
            if (root / folder / name).is_file():
                packages = [one for one in _tables(root / folder / name, table) if is_locked(one)]
                pins = (
                    (str(one["name"]), str(one["version"])) for one in packages if {"name", "version"} <= one.keys()
                )
                return Lock(files=(str(folder / name),), versions=_unique(pins))
        files = sorted((root / folder).glob(_REQUIREMENTS))
        if versions := _unique(pin for file in files for pin in _of_requirements(file)):
            names = tuple(str(folder / file.name) for file in files)
            return Lock(files=names, versions=versions, lists_needs=True)
    return Lock()


def _unique(pins: Iterable[tuple[str, str]]) -> dict[str, str]:
    from packaging.utils import canonicalize_name

    found = dict[str, set[str]]()
    for name, version in pins:  # 2.1.0+cpu is no version of an index, and satisfies 2.1.0
        found.setdefault(canonicalize_name(name), set()).add(version.partition("+")[0])
    return {name: versions.pop() for name, versions in found.items() if len(versions) == 1 and name not in _NOT_LOCKED}


def _is_locked_by_uv(package: Mapping[str, Any]) -> bool:
    """Whether a package of a uv.lock is of an index and for this system: each of several versions says for which."""
    markers = package.get("resolution-markers", ())
    return "registry" in package.get("source", ()) and (not markers or any(map(_holds, markers)))


def _is_locked(package: Mapping[str, Any]) -> bool:
    """Whether a package of a pylock.toml (PEP 751) is of an index and for this system."""
    return not {"vcs", "directory", "archive"} & package.keys() and _holds(package.get("marker", ""))


def _of_requirements(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines that name one version; those of pip's options name none."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        text = read_file(file, _LARGEST).decode("utf-8")
    except (OSError, ValueError):
        return
    for line in text.replace("\\\n", " ").splitlines():
        try:
            one = Requirement(line.partition(" #")[0].partition(" --")[0].strip())
        except InvalidRequirement:
            continue
        exact = [part.version for part in one.specifier if part.operator == "==" and "*" not in part.version]
        if exact and one.url is None and (one.marker is None or one.marker.evaluate()):
            yield one.name, exact[0]


def _holds(marker: object) -> bool:
    """Whether a marker fits this interpreter and system; one that cannot be read does not."""
    from packaging.markers import InvalidMarker, Marker

    try:
        return not marker or Marker(str(marker)).evaluate({"extra": ""})
    except InvalidMarker:
        return False


def _tables(file: Path, name: str) -> Sequence[Mapping[str, Any]]:
    try:
        found = tomllib.loads(read_file(file, _LARGEST).decode("utf-8")).get(name, ())
    except (OSError, ValueError, RecursionError):
        return ()
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else ()


_CONSTRAINTS = "hwperf-locked.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What pip is told beside the projects."""

    lock: Lock = field(default_factory=Lock)
    requirements: Sequence[str] = ()  # of groups, and of a list of exact versions what is installed here

    @property
    def is_any(self) -> bool:
        """Whether anything is told."""
        return bool(self.lock.versions or self.requirements)

    @property
    def shown(self) -> str:
        """Where the versions come from, for the end of a sentence."""
        return f", with the versions of its {', '.join(self.lock.files)}" if self.lock.versions else ""

    def arguments(self, folder: Path) -> list[str]:
        """Return arguments of pip; the exact versions stand in a file in `folder`.

        They only bind what is installed anyway: what the user's environment has in that version stays visible.
        """
        if not self.lock.versions:
            return [*self.requirements]
        file = folder / _CONSTRAINTS
        lines = (f"{name}=={version}\n" for name, version in sorted(self.lock.versions.items()))
        file.write_text("".join(lines), encoding="utf-8")
        return [*self.requirements, "-c", str(file)]


def needs_of(candidate: Path, baseline: Path, folders: Sequence[PurePath]) -> Needs:
    """Return what the baseline's own files say about its dependencies."""
    lock = lock_of(baseline, folders)
    needed = requirements_of_groups(candidate, baseline, folders, is_here)
    if lock.lists_needs:
        here = {_normal(package.name) for package in distributions()}
        needed += [f"{name}=={version}" for name, version in lock.versions.items() if name in here]
    return Needs(lock=lock, requirements=needed)


def _normal(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)
