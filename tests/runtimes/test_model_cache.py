"""A conversion is found again, and a damaged one is made again."""

import functools
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pytest_hwperf.host.workdirs import goes_with_a_run, workdir
from pytest_hwperf.runtimes import cache
from pytest_hwperf.runtimes.cache import CachedModel, folder, key_of, load_or_build, session_variables


class CountingBuild:
    """A conversion that counts how often it is asked for."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> tuple[bytes, Mapping[str, str]]:
        """Return the same model each time."""
        self.count += 1
        return b"model", {"form": "MatMul"}


pytestmark = pytest.mark.usefixtures("as_installed")


@pytest.fixture
def build() -> CountingBuild:
    return CountingBuild()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep models apart from the user's own."""
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def no_temporary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin as a process that has kept nothing yet for itself."""
    monkeypatch.setattr(cache, "_temporary", functools.cache(cache._temporary.__wrapped__))


def test_a_second_time_nothing_is_built(build: CountingBuild, place: Path) -> None:
    first, second = load_or_build("k", build), load_or_build("k", build)
    assert first == second
    assert 1 == build.count
    assert first.path.parent == place
    assert b"model" == first.path.read_bytes()
    assert (5, {"form": "MatMul"}) == (first.bytes, first.notes)


def test_other_ingredients_have_another_key() -> None:
    assert key_of("a", 1) == key_of("a", 1)
    assert 3 == len({key_of("a", 1), key_of("a", 2), key_of("a1")})


@pytest.mark.parametrize("damage", [b"", b"modem", None])
def test_a_model_that_is_not_what_was_noted_is_built_again(damage: bytes | None, build: CountingBuild) -> None:
    path = load_or_build("k", build).path
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    again = load_or_build("k", build)
    assert 2 == build.count
    assert b"model" == again.path.read_bytes()


@pytest.mark.parametrize("note", ["", "{", "[]", "{}", '{"sha256": "0", "notes": 1}', '"text"'])
def test_a_damaged_note_is_written_again(note: str, build: CountingBuild, place: Path) -> None:
    load_or_build("k", build)
    (place / "k.json").write_text(note, encoding="utf-8")
    load_or_build("k", build)
    assert 2 == build.count
    assert {"form": "MatMul"} == json.loads((place / "k.json").read_text(encoding="utf-8"))["notes"]


def test_nothing_half_written_is_left(build: CountingBuild, place: Path) -> None:
    load_or_build("k", build)
    assert [".json", ".onnx"] == sorted(path.suffix for path in place.iterdir())


def test_a_place_that_cannot_be_written_is_replaced_by_a_temporary_one(
    build: CountingBuild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file where the folder should be refuses even the superuser."""
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path / "file"))
    key = key_of("unwritable", tmp_path)
    first, second = load_or_build(key, build), load_or_build(key, build)
    assert first == second
    assert 1 == build.count
    assert not first.path.is_relative_to(tmp_path)


@pytest.fixture
def own_code(monkeypatch: pytest.MonkeyPatch, no_temporary: None) -> None:
    """Begin as a process that has kept nothing yet, in which code of the project converts."""
    del no_temporary
    monkeypatch.setattr(cache, "recorded", lambda made: (made(), None))


@pytest.fixture
def other_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, str]], None]:
    """Go on as a process that was started with these variables."""

    def start(variables: Mapping[str, str]) -> None:
        process = os.getpid() + 1
        monkeypatch.setattr(os, "getpid", lambda: process)
        for name in ("_temporary", "_given"):
            monkeypatch.setattr(cache, name, functools.cache(getattr(cache, name).__wrapped__))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return start


@pytest.mark.usefixtures("own_code")
def test_what_code_of_the_project_converts_is_never_kept(build: CountingBuild, place: Path) -> None:
    """Nobody knows what it has read; nor is it found in this process, where a test may have changed that."""
    first, second = load_or_build("k", build), load_or_build("k", build)
    assert first == second
    assert 2 == build.count
    assert not place.exists()
    assert not first.path.is_relative_to(place.parent)
    assert goes_with_a_run(first.path)  # also where this process is killed


@pytest.mark.usefixtures("own_code")
def test_fresh_processes_of_a_session_find_what_it_has_converted(
    build: CountingBuild, other_process: Callable[[Mapping[str, str]], None]
) -> None:
    """A cold start and a peak would be measured after the imports and the memory of a conversion."""
    assert {} == session_variables()
    first, variables = load_or_build("k", build), session_variables()
    other_process(variables)
    found = load_or_build("k", build)
    assert 1 == build.count
    assert first == found
    assert not variables.keys() & os.environ.keys()  # a session that this process starts has models of its own
    assert variables == session_variables()


@pytest.mark.usefixtures("own_code")
def test_another_session_converts_again(
    build: CountingBuild, other_process: Callable[[Mapping[str, str]], None]
) -> None:
    load_or_build("k", build)
    other_process({})
    load_or_build("k", build)
    assert 2 == build.count


@pytest.mark.usefixtures("own_code")
def test_the_cache_of_a_side_of_a_gate_keeps_what_its_code_has_converted(
    build: CountingBuild, monkeypatch: pytest.MonkeyPatch, other_process: Callable[[Mapping[str, str]], None]
) -> None:
    """It goes with the gate, whose processes end at once and remove nothing themselves."""
    with workdir() as gate:
        monkeypatch.setenv("HWPERF_CACHE_DIR", str(gate / "base"))
        load_or_build("k", build)
        other_process({})
        found = load_or_build("k", build)
        assert 1 == build.count
        assert ["models"] == [path.name for path in (gate / "base").iterdir()]
        assert found.path.is_relative_to(gate / "base")


@pytest.mark.parametrize("chosen", ["", "cache"])
@pytest.mark.usefixtures("own_code")
def test_what_is_not_kept_never_lies_in_the_users_own_cache(
    build: CountingBuild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    """A process that is killed would leave it there for ever; an empty variable names no folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HWPERF_CACHE_DIR", chosen)
    found = load_or_build("k", build)
    assert not found.path.is_relative_to(tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_what_nobody_used_for_a_month_is_dropped(build: CountingBuild, place: Path) -> None:
    place.mkdir(parents=True)
    old, foreign, recent = place / "old.onnx", place / "keep.txt", place / "recent.onnx"
    for path in (old, foreign, recent):
        path.write_bytes(b"")
    for path in (old, foreign):
        os.utime(path, times=(time.time() - 31 * 86400,) * 2)
    load_or_build("k", build)
    assert [False, True, True] == [path.exists() for path in (old, foreign, recent)]


def test_use_keeps_a_model(build: CountingBuild) -> None:
    stored: CachedModel = load_or_build("k", build)
    os.utime(stored.path, times=(0, 0))
    load_or_build("k", build)
    assert stored.path.stat().st_mtime > 0


def test_the_users_own_cache_folder_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HWPERF_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ("pytest-hwperf", "models") == folder().parts[-2:]
