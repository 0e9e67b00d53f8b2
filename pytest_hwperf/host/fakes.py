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
from enum import Enum
from operator import itemgetter
from types import BuiltinFunctionType, ModuleType
from typing import cast

_TABLE: tuple[ModuleType, ...] = (
    *(builtins, dt, glob, importlib, importlib.metadata, io, json, os, os.path, pathlib, platform, random),
    *(select, selectors, shutil, signal, socket, subprocess, tempfile, time),
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


RealRandom = random.Random  # for what draws meanwhile
_LOADED_S = time.time() - time.monotonic()


def wall_clock() -> dt.datetime:
    """Return the time of day, also where a test has changed it for the whole process, as time-machine does."""
    return _REAL_DATETIME.fromtimestamp(_LOADED_S + RealClock.monotonic(), dt.UTC)


_REAL_DATETIME = dt.datetime


# Plain classes: a session that measures nothing loads this file too, and dataclasses take a millisecond to make.
class _Place:
    """A module, a class or the table of loaded modules, with what it held."""

    __slots__ = ("_read", "_size", "_values", "held", "is_class", "owner", "real")

    def __init__(
        self, owner: object, real: Mapping[str, object], held: Mapping[str, object], class_size: int | None = None
    ) -> None:
        """Take what it holds now, `held`, which changes by itself, what of it is real, and how much a class held."""
        self.owner = owner
        self.real = real
        self.held = held
        self.is_class = class_size is not None
        self._size = class_size
        names = [*real]
        # Of one name alone it would return no tuple.
        self._read: Callable[[Mapping[str, object]], tuple[object, ...]] = itemgetter(names[0], *names)
        self._values = self._read(real)

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


class _Fake:
    """What stands in one place for something real."""

    __slots__ = ("fake", "name", "owner", "real")

    def __init__(self, owner: object, name: str, fake: object, real: object) -> None:
        """Know both, and where they stand."""
        self.owner = owner
        self.name = name
        self.fake = fake
        self.real = real

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


class _Library:
    """What is known of Python's library: what was noted, whose turn it is, and what was found at the last look."""

    def __init__(self) -> None:
        """Know nothing yet."""
        # What the library held, until the first look needs the places.
        self.noted: list[tuple[object, dict[str, object]]] = []
        self.places: list[_Place] = []
        self.own: dict[str, tuple[ModuleType, dict[str, object]]] = {}  # modules of this package
        self.finders: list[object] = []  # of modules, when there was no fake
        self.their_finders: list[object] = []
        self.loaded = 0  # how many modules there were when those of this package were noted
        self.at_work = False
        self.aside: list[_Fake] = []
        self.seen: tuple[object, ...] = ()  # what `aside` was made of


_LIBRARY = _Library()


def note() -> None:
    """Note what stands in every place now as what is real: when this is loaded, and when this package watches calls.

    A session that measures nothing pays for the copies alone.
    """
    contents = [(module, dict(_contents(module))) for module in _TABLE]
    classes = {
        id(one): one
        for _, held in contents
        for one in held.values()
        if isinstance(one, type) and one.__flags__ & _HEAP and not one.__flags__ & _IMMUTABLE
        if not issubclass(one, BaseException | Enum)
    }
    # Any module of Python may be another one while a fake stands for it, as `fcntl` is under pyfakefs.
    loaded: dict[str, object] = {
        name: module for name, module in sys.modules.items() if name.partition(".")[0] in sys.stdlib_module_names
    }
    own = sys.modules[__name__]
    _LIBRARY.noted = [
        *contents,
        (own, dict(_contents(own))),
        *((one, dict(vars(one))) for one in classes.values()),
        (sys.modules, loaded),
    ]
    _note_own()


def _places() -> list[_Place]:
    """Return every place, made of what was noted."""
    if _LIBRARY.noted:
        _LIBRARY.places = [_place(owner, noted) for owner, noted in _LIBRARY.noted]
        _LIBRARY.noted = []
    return _LIBRARY.places


def _place(owner: object, noted: dict[str, object]) -> _Place:
    if owner is sys.modules:
        return _Place(owner, noted, sys.modules)
    real = {name: value for name, value in noted.items() if _can_be_faked(value)}
    if isinstance(owner, type):
        return _Place(owner, real or {"__module__": noted["__module__"]}, vars(owner), len(noted))
    return _Place(owner, real, _contents(cast("ModuleType", owner)))


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
    differing = [place for place in _places() if place.differs()]
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
