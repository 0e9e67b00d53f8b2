"""Three classifiers of handwritten digits: what a small product would train and ship."""

from typing import NamedTuple

from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits


class Digits(NamedTuple):
    """Images of 8 × 8 pixels, as rows of 64 numbers, and the digit that each shows."""

    X_train: NDArray
    X_test: NDArray
    y_train: NDArray
    y_test: NDArray


def load() -> Digits:
    """Split scikit-learn's bundled digits: 1,257 images to train, 540 to test."""
    X, y = load_digits(return_X_y=True)
    return Digits(*train_test_split(X.astype("float32"), y, test_size=0.3, random_state=0, stratify=y))


def scaled(X: NDArray) -> NDArray:
    """Bring pixels from 0 .. 16 into the range 0 to 1."""
    return X / 16


def train_mlp(digits: Digits) -> Pipeline:
    """Train two hidden layers of 256 units on scaled pixels."""
    network = MLPClassifier((256, 256), tol=1e-2, n_iter_no_change=3, random_state=0)
    with threadpool_limits(1):  # matrices this small are multiplied sooner than a second thread is woken
        return make_pipeline(StandardScaler(), network).fit(digits.X_train, digits.y_train)


def train_logistic(digits: Digits) -> Pipeline:
    """Train a logistic regression on scaled pixels."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(digits.X_train, digits.y_train)


def train_forest(digits: Digits) -> RandomForestClassifier:
    """Train fifty trees; trees compare numbers instead of multiplying them, so that they have no INT8 form."""
    return RandomForestClassifier(50, max_depth=10, random_state=0).fit(digits.X_train, digits.y_train)
