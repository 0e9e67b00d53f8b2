"""Two processes compare what their installed modules hold; what differs by who runs the tests is no difference."""

import io
import sys
from collections.abc import Mapping
from types import ModuleType

import pytest

from pytest_hwperf.host import module_states
from pytest_hwperf.host.module_states import states


class Captured(io.TextIOWrapper):
    """A stream as pytest puts it in the place of `sys.stdout`."""


def digits_of(source: str, names: Mapping[str, object], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the digits of an installed module of this source."""
    module = ModuleType("installed_here")
    vars(module).update(names)
    exec(source, vars(module))  # noqa: S102 - the source of this test
    monkeypatch.setitem(sys.modules, "installed_here", module)
    monkeypatch.setattr(
        module_states, "loaded_modules", lambda: {"installed_here": "/x/site-packages/installed_here.py"}
    )
    return states()["installed_here"]


@pytest.mark.parametrize(
    ("source", "other"),
    [
        ("ROUNDS = 1", "ROUNDS = 2"),
        ("ROUNDS = {'a': [1]}", "ROUNDS = {'a': [2]}"),
        ("def run(rounds=1): pass", "def run(rounds=2): pass"),
        ("def run(): return 1 + x", "def run(): return 1 * x"),
        ("class Run:\n    def go(self): return x", "class Run:\n    def go(self): return -x"),
    ],
)
def test_other_values_and_code_have_other_digits(source: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert digits_of(source, {}, monkeypatch) == digits_of(source, {}, monkeypatch)
    assert digits_of(source, {}, monkeypatch) != digits_of(other, {}, monkeypatch)


def test_a_default_that_is_a_stream_is_the_same_where_output_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def show(file=stdout): pass\ndel stdout"
    plain = digits_of(source, {"stdout": io.TextIOWrapper(io.BytesIO())}, monkeypatch)
    assert plain == digits_of(source, {"stdout": Captured(io.BytesIO())}, monkeypatch)
    assert plain != digits_of(source, {"stdout": None}, monkeypatch)


def test_what_pytest_adds_to_a_module_with_rewritten_assertions_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """It rewrites installed modules too, if their files are called like tests, as scipy's `_bws_test.py`."""
    added = {"@pytest_ar": pytest, "@py_builtins": sys}
    assert digits_of("ROUNDS = 1", {}, monkeypatch) == digits_of("ROUNDS = 1", added, monkeypatch)
