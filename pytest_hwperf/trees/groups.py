"""Dependency groups (PEP 735) of a project: those of which this environment has everything."""

import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from pytest_hwperf.host.files import read_text

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


def _normal(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)


def _name_of(requirement: str) -> str:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return _normal(Requirement(requirement).name)
    except InvalidRequirement:
        return ""
