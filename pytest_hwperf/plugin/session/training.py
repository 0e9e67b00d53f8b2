"""Fixtures that train a model: found by their code before they run, and told before fresh processes train again."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from pytest_hwperf.host.source_files import is_own
from pytest_hwperf.plugin.session.state import session_of
from pytest_hwperf.records.units import show

REMEDY = "train it once, save it to a file and load that file in the fixture"
_TRAINING = frozenset({"fit", "fit_transform", "fit_predict", "partial_fit", "backward", "train_on_batch"})
_DEEPEST = 4  # calls of functions below a fixture


def say_what_trains(item: pytest.Item, processes: int) -> None:
    """Say before the first fresh process which fixtures of a test train for long, once for each of them."""
    from pytest_hwperf.plugin.session.terminal import line_of

    trained = session_of(item.config).trained
    for name in trained.keys() & {*getattr(item, "fixturenames", ())}:
        line_of(item.config).say(
            f"hwperf: {item.nodeid}: the fixture {name} trained for {show(trained.pop(name), 's')}, and trains again "
            f"in each of {processes} fresh processes: {REMEDY}"
        )


def trained_by(items: Sequence[pytest.Item]) -> list[str]:
    """Return the fixtures of tests that train, as far as their code shows it before they run."""
    found = set[str]()
    for item in items:
        manager = item.config.pluginmanager.getplugin("funcmanage")  # pytest's own, of all fixtures
        for name in getattr(item, "fixturenames", ()):
            defined = manager.getfixturedefs(name, item)
            if defined and trains(defined[-1].func):
                found.add(name)
    return sorted(found)


def trains(function: Callable[..., object], deepest: int = _DEEPEST) -> bool:
    """Whether a function trains a model, by the names that it and the functions below it use."""
    plain = inspect.unwrap(function)
    plain = getattr(plain, "__func__", plain)  # of a fixture in a class
    if not isinstance(plain, FunctionType):
        return False
    names = plain.__code__.co_names
    if not _TRAINING.isdisjoint(names):
        return True
    return deepest > 0 and any(trains(one, deepest - 1) for one in _named(plain))


def _named(function: FunctionType) -> Iterator[FunctionType]:
    """Yield the user's functions that a function names, by themselves or in a module that it names."""
    names = function.__code__.co_names
    found = [function.__globals__[name] for name in names if name in function.__globals__]
    for one in found:
        inside = [vars(one).get(name) for name in names] if isinstance(one, ModuleType) else [one]
        yield from (target for target in inside if isinstance(target, FunctionType) and _is_own(target))


def _is_own(function: FunctionType) -> bool:
    file = Path(function.__code__.co_filename)
    return is_own(str(file), Path(file.anchor))
