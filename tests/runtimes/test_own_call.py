"""The user's own call, `model.predict(X)` on the rows as given, is what every form of an estimator is held against."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fakes.fitted_models import breast_cancer
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, IsolationForest, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, LocalOutlierFactor, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from pytest_hwperf.records.contracts import Scenario
from pytest_hwperf.records.errors import ScenarioUnavailable
from pytest_hwperf.runtimes import own_call
from pytest_hwperf.runtimes.estimators import inspect_form
from pytest_hwperf.runtimes.onnx import onnx_fp32
from pytest_hwperf.runtimes.own_call import answers_of
from pytest_hwperf.runtimes.quantise import onnx_int8_dynamic
from pytest_hwperf.runtimes.sklearn_native import sklearn_fp32

DRAWN, OF_DRAWN = make_classification(3000, weights=[0.9], flip_y=0.05, random_state=0)
TRAINING, TESTED = slice(1500), slice(1500, 3000)


@pytest.fixture(autouse=True)
def place(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep conversions apart from the user's own."""
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path))


def answers(scenario: Scenario, X: Any, batch_size: int = 64) -> Any:
    """Return what a scenario says of all rows."""
    predictor = scenario.load()
    with predictor.scope():
        return np.concatenate([predictor.labels(predictor.predict(one)) for one in predictor.batches(X, batch_size)])


class Strict(LogisticRegression):  # type: ignore[misc] # scikit-learn has no types
    """A model that decides by itself."""

    def predict(self, X: Any) -> Any:
        return (self.predict_proba(X)[:, 1] > 0.9).astype(int)


DECIDING = [
    TunedThresholdClassifierCV(LogisticRegression(), scoring="recall"),
    TunedThresholdClassifierCV(LogisticRegression(), scoring="balanced_accuracy"),
    FixedThresholdClassifier(LogisticRegression(), threshold=0.1),
    make_pipeline(StandardScaler(), FixedThresholdClassifier(LogisticRegression(), threshold=0.1)),
    Strict(),
    SVC(probability=True, class_weight="balanced", random_state=0),
]


@pytest.mark.parametrize("model", DECIDING, ids=lambda model: type(model).__name__)
def test_who_decides_by_something_else_than_the_largest_probability_is_asked(model: Any) -> None:
    with warnings.catch_warnings(action="ignore"):  # of SVC, which will lose its probabilities
        model = model.fit(DRAWN[TRAINING], OF_DRAWN[TRAINING])
    X = DRAWN[TESTED]
    scenario = sklearn_fp32(model, X=X)
    assert ("labels", "predict") == (scenario.conditions["output"], scenario.conditions["call"])
    assert model.predict(X).tolist() == answers(scenario, X).tolist()


def test_distances_with_priors_are_not_replaced_by_probabilities() -> None:
    X, y = load_wine(return_X_y=True)
    model = NearestCentroid().fit(X, y)
    assert model.score(X, y) == (answers(sklearn_fp32(model, X=X), X) == y).mean()


@pytest.mark.live
def test_a_form_that_loses_a_threshold_is_skipped_with_its_share_and_a_row() -> None:
    """Its INT8 form is skipped for the same reason."""
    model = TunedThresholdClassifierCV(LogisticRegression(), scoring="recall").fit(DRAWN, OF_DRAWN)
    lost = int((model.predict(DRAWN) != model.estimator_.predict(DRAWN)).sum())
    first = int((model.predict(DRAWN) != model.estimator_.predict(DRAWN)).argmax())
    assert lost > 300
    for form in (onnx_fp32, onnx_int8_dynamic):
        with pytest.raises(ScenarioUnavailable, match=f"{lost} of 3000 labels differ, such as row {first}: 0 instead"):
            form(model, X=DRAWN)


@pytest.mark.live
def test_forms_answer_labels_where_these_are_not_the_largest_probability() -> None:
    """One whose labels agree is measured by them, and one whose labels do not is skipped."""
    iris = np.random.RandomState(3).permutation(150)
    from sklearn.datasets import load_digits, load_iris

    X, y = load_iris(return_X_y=True)
    with warnings.catch_warnings(action="ignore"):
        model = SVC(class_weight="balanced", probability=True, random_state=0).fit(X[iris[:30]], y[iris[:30]])
    rows = X[iris[30:]]
    scenario = onnx_fp32(model, X=rows)
    assert "labels" == scenario.conditions["output"]
    assert model.predict(rows).tolist() == answers(scenario, rows).tolist()

    X, y = load_digits(return_X_y=True)
    descent = SGDClassifier(loss="modified_huber", random_state=0).fit(X[:900], y[:900])
    with pytest.raises(ScenarioUnavailable, match="97 of 897 labels differ"):
        onnx_fp32(descent, X=X[900:])


def seconds() -> tuple[Any, Any]:
    """Return Unix seconds of ten minutes, which float32 rounds to steps of 128, and whether they are late."""
    source = np.random.default_rng(0)
    t = 1.7e9 + source.uniform(0, 600, 4000)
    return np.c_[t, source.normal(size=4000)], (t > t.mean()).astype(int)


LARGE = [
    make_pipeline(StandardScaler(), LogisticRegression(C=100)),
    HistGradientBoostingClassifier(max_iter=30),
    KNeighborsClassifier(),
]


@pytest.mark.live
@pytest.mark.parametrize("model", LARGE, ids=lambda model: type(model).__name__)
def test_rows_are_not_rounded_before_the_model_sees_them(model: Any) -> None:
    """A form that is fed rounded rows is skipped, and says how many answers rounding changes."""
    X, y = seconds()
    model = model.fit(X, y)
    assert model.predict(X).tolist() == answers(sklearn_fp32(model, X=X), X).tolist()
    changed = int((model.predict(X.astype(np.float32)) != model.predict(X)).sum())
    assert changed > 40
    with pytest.raises(
        ScenarioUnavailable, match=f"rows change in float32: {changed} of 4000 predictions of the model"
    ):
        onnx_fp32(model, X=X)


@pytest.mark.live
def test_whole_numbers_keep_their_type() -> None:
    X = (2**26 + np.random.default_rng(0).permutation(4000))[:, None]
    model = KNeighborsClassifier(1).fit(X, X[:, 0] % 2)
    assert (X[:, 0] % 2).tolist() == answers(sklearn_fp32(model, X=X), X).tolist()
    assert "ndarray int64" == sklearn_fp32(model, X=X).conditions["rows"]
    with pytest.raises(ScenarioUnavailable, match="rows change in float32"):
        onnx_fp32(model, X=X)


@pytest.mark.live
def test_values_are_held_against_the_models_own() -> None:
    X = seconds()[0][:, :1]
    model = KNeighborsRegressor(1).fit(X, X[:, 0])
    with pytest.raises(ScenarioUnavailable, match=r"max \|Δ\| .* of 4000 values differ, such as row"):
        onnx_fp32(model, X=X)


@pytest.mark.live
def test_histogram_boosting_converts_and_agrees_with_the_call_on_float64_rows() -> None:
    """Its thresholds are rounded as its rows are. Nothing of the converter stays changed."""
    import onnx

    X = np.random.default_rng(0).normal(size=(5000, 10))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model, before = HistGradientBoostingClassifier(max_iter=50).fit(X, y), onnx.helper.make_attribute
    scenario = onnx_fp32(model, X=X)
    assert onnx.helper.make_attribute is before
    assert model.predict(X).tolist() == answers(scenario, X).tolist()


@pytest.mark.live
def test_missing_values_between_the_rows_of_a_step_are_seen() -> None:
    """Every tenth row is whole; the ONNX form of a forest sends missing values another way."""
    source = np.random.default_rng(0)
    X = source.normal(size=(5120, 4))
    X[(np.arange(5120) % 10 != 0) & (source.random(5120) < 0.6), 0] = np.nan
    y = (np.isnan(X[:, 0]) | (X[:, 1] > 0)).astype(int)
    model = RandomForestClassifier(20, random_state=0).fit(X, y)
    assert model.predict(X).tolist() == answers(sklearn_fp32(model, X=X), X).tolist()
    with pytest.raises(ScenarioUnavailable, match="of 5120 labels differ"):
        onnx_fp32(model, X=X)


@pytest.mark.live
@pytest.mark.parametrize(
    "model",
    [IsolationForest(n_estimators=20, random_state=0, contamination=0.05), LocalOutlierFactor(novelty=True)],
    ids=lambda model: type(model).__name__,
)
def test_detectors_of_outliers_answer_labels(model: Any) -> None:
    X = np.random.default_rng(0).normal(size=(600, 4))
    X[:30] += 6
    model = model.fit(X)
    for form in (sklearn_fp32, onnx_fp32):
        scenario = form(model, X=X)
        assert scenario.classifies
        assert model.predict(X).tolist() == answers(scenario, X).tolist()


def test_frames_with_text_are_given_as_they_are() -> None:
    """A form that is fed numbers alone is skipped, and the reason says where the model can be measured."""
    frame = pd.DataFrame({"size": np.arange(60.0), "city": ["Rome", "Oslo", "Bern"] * 20})
    y = (frame["city"] == "Rome").astype(int)
    encoder = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    model = make_pipeline(encoder, LogisticRegression()).fit(frame, y)
    assert y.tolist() == answers(sklearn_fp32(model, X=frame), frame).tolist()
    with pytest.raises(ScenarioUnavailable, match="sklearn_fp32 measures the model on rows as they are"):
        onnx_fp32(model, X=frame)


def test_no_warning_is_raised_that_the_users_own_call_does_not_raise() -> None:
    """Warnings are errors here; each step of the pipeline is handed frames."""
    X, _, y, _ = breast_cancer()
    frame = pd.DataFrame(X).rename(columns=str)
    model = make_pipeline(StandardScaler(), LogisticRegression()).set_output(transform="pandas").fit(frame, y)
    scenario = sklearn_fp32(model, X=frame)
    assert model.predict(frame).tolist() == answers(scenario, frame).tolist()
    first, second = scenario.load().stages
    assert model.predict(frame).tolist() == second.call(first.call(frame)).tolist()


def test_all_scenarios_of_a_model_ask_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other rows, and another model, are asked anew."""
    asked = list[int]()
    original = own_call._answered

    def counted(model: Any, X: Any) -> Any:
        asked.append(len(X))
        return original(model, X)

    monkeypatch.setattr(own_call, "_answered", counted)
    monkeypatch.setattr(own_call, "_kept", {})
    X, _, y, _ = breast_cancer()
    fitted = inspect_form(LogisticRegression(max_iter=5000).fit(X, y), X)
    for rows in (X, X.copy(), X[:7]):
        answers_of(fitted.model, fitted.digest, rows)
    answers_of(fitted.model, "another", X)
    assert [400, 7, 400] == asked
