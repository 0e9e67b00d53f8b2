"""The code that a conversion ran: the project's own, or that of installed libraries."""

import importlib
import sys
import types
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pytest_hwperf.runtimes.cache import is_library, own_frame, recorded, unchanged


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A module with a function that is not part of any library."""
    (tmp_path / "some_work.py").write_text(
        "import json\n\n\ndef call():\n    return json.dumps([1])\n\n\ndef find_spec(*_): pass\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("some_work")
    sys.modules.pop("some_work", None)


@pytest.fixture
def installed(module: types.ModuleType) -> Path:
    """The list of files of a distribution that has installed the module."""
    assert module.__file__
    place = Path(module.__file__).parent / "own_work-1.0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: own_work\nVersion: 1.0\n", encoding="utf-8")
    (place / "RECORD").write_text("some_work.py,sha256=1,9\n\nsome_data.py,sha256=2,9\n", encoding="utf-8")
    return place / "RECORD"


def test_a_change_of_any_file_of_an_installed_library_is_noticed(
    module: types.ModuleType, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a module from which the conversion took a constant too, under the same version.

    Its folder is below another that is imported from, as that of an environment within a project.
    """
    monkeypatch.syspath_prepend(installed.parents[2])
    result, libraries = recorded(module.call)
    assert "[1]" == result
    assert libraries is not None
    assert ["own_work"] == [*libraries]
    assert unchanged(libraries)
    installed.write_text(installed.read_text(encoding="utf-8").replace("=2", "=3"), encoding="utf-8")
    assert not unchanged(libraries)


def test_an_installed_library_behind_another_of_its_name_is_not_recorded(
    module: types.ModuleType, installed: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As what a build has left in the project's folder, which would be looked at in its place."""
    left = tmp_path_factory.mktemp("left") / "own_work.egg-info"
    left.mkdir()
    (left / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: own_work\nVersion: 1.0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(left.parent)
    assert installed.exists()
    assert ("[1]", None) == recorded(module.call)


@pytest.mark.parametrize("record", ["", "__editable___own_work.py,sha256=1,9\n"])
def test_a_project_that_runs_from_its_own_folder_is_no_installed_library(
    module: types.ModuleType, installed: Path, record: str
) -> None:
    installed.write_text(record, encoding="utf-8")
    assert ("[1]", None) == recorded(module.call)


def test_code_of_the_project_cannot_be_recorded(module: types.ModuleType) -> None:
    assert ("[1]", None) == recorded(module.call)


def test_a_library_that_is_gone_is_a_change() -> None:
    assert not unchanged({"no-such-distribution-anywhere": "0"})


def test_what_finds_modules_is_no_part_of_a_conversion(
    module: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment and an editable project have finders that no distribution has installed."""
    finder = types.SimpleNamespace(find_spec=module.find_spec, __module__="some_work")
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert {} == recorded(partial(importlib.import_module, "colorsys"))[1]


def test_code_of_no_file_cannot_be_recorded() -> None:
    space: dict[str, object] = {"__name__": "made_up"}
    exec("def call(): return 3", space)  # noqa: S102 - code without a file
    assert (3, None) == recorded(space["call"])  # type: ignore[arg-type]


def test_the_profiler_of_others_is_put_back(module: types.ModuleType) -> None:
    def other(*_: object) -> None:
        pass

    sys.setprofile(other)
    try:
        recorded(module.call)
        found = sys.getprofile()
    finally:
        sys.setprofile(None)
    assert other is found


def test_an_error_tells_through_which_code_of_no_library_it_passed(module: types.ModuleType) -> None:
    module.json = None  # type: ignore[attr-defined]
    with pytest.raises(AttributeError) as caught:
        module.call()
    assert "some_work.py:5" == own_frame(caught.value)
    assert "" == own_frame(KeyError("never raised"))


@pytest.mark.parametrize(
    ("name", "library"), [("json.decoder", True), ("skl2onnx.common", True), ("namedtuple_P", True), ("work", False)]
)
def test_libraries_are_known_by_their_top(name: str, *, library: bool) -> None:
    assert library == is_library(name)
