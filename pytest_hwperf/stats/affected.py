"""Tests that a change cannot have reached: what their rehearsal watches, what was used of it, which are left out."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_hwperf.records.evidence import Side
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import named
from pytest_hwperf.stats.changed_code import MODULE

EVERY_TEST = ""  # context of what is used outside of any test or file of tests, and so by all of them

# Files that say how tests are run, or with which versions: whom they reach is not recorded.
_SETTINGS = frozenset(
    {
        *("pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py"),
        *("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", ".coveragerc"),
        *("Pipfile", "environment.yml", "environment.yaml", "pixi.toml", ".python-version", ".env"),
        *("sitecustomize.py", "usercustomize.py", ".gitmodules", "entry_points.txt"),
    }
)
_SETTING_ENDS = (".lock", ".pth")
_REQUIREMENTS = ("requirements", "constraints")
_SOURCE = ".py"
_PACKAGE = "__init__"


class Watch(Record, frozen=True, kw_only=True):
    """What one side watches in its rehearsal: what of its tree differs from that of the other side."""

    root: str  # of its tree
    code: Mapping[str, tuple[str, ...]] = {}  # file of Python code, relative → keys of its changed code
    files: tuple[str, ...] = ()  # other files that are there and differ, relative
    modules: tuple[str, ...] = ()  # last names of modules that one side alone has
    listed: tuple[str, ...] = ()  # folders in which one side alone has a file, relative; "." is the root


class Usage(Record, frozen=True, kw_only=True):
    """What one side has used of what it watched."""

    used: Mapping[str, tuple[str, ...]] = {}  # id of a test or of a file of tests, or EVERY_TEST → what, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What differs between both trees; paths are relative to their roots, with / between folders."""

    changed: Mapping[str, Mapping[Side, tuple[str, ...]]]  # Python files of both → keys of changed code of each side
    other: frozenset[str] = frozenset()  # other files of both
    only: Mapping[str, Side] = field(default_factory=dict)  # file that one side has alone
    folders: frozenset[str] = frozenset()  # that one side has alone, around files that it has alone
    laid_over: frozenset[str] = frozenset()  # of all these, files of which both sides run the candidate's

    @property
    def files(self) -> frozenset[str]:
        return frozenset({*self.changed, *self.other, *self.only})


def why_every_test(changes: Changes) -> str:
    """Return what of a change may reach every test, "" where nothing does.

    A file that is no Python and that one side has alone is among it: nobody notes who asks whether a file is there.
    """
    if settings := sorted(filter(_is_setting, changes.files)):
        return f"{named(settings, 1)} has changed, which says how every test is run"
    if lone := sorted(file for file in changes.only if not file.endswith(_SOURCE) and file not in changes.laid_over):
        return f"{named(lone, 1)} is there on one side only, and which test asks for it is not recorded"
    return ""


def own_change(node: str, changes: Changes, root: str, test_files: Collection[str]) -> str:
    """Return what has changed of a test's own file, or of what its folders give it, "" for nothing."""
    path = f"{root}/{node.partition('::')[0]}".removeprefix("/")
    if path in changes.files:
        return path
    around = {*_folders(path)}
    given = sorted((changes.laid_over & changes.files) - {*test_files})
    return next((file for file in given if _folders(file)[0] in around), "")


def watch_of(side: Side, root: str, changes: Changes) -> Watch:
    """Return what a side has to watch, its tree being at `root`.

    Of a file that both sides have of the candidate all code counts as changed: what it does is not compared.
    """
    code = {file: (MODULE,) if file in changes.laid_over else keys[side] for file, keys in changes.changed.items()}
    lone = [file for file in changes.only if file not in changes.laid_over]
    here = [file for file, has in changes.only.items() if has == side or file in changes.laid_over]
    return Watch(
        root=root,
        code=code | {file: (MODULE,) for file in here if file.endswith(_SOURCE)},
        files=tuple(sorted(changes.other)),
        modules=tuple(sorted({_module(file) for file in (*lone, *changes.folders) if _is_module(file)})),
        listed=tuple(sorted({folder for file in lone for folder in _folders(file)})),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Tests of a rehearsal by what they have used."""

    affected: Mapping[str, str]  # node id → what it uses of the change
    left: tuple[str, ...]  # all others, in their order
    is_proof: bool  # whether nobody has used anything in these processes, those left over and all others


def split(nodes: Sequence[str], usages: Mapping[Side, Usage], loaded: Mapping[Side, Collection[str]]) -> Split:
    """Sort tests by what they, their files and their processes have used of a change, on either side."""
    used = dict[str, str]()
    for side in ("baseline", "candidate"):
        usage = usages.get(side, Usage(used={EVERY_TEST: ("what it uses is not known",)}))
        for context, what in usage.used.items():
            if what:
                used.setdefault(context, f"{side}: {what[0]}")
    if uneven := sorted({*loaded.get("baseline", ())} ^ {*loaded.get("candidate", ())}):
        used.setdefault(EVERY_TEST, f"{named(uneven, 1)} is loaded on one side only")
    affected = {node: why for node in nodes if (why := _why(node, used))}
    return Split(affected=affected, left=tuple(node for node in nodes if node not in affected), is_proof=not used)


def _why(node: str, used: Mapping[str, str]) -> str:
    """Return what a test uses, by itself or by whatever its id begins with."""
    return next((used[one] for one in used if not one or node == one or node.startswith(f"{one}::")), "")


def _folders(file: str) -> list[str]:
    """Return the folders around a file from the inside out; the last one is the root, "."."""
    parts = file.split("/")[:-1]
    return [*("/".join(parts[:count]) for count in range(len(parts), 0, -1)), "."]


def _module(file: str) -> str:
    """Return the last name by which a file is imported."""
    *folders, name = file.removesuffix(_SOURCE).split("/")
    return folders[-1] if name == _PACKAGE and folders else name


def _is_module(path: str) -> bool:
    """Whether something may be imported by a path: as a file, or as a folder without one of its own."""
    return path.endswith(_SOURCE) or "." not in path.rpartition("/")[2]


def _is_setting(file: str) -> bool:
    name = file.rpartition("/")[2]
    return name in _SETTINGS or name.endswith(_SETTING_ENDS) or name.startswith(_REQUIREMENTS)
