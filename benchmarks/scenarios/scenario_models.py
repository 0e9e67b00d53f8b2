"""The models of `scenario_table`, each trained once and kept in a folder of the benchmark's own."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

KEPT = "HWPERF_TABLE_MODELS"  # the folder that keeps what was trained
_TESTED = 2000  # rows of the synthetic set that nothing is trained on
_EPOCHS = 30  # of the convolutional network


def _logistic() -> Any:
    return LogisticRegression(max_iter=300)


def _mlp(*units: int) -> Any:
    return MLPClassifier(units, max_iter=12, tol=1e-2, n_iter_no_change=3, random_state=0)


def _xgboost() -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1, random_state=0)


def _lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=100, n_jobs=1, random_state=0, verbose=-1)


def _cnn() -> Any:
    from torch import nn

    return nn.Sequential(
        *(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


MODELS: dict[str, Callable[[], Any]] = {
    "logistic": _logistic,
    "scaled logistic": lambda: make_pipeline(StandardScaler(), _logistic()),
    "mlp 64": lambda: _mlp(64),
    "mlp 512x512": lambda: _mlp(512, 512),
    "forest 100x12": lambda: RandomForestClassifier(100, max_depth=12, random_state=0),
    "histogram boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "xgboost 100": _xgboost,
    "lightgbm 100": _lightgbm,
    "torch cnn": _cnn,
}
SETS = ("digits", "breast cancer", "synthetic")
IMAGES = "digits"  # the set of the convolutional network


def rows(name: str) -> tuple[Any, Any, Any, Any]:
    """Return X and y to train on and X and y to predict: float32 matrices, standardised but for the digits."""
    if name == "synthetic":  # 100,000 rows of 50 columns to train on
        X, y = make_classification(100_000 + _TESTED, 50, n_informative=20, random_state=0)
        size: Any = _TESTED
    else:
        X, y = (load_digits if name == "digits" else load_breast_cancer)(return_X_y=True)
        size = 0.5 if name == "breast cancer" else 0.3  # so that a call of 256 rows has other ones
    X = X / 16 if name == "digits" else StandardScaler().fit_transform(X)
    parts = train_test_split(X.astype(np.float32), y, test_size=size, random_state=0, stratify=y)
    return parts[0], parts[2], parts[1], parts[3]


def model(data: str, name: str) -> Any:
    """Return a fitted model, trained by the first process that asks for it."""
    X, y, _, _ = rows(data)
    kept = Path(os.environ[KEPT]) / f"{data} {name}".replace(" ", "_")
    if name == "torch cnn":
        return _trained(kept, X, y)
    if not kept.exists():
        joblib.dump(MODELS[name]().fit(X, y), kept)
    return joblib.load(kept)  # a file of this benchmark's own


def _trained(kept: Path, X: Any, y: Any) -> Any:
    import torch

    torch.manual_seed(0)
    network = _cnn()
    if kept.exists():
        network.load_state_dict(torch.load(kept, weights_only=True))
        return network.eval()
    images, labels = torch.from_numpy(X), torch.from_numpy(y)
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in range(_EPOCHS):
        for part in torch.randperm(len(images)).split(64):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(network(images[part]), labels[part]).backward()
            optimiser.step()
    torch.save(network.state_dict(), kept)
    return network.eval()
