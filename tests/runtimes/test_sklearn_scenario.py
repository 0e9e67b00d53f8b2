"""The estimator as it is: copied, its pools held, and nothing else."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import threadpoolctl
from fakes.fitted_models import breast_cancer, data_of, fitted
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from pytest_hwperf.records.contracts import Scenario, ScenarioFactory
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable, UsageProblem
from pytest_hwperf.runtimes.estimators import inspect_estimator, last_step, one_line
from pytest_hwperf.runtimes.sklearn_native import sklearn_fp32


def prepare(name: str, threads: int = 1) -> Scenario:
    factory: ScenarioFactory = sklearn_fp32
    return factory(fitted(name), X=data_of(name)[1], threads=threads)


OUTPUTS = {"logistic": "labels", "mlp": "labels", "linear svc": "labels", "text labels": "labels", "ridge": "values"}


def test_outputs_and_labels_are_those_of_predict() -> None:
    for name, output in OUTPUTS.items():
        model, X = fitted(name), data_of(name)[1]
        scenario = prepare(name)
        predictor = scenario.load()
        outputs = predictor.predict(predictor.batches(X, len(X))[0])
        assert np.array_equal(model.predict(X), outputs)
        assert np.array_equal(model.predict(X), predictor.labels(outputs))
        assert (output, name != "ridge") == (scenario.conditions["output"], scenario.classifies)


def test_loading_brings_its_own_memory_and_changes_nothing_of_the_users() -> None:
    model = fitted("forest")
    before = model.get_params()
    predictor = prepare("forest", threads=2).load()
    loaded = predictor.predict.__self__  # type: ignore[attr-defined] # the protocol hides the copy
    assert loaded is not model
    assert loaded.estimators_[0].tree_ is not model.estimators_[0].tree_
    assert 2 == loaded.n_jobs
    assert before == model.get_params()


def test_threads_reach_nested_estimators() -> None:
    predictor = prepare("vote", threads=2).load()
    loaded = predictor.predict.__self__  # type: ignore[attr-defined] # the protocol hides the copy
    assert 2 == loaded.estimators_[0].n_jobs
    assert 2 == loaded.estimators_[1][-1].n_jobs


def test_blas_is_held_inside_the_scope_only() -> None:
    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]

    predictor = prepare("mlp").load()
    with threadpoolctl.threadpool_limits(limits=2):
        before = threads()
        with predictor.scope():
            inside = threads()
        after = threads()
    assert {1} == set(inside)
    assert before == after
    assert 2 in before


def test_precision_is_that_of_the_weights() -> None:
    X, _, y, _ = breast_cancer()
    wide = LinearRegression().fit(X.astype(np.float64), y)
    narrow = LinearRegression().fit(X, y)
    assert "float64" == sklearn_fp32(wide, X=X).conditions["precision"]
    assert "float32" == sklearn_fp32(narrow, X=X).conditions["precision"]
    assert "float64" == prepare("forest").conditions["precision"]
    assert "float32" == prepare("mlp").conditions["precision"]


def test_size_is_what_joblib_writes(tmp_path: Path) -> None:
    import joblib

    joblib.dump(fitted("forest"), tmp_path / "forest")
    assert (tmp_path / "forest").stat().st_size == prepare("forest").model_bytes
    assert "joblib" == prepare("forest").size_source


def test_context_and_imports_say_what_is_behind() -> None:
    scenario = prepare("logistic")
    assert {"sklearn.pipeline", "sklearn.preprocessing._data", "sklearn.linear_model._logistic"} == {*scenario.imports}
    assert "openblas" in scenario.context["thread pools"]
    assert scenario.context["model"] == prepare("logistic").context["model"]
    assert "1" == scenario.conditions["threads"]


def test_a_model_fitted_on_a_frame_is_given_frames_without_a_warning() -> None:
    """Warnings are errors here, as they are in many users' tests."""
    X, test, y, _ = breast_cancer()
    frame = pd.DataFrame(X).rename(columns=str)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, y)
    predictor = sklearn_fp32(model, X=frame).load()

    batch = predictor.batches(pd.DataFrame(test, columns=frame.columns), 4)[0]
    assert isinstance(batch, pd.DataFrame)
    assert (4,) == predictor.predict(batch).shape
    with pytest.raises(UsageProblem, match="does not take a row of X as it is"):
        sklearn_fp32(model, X=frame[frame.columns[::-1]])


def test_other_widths_are_refused() -> None:
    with pytest.raises(UsageProblem, match="does not take a row of X as it is"):
        sklearn_fp32(fitted("logistic"), X=np.ones((3, 2)))
    with pytest.raises(MeasurementError, match="has 2 columns, and Pipeline was prepared for 30"):
        inspect_estimator(fitted("logistic"), breast_cancer()[1]).rows(np.ones((3, 2)))


def test_missing_numbers_are_refused_where_the_estimator_refuses_them() -> None:
    X, _, y, _ = breast_cancer()
    holed = X.copy()
    holed[0, 0] = np.nan
    tolerant = HistGradientBoostingClassifier(max_iter=2).fit(holed, y)
    assert len(X) == len(sklearn_fp32(tolerant, X=holed).load().batches(holed, 1))
    with pytest.raises(MeasurementError, match="1 of 400 rows of X hold NaN"):
        sklearn_fp32(fitted("logistic"), X=holed)


NO_ESTIMATORS: list[tuple[Any, str]] = [
    (LogisticRegression(), "LogisticRegression is not fitted: call its fit"),
    (make_pipeline(StandardScaler(), LogisticRegression()), "Pipeline is not fitted"),
    (LogisticRegression, "the class LogisticRegression, not a fitted estimator"),
    (len, "no scikit-learn estimator with predict"),
    (StandardScaler(), "no scikit-learn estimator with predict"),
]


def test_what_is_no_fitted_estimator_is_a_usage_problem() -> None:
    for model, sentence in NO_ESTIMATORS:
        with pytest.raises(UsageProblem, match=sentence):
            sklearn_fp32(model, X=breast_cancer()[1])


def test_a_model_that_takes_frames_alone_is_given_them() -> None:
    X, _, y, _ = breast_cancer()
    frame = pd.DataFrame(X).rename(columns=str)
    by_name = make_pipeline(ColumnTransformer([("a", StandardScaler(), ["0", "1"])]), LogisticRegression())
    predictor = sklearn_fp32(by_name.fit(frame, y), X=frame).load()
    assert np.array_equal(by_name.predict(frame), predictor.predict(predictor.batches(frame, 400)[0]))


def test_several_labels_per_row_are_unavailable() -> None:
    X, _, y, _ = breast_cancer()
    model = RandomForestClassifier(n_estimators=2).fit(X, np.column_stack([y, 1 - y]))
    with pytest.raises(ScenarioUnavailable, match="several labels per row"):
        sklearn_fp32(model, X=X)


class RawScores(LogisticRegression):  # type: ignore[misc] # it has no types
    """Its predict gives scores, as that of LightGBM does after training with an objective of one's own."""

    def predict(self, X: Any) -> Any:
        return self.decision_function(X)


def test_answers_that_are_none_of_the_classes_are_unavailable() -> None:
    X, _, y, _ = breast_cancer()
    with pytest.raises(ScenarioUnavailable, match="predict of RawScores gives values that are none of its classes"):
        sklearn_fp32(RawScores(max_iter=5000).fit(X, y), X=X)


def test_an_estimator_that_cannot_be_serialised_is_unavailable() -> None:
    X, _, y, _ = breast_cancer()
    model = make_pipeline(FunctionTransformer(lambda rows: rows), LinearRegression()).fit(X, y)
    with pytest.raises(ScenarioUnavailable, match="cannot be serialised"):
        sklearn_fp32(model, X=X)


def test_the_last_step_is_found_inside_a_search() -> None:
    X, _, y, _ = breast_cancer()
    search = GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [1.0]}, cv=2)
    assert isinstance(last_step(search.fit(X, y)), LogisticRegression)


def test_the_same_search_fitted_twice_is_the_same_model() -> None:
    """Its log holds clock times, and masked arrays that joblib cannot hash with numpy 2.4."""
    X, _, y, _ = breast_cancer()
    search = GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [1.0]}, cv=2)
    first, second = (inspect_estimator(clone(search).fit(X, y), X) for _ in range(2))
    inner = inspect_estimator(make_pipeline(clone(search)).fit(X, y), X)
    assert first.digest == second.digest
    assert inner.digest != first.digest


def test_outputs_keep_several_values_per_row() -> None:
    X, _, y, _ = breast_cancer()
    regressor = inspect_estimator(LinearRegression().fit(X, np.column_stack([y, 2 * y])), X)
    assert (400, 2) == regressor.labels(regressor.model.predict(X)).shape


def test_a_foreign_error_becomes_one_line_that_names_the_first_of_several() -> None:
    """That above it may quote the whole model."""
    assert "ValueError: a b" == one_line(ValueError("a\n   b"))
    problem = ValueError("no node with attributes " + "0.1, " * 1000)
    problem.__cause__ = RuntimeError("no node")
    problem.__cause__.__cause__ = TypeError("expected an int, got a boolean")
    assert one_line(problem).startswith("ValueError: no node with attributes 0.1, ")
    assert one_line(problem).endswith("… from TypeError: expected an int, got a boolean")
    assert [50, 60] == [len(one_line(ValueError("x" * 100), most=50)), len(one_line(problem, most=60))]


def test_a_pipeline_has_stages_that_make_its_call() -> None:
    """Transformers, then the last step."""
    train, X, y, _ = breast_cancer()
    model = make_pipeline(StandardScaler(), FunctionTransformer(), LogisticRegression()).fit(train, y)
    predictor = sklearn_fp32(model, X=X).load()
    batch = predictor.batches(X, 8)[0]
    first, second = predictor.stages
    outputs = second.call(first.call(batch))
    assert ["preprocess", "inference"] == [first.name, second.name]
    assert np.array_equal(predictor.predict(batch), outputs)
    assert np.array_equal(model.predict(X[:8]), outputs)


def test_an_estimator_in_one_piece_has_no_stages() -> None:
    """Nor has a pipeline of one step."""
    X, last = data_of("logistic")[1], last_step(fitted("logistic"))
    predictors = [sklearn_fp32(model, X=X).load() for model in (last, make_pipeline(last))]
    assert [(), ()] == [predictor.stages for predictor in predictors]
