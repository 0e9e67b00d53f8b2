"""Whether code at the top of a module does anything beyond the module: by its syntax, and by what its names mean.

Imports, definitions, constants and containers of these do nothing that another module could see. What assigns to an
attribute or an item, or calls what is not known to be harmless, may.
"""

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

# Functions and classes that change nothing that others see, by their modules.
_HARMLESS: Mapping[str, str] = {
    "abc": "abstractmethod ABC ABCMeta",
    "array": "array",
    "builtins": (
        "abs all any bool bytearray bytes callable chr classmethod complex dict divmod enumerate float format "
        "frozenset getattr hasattr hash id int isinstance issubclass iter len list max min object ord pow "
        "print property range repr reversed round set slice sorted staticmethod str sum tuple type zip"
    ),
    "collections": "ChainMap Counter OrderedDict defaultdict deque namedtuple",
    "contextlib": "asynccontextmanager contextmanager nullcontext",
    "contextvars": "ContextVar",
    "dataclasses": "dataclass field",
    "datetime": "date datetime time timedelta",
    "decimal": "Decimal",
    "enum": "auto unique",
    "fractions": "Fraction",
    "functools": "cache cached_property lru_cache partial total_ordering wraps",
    "importlib.metadata": "version",
    "itertools": "chain count product repeat",
    "logging": "getLogger NullHandler",
    "math": "ceil cos exp floor inf log log2 log10 pi sin sqrt",
    "operator": "attrgetter itemgetter methodcaller",
    "os": "fspath getenv",
    "pathlib": "Path PurePath PurePosixPath",
    "posixpath": "abspath basename dirname exists expanduser isdir isfile join normpath realpath",
    "pytest": "approx fixture importorskip param",
    "re": "compile escape",
    "struct": "Struct calcsize",
    "textwrap": "dedent",
    "threading": "Lock RLock local",
    "types": "MappingProxyType SimpleNamespace",
    "typing": "NewType ParamSpec TypeVar TypeVarTuple cast final overload runtime_checkable",
    "weakref": "WeakKeyDictionary WeakSet WeakValueDictionary",
}
_OF_TEXTS = frozenset(
    {
        *("absolute", "encode", "decode", "expanduser", "format", "items", "joinpath", "join"),
        *("keys", "lower", "lstrip", "replace", "resolve", "rstrip", "split", "splitlines"),
        *("startswith", "endswith", "strip", "title", "upper", "values", "with_name", "with_suffix"),
    }
)  # methods of what a literal or a path is
_OF_PROPERTIES = frozenset({"setter", "getter", "deleter"})
_CALLING = frozenset({"key", "ids", "default_factory"})  # arguments that are functions, and called
_IMMUTABLE = (int, float, complex, str, bytes, tuple, frozenset, bool, type(None))
_PLAIN = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Compare),
    *(ast.IfExp, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.JoinedStr, ast.FormattedValue, ast.Starred, ast.Slice),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension, ast.keyword),
    *(ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop),
)
_ABSENT = object()


class TopLevel:
    """The statements of a module, some of which may have run."""

    def __init__(self, source: bytes) -> None:
        """Raise SyntaxError or ValueError for what is no Python."""
        self._body = ast.parse(source).body
        self._outline = _Outline().visit(ast.parse(source)).body

    def first_effect(self, names: Mapping[str, Any], line: int | None = None) -> int:
        """Return the line of the first statement with an effect; 0 where there is none.

        Only what has run counts when `line` runs. `names` are those of the module at this moment.
        """
        return _first_effect(self._body, names, line)

    def outline(self, names: Mapping[str, Any], line: int | None = None) -> str:
        """Write what has run, without imports and the bodies of functions; all of it where no line is given."""
        return "\n".join(_outlined(self._outline, names, line))


class _Outline(ast.NodeTransformer):
    """Leaves out what does not run at the top of a module: the bodies of functions, and mere texts."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = []
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.body = []
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)


def _outlined(body: Iterable[ast.stmt], names: Mapping[str, Any], line: int | None) -> Iterator[str]:
    for statement in body:
        begins = min((one.lineno for one in getattr(statement, "decorator_list", ())), default=statement.lineno)
        if line is not None and begins > line:
            return
        is_running = line is not None and line <= (statement.end_lineno or begins)
        if is_running and isinstance(statement, ast.If | ast.Try):
            if isinstance(statement, ast.If):
                yield ast.dump(statement.test)
            yield from _outlined(_inside(statement), names, line)
            return
        if isinstance(statement, ast.ImportFrom):
            yield from () if is_running else _made_for(statement, names)
        elif not isinstance(statement, ast.Import):
            yield ast.dump(statement)


def _made_for(statement: ast.ImportFrom, names: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that the `__getattr__` of a module has made: it may have done anything else."""
    package = str(names.get("__package__") or "").split(".")
    above = package[: len(package) - statement.level + 1] if statement.level else []
    module = sys.modules.get(".".join([*above, *filter(None, [statement.module])]))
    held = vars(module) if isinstance(module, ModuleType) else {}
    if "__getattr__" in held:
        yield from (f"{statement.module}.{one.name}" for one in statement.names if one.name not in {*held, "*"})


def _first_effect(body: Iterable[ast.stmt], names: Mapping[str, Any], line: int | None) -> int:
    for statement in body:
        begins = min((one.lineno for one in getattr(statement, "decorator_list", ())), default=statement.lineno)
        if line is not None and begins > line:
            return 0
        if line is not None and line <= (statement.end_lineno or begins):
            return _effect_within(statement, names, line)
        if not _is_plain(statement, names):
            return statement.lineno
    return 0


def _effect_within(statement: ast.stmt, names: Mapping[str, Any], line: int) -> int:
    """Return the line of the first effect of a statement that runs at this moment."""
    if isinstance(statement, ast.If | ast.Try):
        if isinstance(statement, ast.If) and not _is_pure(statement.test, names):
            return statement.lineno
        return _first_effect(_inside(statement), names, line)
    return 0 if _is_plain(statement, names) else statement.lineno


def _inside(statement: ast.stmt) -> Sequence[ast.stmt]:
    """Return the statements of all blocks within another, in their order."""
    handled = [one for handler in getattr(statement, "handlers", ()) for one in handler.body]
    parts = (getattr(statement, name, ()) for name in ("orelse", "finalbody"))
    return [*getattr(statement, "body", ()), *handled, *(one for part in parts for one in part)]


def _is_plain(statement: ast.stmt, names: Mapping[str, Any]) -> bool:  # noqa: C901, PLR0911 - a table of kinds
    """Whether a statement does nothing beyond its module."""
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Global() | ast.Nonlocal():
            return True
        case ast.Expr(value=value) | ast.Assert(test=value):
            return _is_pure(value, names)
        case ast.Assign(targets=targets, value=value):
            return all(map(_is_own_name, targets)) and _is_pure(value, names)
        case ast.AnnAssign(target=target, value=value):
            return _is_own_name(target) and (value is None or _is_pure(value, names))
        case ast.AugAssign(target=ast.Name(id=name), value=value):  # a list may be that of another module
            return isinstance(names.get(name, _ABSENT), _IMMUTABLE) and _is_pure(value, names)
        case ast.Delete(targets=targets):
            return all(map(_is_own_name, targets))
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            given = [*statement.args.defaults, *filter(None, statement.args.kw_defaults)]
            return _are_pure(given, names) and _are_decorators(statement.decorator_list, names)
        case ast.ClassDef(bases=bases, keywords=keywords, body=body):
            kept = all(_tells_nobody(base, names) for base in [*bases, *(one.value for one in keywords)])
            return kept and _are_decorators(statement.decorator_list, names) and not _first_effect(body, names, None)
        case ast.If(test=test):
            return _is_pure(test, names) and all(_is_plain(one, names) for one in _inside(statement))
        case ast.Try(handlers=handlers):
            caught = [handler.type for handler in handlers if handler.type is not None]
            return _are_pure(caught, names) and all(_is_plain(one, names) for one in _inside(statement))
        case ast.Raise(exc=raised):
            return raised is None or _is_pure(raised, names)
        case _:
            return type(statement).__name__ == "TypeAlias"


def _is_own_name(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return all(map(_is_own_name, target.elts))
    return isinstance(target, ast.Name)


def _are_pure(expressions: Iterable[ast.expr], names: Mapping[str, Any]) -> bool:
    return all(_is_pure(one, names) for one in expressions)


def _is_pure(node: ast.AST, names: Mapping[str, Any]) -> bool:
    """Whether evaluating an expression changes nothing."""
    if isinstance(node, ast.Lambda):  # its body does not run
        return _are_pure([*node.args.defaults, *filter(None, node.args.kw_defaults)], names)
    if isinstance(node, ast.Call):
        if any(one.arg in _CALLING and not isinstance(one.value, ast.Constant | ast.List) for one in node.keywords):
            return False
        inner = [*node.args, *node.keywords, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
        return _is_harmless(node.func, names) and all(_is_pure(one, names) for one in inner)
    return isinstance(node, _PLAIN) and all(_is_pure(one, names) for one in ast.iter_child_nodes(node))


def _are_decorators(decorators: Iterable[ast.expr], names: Mapping[str, Any]) -> bool:
    """Whether decorators do nothing but change what they decorate."""
    for one in decorators:
        of_property = isinstance(one, ast.Attribute) and one.attr in _OF_PROPERTIES
        if not (of_property or _is_harmless(one, names) or (isinstance(one, ast.Call) and _is_pure(one, names))):
            return False
    return True


def _is_harmless(function: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether a call of what an expression names changes nothing."""
    found = _meant(function, names)
    if found is not _ABSENT:
        return _is_mark(found) or any(found is one for one in _harmless())
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Attribute | ast.Name):
        mapping = _meant(function.value, names)
        if type(mapping).__name__ == "_Environ" and function.attr == "get":
            return True
    return isinstance(function, ast.Attribute) and function.attr in _OF_TEXTS and _is_text(function.value, names)


def _is_text(value: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether an expression is a literal, or a path: what its methods do is known."""
    while isinstance(value, ast.Attribute | ast.Subscript | ast.BinOp):
        value = value.left if isinstance(value, ast.BinOp) else value.value
    if isinstance(value, ast.Call):
        return _is_harmless(value.func, names)
    held = names.get(value.id) if isinstance(value, ast.Name) else None
    is_path = any(one.__module__.startswith("pathlib") for one in type(held).__mro__)
    return isinstance(value, ast.Constant | ast.JoinedStr | ast.Dict) or isinstance(held, str | bytes) or is_path


def _meant(expression: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return what a dotted name stands for, without any `__getattr__`, which might import."""
    if isinstance(expression, ast.Name):
        return names.get(expression.id, vars(builtins).get(expression.id, _ABSENT))
    if isinstance(expression, ast.Attribute):
        holder = _meant(expression.value, names)
        if _is_mark(holder):
            return holder
        return vars(holder).get(expression.attr, _ABSENT) if isinstance(holder, ModuleType) else _ABSENT
    return _ABSENT


def _is_mark(value: object) -> bool:
    """Whether it is `pytest.mark`, or one of its marks, which are all harmless."""
    return type(value).__name__ in ("MarkGenerator", "MarkDecorator") and type(value).__module__.startswith("_pytest.")


def _harmless() -> list[Any]:
    """Return the harmless functions of the modules that are loaded."""
    loaded = (
        (vars(sys.modules[module]), listed.split()) for module, listed in _HARMLESS.items() if module in sys.modules
    )
    return [names[name] for names, listed in loaded for name in listed if name in names]


def _tells_nobody(base: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether a class learns nothing of a class that is derived from it, as registries of plugins do."""
    found = _meant(base.value if isinstance(base, ast.Subscript) else base, names)
    if found is _ABSENT:
        return isinstance(base, ast.Constant)
    if isinstance(found, type) and issubclass(found, type):  # a metaclass
        return found.__module__.partition(".")[0] in sys.stdlib_module_names
    makers = [*type(found).__mro__, *(one for one in getattr(found, "__mro__", ()) if "__init_subclass__" in vars(one))]
    return all(one.__module__.partition(".")[0] in sys.stdlib_module_names for one in makers)
