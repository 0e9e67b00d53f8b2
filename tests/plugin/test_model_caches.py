"""Converted models of a session and of both sides of a gate: nobody gets what the converter of another has made."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.own_converter import as_before, own_module
from fakes.reruns import INI, REHEARSED, WORK, repository

QUICK = ("--hwperf-energy=off", "--hwperf-sample-time=0.05")
SCENARIO = """
import pytest, work

@pytest.fixture(scope="module")
def hwperf_model(): return work.model()

@pytest.fixture(scope="module")
def hwperf_data(): return work.X

@pytest.mark.hwscenarios("onnx_fp32")
def test_model(hwperf, scenario): hwperf(scenario)
"""
# A conversion by code of the project, without a runtime.
CONVERSION = """
import os
import work
from pytest_hwperf.runtimes.cache import load_or_build

def build():
    with open(os.environ["NOTES"], "a") as notes: notes.write("converted ")
    return b"x" * work.SIZE, {}

def test_converted(hwperf):
    load_or_build("k", build)
    hwperf(work.call)

def test_found(hwperf):
    # Both sides have converted: they take turns at each measurement.
    stored = load_or_build("k", build)
    hwperf(work.call)
    with open(os.environ["NOTES"], "a") as notes: notes.write(f"{stored.bytes} ")
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache apart from the user's own, and the converters as they were."""
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path / "cache"))
    with as_before():
        yield tmp_path / "cache"


@pytest.mark.live
def test_without_a_cache_a_session_finds_and_keeps_nothing(pytester: pytest.Pytester, cache: Path) -> None:
    """A model that is found would have a later time."""
    pytester.makeini(INI)
    plain = f"{own_module()}\n\ndef model():\n    return LinearRegression().fit(X, X[:, 0])\n"
    pytester.makepyfile(work=plain, test_model=SCENARIO)
    pytester.runpytest_inprocess(*QUICK).assert_outcomes(passed=1)
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    pytester.runpytest_inprocess(*QUICK, "-ohwperf_cache=false").assert_outcomes(passed=1)
    assert [".json", ".onnx"] == sorted(path.suffix for path in kept if path.is_file())
    assert kept == {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    assert str(cache) == os.environ["HWPERF_CACHE_DIR"]


@pytest.mark.live
@pytest.mark.usefixtures("fakes_in_reach")
def test_each_side_of_a_gate_has_the_models_of_its_own_converter(
    pytester: pytest.Pytester, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The candidate's converter writes more; a session keeps nothing of what such a one makes."""
    notes = tmp_path / "notes"
    monkeypatch.setenv("NOTES", str(notes))
    project = repository(pytester, {"work.py": f"{WORK}\nSIZE = 5\n", "test_model.py": CONVERSION, "pytest.ini": INI})
    project.write({"work.py": f"{WORK}\nSIZE = 7\n"})
    project.run(REHEARSED).assert_outcomes(passed=2)
    assert [] == [path for path in cache.rglob("*") if path.is_file()]
    # Twice each in the session and on both sides: no process finds what its own code has converted.
    assert ["5", "7", "7", *["converted"] * 6] == sorted(notes.read_text(encoding="ascii").split())


@pytest.mark.live
def test_a_converter_that_breaks_is_an_error_of_its_test(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(work=own_module(first="raise KeyError('weights')"), test_model=SCENARIO)
    result = pytester.runpytest_inprocess(*QUICK)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*Own does not convert to ONNX*the converter is the project's own (work.py:*"])
