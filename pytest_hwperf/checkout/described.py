"""What the files of a project say of the package that is made of them: version, needs, entry points, and the rest.

Settings of other tools in these files say nothing of it, and are not looked at.
"""

import ast
import configparser
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from pytest_hwperf.checkout.layer import table_in, toml_of
from pytest_hwperf.host.asked_metadata import GROUP, NEEDS, VERSION, WHOLE
from pytest_hwperf.host.files import is_file, is_folder, read_text
from pytest_hwperf.host.source_files import SOURCES

_SCRIPTS = {"scripts": "console_scripts", "gui-scripts": "gui_scripts"}  # table of a project → group
_ENTRY_POINTS = ("entry-points", "plugins", "entrypoints")  # tables of groups: PEP 621, poetry, flit
_NEEDS = frozenset(
    {"dependencies", "optional-dependencies", "extras", "group", "requires", "requires-extra", "install_requires"}
) | {"extras_require"}
_PROSE = frozenset({"readme", "description", "long_description", "description-file", "dynamic"})
_DYNAMIC = (("hatch", "version"), ("pdm", "version"), ("setuptools", "dynamic"), ("flit", "metadata"))
_OF_VERSION = ("__init__.py", "_version.py", "version.py", "__version__.py", "__about__.py", "VERSION", "VERSION.txt")
_ASSIGNED = re.compile(r"^\w*version\w*\s*(?::[^=\n]*)?=.*$", re.MULTILINE | re.IGNORECASE)
_COMPUTED = "*"  # the group of entry points that a setup.py computes
_MOST = 200  # folders that are looked at for a version


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What one tree says of a package."""

    versions: Mapping[str, str] = field(default_factory=dict)  # file → what it says of the version
    needs: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)  # of entry points
    rest: str = ""

    def knows_version_of(self, other: "Described") -> bool:
        """Whether both have a version in one and the same file: where none has, git may have it."""
        return not self.versions.keys().isdisjoint(other.versions)

    def unlike(self, other: "Described", asked: str) -> Iterator[str]:
        """Yield in what two trees differ, of what was asked."""
        if asked in (VERSION, WHOLE):
            both = self.versions.keys() & other.versions.keys()
            yield from [VERSION] * any(self.versions[file] != other.versions[file] for file in both)
        if asked in (NEEDS, WHOLE):
            yield from [NEEDS] * (self.needs != other.needs)
        if asked == WHOLE:
            yield from [WHOLE] * (self.rest != other.rest)
        if asked.startswith(GROUP):
            group = asked.removeprefix(GROUP)
            asked_groups = {group, _COMPUTED} if group else {*self.groups, *other.groups}
            for one in sorted(asked_groups):
                yield from [f"{GROUP}{one}"] * (self.groups.get(one) != other.groups.get(one))


def described(folder: Path) -> Described:
    """Read what the project in a folder says of itself, in the files of any builder."""
    content, options = toml_of(folder / "pyproject.toml"), _ini(folder / "setup.cfg")
    tables = [
        table_in(content, "project"),
        table_in(content, "tool", "poetry"),
        table_in(content, "tool", "flit"),
        table_in(content, "tool", "flit", "metadata"),
        options.get("metadata", {}),
        options.get("options", {}),
    ]
    given, program = _given_to_setup(folder / "setup.py")
    groups = dict(_groups(tables, options))
    if "entry_points" in given:
        groups |= _groups_of_setup(given["entry_points"], program)
    named = [{name: _constant(value, program) for name, value in given.items() if name != "entry_points"}]
    tables += named
    own = {*_SCRIPTS, *_ENTRY_POINTS, *_NEEDS, *_PROSE, "version", "metadata"}
    needs = [{name: value for name, value in table.items() if name in _NEEDS} for table in tables]
    return Described(
        versions=dict(_versions(folder, content, tables)),
        needs=_text([needs, _listed(folder, content)]),
        groups=groups,
        rest=_text([{name: value for name, value in table.items() if name not in own} for table in tables]),
    )


def _groups(tables: list[Any], options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for table in tables:
        for name, group in _SCRIPTS.items():
            if name in table:
                yield group, _text(table[name])
        for name in _ENTRY_POINTS:
            yield from ((group, _text(points)) for group, points in table_in(table, name).items())
    yield from ((group, _text(points)) for group, points in options.get("options.entry_points", {}).items())


def _versions(folder: Path, content: Mapping[str, Any], tables: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield the file of each version with what it says: of those that stand for themselves, or that code holds."""
    is_static = False
    for table in tables:
        version = table.get("version")
        if isinstance(version, str) and not version.startswith(("attr:", "file:")):
            is_static = True
            yield "", version
    if is_static:
        return
    for file in dict.fromkeys((*_files_of_version(folder), *_files_named(folder, content, tables))):
        text = read_text(folder / file)
        found = _ASSIGNED.findall(text) if file.endswith(".py") else [text.strip()]
        if found:
            yield file, "\n".join(found)


def _files_of_version(folder: Path) -> Iterator[str]:
    """Yield the files in which most projects keep their version."""
    for place in (folder, *(folder / name for name in SOURCES)):
        inside = sorted(place.iterdir())[:_MOST] if is_folder(place) else []
        for package in (place, *filter(is_folder, inside)):
            names = (name for name in _OF_VERSION if is_file(package / name))
            yield from ((package / name).relative_to(folder).as_posix() for name in names)


def _files_named(folder: Path, content: Mapping[str, Any], tables: list[Any]) -> Iterator[str]:
    """Yield the files that a builder is told to take a version from, as a path or as the name of a module."""
    texts = [*_strings([table_in(content, "tool", *names) for names in _DYNAMIC])]
    texts += [table["version"] for table in tables if isinstance(table.get("version"), str)]
    for text in texts:
        name = text.partition(":")[2].strip() if text.startswith(("attr:", "file:")) else text
        module = PurePath(*name.split(".")[:-1]).with_suffix(".py") if "." in name.strip(".") else PurePath(name)
        places = (PurePath(source) / one for source in ("", *SOURCES) for one in (PurePath(name), module))
        yield from (str(one) for one in places if is_file(folder / one))


def _listed(folder: Path, content: Mapping[str, Any]) -> list[str]:
    """Return the content of files that list dependencies for setuptools."""
    dynamic = table_in(content, "tool", "setuptools", "dynamic")
    files = _strings([value for name, value in dynamic.items() if name in _NEEDS])
    return [read_text(folder / file) for file in files if is_file(folder / file)]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(one)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _ini(file: Path) -> Mapping[str, Mapping[str, str]]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(read_text(file))
    except configparser.Error:  # a builder refuses it too
        return {}
    return {name: dict(parser[name]) for name in parser.sections()}


def _given_to_setup(file: Path) -> tuple[Mapping[str, ast.expr], str]:
    """Return what a setup.py gives to `setup` by name, and all that it does, without comments."""
    try:
        tree = ast.parse(read_text(file))
    except (SyntaxError, ValueError, RecursionError):  # a builder cannot run it either
        return {}, ""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    found = (call for call in calls if ast.unparse(call.func).rpartition(".")[2] == "setup")
    return {word.arg: word.value for call in found for word in call.keywords if word.arg}, ast.dump(tree)


def _constant(value: ast.expr, program: str) -> Any:
    """Return a value that is written out; of a computed one, all that the program does."""
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError):
        return [program]


def _groups_of_setup(value: ast.expr, program: str) -> dict[str, str]:
    """Return the groups of entry points that a setup.py gives, as a dictionary or as the text of an ini file."""
    found = _constant(value, program)
    if isinstance(found, str):
        parser = configparser.RawConfigParser(strict=False, delimiters=("=",))
        try:
            parser.read_string(found)
        except configparser.Error:
            return {_COMPUTED: found}
        found = {name: dict(parser[name]) for name in parser.sections()}
    if not isinstance(found, dict):
        return {_COMPUTED: _text(found)}
    return {str(group): _text(points) for group, points in found.items()}
