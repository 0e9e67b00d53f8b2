"""Names of frames: those of the user's call alone, the same on both sides."""

import sys
from pathlib import Path
from types import CodeType

import pytest

from pytest_hwperf.measure.functions import FrameNames, is_measured
from pytest_hwperf.stats.changed_code import digest_of

ROOT = Path("/home/me/project")


def code(name: str, file: str, line: int) -> CodeType:
    """Return the code of a function that does nothing."""
    return (lambda: None).__code__.replace(co_name=name, co_qualname=name, co_filename=file, co_firstlineno=line)


OWN = code("_batch", str(Path(sys.modules[FrameNames.__module__].__file__ or "").parents[1] / "measure/stream.py"), 9)
PREDICT = code("predict", f"{ROOT}/src/model.py", 4)
SPLIT = code("split", "/usr/lib/python3.11/re/__init__.py", 198)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> FrameNames:
    monkeypatch.setattr(sys, "path", ["/usr/lib/python3.11"])
    return FrameNames(ROOT)


@pytest.mark.parametrize(
    ("frames", "path"),
    [
        ([OWN, PREDICT], ["predict (src/model.py)"]),
        ([PREDICT, OWN, PREDICT], ["predict (src/model.py)"]),  # from the last frame of this package on
        ([OWN, PREDICT, SPLIT], ["predict (src/model.py)", "split (re/__init__.py)"]),
        ([OWN, PREDICT, PREDICT, PREDICT, SPLIT], ["predict (src/model.py)", "split (re/__init__.py)"]),  # recursion
        ([OWN, PREDICT, code("<listcomp>", PREDICT.co_filename, 5)], ["predict (src/model.py)"]),
        ([OWN, code("runtest", "/lib/_pytest/python.py", 1), PREDICT], ["predict (src/model.py)"]),
        ([OWN, code("Collector.lock_data", "/lib/site-packages/coverage/collector.py", 1)], []),
        ([OWN, code("share", f"{ROOT}/coverage/maps.py", 1)], ["share (coverage/maps.py)"]),
        ([OWN, PREDICT, code("made", "", 3)], ["predict (src/model.py)", "made (compiled at run time)"]),
        ([OWN, code("__init__", "<string>", 1)], ["__init__ (compiled at run time)"]),
        ([OWN], []),
        ([PREDICT], []),  # not called by a measurement
    ],
)
def test_a_path_begins_at_the_measured_callable(frames: list[CodeType], path: list[str], names: FrameNames) -> None:
    assert tuple(path) == names.path(frames)


def test_code_is_told_apart_that_is_the_users_and_has_a_file(names: FrameNames) -> None:
    names.path([OWN, code("made", "", 3), PREDICT])
    assert {"predict (src/model.py)": digest_of(PREDICT)} == names.codes
    assert {"made (compiled at run time)": 0, "predict (src/model.py)": 4} == names.lines


def test_a_hostile_name_separates_no_frames_and_moves_no_cursor(names: FrameNames) -> None:
    """Code objects may have any name, and files any path."""
    odd = code("a;b\x1b[2J" + 500 * "x", f"{ROOT}/a;b.py", 1)
    (frame,) = names.path([OWN, odd])
    assert ";" not in frame
    assert frame.isprintable()
    assert 300 > len(frame)


@pytest.mark.parametrize(
    ("function", "measured"),
    [
        (PREDICT, True),
        (SPLIT, True),
        (OWN, False),
        (code("M.f.<locals>.<genexpr>", PREDICT.co_filename, 5), False),
        (code("runtest", "/lib/_pytest/python.py", 1), False),
    ],
)
def test_functions_of_the_call_are_counted(function: CodeType, *, measured: bool) -> None:
    assert measured == is_measured(function)
