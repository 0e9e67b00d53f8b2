"""What code at the top of a module does beyond the module, by its syntax and by what its names mean."""

import logging
import os
import re
import sys
from types import ModuleType

import pytest

from pytest_hwperf.host.effects import TopLevel

PLAIN = '''
"""A module."""
from __future__ import annotations
import os, re, logging, functools
from pathlib import Path
from dataclasses import dataclass, field
import pytest
try:
    import json
except ImportError:
    json = None
if os.environ.get("X"):
    from decimal import Decimal
LOG = logging.getLogger(__name__)
NAME = re.compile("a")
HERE = Path(__file__).resolve().parent / "data"
SIZES = {"a": [1, 2 * 3], "b": tuple(range(3))}
SIZE: int = 3
SIZE += 1
TEXT = "a b".split()
def plain(x=SIZES): os.environ["A"] = "b"
@functools.lru_cache(maxsize=3)
def kept(): ...
@pytest.mark.parametrize("x", [1, 2])
def test_it(x): ...
@dataclass(frozen=True)
class Row(Exception):
    x: int = field(default=1)
    @property
    def y(self): return 1
    @y.setter
    def y(self, value): ...
'''
EFFECTS = [
    "os.environ['X'] = '1'",
    "os.environ.setdefault('X', '1')",
    "sys.path.insert(0, 'x')",
    "sys.meta_path += [1]",
    "conf.FAST = False",
    "setattr(conf, 'FAST', False)",
    "conf.use('Agg')",
    "FLAGS += ['x']",
    "LIST.append(3)",
    "with conf.on(): pass",
    "for one in conf.all(): one.x = 1",
    "@conf.register\ndef f(): ...",
    "class Own(conf.Registered): ...",
    "class Own(metaclass=conf.Meta): ...",
    "if conf.use('x'): pass",
    "try:\n  import a\nexcept ImportError:\n  conf.FAST = 1",
    "def f(): ...\nf()",
    "re = conf\nre.compile('x')",
    "@pytest.mark.parametrize('x', [1], ids=conf.name)\ndef test_it(x): ...",
    "X = sorted([1], key=conf.key)",
]


def _act(*_: object) -> None:
    """Do something, as it were."""


class _Meta(type):
    pass


class _Registered:
    def __init_subclass__(cls) -> None:
        """Tell a registry, as it were."""


def names_of(text: str) -> dict[str, object]:
    conf = ModuleType("conf")
    vars(conf).update(Registered=_Registered, Meta=_Meta, use=_act, register=_act, on=_act, all=_act, key=_act)
    loaded: dict[str, object] = {"os": os, "sys": sys, "re": re, "logging": logging, "conf": conf, "pytest": pytest}
    return {**loaded, "LIST": [], "FLAGS": [], **({"re": conf} if text.startswith("re = ") else {})}


def test_what_does_nothing_beyond_its_module() -> None:
    module = ModuleType("m")
    names = vars(module)
    names["__file__"] = __file__
    sys.modules["m"] = module
    try:
        exec(compile(PLAIN, __file__, "exec"), names)  # noqa: S102 - the text above
        assert not TopLevel(PLAIN.encode()).first_effect(names)
    finally:
        del sys.modules["m"]


@pytest.mark.parametrize("text", EFFECTS)
def test_what_others_may_see(text: str) -> None:
    assert TopLevel(f"import conf\n{text}\n".encode()).first_effect(names_of(text)) >= 2


def test_only_what_has_run_counts() -> None:
    """A module that is being imported has run up to the line that imports."""
    text = b"import a\ntry:\n  import b\nexcept ImportError:\n  pass\nconf.x = 1\nimport c\n"
    names = names_of("")
    assert [0, 0, 6] == [TopLevel(text).first_effect(names, line) for line in (1, 3, 7)]


SEEN = [
    ("ROUNDS = 1", "ROUNDS = 2"),
    ("class Own(conf.Base):\n  rounds = 1", "class Own(conf.Base):\n  rounds = 2"),
    ("conf.dag >> 1", "conf.dag >> 2"),
    ("from conf import fast", "from conf import slow"),
    ("if True:\n  x = 1\n  import a", "if True:\n  x = 2\n  import a"),
]
UNSEEN = [
    ("def f(): return 1", "def f():\n  return 2"),
    ("class A:\n  def f(self): return 1", "class A:\n  'Text.'\n  def f(self): return 2"),
    ("x = 1  # so", "x = (1)"),
    ("from conf import Base", "from conf import Base, key"),
]


def outline_of(text: str) -> str:
    return TopLevel(text.encode()).outline({})


@pytest.mark.parametrize(("one", "other"), SEEN)
def test_what_a_package_may_find_of_a_module_is_outlined(monkeypatch: pytest.MonkeyPatch, one: str, other: str) -> None:
    monkeypatch.setitem(sys.modules, "conf", ModuleType("conf"))
    vars(sys.modules["conf"])["__getattr__"] = _act
    assert outline_of(one) != outline_of(other)


@pytest.mark.parametrize(("one", "other"), UNSEEN)
def test_what_runs_later_is_not_outlined(monkeypatch: pytest.MonkeyPatch, one: str, other: str) -> None:
    conf = ModuleType("conf")
    vars(conf).update(__getattr__=_act, Base=_Registered, key=_act)
    monkeypatch.setitem(sys.modules, "conf", conf)
    assert outline_of(one) == outline_of(other)


def test_the_outline_ends_where_a_module_imports() -> None:
    """A module that is being imported has run up to the line that imports."""
    one, other = (f"x = 1\nif x:\n  import a\ny = {value}\n" for value in (1, 2))
    assert [True, False] == [
        TopLevel(one.encode()).outline({}, line) == TopLevel(other.encode()).outline({}, line) for line in (3, None)
    ]
