"""Does every scenario of fitted estimators answer as `model.predict(X)` does, say by how much not, or give a reason?

    pip install ".[lightgbm,openvino,xgboost]" catboost
    python -m benchmarks own_calls

Every classifier and regressor of scikit-learn that fits a small table, with numbers of several types, and models with
thresholds, text, missing values and boosted trees, and those of public reports (reported_models.py). It ends with 1 if
an answer differs without a word.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, IsolationForest, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import all_estimators

from benchmarks import tables
from benchmarks.scenarios.reported_models import reported
from pytest_hwperf import registry
from pytest_hwperf.records.errors import ScenarioUnavailable

SCENARIOS = ("sklearn_fp32", "onnx_fp32", "onnx_int8_dynamic", "openvino_fp32", "xgboost_native", "lightgbm_native")
_BATCH = 64
_LONGEST = 150  # characters of a reason
_TYPES: tuple[Callable[[Any], Any], ...] = (
    lambda X: X,
    lambda X: X.astype(np.float32),
    lambda X: np.rint(X * 10).astype(np.int64),
    lambda X: pd.DataFrame(X, columns=[f"c{column}" for column in range(X.shape[1])]),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A fitted model with its rows."""

    name: str
    model: Any
    X: Any
    y: Any


def main() -> int:
    """Print the table; return 1 if an answer differs and nothing says so."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only models whose name contains this")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, silent = [], 0
    for case in _cases():
        if asked.only not in case.name:
            continue
        expected = _flat(case.model.predict(case.X))
        found = {name: _told(name, case, expected) for name in SCENARIOS}
        silent += sum(told.startswith("SILENT") for told in found.values())
        rows.append([case.name, _kind(case.X), *found.values()])
    print(tables.markdown(("model", "rows", *SCENARIOS), rows))
    print(f"{len(rows)} models, {silent} scenarios with other answers without a word")
    return 1 if silent else 0


def _told(name: str, case: Case, expected: Any) -> str:
    """Say how the answers of a scenario are to those of the model's own call, or why it is skipped."""
    if name.endswith("_native") and not type(case.model).__module__.startswith(name.removesuffix("_native")):
        return "–"
    try:
        scenario = registry.find("scenarios", name)(case.model, X=case.X)
    except ScenarioUnavailable as reason:
        return f"skipped: {str(reason)[:_LONGEST]}".replace("|", "/")
    predictor = scenario.load()
    with predictor.scope():
        batches = predictor.batches(case.X, _BATCH)
        answers = np.concatenate([_flat(predictor.labels(predictor.predict(batch))) for batch in batches])
    if answers.dtype.kind == expected.dtype.kind == "f" and not scenario.classifies:
        return _values(name, scenario, answers, expected)
    differing = int((answers != expected).sum())
    if not differing:
        return f"equal, accuracy {(answers == _flat(case.y)).mean():.4f}" if scenario.classifies else "equal"
    told = f"{differing} of {len(expected)} differ"
    # INT8 differs by nature: the metrics flip_rate and accuracy tell. An exact form has a warning.
    return told if "int8" in name or "warning" in scenario.context else f"SILENT: {told}"


def _values(name: str, scenario: Any, answers: Any, expected: Any) -> str:
    if answers.shape != expected.shape:
        return f"SILENT: shape {answers.shape} for {expected.shape}"
    span = float(expected.max() - expected.min()) or 1.0
    error = float(np.abs(answers - expected).max()) / span
    if error == 0:
        return "equal"
    told = f"max difference {error:.1g} of the span"
    bound = 1e-12 if name == "sklearn_fp32" else 1e-3
    return told if error <= bound or "int8" in name or "warning" in scenario.context else f"SILENT: {told}"


def _flat(values: Any) -> Any:
    array = np.asarray(values)
    return array.reshape(len(array)) if array.size == len(array) else array


def _kind(X: Any) -> str:
    if isinstance(X, pd.DataFrame):
        return f"frame of {', '.join(sorted({str(one) for one in X.dtypes}))}"
    return str(X.dtype)


def _cases() -> Iterator[Case]:
    yield from _of_scikit_learn()
    yield from _with_thresholds()
    yield from _of_tables()
    yield from _of_boosters()
    for name, model, X, y in reported():
        yield Case(name=name, model=model, X=X, y=y)


def _of_scikit_learn() -> Iterator[Case]:
    """Yield every classifier and regressor that can be made without arguments, on numbers of changing types."""
    position = 0
    for kind, load in (("classifier", load_breast_cancer), ("regressor", load_diabetes)):
        X, y = load(return_X_y=True)
        X = StandardScaler().fit_transform(X)[:400]
        for name, made in all_estimators(type_filter=kind):
            rows = _TYPES[position % len(_TYPES)](X)
            model = _fitted(made, rows, y[:400])
            if model is not None:
                position += 1
                yield Case(name=name, model=model, X=rows, y=y[:400])


def _fitted(made: Any, X: Any, y: Any) -> Any | None:
    """Return a fitted model; None of one that needs another model, several targets or other rows."""
    try:
        model = made()
        few = {"n_estimators": 10, "max_iter": 50, "random_state": 0}
        model.set_params(**{name: value for name, value in few.items() if name in model.get_params()})
        model.fit(X, y)
        model.predict(X)
    except Exception:  # noqa: BLE001 - whatever a class refuses: it is left out of the table
        return None
    return model


def _with_thresholds() -> Iterator[Case]:
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    logistic = LogisticRegression()
    models = {
        "tuned by recall": TunedThresholdClassifierCV(logistic, scoring="recall"),
        "tuned by balanced accuracy": TunedThresholdClassifierCV(logistic, scoring="balanced_accuracy"),
        "fixed at 0.01": FixedThresholdClassifier(logistic, threshold=0.01),
        "calibrated": CalibratedClassifierCV(logistic),
        "calibrated, isotonic": CalibratedClassifierCV(RandomForestClassifier(10, random_state=0), method="isotonic"),
    }
    for name, model in models.items():
        yield Case(name=name, model=model.fit(X, y), X=X, y=y)
    outliers = IsolationForest(n_estimators=20, random_state=0).fit(X)
    yield Case(name="outliers", model=outliers, X=X, y=np.where(y == 1, 1, -1))


def _of_tables() -> Iterator[Case]:
    """Yield models of frames with text, of missing values, and of numbers that float32 does not hold."""
    source = np.random.default_rng(0)
    X, y = make_classification(1000, 8, random_state=0)
    frame = pd.DataFrame(X, columns=[f"c{column}" for column in range(8)])
    frame["city"] = source.choice(["Rome", "Oslo", "Bern"], 1000)
    encoder = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    text = make_pipeline(encoder, LogisticRegression()).fit(frame, y)
    yield Case(name="frame with text", model=text, X=frame, y=y)
    names = np.array(["benign", "malignant"])[y]
    yield Case(name="labels of text", model=LogisticRegression().fit(X, names), X=X, y=names)
    piped = make_pipeline(StandardScaler(), LogisticRegression()).set_output(transform="pandas")
    yield Case(name="pandas output", model=piped.fit(frame[["c0", "c1"]], y), X=frame[["c0", "c1"]], y=y)
    holed = X.copy()
    holed[source.integers(10, size=X.shape) == 0] = np.nan
    for model in (HistGradientBoostingClassifier(max_iter=20), RandomForestClassifier(20, random_state=0)):
        yield Case(name=f"{type(model).__name__}, missing values", model=model.fit(holed, y), X=holed, y=y)
    seconds = (1.7e9 + source.uniform(0, 600, 1000))[:, None]
    late = (seconds[:, 0] > seconds.mean()).astype(int)
    timed = make_pipeline(StandardScaler(), LogisticRegression(C=100)).fit(seconds, late)
    yield Case(name="Unix seconds", model=timed, X=seconds, y=late)
    whole = (2**24 + source.permutation(1000))[:, None]
    forest = RandomForestClassifier(10, random_state=0)
    yield Case(name="int64 above 2**24", model=forest.fit(whole, whole[:, 0] % 2), X=whole, y=whole[:, 0] % 2)
    normal = source.normal(size=(5000, 10))
    sign = (normal[:, 0] * normal[:, 1] > 0).astype(int)
    boosted = HistGradientBoostingClassifier(max_iter=50).fit(normal, sign)
    yield Case(name="histogram boosting of 5,000 rows", model=boosted, X=normal, y=sign)


def _of_boosters() -> Iterator[Case]:
    X, y = make_classification(1500, n_classes=3, n_informative=6, random_state=0)
    marked = X.copy()
    marked[::7, 0] = -999
    value = X[:, 0] + X[:, 1]
    if find_spec("xgboost"):
        from xgboost import XGBClassifier, XGBRegressor

        given: dict[str, Any] = {"n_estimators": 20, "n_jobs": 1}
        yield Case(name="XGBoost", model=XGBClassifier(**given).fit(X, y), X=X, y=y)
        missing = XGBClassifier(missing=-999, **given).fit(marked, y)
        yield Case(name="XGBoost, missing=-999", model=missing, X=marked, y=y)
        yield Case(name="XGBoost of values", model=XGBRegressor(**given).fit(X, value), X=X, y=value)
    if find_spec("lightgbm"):
        from lightgbm import LGBMClassifier, LGBMRegressor

        given = {"n_estimators": 20, "n_jobs": 1, "verbose": -1}
        frame = pd.DataFrame(X, columns=[f"c{column}" for column in range(20)])
        yield Case(name="LightGBM", model=LGBMClassifier(**given).fit(X, y), X=X, y=y)
        yield Case(name="LightGBM of a frame", model=LGBMClassifier(**given).fit(frame, y), X=frame, y=y)
        yield Case(name="LightGBM of values", model=LGBMRegressor(**given).fit(X, value), X=X, y=value)
    if find_spec("catboost"):
        from catboost import CatBoostClassifier, CatBoostRegressor

        given = {"iterations": 20, "verbose": 0, "random_seed": 0, "allow_writing_files": False}
        yield Case(name="CatBoost of three", model=CatBoostClassifier(**given).fit(X, y), X=X, y=y)
        two = CatBoostClassifier(**given).fit(X, y > 0)
        two.set_probability_threshold(0.05)
        yield Case(name="CatBoost, threshold 0.05", model=two, X=X, y=y > 0)
        yield Case(name="CatBoost of values", model=CatBoostRegressor(**given).fit(X, value), X=X, y=value)


if __name__ == "__main__":
    sys.exit(main())
