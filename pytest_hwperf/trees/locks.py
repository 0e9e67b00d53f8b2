"""Versions that the baseline's own lock file names, for its environment: uv.lock, pylock.toml, requirements*.txt."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from pytest_hwperf.host.files import read_file

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
