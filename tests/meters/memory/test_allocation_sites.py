"""The sites that hold memory, from the frames that memray saw."""

import json
import sys
from pathlib import Path

import pytest

from pytest_hwperf.meters.memory import AllocationSite, StackFrame, allocation_site_of, allocation_sites_of
from pytest_hwperf.records.errors import MeasurementError

ROOT = Path("/home/me/project")
PACKAGES = "/home/me/project/.venv/lib/python3.12/site-packages"
MINE: StackFrame = ("predict", "/home/me/project/src/model.py", 12)
TEST: StackFrame = ("test_it", "/home/me/project/tests/test_it.py", 5)
LIBRARY: StackFrame = ("dot", f"{PACKAGES}/numpy/linalg.py", 90)


@pytest.fixture
def _imported_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", "/usr/lib/python3.12", PACKAGES, "/home/me/project/src"])


@pytest.mark.usefixtures("_imported_from")
@pytest.mark.parametrize(
    ("frames", "site"),
    [
        ([MINE, TEST], AllocationSite("predict", "src/model.py", 12, "")),
        ([LIBRARY, MINE, TEST], AllocationSite("dot", "numpy/linalg.py", 90, "src/model.py:12", "predict")),
        (
            [("load", "/usr/lib/python3.12/json/x.py", 3), TEST],
            AllocationSite("load", "json/x.py", 3, "tests/test_it.py:5", "test_it"),
        ),
        ([("run", "/elsewhere/a.py", 1)], AllocationSite("run", "/elsewhere/a.py", 1, "")),
        ([], AllocationSite("", "", 0, "")),  # a thread that runs no Python
    ],
)
def test_a_site_is_the_innermost_line_and_the_users_own_that_led_there(
    frames: list[StackFrame], site: AllocationSite
) -> None:
    """Files are shown relative to the tests' root, or from where they were imported."""
    assert site == allocation_site_of(frames, ROOT)


def test_the_plugins_own_lines_are_not_the_users() -> None:
    """In its own repository they lie below the root too."""
    import pytest_hwperf.plugin.worker as own

    file = str(Path(own.__file__))
    root = Path(own.__file__).parents[2]
    assert (
        "tests/a.py:5"
        == allocation_site_of([LIBRARY, ("work", file, 1), ("t", f"{root}/tests/a.py", 5)], root).called_at
    )


@pytest.mark.live
def test_the_largest_block_is_named_first(tmp_path: Path) -> None:
    pytest.importorskip("memray", reason="the extra memray is not installed")
    kept = []

    def large() -> None:
        kept.append(bytearray(32 << 20))

    def small() -> None:
        kept.extend(bytearray(4 << 20) for _ in range(2))

    def work() -> None:
        large()
        small()

    first, second, *_ = allocation_sites_of(work, Path(__file__).parent, tmp_path / "record")
    assert ("large", "test_allocation_sites.py", 1) == (first.function, first.file, first.allocations)
    assert 32 << 20 == pytest.approx(first.size, rel=0.01)
    assert ("small", 2) == (second.function.rpartition(".")[2].replace("<genexpr>", "small"), second.allocations)


@pytest.mark.live
def test_memray_at_work_already_is_a_reason(tmp_path: Path) -> None:
    """Two trackers cannot watch one process."""
    memray = pytest.importorskip("memray", reason="the extra memray is not installed")
    with memray.Tracker(tmp_path / "outer"), pytest.raises(MeasurementError, match="memray cannot watch"):
        allocation_sites_of(list, tmp_path, tmp_path / "inner")


@pytest.mark.parametrize("folder", ["env/lib/python3.12/site-packages/pkg", "usr/lib/python3/dist-packages/pkg"])
def test_what_was_installed_within_the_root_is_not_the_users_own(tmp_path: Path, folder: str) -> None:
    frames = [("load", str(tmp_path / folder / "mod.py"), 3), ("test_it", str(tmp_path / "test_a.py"), 5)]
    assert "test_a.py:5" == allocation_site_of(frames, tmp_path).called_at


def test_the_interpreters_own_files_are_not_the_users_even_below_the_root() -> None:
    """Containers run with / as the root."""
    decoder = json.decoder.__file__
    frames = [("decode", decoder, 353), ("test_it", "/work/test_a.py", 5)]
    assert allocation_site_of(frames, Path("/")).called_at.endswith("test_a.py:5")


def test_without_memray_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "memray", None)
    with pytest.raises(MeasurementError, match=r"^pip install 'pytest-hwperf\[memray\]'"):
        allocation_sites_of(list, tmp_path, tmp_path / "record")
