"""Changed code: which functions, class bodies or modules differ between two versions, and which tests use none of it.

Processes of a rehearsal watch what differs; a test that has used none of it, like its files and its process, is left
out.
"""

import ast
import inspect
import re
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import CodeType

from pytest_hwperf.records.evidence import Side
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import named

MODULE = "<module>"  # key of what runs when the file is imported

_WHOLE = (frozenset({MODULE}), frozenset({MODULE}))
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)


Keys = tuple[frozenset[str], frozenset[str]]  # of the baseline's code and of the candidate's


def changed_code(baseline: bytes, candidate: bytes) -> Keys:
    """Return the keys of the changed code of each version, none where both do the same in the same order.

    What a piece of code does by itself are its instructions, names and constants; where they stand in the file and
    what is written about them in comments is left out. What is seen of a function without a call of it belongs to the
    code around it: its name, its arguments and their defaults, its decorators, its docstring. Code within changed code
    has no key of its own, since it is made only where the changed code runs.
    """
    return compared_code(baseline, candidate)[0]


def compared_code(baseline: bytes, candidate: bytes) -> tuple[Keys, Keys]:
    """Return the keys of the changed code, and of the code that does the same on other lines."""
    try:
        with warnings.catch_warnings(action="ignore"):
            then, now = (compile(source, "", "exec", dont_inherit=True) for source in (baseline, candidate))
    except UNREADABLE:
        return _WHOLE, (frozenset(), frozenset())
    changed = list[tuple[CodeType, CodeType]]()
    moved = list[tuple[CodeType, CodeType]]()
    waiting = [(then, now)]
    for one, other in waiting:  # which grows meanwhile
        if _own(one) != _own(other):
            changed.append((one, other))
            continue
        if _place(one) != _place(other):
            moved.append((one, other))
        nested = ([part for part in code.co_consts if isinstance(part, CodeType)] for code in (one, other))
        waiting += zip(*nested, strict=True)
    return _keys_of(changed), _keys_of(moved)


def _keys_of(pairs: Sequence[tuple[CodeType, CodeType]]) -> Keys:
    return frozenset(key_of(one) for one, _ in pairs), frozenset(key_of(other) for _, other in pairs)


def _place(code: CodeType) -> tuple[object, ...]:
    """Return where a piece of code stands in its file, line by line and column by column."""
    return code.co_firstlineno, code.co_linetable


def key_of(code: CodeType) -> str:
    """Return how a piece of code is called within its file: its qualified name and its first line, "add:12".

    Functions without a name on one line share a key.
    """
    return MODULE if code.co_name == MODULE else f"{code.co_qualname}:{code.co_firstlineno}"


def digest_of(code: CodeType) -> str:
    """Return 16 digits that are the same in every process for code that does the same, and tell versions apart."""
    return blake2b(repr(_own(code)).encode(errors="surrogatepass"), digest_size=8).hexdigest()


def _own(code: CodeType) -> tuple[object, ...]:
    """Return what a piece of code does by itself, with each function in it as it is seen from there."""
    return (
        code.co_code,
        code.co_exceptiontable,
        code.co_names,
        code.co_varnames,
        code.co_cellvars,
        code.co_freevars,
        *_signature(code),
        [_signature(one) if isinstance(one, CodeType) else _constant(one, code) for one in code.co_consts],
    )


def _signature(code: CodeType) -> tuple[object, ...]:
    arguments = code.co_argcount + code.co_kwonlyargcount
    arguments += sum(bool(code.co_flags & one) for one in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS))
    first = code.co_consts[0] if code.co_consts else None  # where a function keeps its docstring
    return (
        code.co_qualname,
        code.co_flags,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_varnames[:arguments],
        first if isinstance(first, str) else None,
    )


def _constant(value: object, of: CodeType) -> tuple[str, str]:
    if value == of.co_firstlineno and "__firstlineno__" in of.co_names:  # of a class, from Python 3.13 on
        return "line", ""
    # not by equality: 1, 1.0 and True are equal, and so are 0.0 and -0.0; a set has another order in each process
    return type(value).__name__, repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)


_WORD = "xfail"
_UNITTEST = b"expectedFailure"


@dataclass(frozen=True, slots=True)
class Xfails:
    """Names around the expected failures of a file: "" of the file, "TestX", "TestX::test_y"."""

    added: frozenset[str] = frozenset()  # new or changed
    kept: frozenset[str] = frozenset()  # that the baseline has too

    def joined(self, other: "Xfails") -> "Xfails":
        return Xfails(self.added | other.added, self.kept | other.kept)


def xfails_of_file(baseline: bytes, candidate: bytes) -> Xfails:
    """Return which expected failures of the candidate's file the baseline's has, and which are new."""
    then, now = _xfails(baseline), _xfails(candidate)
    return Xfails(
        added=frozenset(name for name, found in now.items() if found - then.get(name, set())),
        kept=frozenset(name for name, found in now.items() if found & then.get(name, set())),
    )


def is_expected(test: str, names: frozenset[str]) -> bool:
    """Whether one of these names is around a test of the same file, given as the rest of its node id.

    A fixture or a function that is no test may mark any test.
    """
    parts = test.partition("[")[0].split("::")
    around = {"::".join(parts[:count]) for count in range(len(parts) + 1)}
    return any(name in around or not name.rpartition("::")[2].lower().startswith("test") for name in names)


def _xfails(source: bytes) -> Mapping[str, set[str]]:
    """Return what each function, class and the file itself says of expected failures; nothing of what is no Python.

    Of a file with an expression that is too deep to be read here, each line that speaks of them counts.
    """
    source = source.replace(_UNITTEST, _WORD.encode())
    if _WORD.encode() not in source:
        return {}
    try:
        return _by_name(ast.parse(source))
    except (SyntaxError, ValueError):
        return {}
    except (RecursionError, MemoryError):
        return {"": {line for line in source.decode(errors="replace").splitlines() if _WORD in line}}


def _by_name(tree: ast.Module) -> Mapping[str, set[str]]:
    assigned = {
        target.id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Name)
    }
    aliases = {name for name, value in assigned.items() if _WORD in ast.unparse(value)}
    found = defaultdict[str, set[str]](set)
    for name, node in _owned(tree, ""):
        found[name].update(_said(node, assigned, aliases))
    return found


def _owned(node: ast.Module | ast.ClassDef, name: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield each statement and decorator with the name that it belongs to."""
    for child in node.body:
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield name, child
            continue
        own = f"{name}::{child.name}" if name else child.name
        yield from ((own, decorator) for decorator in child.decorator_list)
        if isinstance(child, ast.ClassDef):
            yield from _owned(child, own)
        else:
            yield from ((own, statement) for statement in child.body)


def _said(node: ast.AST, assigned: Mapping[str, ast.expr], aliases: set[str]) -> Iterator[str]:
    """Yield each expression that marks something; a whole `parametrize` says less than the parameters in it."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in {*aliases, _WORD}:
            yield part.id
        elif isinstance(part, ast.Call | ast.Attribute):
            text = ast.unparse(part)
            is_list = isinstance(part, ast.Call) and ast.unparse(part.func).endswith("parametrize")
            if not is_list and (_WORD in text or any(one in text for one in aliases)):
                yield _with_values(part, assigned)


def _with_values(part: ast.AST, assigned: Mapping[str, ast.expr]) -> str:
    """Return an expression as text, with what the file assigns to the names in it: a condition may be a constant."""
    parts = [part]
    for one in parts:  # which grows meanwhile
        values = (assigned.get(name.id) for name in ast.walk(one) if isinstance(name, ast.Name))
        parts += [value for value in values if value is not None and value not in parts]
    return "\n".join(map(ast.unparse, parts))


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
# requirements.txt, dev-requirements.txt, requirements/dev.txt, uv.lock, conda-lock.yml, pylock.toml
_LISTS_VERSIONS = re.compile(
    r"(^|[/_-])(requirements|constraints)([._-][^/]*)?\.(txt|in)$|(^|/)(requirements|constraints)/.*\.(txt|in)$"
    r"|\.pth$|\.lock$|-lock\.(json|ya?ml)$|(^|/)pylock\.[^/]*toml$",
    re.IGNORECASE,
)
_SOURCE = ".py"


class Watch(Record, frozen=True, kw_only=True):
    """What one side watches in its rehearsal: what of its tree differs from that of the other side."""

    root: str  # of its tree
    code: Mapping[str, tuple[str, ...]] = {}  # file of Python code, relative → keys of its changed code
    moved: Mapping[str, tuple[str, ...]] = {}  # the same → keys of its code that does the same on other lines
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
    # The same files → keys of each side's code that does the same on other lines.
    moved: Mapping[str, Mapping[Side, tuple[str, ...]]] = field(default_factory=dict)
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
    names = {file: file.rpartition("/")[2] for file in changes.files}
    if settings := sorted(file for file, name in names.items() if name in _SETTINGS or _LISTS_VERSIONS.search(file)):
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
        moved={file: keys[side] for file, keys in changes.moved.items() if keys[side]},
        files=tuple(sorted(changes.other)),
        modules=tuple(sorted(filter(None, {_module(file) for file in (*lone, *changes.folders)}))),
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
    affected = dict[str, str]()
    for node in nodes:  # by itself, or by whatever its id begins with
        if why := next((used[one] for one in used if not one or node == one or node.startswith(f"{one}::")), ""):
            affected[node] = why
    return Split(affected=affected, left=tuple(node for node in nodes if node not in affected), is_proof=not used)


def _folders(file: str) -> list[str]:
    """Return the folders around a file from the inside out; the last one is the root, "."."""
    parts = file.split("/")[:-1]
    return [*("/".join(parts[:count]) for count in range(len(parts), 0, -1)), "."]


def _module(path: str) -> str:
    """Return the last name by which a file, or a folder without one of its own, is imported; "" where none is."""
    if not path.endswith(_SOURCE) and "." in path.rpartition("/")[2]:
        return ""
    *folders, name = path.removesuffix(_SOURCE).split("/")
    return folders[-1] if name == "__init__" and folders else name
