"""Converters of a project's own: a changed one converts again, a broken one is an error, a missing one is a skip."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import skl2onnx
from fakes.own_converter import as_before, own_module
from sklearn.linear_model import LinearRegression

from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable
from pytest_hwperf.runtimes import cache
from pytest_hwperf.runtimes.estimators import inspect_form
from pytest_hwperf.runtimes.onnx import convert_model, registered
from pytest_hwperf.runtimes.quantise import onnx_int8_dynamic

pytestmark = pytest.mark.live

Load = Callable[..., ModuleType]


class Other(LinearRegression):  # type: ignore[misc] # scikit-learn has no types
    """An estimator for which nobody has registered a converter."""


@pytest.fixture(autouse=True)
def _as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget what a test has registered, and keep models apart from the user's own."""
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path / "cache"))
    with as_before():
        yield


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Write the project's module as it is now, and import it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def written(**given: object) -> ModuleType:
        (tmp_path / "own_work.py").write_text(own_module(**given), encoding="utf-8")  # type: ignore[arg-type]
        sys.modules.pop("own_work", None)
        importlib.invalidate_caches()
        return importlib.import_module("own_work")

    yield written
    sys.modules.pop("own_work", None)


def converted(work: ModuleType) -> cache.CachedModel:
    fitted = inspect_form(work.model(), work.X)
    return convert_model(fitted, work.X)


def test_a_converter_that_has_changed_converts_again_and_one_that_has_not_gives_the_same(load: Load) -> None:
    first, again = converted(load()), converted(load())
    longer = converted(load(additions=20))
    assert first == again
    assert longer.bytes > first.bytes


def test_a_constant_of_another_module_converts_again(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ModuleType("own_limits")
    monkeypatch.setitem(sys.modules, "own_limits", limits)
    sizes = []
    for limits.N in (0, 50):  # type: ignore[attr-defined]
        sizes.append(converted(load(first="import own_limits", additions="own_limits.N")).bytes)
    assert sizes[0] < sizes[1]


def test_a_data_file_of_the_converter_converts_again(load: Load, tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    sizes = []
    for content in ("", "x" * 50):
        weights.write_text(content, encoding="ascii")
        sizes.append(converted(load(additions=f"len(open({str(weights)!r}).read())")).bytes)
    assert sizes[0] < sizes[1]


def test_the_int8_form_follows_the_converter(load: Load) -> None:
    small, large = (onnx_int8_dynamic(work.model(), X=work.X) for work in (load(additions=n) for n in (0, 20)))
    assert large.model_bytes > small.model_bytes


def test_a_newly_registered_converter_is_another_conversion(load: Load) -> None:
    before = registered()
    load()
    after = registered()
    assert set(before) < set(after)
    assert any(one == "ProjectsOwn=own_work.convert" for one in after)


def test_a_replaced_entry_point_is_another_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    before = registered()
    monkeypatch.setattr(skl2onnx, "to_onnx", lambda: None)
    assert len(before) + 1 == len(registered())


def test_a_converter_that_breaks_is_an_error_though_an_older_model_is_kept(load: Load) -> None:
    converted(load())
    work = load(first="raise KeyError('weights')")
    with pytest.raises(MeasurementError, match=r"does not convert to ONNX.*the project's own \(own_work\.py:\d+\)"):
        converted(work)
    with pytest.raises(MeasurementError, match="the project's own"):
        onnx_int8_dynamic(work.model(), X=work.X)


def test_a_converter_that_writes_what_no_runtime_runs_is_an_error(load: Load) -> None:
    node = "'NoSuchOperator', [operator.inputs[0].full_name], operator.outputs[0].full_name, name='n'"
    work = load(first=f"return container.add_node({node})")
    with pytest.raises(MeasurementError, match=r"ONNX Runtime does not run it: .*\(own_work\.convert\)"):
        converted(work)


def test_an_estimator_without_a_converter_is_no_error(load: Load) -> None:
    work = load()
    fitted = inspect_form(Other().fit(work.X, work.X[:, 0]), work.X)
    with pytest.raises(ScenarioUnavailable, match="Other does not convert to ONNX"):
        convert_model(fitted, work.X)
