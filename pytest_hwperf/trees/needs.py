"""What the baseline's revision needs beside its project: the versions of its lock file, and its dependency groups."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path, PurePath

from pytest_hwperf.trees.building import is_here
from pytest_hwperf.trees.groups import requirements_of_groups
from pytest_hwperf.trees.locks import Lock, lock_of

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
