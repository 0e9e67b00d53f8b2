"""The code that a conversion ran, by its content."""

import importlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_hwperf.scenarios.sources import is_library, own_frame, recorded, unchanged


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A module with a function that is not part of any library."""
    (tmp_path / "some_work.py").write_text(
        "import json\n\n\ndef call():\n    return json.dumps([1])\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("some_work")
    sys.modules.pop("some_work", None)


def test_modules_that_ran_are_recorded_but_for_those_of_libraries(module: types.ModuleType) -> None:
    result, sources = recorded(module.call)

    assert "[1]" == result
    assert sources is not None
    assert ["some_work"] == [name for name in sources if not name.startswith("pytest_hwperf")]
    assert unchanged(sources)


def test_a_changed_file_is_noticed_loaded_or_not(module: types.ModuleType) -> None:
    _, sources = recorded(module.call)
    assert sources is not None
    del sys.modules["some_work"]
    assert unchanged(sources)
    assert module.__file__
    Path(module.__file__).write_text("changed = 1\n", encoding="utf-8")

    assert not unchanged(sources)


def test_a_module_that_is_gone_is_a_change() -> None:
    assert not unchanged({"no_such_module_anywhere": "0"})
    assert not unchanged({"no_such_package_anywhere.inner": "0"})


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
