"""Small real estimators on small real data, each fitted once per process."""

import warnings
from functools import cache
from typing import Any


@cache
def breast_cancer() -> tuple[Any, Any, Any, Any]:
    """Return training rows, test rows, and their labels, all float32 and 0/1; no row is in both."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    X = X.astype("float32")
    return X[:400], X[400:], y[:400], y[400:]


@cache
def digits() -> tuple[Any, Any, Any, Any]:
    """Return training rows, test rows and their labels of ten classes."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = X.astype("float32")
    return X[:1200], X[1200:], y[:1200], y[1200:]


@cache
def fitted(name: str) -> Any:
    """Return the estimator of that name, fitted on the training rows of `data_of(name)`."""
    import numpy as np

    X, _, y, _ = data_of(name)
    if name == "text labels":
        y = np.array(["benign", "malignant"])[y]
    with warnings.catch_warnings(action="ignore"):  # few iterations are enough here
        return _unfitted(name).fit(X, y)


def formless(X: Any, kind: str = "centroids") -> Any:
    """Return an estimator fitted on any rows: one that does not convert to ONNX, or one without an INT8 form."""
    import numpy as np

    with warnings.catch_warnings(action="ignore"):  # of columns that hold one value only
        return _unfitted(kind).fit(X, np.arange(len(X)) % 2)


def data_of(name: str) -> tuple[Any, Any, Any, Any]:
    """Return the data that the model of that name was fitted on."""
    return digits() if name in {"mlp", "scaled mlp", "linear svc of ten", "reduced svc of ten"} else breast_cancer()


def _unfitted(name: str) -> Any:
    from sklearn.decomposition import PCA
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    logistic = make_pipeline(StandardScaler(), LogisticRegression())
    forest = RandomForestClassifier(n_estimators=5, random_state=0)
    models: dict[str, Any] = {
        "logistic": logistic,
        "text labels": logistic,
        "mlp": MLPClassifier((32, 32), max_iter=30, random_state=0),
        "scaled mlp": make_pipeline(StandardScaler(), MLPClassifier((32, 32), max_iter=5, random_state=0)),
        "forest": forest,
        "scaled forest": make_pipeline(StandardScaler(), forest),
        "boosting": HistGradientBoostingClassifier(max_iter=3),
        "centroids": NearestCentroid(),
        "ridge": make_pipeline(StandardScaler(), Ridge()),
        "linear svc": make_pipeline(StandardScaler(), LinearSVC()),
        "linear svc of ten": LinearSVC(max_iter=30),
        "reduced svc of ten": make_pipeline(PCA(8), LinearSVC(max_iter=30)),
        "neighbours": KNeighborsClassifier(),
        "reduced neighbours": make_pipeline(StandardScaler(), PCA(4), KNeighborsClassifier()),
        "vote": VotingClassifier(
            [("forest", RandomForestClassifier(n_estimators=100, random_state=0)), ("logistic", logistic)],
            voting="soft",
            flatten_transform=False,
        ),
    }
    return models[name]
