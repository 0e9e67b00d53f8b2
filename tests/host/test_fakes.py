"""Fakes of a test are set aside while the package works, and are in place while a call of the test runs."""

import importlib
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from unittest import mock

import pytest

from pytest_hwperf.host import fakes, files, workdirs
from pytest_hwperf.host.fakes import RealClock, fakes_aside, fakes_in_place
from pytest_hwperf.records.errors import WorkerError


@pytest.fixture(autouse=True)
def _noted() -> Iterator[None]:
    """Let what stands in each place at the beginning of a test be real, also where this session itself is watched."""
    before = fakes._LIBRARY
    fakes._LIBRARY = fakes._Library()
    fakes.note()
    yield
    fakes._LIBRARY = before


@pytest.mark.parametrize(
    "name",
    [
        "subprocess.Popen",
        "subprocess.run",
        "os.getpid",
        "os.path.exists",
        "time.perf_counter_ns",
        "time.sleep",
        "builtins.open",
        "io.open",
        "tempfile.mkdtemp",
        "pathlib.Path.read_text",
        "pathlib.Path.exists",
        "random.random",
        "random.Random.shuffle",
        "socket.socket",
        "selectors.DefaultSelector",
        "importlib.metadata.entry_points",
        "json.loads",
        "shutil.rmtree",
        "datetime.datetime",
    ],
)
def test_a_fake_is_aside_while_the_package_works(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    owner = resolve_name(module)
    real = getattr(owner, attribute)
    with mock.patch(name) as fake:
        with fakes_aside():
            assert real == getattr(owner, attribute)
            assert any(attribute in one for one in fakes.faked())
            with fakes_in_place():
                assert fake is getattr(owner, attribute)
            assert real == getattr(owner, attribute)
        assert fake is getattr(owner, attribute)
    assert real == getattr(owner, attribute)


def test_what_a_class_inherits_is_aside_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake in the class itself hides it, and nothing is left behind in the class."""
    assert "listen" not in vars(socket.socket)
    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "listen", lambda *_: None)
        with fakes_aside():
            assert "listen" not in vars(socket.socket)
        assert "listen" in vars(socket.socket)
    assert "listen" not in vars(socket.socket)


def test_a_removed_function_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.listdir
    monkeypatch.delattr(os, "listdir")
    with fakes_aside():
        assert real is os.listdir
    assert not hasattr(os, "listdir")


def test_a_copy_that_another_module_took_is_aside_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As freezegun replaces what modules have imported by name: those of the package, and any other."""
    other = ModuleType("took_a_copy")
    fake = mock.Mock()
    vars(other)["now"] = fake
    monkeypatch.setitem(sys.modules, "took_a_copy", other)
    monkeypatch.setattr(time, "monotonic", fake)
    real = RealClock.monotonic
    with fakes_aside():
        assert real is vars(other)["now"]
    assert fake is vars(other)["now"]


def test_a_module_of_the_package_keeps_what_it_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake module may stand for `os` in each module that has imported it, while `os` itself is as it was."""
    false_os = mock.Mock()
    monkeypatch.setattr(files, "os", false_os)
    monkeypatch.setattr(files, "is_file", lambda _: True)
    monkeypatch.setattr(fakes, "os", false_os)
    with fakes_aside():
        assert (os, os.path.isfile) == (vars(files)["os"], files.is_file)
    assert false_os is vars(files)["os"]


def test_what_the_package_replaced_in_itself_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "read_text", own := mock.Mock())
    monkeypatch.setattr(time, "time", mock.Mock())
    with fakes_aside():
        assert own is files.read_text


def test_an_import_finds_the_module_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no finder is asked that came with a fake: it may forget what was imported while the fake was there."""
    finder = mock.Mock(find_spec=mock.Mock(side_effect=AssertionError))
    with fakes_aside():
        pass
    monkeypatch.setitem(sys.modules, "tempfile", mock.Mock())
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    with fakes_aside():
        import tempfile as found

        assert tempfile is found
        assert finder not in sys.meta_path
    assert finder is sys.meta_path[0]


def test_any_module_of_python_is_the_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one of which no function is looked at: with a lock that is none, a work folder is anybody's."""
    real = importlib.import_module("fcntl")
    with fakes_aside():
        pass
    monkeypatch.setitem(sys.modules, "fcntl", mock.Mock())
    with fakes_aside():
        assert importlib.import_module("fcntl") is real
    assert importlib.import_module("fcntl") is not real


def test_what_a_call_begins_or_ends_is_looked_at_again() -> None:
    """As a set-up before each call does that fakes, and a clean-up after it."""
    real, patch = subprocess.Popen, mock.patch("subprocess.Popen")
    with fakes_aside():
        with fakes_in_place():
            fake = patch.start()
        assert real is subprocess.Popen
        with fakes_in_place():
            assert fake is subprocess.Popen
            patch.stop()
        assert real is subprocess.Popen
        assert () == fakes.faked()
    assert real is subprocess.Popen


def test_another_fake_in_the_same_place_is_not_taken_for_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with fakes_aside():
        for fake in (mock.Mock(), mock.Mock()):
            with fakes_in_place():
                monkeypatch.setattr(random, "random", fake)
            with fakes_in_place():
                assert fake is random.random


def test_work_within_work_and_calls_within_calls_change_nothing() -> None:
    real = time.sleep
    with mock.patch("time.sleep") as fake:
        with fakes_in_place():
            assert fake is time.sleep
        with fakes_aside(), fakes_aside(), fakes_in_place(), fakes_in_place():
            assert fake is time.sleep
            with fakes_aside():
                assert real is time.sleep
            assert fake is time.sleep


def test_an_error_of_a_call_leaves_work_with_real_functions() -> None:
    real = os.getcwd
    with mock.patch("os.getcwd") as fake:
        with fakes_aside():
            with pytest.raises(ZeroDivisionError), fakes_in_place():
                raise ZeroDivisionError
            assert real is os.getcwd
        assert fake is os.getcwd


def test_the_clocks_are_those_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock of another kind, that was there before this was loaded, is named."""
    assert "" == fakes.faked_clock()
    monkeypatch.setattr(RealClock, "perf_counter_ns", staticmethod(lambda: 42))
    assert "time.perf_counter_ns" == fakes.faked_clock()


def test_the_time_of_day_is_known_where_it_was_changed_for_all() -> None:
    """To a second, which is what a report needs; a replaced `time.time` does not move it."""
    before = datetime.now(UTC)
    with mock.patch("time.time", return_value=1.0):
        now = fakes.wall_clock()
    assert abs((now - before).total_seconds()) < 5.0


def test_a_folder_that_is_never_there_ends_with_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tempfile, "mkdtemp", mock.Mock(side_effect=FileNotFoundError))
    with pytest.raises(WorkerError, match="no temporary folder can be kept in"), workdirs.workdir():
        pass


@pytest.mark.parametrize("fake", [None, "", 0, str, sum])
def test_what_is_no_fake_elsewhere_stays_there(monkeypatch: pytest.MonkeyPatch, fake: object) -> None:
    """None may stand for a function, and is what many variables hold."""
    other = ModuleType("holds_the_same")
    vars(other)["held"] = fake
    monkeypatch.setitem(sys.modules, "holds_the_same", other)
    monkeypatch.setattr(os, "getcwd", fake)
    with fakes_aside():
        assert fake is vars(other)["held"]
        assert fake is not os.getcwd
