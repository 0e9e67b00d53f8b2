"""Predictions of every row: accuracy, flips and differences of probabilities, one value per example."""

import hashlib
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pytest_hwperf.measure.rows import batch_rows
from pytest_hwperf.records.contracts import Predictions, Predictor
from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import ACCURACY
from pytest_hwperf.records.run import Classes, Sample, replace


def is_numeric(output: object) -> bool:
    """Whether it is a plain array of floating-point numbers, in which NaN is an error.

    A list, a data frame or a masked array may hold NaN on purpose, for missing values.
    """
    if "numpy" not in sys.modules:  # then there is no array
        return False
    import numpy as np

    return type(output) is np.ndarray and output.dtype.kind == "f"


def refuse_nan(output: object) -> None:
    """Refuse an array of numbers with NaN; other outputs are not looked at."""
    if not is_numeric(output):
        return
    import numpy as np

    missing = np.isnan(output)  # type: ignore[call-overload] # an array, as checked
    if bad := int(missing.sum()):
        raise MeasurementError(f"{bad} of {missing.size} outputs of one batch are NaN: the model is broken here")


def why_unfinished(output: object) -> Statement | None:
    """Say that an array is not computed yet, right after the call that returned it; None of other outputs.

    Those of JAX tell. What PyTorch and CuPy compute on a GPU is waited for within the timed call.
    """
    values = output.values() if isinstance(output, Mapping) else output if isinstance(output, list | tuple) else ()
    first = next(iter(values), output)
    is_ready = getattr(first, "is_ready", None)
    if not hasattr(first, "block_until_ready") or not callable(is_ready) or is_ready():
        return None
    return state("not waited for", value=f"{type(first).__module__}.{type(first).__qualname__}")


_ROWS_AND_CLASSES = 2  # axes of probabilities
_LONGEST_NAME = 60  # characters of a class
MOST_CLASSES = 1000  # more different labels are values
_MOST_BATCHES = 1000  # of a callable without labels that are checked for NaN: it may have millions of rows


def predict_all(predictor: Predictor, batches: Sequence[Any], X: Any | None = None) -> Predictions:
    """Return the labels of a scenario, and its probabilities where it has some; NaN is refused."""
    import numpy as np

    labels, probabilities, columns = [], [], None
    for output in _outputs(predictor, batches):
        labels.append(predictor.labels(output))
        columns = predictor.unnamed_columns(output)
        if predictor.probabilities is not None:
            probabilities.append(predictor.probabilities(output))
    found = np.concatenate(probabilities) if probabilities else None
    if found is None and X is not None and predictor.all_probabilities is not None:
        found = predictor.all_probabilities(X)
    return Predictions(labels=np.concatenate(labels), probabilities=found, unnamed_columns=columns)


def check_all(predictor: Predictor, batches: Sequence[Any]) -> None:
    for _ in _outputs(predictor, batches):
        pass


def _outputs(predictor: Predictor, batches: Sequence[Any]) -> Iterator[Any]:
    import numpy as np

    for batch in batches:
        output = predictor.predict(batch)
        refuse_nan(np.asarray(output))
        yield output


def call_all(call: Callable[..., Any], batches: Sequence[Any]) -> Predictions:
    import numpy as np

    outputs = [np.array(call(batch)) for batch in batches]  # copies: a call may return the same array each time
    for batch, output in zip(batches, outputs, strict=True):
        rows = batch_rows(batch)
        if output.ndim == 0 or len(output) != rows:
            given = "a single value" if output.ndim == 0 else f"{len(output)} predictions"
            raise MeasurementError(f"the callable returned {given} for {rows} rows: one label per row is needed")
    return Predictions(labels=np.concatenate(outputs))


def check_first(call: Callable[..., Any], batches: Sequence[Any]) -> None:
    """Check the outputs of the first batches, if they are arrays of numbers."""
    for batch in batches[:_MOST_BATCHES]:
        output = call(batch)
        if not is_numeric(output):
            return
        refuse_nan(output)


_SHOWN = 5  # labels in a sentence


def name_columns(columns: int | None, classes: Any | None, y_true: Any) -> Callable[[Any], Any]:
    """Return what turns predictions into labels as `y_true` has them.

    Positions of columns are such labels only if those are positions too, or if `classes` says what each stands for.
    """
    import numpy as np

    if columns is None:
        return np.asarray
    truth = _labels(y_true, "y_true")
    labels = dict.fromkeys(truth.tolist())
    if classes is None:
        why = _unnamed(columns, _ordered(labels))
        if not all(label in range(columns) for label in labels):
            raise MeasurementError(why)
        return np.asarray if 0 in labels else partial(_counted_from_0, truth, why)
    named = np.asarray(classes)
    if named.shape != (columns,) or len({*named.tolist()}) < columns:
        raise MeasurementError(
            f"classes={named.tolist()}: the model has {columns} columns; give one label for each, all different"
        )
    if labels.keys().isdisjoint(named.tolist()):
        raise MeasurementError(
            f"classes={named.tolist()}: none of them is in y_true, which holds {_listed(_ordered(labels))}"
        )
    return lambda positions: named[positions]


def _counted_from_0(truth: Any, why: str, positions: Any) -> Any:
    """Return positions; refuse them where labels that hold no 0 agree with them more often counted from 1."""
    import numpy as np

    found = np.asarray(positions)
    if len(found) == len(truth) and (found + 1 == truth).sum() > (found == truth).sum():
        raise MeasurementError(why)
    return found


def _unnamed(columns: int, labels: Sequence[Any]) -> str:
    one_each = ", ".join(map(repr, labels)) if len(labels) == columns else "…"
    typed = ",".join(map(str, labels)) if len(labels) == columns else "…"
    return (
        f"the model gives positions 0..{columns - 1} of its columns, and y_true holds the labels {_listed(labels)}: "
        f"say which label each column stands for, in their order: classes=[{one_each}] in hwperf_data, or "
        f"hwperf compare --classes={typed}"
    )


def _ordered(labels: Iterable[Any]) -> list[Any]:
    """Return labels in their order; as they come where they have none."""
    try:
        return sorted(labels)
    except TypeError:  # text and numbers
        return [*labels]


def _listed(labels: Sequence[Any]) -> str:
    return ", ".join(map(repr, labels[:_SHOWN])) + ", …" * (len(labels) > _SHOWN)


def correctness(predicted: Any, y_true: Any, source: str) -> Sample:
    """Compare labels example by example."""
    labels, truth = _labels(predicted, "predictions"), _labels(y_true, "y_true")
    if len(truth) == 0:
        raise MeasurementError("y_true is empty: accuracy needs at least one labelled example")
    if len(labels) != len(truth):
        raise MeasurementError(
            f"{len(labels)} predictions for {len(truth)} labels in y_true: give as many labels as there are rows"
        )
    if _sorts_of(labels).isdisjoint(_sorts_of(truth)):
        raise MeasurementError(
            f"predictions are of type {labels.dtype} and y_true of {truth.dtype}: text never equals a number, so "
            "convert one of them"
        )
    right = array("d", (labels == truth).astype("float64"))
    return Sample(metric=ACCURACY, values=right, per="example", source=source, classes=_classes(truth))


def _classes(truth: Any) -> Classes | None:
    """Return the class of each example; None where labels are fractions, or more than there are classes."""
    import numpy as np

    if truth.dtype.kind == "f" and (truth % 1).any():
        return None
    names, of = np.unique(truth.astype(str) if truth.dtype == object else truth, return_inverse=True)
    if len(names) > MOST_CLASSES:
        return None
    shown = tuple(f"{name:g}" if truth.dtype.kind == "f" else str(name)[:_LONGEST_NAME] for name in names.tolist())
    return Classes(names=shown, of=array("d", of.astype("float64")))


def copied(labels: Any) -> Any:
    import numpy as np

    return np.array(labels)


def correctness_throughout(predicted: Any, opening: Any | None, y_true: Any, source: str) -> Sample:
    """Compare labels example by example; where the first call gave others for its rows, the worse ones count."""
    import numpy as np

    last = correctness(predicted, y_true, source)
    if opening is None:
        return last
    ours, before = _labels(predicted, "predictions"), _labels(opening, "predictions of the first call")
    changed = int(np.sum(ours[: len(before)] != before))
    if not changed:
        return last
    first = correctness(np.concatenate([before, ours[len(before) :]]), y_true, source)
    worse = min(first, last, key=lambda sample: sum(sample.values))
    return replace(worse, warnings=(state("answers change", changed=changed, rows=len(before)),))


def flips(predicted: Any, reference: Any, source: str) -> Sample:
    """Compare labels with the reference scenario's: 1 where they differ."""
    labels, others = _labels(predicted, "predictions"), _labels(reference, "the reference's predictions")
    if len(labels) != len(others):
        raise MeasurementError(f"{len(labels)} predictions for the reference's {len(others)}")
    return Sample(
        metric="flip_rate", values=array("d", (labels != others).astype("float64")), per="example", source=source
    )


def probability_differences(predicted: Any, reference: Any, source: str) -> Sample:
    """Compare probabilities with the reference scenario's: the largest difference of each row."""
    import numpy as np

    ours, others = np.asarray(predicted, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if ours.shape != others.shape or ours.ndim != _ROWS_AND_CLASSES:
        raise MeasurementError(f"probabilities of shape {ours.shape} for the reference's {others.shape}")
    largest = np.abs(ours - others).max(axis=1)
    # Sums of a runtime end a rounding above 1: differences are no larger than 1 for that.
    values = array("d", np.minimum(largest, 1.0))
    return Sample(metric="probability_diff", values=values, per="example", source=source)


def told_differences(predicted: Predictions, reference: Predictions) -> str:
    """Say how many labels differ from the reference's, or by how much values do, and name a row."""
    import numpy as np

    ours, others = np.asarray(predicted.labels), np.asarray(reference.labels)
    if ours.shape != others.shape:
        return f"answers of the shape {ours.shape} instead of {others.shape}"
    if ours.dtype.kind == others.dtype.kind == "f":
        largest, row = _largest_difference(ours, others)
        return f"max |Δ| {largest:.2g} on {len(ours)} rows, at row {row}"
    told = list[str]()
    if predicted.probabilities is not None and reference.probabilities is not None:
        told.append(f"max |Δp| {_largest_difference(predicted.probabilities, reference.probabilities)[0]:.2g}")
    differing = (ours != others).reshape(len(ours), -1).any(axis=1)
    told.append(f"{int(differing.sum())} of {len(ours)} labels differ")
    if differing.any():
        first = int(differing.argmax())
        told.append(f"such as row {first}: {ours[first]} instead of {others[first]}")
    return ", ".join(told)


def _largest_difference(ours: Any, others: Any) -> tuple[float, int]:
    """Return the largest difference of two arrays, and its row."""
    import numpy as np

    apart = np.abs(np.asarray(ours, dtype=np.float64) - np.asarray(others, dtype=np.float64))
    rows = apart.reshape(len(apart), -1).max(axis=1)
    return float(rows.max()), int(rows.argmax())


def digest(*parts: Any) -> str:
    """Return sixteen hexadecimal digits over data, so that runs on other data are not compared."""
    import numpy as np

    total = hashlib.sha256()
    for part in parts:
        values = _array(part)
        total.update(f"{values.dtype}{values.shape}".encode())
        if values.dtype == object:  # text, or a frame of mixed columns: an object array holds pointers
            total.update(repr(values.tolist()).encode())
        else:
            total.update(np.ascontiguousarray(values).tobytes())
    return total.hexdigest()[:16]


def _array(part: Any) -> Any:
    """Return data as an array; rows of varying length, such as lists of tokens, as one of objects."""
    import numpy as np

    try:
        return np.asarray(part)
    except ValueError:
        rows = np.empty(len(part), dtype=object)
        rows[:] = [np.asarray(row).tolist() for row in part]
        return rows


def _labels(values: Any, name: str) -> Any:
    """Return `values` as an array, checked to have one label per example and no NaN."""
    import numpy as np

    labels = np.asarray(values)
    if np.ma.is_masked(values):  # the data below a mask is no label
        labels = np.array(np.ma.asarray(values).tolist(), dtype=object)
    if labels.dtype.kind == "T":  # text of any length, which may have a value for a missing one
        labels = labels.astype(object)
    if labels.ndim != 1:
        raise MeasurementError(
            f"{name} has the shape {labels.shape}: accuracy compares one label per example, so give the label of "
            "each row, for instance by lambda X: probabilities(X).argmax(axis=1)"
        )
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise MeasurementError(f"{int(np.isnan(labels).sum())} of {len(labels)} values in {name} are NaN")
    missing = [row for row, label in enumerate(labels.tolist()) if _is_missing(label)] if labels.dtype == object else []
    if missing:
        raise MeasurementError(
            f"{len(missing)} of {len(labels)} values in {name} are missing, the first in row {missing[0]}: leave out "
            "the rows without a label"
        )
    return labels


def _is_missing(label: object) -> bool:
    """Whether a label is None, NaN, NaT or NA: of these, none equals itself."""
    if label is None:
        return True
    try:
        return bool(label != label)  # noqa: PLR0124 - the question is whether it does
    except TypeError:  # pandas.NA: whether it equals anything is not known
        return True


def _sorts_of(labels: Any) -> frozenset[str]:
    """Return what labels are: numbers, text or bytes, none of which equals another sort."""
    sort = {"U": "text", "S": "bytes"}.get(labels.dtype.kind, "numbers")
    if labels.dtype != object:
        return frozenset([sort])
    named = ("text" if isinstance(one, str) else "bytes" if isinstance(one, bytes) else "numbers" for one in labels)
    return frozenset(named)
