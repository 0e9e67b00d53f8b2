"""Converted models of a session and of both sides of a gate: nobody gets what the converter of another has made."""

import os
from pathlib import Path

import pytest
from fakes.own_converter import own_module
from fakes.reruns import INI, REHEARSED, Project, repository

TESTS = """
import os, pathlib
import pytest, work


@pytest.fixture(scope="module")
def hwperf_model():
    return work.model()


@pytest.fixture(scope="module")
def hwperf_data():
    return work.X


@pytest.mark.hwregression(model_size="1%")
@pytest.mark.hwbudget(latency_p95_ms=10000)
@pytest.mark.hwscenarios("onnx_fp32")
def test_model(hwperf, scenario):
    hwperf(scenario)
"""
NOTE = "import os; open(os.environ['NOTES'], 'a').write('converted ')"


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in which each conversion leaves a word, and a cache apart from the user's own."""
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    return tmp_path / "notes"


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    files = {"work.py": own_module(first=NOTE), "test_model.py": TESTS, "pytest.ini": INI}
    return repository(pytester, {**files, ".gitignore": "report.json\n"})


def run(project: Project, *options: str) -> pytest.RunResult:
    arguments = ("--hwperf-energy=off", "--hwperf-sample-time=0.05", "--hwperf-report=report.json", *options)
    return project.pytester.runpytest_subprocess(*arguments)


def conversions(notes: Path) -> int:
    """Return how often the converter was called; skl2onnx is asked for two forms where the first has no MatMul."""
    return len(notes.read_text(encoding="ascii").split()) if notes.exists() else 0


@pytest.mark.live
def test_without_a_cache_a_session_finds_and_keeps_nothing(project: Project, notes: Path) -> None:
    """A model that is found would have a later time."""
    project.write({"work.py": f"{own_module()}\n\ndef model():\n    return LinearRegression().fit(X, X[:, 0])\n"})
    cache = notes.parent / "cache"
    run(project).assert_outcomes(passed=1)
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    run(project, "-ohwperf_cache=false").assert_outcomes(passed=1)
    assert [".json", ".onnx"] == sorted(path.suffix for path in kept if path.is_file())
    assert kept == {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    assert str(notes.parent / "cache") == os.environ["HWPERF_CACHE_DIR"]


@pytest.mark.live
@pytest.mark.usefixtures("fakes_in_reach")
def test_each_side_of_a_gate_has_the_models_of_its_own_converter(project: Project, notes: Path) -> None:
    """The candidate's converter adds operators; an earlier session has kept nothing of what such a one makes."""
    run(project).assert_outcomes(passed=1)
    assert [] == [path for path in (notes.parent / "cache").rglob("*") if path.is_file()]
    project.write({"work.py": own_module(first=NOTE, additions=50)})
    result = run(project, "--hwperf-against=HEAD", REHEARSED, "--hwperf-alpha=20%")  # which takes fewer processes
    size = project.compared("test_model[onnx_fp32]", "model_size")

    result.assert_outcomes(failed=1)
    assert "regressed" == size.outcome
    assert 4 == conversions(notes)  # two in the sessions, and one on each side


@pytest.mark.live
@pytest.mark.usefixtures("notes")
def test_a_converter_that_breaks_is_an_error_of_its_test(project: Project) -> None:
    """Whatever the baseline has converted before."""
    run(project).assert_outcomes(passed=1)
    project.write({"work.py": own_module(first="raise KeyError('weights')")})
    result = run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*Own does not convert to ONNX*the converter is the project's own (work.py:*"])
