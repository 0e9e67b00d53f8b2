"""The install that both sides of a rerun share, and what they ask of it although their files differ in that.

An editable install says on both sides what the candidate's files said when it was made.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path, PurePath

from pytest_hwperf.checkout.described import described
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.host.asked_metadata import FOLDERS, GROUP, NEEDS, VERSION
from pytest_hwperf.host.files import is_file, read_text
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.host.source_files import INSTALLED, SOURCES, real_path, source_of
from pytest_hwperf.records.evidence import Side
from pytest_hwperf.records.text import named, visible

_PLUGINS = f"{GROUP}pytest11"  # for which pytest asks in every process
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
_WORDS: Mapping[str, str] = {VERSION: "the version", NEEDS: "the dependencies"}
_EDITABLE, _LINES = ".pth", "RECORD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlike:
    """What both sides read alike of a package, although their files say different things."""

    package: str
    what: tuple[str, ...]  # as it was asked
    is_of_git: bool = False  # whether it is a version that no file has in both trees

    @property
    def is_version(self) -> bool:
        """Whether nothing but the version may differ."""
        return self.what == (VERSION,)

    @property
    def said(self) -> str:
        """Say what was asked, for a sentence."""
        return f"the tests ask for {named(list(map(_in_words, self.what)))} of the installed {visible(self.package)}"

    @property
    def remark(self) -> str:
        """Say that both sides have read the same, and what to type."""
        differ = "its version may come from git" if self.is_of_git else "which differ between both trees"
        return (
            f"{self.said}, and both sides read what the present tree was installed with: {differ}. Give the baseline "
            "an install of its own with -o hwperf_base_env=build"
        )


def _in_words(what: str) -> str:
    if what.startswith(GROUP):
        return f"the entry points {visible(what.removeprefix(GROUP))}".removesuffix(" *")
    return _WORDS.get(what, "the metadata")


def read_alike(trees: Trees, opened: Mapping[Side, Opened]) -> list[Unlike]:
    """Return what tests have asked of installs of the tree in which both trees differ."""
    asked, names = defaultdict[PurePath, set[str]](set), dict[PurePath, str]()
    for package in distributions():
        if (source := source_of(package.read_text(INSTALLED), trees.candidate)) is not None and source.is_dir():
            project = source.relative_to(trees.candidate.resolve())
            names[project] = package.name
            asked[project].add(_PLUGINS)
    for one in opened.values():
        for file, what in one.metadata.items():
            place = Path(file).parent
            if place.suffix in FOLDERS and (found := _project_of(place, trees)) is not None:
                names.setdefault(found, place.stem.partition("-")[0])
                asked[found] |= {*what}
    return [one for project in sorted(asked) for one in _unlike(names[project], project, asked[project], trees)]


def _unlike(package: str, project: PurePath, asked: set[str], trees: Trees) -> Iterator[Unlike]:
    then, now = (described(root / project) for root in (trees.baseline, trees.candidate))
    if what := tuple(dict.fromkeys(part for one in sorted(asked) for part in now.unlike(then, one))):
        yield Unlike(package=package, what=what)
    elif VERSION in asked and not now.knows_version_of(then):
        yield Unlike(package=package, what=(VERSION,), is_of_git=True)


def _project_of(place: Path, trees: Trees) -> PurePath | None:
    """Return the folder of a tree that a package was installed from, relative to its root; None of any other one."""
    for side in ("candidate", "baseline"):
        tree = trees.tree(side)
        if tree.holds(real_path(place)):
            folder = real_path(place).parent.relative_to(tree.root)
            return folder.parent if folder.name in SOURCES else folder
    here = trees.candidate.resolve()
    if (source := source_of(read_text(place / INSTALLED), here)) is not None:
        return source.relative_to(here) if source.is_dir() else None
    if is_file(place / INSTALLED):
        return None
    names = (line.partition(",")[0] for line in read_text(place / _LINES).splitlines())  # as poetry installs it
    lines = (line for name in names if name.endswith(_EDITABLE) for line in read_text(place.parent / name).splitlines())
    for folder in map(real_path, lines):
        for one in (folder, *folder.parents):
            if one.is_relative_to(here) and any(is_file(one / name) for name in _PROJECT):
                return one.relative_to(here)
    return None
