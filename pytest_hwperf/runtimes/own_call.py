"""The user's own call of a fitted model on the rows as given, which every form of the model is compared with."""

import warnings
from typing import Any

from pytest_hwperf.records.contracts import Predictions
from pytest_hwperf.records.errors import MeasurementError, UsageProblem

CALL = "model.predict(X)"
# Raised by third-party code (estimators, converters, quantisers) for a model that it cannot handle. Everything else,
# such as a full disk or an interrupt, does not concern the model and passes on.
ESTIMATOR_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError),
)
_AT_ONCE = 100_000  # rows of one call: kernels take memory for each pair of a row and a training row
_MOST_KEPT = 4  # models with their rows whose answers this process keeps
_CATEGORIES = 32  # more different values in a column are numbers
_ROWS_AND_COLUMNS = 2  # axes of a matrix

_kept: dict[tuple[str, str], Predictions] = {}


def count_given(X: Any) -> int:
    """Return the number of rows in what an estimator is given."""
    if hasattr(X, "toarray"):
        raise MeasurementError(f"X is sparse ({type(X).__name__}): give a dense matrix of numbers, X.toarray()")
    try:
        count = len(X)
    except TypeError:
        raise UsageProblem(f"X has no rows: give an array, a list or a data frame, not {type(X).__name__}") from None
    if count == 0:
        raise MeasurementError("X has no rows: nothing can be measured on empty data")
    return count


def cut_given(X: Any, start: int, stop: int) -> Any:
    """Take rows by position, in the container and the type that they are given in."""
    return X.iloc[start:stop] if hasattr(X, "iloc") else X[start:stop]


def take_given(X: Any, positions: Any) -> Any:
    """Take the rows at some positions."""
    if hasattr(X, "iloc"):
        return X.iloc[positions]
    return [X[position] for position in positions] if isinstance(X, list | tuple) else X[positions]


def digest_given(X: Any) -> str:
    """Return the hash of rows of whatever type, with their container and the names of their columns."""
    import joblib

    return str(joblib.hash(X))


def describe_given(X: Any) -> str:
    """Name the container of rows, and the type of its numbers where all have the same."""
    kind = getattr(X, "dtype", None)
    types = {str(one) for one in getattr(X, "dtypes", ())}
    if kind is None and len(types) == 1:
        kind = types.pop()
    return f"{type(X).__name__} {kind}" if kind is not None else type(X).__name__


def numbers_of(X: Any) -> Any:
    """Return rows as a matrix of numbers, text and other objects as the numbers of their values; () of other rows."""
    import numpy as np

    table = np.asarray(X)
    if table.ndim != _ROWS_AND_COLUMNS:
        return np.empty((len(X), 0))
    if table.dtype.kind in "biuf":
        return table.astype(np.float64, copy=False)
    return np.column_stack([_as_numbers(column) for column in table.T])


def _as_numbers(column: Any) -> Any:
    import numpy as np

    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        return np.unique(column.astype(str), return_inverse=True)[1].astype(np.float64)


def answers_of(model: Any, digest: str, X: Any) -> Predictions:
    """Return what `model.predict` says of all rows of `X`, by one call for each 100,000 of them.

    The probabilities are those of `predict_proba`, where the largest of each row is what `predict` decides by.
    """
    key = (digest, digest_given(X))
    found = _kept.pop(key, None)
    if found is None:
        found = _answered(model, X)
    _kept[key] = found
    while len(_kept) > _MOST_KEPT:
        _kept.pop(next(iter(_kept)))
    return found


def _answered(model: Any, X: Any) -> Predictions:
    import numpy as np

    labels, probabilities = one_per_row(_called(model.predict, X)), probabilities_of(model, X)
    if probabilities is None:
        return Predictions(labels=labels)
    decides = np.array_equal(np.asarray(model.classes_)[probabilities.argmax(axis=1)], labels)
    return Predictions(labels=labels, probabilities=probabilities if decides else None)


def probabilities_of(model: Any, X: Any) -> Any | None:
    """Return the probability of each class for all rows; None where the model has none."""
    import numpy as np

    classes = getattr(model, "classes_", None)
    if classes is None or not hasattr(model, "predict_proba"):
        return None
    try:
        probabilities = _called(model.predict_proba, X)
    except ESTIMATOR_ERRORS:
        return None  # such as of a vote by majority, which has the method and refuses it
    return probabilities if (len(X), *np.shape(classes)) == probabilities.shape else None


def _called(call: Any, X: Any) -> Any:
    import numpy as np

    with warnings.catch_warnings(action="ignore"):  # the timed call gives the user's own warnings
        parts = [np.asarray(call(cut_given(X, start, start + _AT_ONCE))) for start in range(0, len(X), _AT_ONCE)]
    return np.concatenate(parts)


def one_per_row(values: Any) -> Any:
    """Return answers of shape (n, 1), such as the labels of CatBoost, as (n,)."""
    import numpy as np

    array = np.asarray(values)
    is_column = array.ndim == _ROWS_AND_COLUMNS and array.shape[1] == 1
    return array.reshape(len(array)) if is_column else array


def choose_checked(rows: Any, labels: Any, most: int, seed: int = 0) -> Any:
    """Return the positions of at most `most` rows, in their order: all, or a random choice with every kind in it.

    Kinds are the classes, and for each column the smallest and the largest value, a missing one, and each value of a
    column of few.
    """
    import numpy as np

    if len(rows) <= most:
        return np.arange(len(rows))
    source = np.random.default_rng(seed)
    order = source.permutation(len(rows))
    kinds = [_first_of_each(one_per_row(labels), order)]
    columns = rows.T if rows.ndim == _ROWS_AND_COLUMNS else []
    kinds += [_kinds_of(column, order) for column in columns]
    needed = source.permutation(np.unique(np.concatenate(kinds)))[: most // 2]
    others = order[~np.isin(order, needed)]
    return np.sort(np.concatenate([needed, others[: most - len(needed)]]))


def _first_of_each(values: Any, order: Any) -> Any:
    """Return the position of a random row of each value; none of what has as many values as a number has."""
    import numpy as np

    if values.ndim != 1:
        return order[:0]
    found, places = np.unique(values[order].astype(str) if values.dtype == object else values[order], return_index=True)
    return order[places] if len(found) <= _CATEGORIES**2 else order[:0]


def _kinds_of(column: Any, order: Any) -> Any:
    import numpy as np

    absent = np.isnan(column)
    places = [order[absent[order]][:1]]
    if not absent.all():
        places.append([np.nanargmin(column), np.nanargmax(column)])
    values, firsts = np.unique(column[order], return_index=True)
    if len(values) <= _CATEGORIES:
        places.append(order[firsts])
    return np.concatenate(places).astype(order.dtype)
