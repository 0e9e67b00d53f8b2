"""Fakes in Python's own library, set aside while this package works: its work needs the functions that Python has.

A test may replace `subprocess.Popen`, `time.perf_counter`, `open` or the module `os` itself, and measures code that is
to see the replacement. What is there when pytest loads this plugin, before any code of the tests, is noted. While this
package works, what was noted stands in each place; while a call of the tests runs, their fakes do.
"""

import _thread
import builtins
import datetime as dt
import glob
import importlib
import importlib.metadata
import io
import json
import os
import pathlib
import platform
import random
import secrets
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from operator import itemgetter
from types import BuiltinFunctionType, ModuleType

_TABLE: tuple[ModuleType, ...] = (
    *(builtins, dt, glob, importlib, importlib.metadata, io, json, os, os.path, pathlib, platform, random),
    *(secrets, select, selectors, shutil, signal, socket, subprocess, tempfile, time),
)
_OWN = __name__.partition(".")[0] + "."
_START_THREAD = _thread.start_new_thread
_ABSENT = object()  # stands for what is not there
_HEAP, _IMMUTABLE = 1 << 9, 1 << 8  # flags of a class: made at run time, and fixed for good


class RealClock:
    """The clocks of Python itself, for what reads one while calls of the tests run, and their fakes are in place.

    freezegun replaces what modules hold under any name; here it does not look.
    """

    monotonic = staticmethod(time.monotonic)
    perf_counter = staticmethod(time.perf_counter)
    perf_counter_ns = staticmethod(time.perf_counter_ns)
    sleep = staticmethod(time.sleep)
    thread_time_ns = staticmethod(time.thread_time_ns)


_LOADED_S = time.time() - time.monotonic()


def wall_clock() -> dt.datetime:
    """Return the time of day, also where a test has changed it for the whole process, as time-machine does."""
    return _REAL_DATETIME.fromtimestamp(_LOADED_S + RealClock.monotonic(), dt.UTC)


_REAL_DATETIME = dt.datetime


@dataclass(slots=True, eq=False)
class _Place:
    """A module, a class or the table of loaded modules, with what it held."""

    owner: object
    real: Mapping[str, object]
    held: Mapping[str, object]  # what it holds now, which changes by itself
    is_class: bool = False
    _size: int = field(init=False)
    _read: Callable[[Mapping[str, object]], tuple[object, ...]] = field(init=False)
    _values: tuple[object, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._size = len(self.held)
        names = [*self.real]
        self._read = itemgetter(names[0], *names)  # of one name alone it would return no tuple
        self._values = self._read(self.real)

    def differs(self) -> bool:
        """Whether it holds anything else; what is the same is compared by its identity."""
        try:
            if self._read(self.held) != self._values:
                return True
            return self.is_class and len(self.held) != self._size and any(True for _ in self.fakes())
        except KeyError:
            return True

    def fakes(self) -> "Iterator[_Fake]":
        for name, real in self.real.items():
            found = self.held.get(name, _ABSENT)
            if found is not real:
                yield _Fake(self.owner, name, found, real)
        for name in self.held.keys() - self.real.keys() if self.is_class and len(self.held) != self._size else ():
            # The class inherits the real one; pytest-socket puts that very one into the class.
            bases = [vars(one)[name] for one in self.owner.__mro__[1:] if name in vars(one)]  # type: ignore[attr-defined]
            if _can_be_faked(self.held[name]) and self.held[name] not in bases[:1]:
                yield _Fake(self.owner, name, self.held[name], _ABSENT)


@dataclass(slots=True, eq=False)
class _Fake:
    """What stands in one place for something real."""

    owner: object
    name: str
    fake: object
    real: object

    def put(self, value: object) -> None:
        if isinstance(self.owner, dict):
            if value is _ABSENT:
                self.owner.pop(self.name, None)
            else:
                self.owner[self.name] = value
        elif value is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, value)


@dataclass(slots=True)
class _Library:
    """What is known of Python's library: what was noted, whose turn it is, and what was found at the last look."""

    places: list[_Place] = field(default_factory=list)
    own: dict[str, tuple[ModuleType, dict[str, object]]] = field(default_factory=dict)  # modules of this package
    finders: list[object] = field(default_factory=list)  # of modules, when there was no fake
    their_finders: list[object] = field(default_factory=list)
    loaded: int = 0  # how many modules there were when those of this package were noted
    at_work: bool = False
    aside: list[_Fake] = field(default_factory=list)
    seen: tuple[object, ...] = ()  # what `aside` was made of


_LIBRARY = _Library()


def note() -> None:
    """Note what stands in every place now as what is real: when this is loaded, and when this package watches calls."""
    modules = {name: module for name, module in sys.modules.items() if module in _TABLE}
    classes = {
        id(one): one
        for module in _TABLE
        for one in _contents(module).values()
        if isinstance(one, type) and one.__flags__ & _HEAP and not one.__flags__ & _IMMUTABLE
        if not issubclass(one, BaseException | Enum)
    }
    here = sys.modules[__name__]
    _LIBRARY.places = [
        *(_place(module) for module in (*_TABLE, here)),
        *(_place_of_class(one) for one in classes.values()),
        _Place(sys.modules, modules, sys.modules),
    ]
    _note_own()


def _place(module: ModuleType) -> _Place:
    held = _contents(module)
    return _Place(module, {name: value for name, value in held.items() if _can_be_faked(value)}, held)


def _place_of_class(one: type) -> _Place:
    real = {name: value for name, value in vars(one).items() if _can_be_faked(value)}
    return _Place(one, real or {"__module__": vars(one)["__module__"]}, vars(one), is_class=True)


def _is_foreign(value: object) -> bool:
    """Whether a module of this package has it from elsewhere: what the package made itself is no fake's to replace."""
    return _can_be_faked(value) and not str(getattr(value, "__module__", "")).startswith(_OWN)


def _can_be_faked(value: object) -> bool:
    return callable(value) or isinstance(value, classmethod | property | staticmethod | ModuleType)


def _contents(module: ModuleType) -> dict[str, object]:
    """Return what a module holds, past a loader that waits until it is asked for anything."""
    found: dict[str, object] = object.__getattribute__(module, "__dict__")
    return found


def _note_own() -> None:
    """Note what the modules of this package hold that were loaded since, where nothing is faked."""
    _LIBRARY.finders = [*sys.meta_path]
    if len(sys.modules) == _LIBRARY.loaded:
        return
    _LIBRARY.loaded = len(sys.modules)
    for name in [name for name in sys.modules if name.startswith(_OWN)]:
        module, known = sys.modules[name], _LIBRARY.own.get(name)
        if known is None or known[0] is not module:
            _LIBRARY.own[name] = module, {key: one for key, one in _contents(module).items() if _is_foreign(one)}


def _find() -> list[_Fake]:
    """Return every fake, the modules included that hold a copy of one; [] in nearly every test.

    Where threads themselves are others than Python's, as with gevent, what was replaced serves them: a function that
    waits in Python's own way would hold all of them.
    """
    if _thread.start_new_thread is not _START_THREAD:
        RealClock.sleep = staticmethod(time.sleep)
        return []
    differing = [place for place in _LIBRARY.places if place.differs()]
    if not differing:
        return []
    found = [fake for place in differing for fake in place.fakes()]
    seen = (len(sys.modules), *(part for one in found for part in (one.owner, one.name, one.fake)))
    if len(seen) == len(_LIBRARY.seen) and all(one is two for one, two in zip(seen, _LIBRARY.seen, strict=True)):
        return _LIBRARY.aside
    _LIBRARY.seen = seen
    return [*found, *_copies(found)]


def _copies(found: list[_Fake]) -> Iterator[_Fake]:
    """Yield what other modules hold of fakes: what they took from Python's library by name."""
    places = {id(place.owner) for place in _LIBRARY.places}
    # What is Python's own, as `str` in the place of a function, or None, is no fake where it stands elsewhere.
    usual = {id(value) for place in _LIBRARY.places for value in place.real.values()}
    real = {
        id(one.fake): one.real
        for one in found
        if one.real is not _ABSENT and id(one.fake) not in usual and _can_be_faked(one.fake)
    }
    modules: dict[str, object] = {**sys.modules}
    for name, module in modules.items():
        if not isinstance(module, ModuleType) or id(module) in places:  # anything may stand in for a module
            continue
        held, own = _contents(module), _LIBRARY.own.get(name)
        noted = own[1] if own is not None and own[0] is module else {}
        for key, value in [*held.items()]:
            wanted = noted[key] if key in noted else real.get(id(value), value)
            if wanted is not value:
                yield _Fake(module, key, value, wanted)


def _begin_work() -> None:
    found = _find()
    if found:
        _LIBRARY.their_finders, sys.meta_path[:] = [*sys.meta_path], _LIBRARY.finders  # type: ignore[assignment]
    else:
        _LIBRARY.seen = ()
        _note_own()
    _LIBRARY.aside, _LIBRARY.at_work = found, True
    for one in found:
        one.put(one.real)


def _end_work() -> None:
    if len(sys.modules) != _LIBRARY.loaded:
        _note_own()
    _LIBRARY.at_work = False
    for one in reversed(_LIBRARY.aside):
        one.put(one.fake)
    if _LIBRARY.aside:
        sys.meta_path[:] = _LIBRARY.their_finders  # type: ignore[assignment]


@contextmanager
def fakes_aside() -> Iterator[None]:
    """Let this package work with what Python itself has; the fakes of the tests are in place again afterwards."""
    if _LIBRARY.at_work:
        yield
        return
    _begin_work()
    try:
        yield
    finally:
        _end_work()


@contextmanager
def fakes_in_place() -> Iterator[None]:
    """Let code of the tests run with its fakes, those included that it makes or ends meanwhile."""
    if not _LIBRARY.at_work:
        yield
        return
    _end_work()
    try:
        yield
    finally:
        _begin_work()


def faked_clock() -> str:
    """Return the name of a clock that was no clock of Python when this was loaded, "" where all were."""
    clocks = {name: getattr(RealClock, name) for name in ("monotonic", "perf_counter", "perf_counter_ns")}
    return next((f"time.{name}" for name, clock in clocks.items() if not isinstance(clock, BuiltinFunctionType)), "")


def faked() -> tuple[str, ...]:
    """Return the names of what the tests have replaced, as `subprocess.Popen`, while this package works."""
    return tuple(f"{getattr(one.owner, '__name__', 'sys.modules')}.{one.name}" for one in _LIBRARY.aside)


note()
