"""Expected failures in the source of tests: which `xfail` of the candidate the baseline does not have."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_WORD = "xfail"
_UNITTEST = b"expectedFailure"


@dataclass(frozen=True, slots=True)
class Xfails:
    """Names around the expected failures of a file: "" of the file, "TestX", "TestX::test_y"."""

    added: frozenset[str] = frozenset()  # new or changed
    kept: frozenset[str] = frozenset()  # that the baseline has too

    def joined(self, other: "Xfails") -> "Xfails":
        """Return those of both."""
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
