"""Estimators of XGBoost and LightGBM: by their own boosters, and converted to ONNX."""

import sys
import warnings
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes.fitted_models import breast_cancer, digits, fitted
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pytest_hwperf.host import extras
from pytest_hwperf.records.errors import ScenarioUnavailable
from pytest_hwperf.runtimes import boosters
from pytest_hwperf.runtimes import cache as models
from pytest_hwperf.runtimes.boosters import lightgbm_native, xgboost_native
from pytest_hwperf.runtimes.onnx import cache_key_parts, onnx_fp32, registered
from pytest_hwperf.runtimes.quantise import onnx_int8
from pytest_hwperf.runtimes.sklearn_native import sklearn_fp32
from pytest_hwperf.scenario_contract import ScenarioContract

pytestmark = pytest.mark.runtime

xgboost = pytest.importorskip("xgboost", reason="the extra xgboost is not installed")
lightgbm = pytest.importorskip("lightgbm", reason="the extra lightgbm is not installed")
pytest.importorskip("onnxmltools", reason="the extras xgboost and lightgbm are not installed")

FEW = {"n_estimators": 5, "n_jobs": 2}  # more threads than are asked for


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Share conversions among the tests of this file and keep them apart from the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HWPERF_CACHE_DIR", str(tmp_path_factory.mktemp("models")))
        yield models.folder()


@cache
def booster(kind: str) -> Any:
    """Return an estimator, fitted on digits, or on breast cancer where its name says `two` or `values`."""
    made = {
        "xgboost": lambda: xgboost.XGBClassifier(**FEW),
        "xgboost two": lambda: xgboost.XGBClassifier(**FEW),
        "xgboost values": lambda: xgboost.XGBRegressor(**FEW),
        "xgboost linear": lambda: xgboost.XGBClassifier(booster="gblinear", **FEW),
        "xgboost raw": lambda: xgboost.XGBRegressor(objective="reg:absoluteerror", booster="gblinear", **FEW),
        "lightgbm": lambda: lightgbm.LGBMClassifier(verbose=-1, **FEW),
        "lightgbm two": lambda: lightgbm.LGBMClassifier(verbose=-1, **FEW),
        "lightgbm values": lambda: lightgbm.LGBMRegressor(verbose=-1, **FEW),
        "xgboost scaled": lambda: make_pipeline(StandardScaler(), xgboost.XGBClassifier(**FEW)),
        "xgboost stopped": lambda: xgboost.XGBClassifier(n_estimators=60, early_stopping_rounds=2),
    }
    X, _, y, _ = data(kind)
    more = {"eval_set": [(X[-80:], y[-80:])], "verbose": False} if kind == "xgboost stopped" else {}
    with warnings.catch_warnings(action="ignore"):
        return made[kind]().fit(X[:-80], y[:-80], **more)


def data(kind: str) -> Any:
    return digits() if kind in {"xgboost", "lightgbm"} else breast_cancer()


class OfBooster(ScenarioContract):
    kind = "xgboost"
    test_a_fresh_process_needs_its_imports_alone: Any = None  # each imports its library and nothing else
    model_without_form: Any = cached_property(lambda _: fitted("forest"))
    model = cached_property(lambda self: booster(self.kind))
    X = cached_property(lambda self: data(self.kind)[1][:50])

    @cached_property
    def labels(self) -> Any:
        with warnings.catch_warnings(action="ignore"):  # of LightGBM about names of columns, which nobody gave
            return self.model.predict(self.X)


class TestXgboost(OfBooster):
    factory = staticmethod(xgboost_native)


class TestXgboostOfTwo(OfBooster):
    factory = staticmethod(xgboost_native)
    kind = "xgboost two"


class TestXgboostOnnx(OfBooster):
    factory = staticmethod(onnx_fp32)
    model_without_form = None


class TestXgboostSklearn(OfBooster):
    factory = staticmethod(sklearn_fp32)
    model_without_form = None


class TestLightgbm(OfBooster):
    factory = staticmethod(lightgbm_native)
    kind = "lightgbm"


class TestLightgbmOfTwo(OfBooster):
    factory = staticmethod(lightgbm_native)
    kind = "lightgbm two"


class TestLightgbmOnnx(OfBooster):
    factory = staticmethod(onnx_fp32)
    kind = "lightgbm two"
    model_without_form = None


KINDS = ["xgboost", "xgboost two", "xgboost values", "lightgbm", "lightgbm two", "lightgbm values", "xgboost stopped"]


def native(kind: str) -> Any:
    return (xgboost_native if kind.startswith("xgboost") else lightgbm_native)(booster(kind), X=data(kind)[1])


def outputs_of(scenario: Any, X: Any) -> Any:
    predictor = scenario.load()
    with predictor.scope():
        return predictor.predict(predictor.batches(X, len(X))[0])


@pytest.mark.parametrize("kind", KINDS)
def test_boosters_and_their_onnx_forms_agree_with_the_estimator(kind: str) -> None:
    X, model = data(kind)[1], booster(kind)
    with warnings.catch_warnings(action="ignore"):
        expected = model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)
    scenario, converted = native(kind), onnx_fp32(model, X=X)
    assert scenario.conditions["call"] in {"inplace_predict", "booster.predict"}
    assert np.allclose(expected, outputs_of(scenario, X), atol=1e-6)
    assert np.allclose(expected, np.reshape(outputs_of(converted, X), expected.shape), atol=1e-5)
    assert "warning" not in converted.context


@pytest.mark.parametrize(("kind", "call"), [("xgboost linear", "predict_proba"), ("xgboost raw", "predict")])
def test_a_booster_that_does_not_predict_in_place_is_called_through_its_estimator(kind: str, call: str) -> None:
    X = data(kind)[1]
    scenario = native(kind)
    assert call == scenario.conditions["call"]
    assert np.array_equal(getattr(booster(kind), call)(X), outputs_of(scenario, X))


def test_a_booster_that_says_something_else_is_not_called() -> None:
    """Of an objective of the user's own, the booster gives margins and the estimator probabilities."""
    rows, expected = np.zeros((2, 1)), np.zeros((2, 2))
    assert boosters._agrees(lambda rows: np.zeros((len(rows), 2)), rows, expected)
    assert not boosters._agrees(lambda rows: np.zeros(len(rows)), rows, expected)
    assert not boosters._agrees(lambda rows: np.ones((len(rows), 2)), rows, expected)


def test_sizes_are_those_of_the_libraries_own_formats(tmp_path: Path) -> None:
    booster("xgboost").get_booster().save_model(tmp_path / "model.ubj")
    booster("lightgbm").booster_.save_model(tmp_path / "model.txt")
    assert ("xgboost ubj", (tmp_path / "model.ubj").stat().st_size) == size_of(native("xgboost"))
    assert ("lightgbm text", (tmp_path / "model.txt").stat().st_size) == size_of(native("lightgbm"))


def size_of(scenario: Any) -> tuple[str, int]:
    return scenario.size_source, scenario.model_bytes


def test_a_booster_is_told_which_number_stands_for_a_missing_one() -> None:
    """Every tenth row, which an even step would look at, has none."""
    source, n = np.random.default_rng(0), 5120
    X = source.random((n, 3))
    absent = (np.arange(n) % 10 != 0) & (source.random(n) < 0.6)
    X[absent, 0] = -999
    y = ((X[:, 0] > 0.5) | absent).astype(int)
    model = xgboost.XGBClassifier(missing=-999, n_estimators=20, n_jobs=1).fit(X, y)
    scenario = xgboost_native(model, X=X)
    assert "inplace_predict" == scenario.conditions["call"]
    assert model.predict(X).tolist() == scenario.load().labels(outputs_of(scenario, X)).tolist()
    assert y.tolist() == model.predict(X).tolist()


def test_a_booster_is_given_rows_as_they_are() -> None:
    """LightGBM splits seconds of a day in float64, and float32 rounds them to steps of 128."""
    t = 1.7e9 + np.random.default_rng(0).uniform(0, 6000, 4000)[:, None]
    y = (t[:, 0] // 100 % 2).astype(int)
    model = lightgbm.LGBMClassifier(verbose=-1, n_jobs=1).fit(t, y)
    scenario = lightgbm_native(model, X=t)
    assert ("float64", "ndarray float64") == (scenario.conditions["precision"], scenario.conditions["rows"])
    with warnings.catch_warnings(action="ignore"):  # of LightGBM about names of columns, which nobody gave
        expected = model.predict(t)
        assert (model.predict(t.astype(np.float32)) != expected).any()
    assert expected.tolist() == scenario.load().labels(outputs_of(scenario, t)).tolist()


def test_threads_reach_a_booster_that_was_fitted_with_others() -> None:
    """And those of CatBoost, which takes them with each call."""
    X = breast_cancer()[1]
    loaded: Any = sklearn_fp32(booster("xgboost two"), X=X).load().predict
    assert '"nthread":"1"' in loaded.__self__.get_booster().save_config().replace(" ", "")


def test_catboost_of_three_classes_gives_one_label_a_row_in_the_threads_asked_for() -> None:
    catboost = pytest.importorskip("catboost", reason="catboost is not installed")
    X, test, y, _ = digits()
    few = {"iterations": 5, "verbose": 0, "random_seed": 0, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(**few).fit(X[y < 3], y[y < 3])
    scenario = sklearn_fp32(model, X=test, threads=2)
    loaded: Any = scenario.load().predict
    assert {"thread_count": 2} == loaded.keywords
    assert model.predict(test)[:, 0].tolist() == scenario.load().labels(outputs_of(scenario, test)).tolist()
    values = catboost.CatBoostRegressor(**few).fit(X, y)
    assert not sklearn_fp32(values, X=test).classifies


def test_the_users_estimator_keeps_its_threads() -> None:
    model = booster("xgboost two")
    before = model.get_booster().save_config()
    native("xgboost two").load()
    assert 2 == model.n_jobs
    assert before == model.get_booster().save_config()


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm two"])
def test_trees_have_no_int8_form(kind: str) -> None:
    training, X, _, _ = data(kind)
    with pytest.raises(ScenarioUnavailable, match="no INT8 form: only TreeEnsembleClassifier in the ONNX form of"):
        onnx_int8(booster(kind), X=X, X_calibration=training[:64])


def test_a_booster_within_a_pipeline_is_converted_too() -> None:
    X = data("xgboost scaled")[1]
    converted = onnx_fp32(booster("xgboost scaled"), X=X)
    assert np.allclose(booster("xgboost scaled").predict_proba(X), outputs_of(converted, X), atol=1e-5)
    with pytest.raises(ScenarioUnavailable, match="Pipeline is no estimator of XGBoost; sklearn_fp32 measures it"):
        xgboost_native(booster("xgboost scaled"), X=X)


def test_conversions_of_other_models_do_not_depend_on_it() -> None:
    """Whether the converters are registered is a matter of which models came before."""
    X = breast_cancer()[1]
    onnx_fp32(booster("xgboost two"), X=X)
    assert () == registered()
    found = [conversion_of(kind) for kind in ("forest", "xgboost two")]
    keys = [cache_key_parts(one, one.checked(X)) for one in found]
    assert [False, True] == [any(str(part).startswith("onnxmltools ") for part in key) for key in keys]


def conversion_of(kind: str) -> Any:
    from pytest_hwperf.runtimes.estimators import inspect_estimator

    model = fitted(kind) if kind == "forest" else booster(kind)
    return inspect_estimator(model, breast_cancer()[1])


@pytest.mark.parametrize("kind", ["xgboost two", "lightgbm two"])
def test_a_missing_converter_names_the_extra(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from skl2onnx._supported_operators import sklearn_operator_name_map

    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path))
    monkeypatch.delitem(sklearn_operator_name_map, type(booster(kind)), raising=False)
    for name in [name for name in sys.modules if name.startswith("onnxmltools.convert.")]:
        monkeypatch.setitem(sys.modules, name, None)

    extra = kind.partition(" ")[0]
    with pytest.raises(
        ScenarioUnavailable, match=rf"by onnxmltools, which cannot be .*install 'pytest-hwperf\[{extra}\]'"
    ):
        onnx_fp32(booster(kind), X=breast_cancer()[1])


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(ScenarioUnavailable, match=r"XGBoost is not installed: pip install 'pytest-hwperf\[xgboost\]'"):
        xgboost_native(fitted("forest"), X=breast_cancer()[1])
