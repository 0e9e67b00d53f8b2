"""Models of public reports about libraries whose forms answered otherwise, as small cases of `own_calls`.

Each is named by its report; the right answers are those of the model's own call.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC

Reported = tuple[str, Any, Any, Any]  # the report, a fitted model, rows, labels or values
_ROWS = 800
_SOME = 0.2  # share of what is random in labels, and of what is missing


def reported() -> Iterator[Reported]:
    """Yield the models whose packages are installed here."""
    yield from _of_tables()
    yield from _of_numbers()
    if find_spec("xgboost"):
        yield from _of_xgboost()
    if find_spec("lightgbm"):
        yield from _of_lightgbm()
    if find_spec("catboost"):
        yield from _of_catboost()


def _passengers() -> tuple[pd.DataFrame, Any]:
    """Return a table of text and numbers, of which every fifth age is missing, and labels."""
    source = np.random.default_rng(0)
    sexes = source.choice(["male", "female"], _ROWS)
    table = pd.DataFrame(
        {
            "age": source.uniform(1, 80, _ROWS),
            "fare": source.gamma(1, 30, _ROWS),
            "sex": sexes,
            "port": source.choice(["S", "C", "Q"], _ROWS),
        }
    )
    table.loc[source.random(_ROWS) < _SOME, "age"] = np.nan
    return table, ((sexes == "female") ^ (source.random(_ROWS) < _SOME)).astype(int)


def _encoded(model: Any) -> Any:
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    names = OneHotEncoder(handle_unknown="ignore")
    return make_pipeline(make_column_transformer((numbers, ["age", "fare"]), (names, ["sex", "port"])), model)


def _categories() -> tuple[pd.DataFrame, Any]:
    table, y = _passengers()
    return table.astype({"sex": "category", "port": "category"}), y


def _classes(*, few: bool = False) -> tuple[Any, Any]:
    X, y = make_classification(_ROWS, 10, n_informative=6, n_classes=3, random_state=1)
    return X, (y == 1).astype(int) if few else y


def _noisy() -> tuple[Any, Any]:
    """Return rows with labels of which a fifth is random: the best of many trees is an early one."""
    X, _ = _classes()
    return X, ((X[:, 0] > 0) ^ (np.random.default_rng(1).random(_ROWS) < _SOME)).astype(int)


def _tenths() -> tuple[Any, Any]:
    """Return rows whose values lie on the bounds of trees and bins."""
    X = np.round(np.random.default_rng(2).random((_ROWS, 6)), 1)
    return X, ((X[:, 0] > 0.3) ^ (X[:, 1] >= 0.7)).astype(int)  # noqa: PLR2004 - two of the tenths


def _of_tables() -> Iterator[Reported]:
    table, y = _passengers()
    yield "onnx/sklearn-onnx #671: one-hot columns", _encoded(LogisticRegression()).fit(table, y), table, y
    names = table[["sex", "port"]]
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    forest = make_pipeline(ordinal, RandomForestClassifier(10, random_state=0)).fit(names, y)
    unknown = names.assign(port=["X" if row % 5 == 0 else port for row, port in enumerate(names["port"])])
    yield "onnx/sklearn-onnx #249: unknown category", forest, unknown, y
    words = ["good", "bad", "it's", "don't", "New York", "e-mail", "C++", "the"]
    texts = np.array([" ".join(row) for row in np.random.default_rng(3).choice(words, (_ROWS, 8))])
    mood = np.array([int(text.count("good") > text.count("bad")) for text in texts])
    weighted = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), min_df=2), LogisticRegression()).fit(texts, mood)
    yield "onnx/onnx #6078: pairs of words", weighted, texts, mood
    counted = make_pipeline(CountVectorizer(lowercase=False, binary=True), LogisticRegression()).fit(texts, mood)
    yield "onnx/sklearn-onnx #195: words that occur", counted, texts, mood
    X, y = _classes()
    nullable = pd.DataFrame(X, columns=[f"c{column}" for column in range(10)]).astype("Float64")
    nullable.iloc[::7, 0] = pd.NA
    missing = HistGradientBoostingClassifier(max_iter=20).fit(nullable, y)
    yield "scikit-learn/scikit-learn #16498: nullable columns", missing, nullable, y
    labels = pd.Series(y, dtype="Int64")
    yield "scikit-learn/scikit-learn #25953: nullable labels", LogisticRegression().fit(X, y), X, labels


def _of_numbers() -> Iterator[Reported]:
    X, y = _classes()
    uneven = X * np.array([1, 100, 1e4, 0.01, 1, 50, 600, 3, 9, 0.001])
    vectors = SVC(probability=True, random_state=0).fit(uneven, y)
    yield "microsoft/onnxruntime #11284: support vectors", vectors, uneven, y
    one = np.zeros(_ROWS, dtype=int)
    yield "onnx/onnxmltools #415: one class", RandomForestClassifier(5, random_state=0).fit(X, one), X, one
    two = y == 1
    yield "onnx/sklearn-onnx #201: gradient boosting", GradientBoostingClassifier().fit(X, two), X, two
    large = np.exp(np.random.default_rng(4).normal(size=_ROWS) * 4 + 10)
    yield "onnx/onnx #2810: large values", RandomForestRegressor(50, random_state=0).fit(X, large), X, large
    tenths, sign = _tenths()
    bins = make_pipeline(KBinsDiscretizer(5, encode="ordinal"), LogisticRegression()).fit(tenths, sign)
    yield "onnx/sklearn-onnx #437: values on bounds of bins", bins, tenths, sign
    parts = [("linear", LogisticRegression()), ("trees", RandomForestClassifier(5, random_state=0)), ("svc", SVC())]
    yield "onnx/sklearn-onnx #867: hard votes", VotingClassifier(parts).fit(X, y), X, y
    yield "onnx/sklearn-onnx #800: stacked models", StackingClassifier(parts[:2]).fit(X, y), X, y


def _of_xgboost() -> Iterator[Reported]:
    from xgboost import XGBClassifier, XGBRegressor, XGBRFClassifier

    given: dict[str, Any] = {"n_estimators": 20, "n_jobs": 1}
    table, survived = _passengers()
    piped = _encoded(XGBClassifier(**given)).fit(table, survived)
    yield "onnx/sklearn-onnx #1046: one-hot columns, XGBoost", piped, table, survived
    typed, _ = _categories()
    by_type = XGBClassifier(enable_categorical=True, **given).fit(typed, survived)
    reordered = typed.assign(port=typed["port"].cat.set_categories(["S", "Q", "C"]))
    yield "dmlc/xgboost #11160: categories in another order", by_type, reordered, survived
    tenths, _ = _tenths()
    deep = XGBRegressor(n_estimators=200, max_depth=7, learning_rate=0.01, subsample=0.7, n_jobs=1)
    yield "onnx/onnxmltools #511: many deep trees", deep.fit(tenths, 100 * tenths[:, 0]), tenths, 100 * tenths[:, 0]
    X, noisy = _noisy()
    half, late = slice(None, _ROWS // 2), slice(_ROWS // 2, None)
    stopped = XGBClassifier(n_estimators=100, early_stopping_rounds=20, n_jobs=1)
    stopped.fit(X[half], noisy[half], eval_set=[(X[late], noisy[late])], verbose=False)
    yield "dmlc/xgboost #12183: stopped early", stopped, X, noisy
    _, y = _classes()
    for report, booster in {
        "dmlc/xgboost #3485: dart": XGBClassifier(booster="dart", rate_drop=0.3, **given),
        "random forest of XGBoost": XGBRFClassifier(**given),
        "onnx/onnxmltools #400: softmax": XGBClassifier(objective="multi:softmax", **given),
    }.items():
        yield report, booster.fit(X, y), X, y
    for report, booster in {
        "onnx/onnxmltools #579: hinge": XGBClassifier(objective="binary:hinge", **given),
        "onnx/onnxmltools #671: two classes": XGBClassifier(**given),
        "microsoft/onnxruntime #11892: base score": XGBClassifier(base_score=0.2, **given),
        "onnx/onnxmltools #646: logistic values": XGBRegressor(objective="reg:logistic", **given),
    }.items():
        yield report, booster.fit(X, noisy), X, noisy
    named = pd.DataFrame(X, columns=[f"c{column}" for column in range(10)])
    by_name = XGBRegressor(**given).fit(named, X[:, 0])
    yield "onnx/onnxmltools #672: frame of values", by_name, named, X[:, 0]


def logistic_loss(labels: Any, scores: Any) -> tuple[Any, Any]:
    """Return gradient and curvature of the loss that an objective of one's own minimises."""
    shares = 1 / (1 + np.exp(-scores))
    return shares - labels, shares * (1 - shares)


def _of_lightgbm() -> Iterator[Reported]:
    from lightgbm import LGBMClassifier, early_stopping

    given: dict[str, Any] = {"n_estimators": 30, "n_jobs": 1, "verbose": -1}
    tenths, sign = _tenths()
    yield "onnx/onnxmltools #728: values on bounds of trees", LGBMClassifier(**given).fit(tenths, sign), tenths, sign
    X, noisy = _noisy()
    half, late = slice(None, _ROWS // 2), slice(_ROWS // 2, None)
    stopped = LGBMClassifier(**given | {"n_estimators": 200, "learning_rate": 0.5})
    quiet = early_stopping(20, verbose=False)
    stopped.fit(X[half], noisy[half], eval_set=[(X[late], noisy[late])], callbacks=[quiet])
    yield "lightgbm-org/LightGBM #5951: stopped early", stopped, X, noisy
    typed, survived = _categories()
    by_type = LGBMClassifier(**given).fit(typed, survived)
    yield "lightgbm-org/LightGBM #5902: categories by type", by_type, typed, survived
    reordered = typed.assign(port=typed["port"].cat.set_categories(["S", "Q", "C"]))
    yield "lightgbm-org/LightGBM #5902: categories in another order", by_type, reordered, survived
    own = LGBMClassifier(objective=logistic_loss, **given).fit(X, noisy)
    yield "lightgbm-org/LightGBM #6389: objective of one's own", own, X, noisy
    _, y = _classes()
    dart = LGBMClassifier(boosting_type="dart", **given).fit(X, y)
    yield "lightgbm-org/LightGBM #3291: dart", dart, X, y


def _of_catboost() -> Iterator[Reported]:
    from catboost import CatBoostClassifier

    given: dict[str, Any] = {"iterations": 20, "verbose": 0, "random_seed": 0, "allow_writing_files": False}
    table, survived = _passengers()
    by_name = CatBoostClassifier(cat_features=["sex", "port"], **given).fit(table, survived)
    yield "columns of text of CatBoost", by_name, table, survived
    X, y = _classes()
    names = np.array(["low", "middle", "top"])[y]
    yield "catboost/catboost #472: labels of text", CatBoostClassifier(**given).fit(X, names), X, names
